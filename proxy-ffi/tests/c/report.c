/* The report of a task that hangs: as text, as JSON, of one group, to a descriptor, and on a signal. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static struct world world;
static uint32_t start_word = UINT32_MAX; /* nobody fires it */
static char text[1 << 20];

static encd_context *hang(void)
{
    uint32_t *words[1] = {&start_word};
    encd_context *context = make_context(&world, words);
    enc_proxy_execution execution;
    uint32_t state = 0;
    NRT_STATUS status;
    INIT(execution);
    EXPECT(enc_proxy_enqueue(context, 812, &execution), NRT_SUCCESS);
    while (state != PROXY_TASK_STATE_WAITING_DEVICE_TRIGGER) {
        EXPECT(enc_proxy_poll(world.group, &execution.network, &state, &status), NRT_SUCCESS);
        sched_yield();
    }
    return context;
}

static void has(const char *part) { require(strstr(text, part) != NULL, part, __LINE__); }

static void in_a_buffer(void)
{
    size_t length = 0, again = 0;
    EXPECT(enc_proxy_report(ENC_PROXY_TEXT, 1, NULL, 0, &length), ENC_PROXY_TOO_SMALL);
    REQUIRE(length > 200);
    memset(text, 0x55, sizeof text);
    EXPECT(enc_proxy_report(ENC_PROXY_TEXT, 1, text, 16, &again), ENC_PROXY_TOO_SMALL);
    REQUIRE(text[0] == 0x55 && text[15] == 0x55);
    EXPECT(enc_proxy_report(ENC_PROXY_TEXT, 1, text, sizeof text, &length), NRT_SUCCESS);
    REQUIRE(strlen(text) == length);
    /* The verdict stands first. */
    REQUIRE(strncmp(text, "group 0, rank 0, network task exec 812 has waited for ", 54) == 0);
    has(" for the device on stream 0 (word at 0x");
    has(" is still 0xffffffff)");
    /* Below its age nothing is a stall. */
    EXPECT(enc_proxy_report(ENC_PROXY_TEXT, SECONDS(3600), text, sizeof text, NULL), NRT_SUCCESS);
    REQUIRE(strncmp(text, "nothing is stuck: 1 task in 1 group", 35) == 0);
    EXPECT(enc_proxy_report(ENC_PROXY_JSON, 1, text, sizeof text, NULL), NRT_SUCCESS);
    has("\"schema\": \"proxy-report/1.1\"");
    has("\"kind\": \"device-never-fired\"");
    has("\"exec\": 812");
    EXPECT(enc_proxy_report(3, 0, text, sizeof text, NULL), NRT_INVALID);
    EXPECT(enc_proxy_report(ENC_PROXY_TEXT, 0, NULL, sizeof text, NULL), NRT_INVALID);
}

static void refused(const char *report, uint32_t world, enc_proxy_form_t form, const char *why)
{
    EXPECT(enc_proxy_report_merge(&report, 1, world, form, text, sizeof text, NULL), NRT_INVALID);
    REQUIRE(strstr(enc_proxy_last_error(), why) != NULL);
}

/* The reports of two processes as one sentence, as JSON, as metrics; what is no report is named. */
static void merged(void)
{
    static char here[1 << 20], other[1 << 20];
    const char *reports[2] = {here, other};
    char short_of[8];
    size_t length = 0;
    EXPECT(enc_proxy_report(ENC_PROXY_JSON, 1, here, sizeof here, NULL), NRT_SUCCESS);
    /* Another process's: of rank 9, and further. */
    strcpy(other, here);
    for (char *at = other; (at = strstr(at, "\"rank\": 0")) != NULL;)
        at[8] = '9';
    for (char *at = other; (at = strstr(at, "\"exec\": 812")) != NULL;)
        at[10] = '3';
    EXPECT(enc_proxy_report_merge(reports, 2, 0, ENC_PROXY_TEXT, text, sizeof text, &length), NRT_SUCCESS);
    static const char sentence[] = "rank 0 is at exec 812, behind rank 9 at exec 813; rank 0 waits for the device on stream 0 in exec 812; "
                                   "rank 9 waits for the device on stream 0 in exec 813";
    REQUIRE(strcmp(text, sentence) == 0 && length == strlen(sentence));
    EXPECT(enc_proxy_report_merge(reports, 2, 10, ENC_PROXY_TEXT, text, sizeof text, NULL), NRT_SUCCESS);
    REQUIRE(strncmp(text, "no report of ranks 1-8 has a task; rank 0 is at exec 812", 56) == 0);
    EXPECT(enc_proxy_report_merge(reports, 2, 0, ENC_PROXY_JSON, text, sizeof text, NULL), NRT_SUCCESS);
    has("\"schema\": \"proxy-merge/1\"");
    has(sentence);
    has("\"newest\": 813");
    EXPECT(enc_proxy_report_merge(reports, 2, 0, ENC_PROXY_PROMETHEUS, text, sizeof text, NULL), NRT_SUCCESS);
    has("\nproxy_ticks_total{");
    EXPECT(enc_proxy_report_merge(reports, 2, 0, ENC_PROXY_TEXT, short_of, sizeof short_of, &length), ENC_PROXY_TOO_SMALL);
    REQUIRE(length == strlen(sentence));
    EXPECT(enc_proxy_report_merge(NULL, 0, 2, ENC_PROXY_TEXT, text, sizeof text, NULL), NRT_SUCCESS);
    REQUIRE(strcmp(text, "no report of ranks 0-1 has a task") == 0);
    refused("{", 0, ENC_PROXY_TEXT, "reports[0] is no report: ");
    refused("\xff", 0, ENC_PROXY_TEXT, "reports[0] is no report: invalid utf-8");
    refused("{\"schema\": \"proxy-report/2\"}", 0, ENC_PROXY_TEXT, "schema is \"proxy-report/2\", accepted: \"proxy-report/1.1\" and others of its major number");
    refused(here, (1u << 20) + 1, ENC_PROXY_TEXT, "world is 1048577, accepted: 0 to 1048576");
    refused(here, 0, 3, "form is 3, accepted: ");
}

/* A trace is there once it was started, and that only once. */
static void traced(enc_proxy_group *group)
{
    char path[] = "/tmp/proxy-trace-XXXXXX";
    int fd = mkstemp(path);
    REQUIRE(fd >= 0 && unlink(path) == 0);
    EXPECT(enc_proxy_trace_write_to_fd(group, fd), NRT_UNINITIALIZED);
    EXPECT(enc_proxy_trace_start(group, 1u << 30), NRT_INVALID);
    REQUIRE(strstr(enc_proxy_last_error(), "events is 1073741824, accepted: 0 to 16777216") != NULL);
    EXPECT(enc_proxy_trace_start(group, 64), NRT_SUCCESS);
    EXPECT(enc_proxy_trace_start(group, 64), ENC_PROXY_BUSY);
    EXPECT(enc_proxy_trace_write_to_fd(group, fd), NRT_SUCCESS);
    memset(text, 0, sizeof text);
    REQUIRE(pread(fd, text, sizeof text - 1, 0) > 0 && strncmp(text, "{\"traceEvents\":[", 16) == 0);
    has("\"format\":\"proxy trace 1\"");
    close(fd);
    EXPECT(enc_proxy_trace_write_to_fd(group, fd), NRT_INVALID);
}

/* A group's report has the process's form and the group's content. */
static void of_a_group(void)
{
    enc_proxy_group_config config;
    enc_proxy_group *idle;
    INIT(config);
    config.device = 5;
    EXPECT(enc_proxy_group_acquire(&config, &idle), NRT_SUCCESS);
    EXPECT(enc_proxy_report(ENC_PROXY_TEXT, 1, text, sizeof text, NULL), NRT_SUCCESS);
    has("\ngroup 0: ");
    has("\ngroup 5: ");
    EXPECT(enc_proxy_dump(world.group, ENC_PROXY_TEXT, text, sizeof text, NULL), NRT_SUCCESS);
    has("\ngroup 0: ");
    REQUIRE(strstr(text, "\ngroup 5: ") == NULL);
    has("stream 0 not fired (0x");
    EXPECT(enc_proxy_dump(idle, ENC_PROXY_JSON, text, sizeof text, NULL), NRT_SUCCESS);
    has("\"verdict\": \"nothing is stuck: 1 group without a task\"");
    REQUIRE(strstr(text, "\"exec\": 812") == NULL);
    EXPECT(enc_proxy_dump(idle, ENC_PROXY_PROMETHEUS, text, sizeof text, NULL), NRT_SUCCESS);
    has("# TYPE proxy_ticks_total counter\n");
    has("\nproxy_ticks_total{");
    traced(idle);
    EXPECT(enc_proxy_group_release(idle, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
}

static void to_a_descriptor(const char *folder)
{
    char path[300];
    int ends[2];
    snprintf(path, sizeof path, "%s/report", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    REQUIRE(fd >= 0);
    EXPECT(enc_proxy_report_to_fd(ENC_PROXY_TEXT, 1, fd), NRT_SUCCESS);
    memset(text, 0, sizeof text);
    REQUIRE(pread(fd, text, sizeof text - 1, 0) > 200 && strncmp(text, "group 0, rank 0", 15) == 0);
    close(fd);
    EXPECT(enc_proxy_report_to_fd(ENC_PROXY_TEXT, 1, fd), NRT_INVALID);
    EXPECT(enc_proxy_report_to_fd(ENC_PROXY_TEXT, 1, -1), NRT_INVALID);
    REQUIRE(strstr(enc_proxy_last_error(), "fd is -1, accepted: an open descriptor") != NULL);
    signal(SIGPIPE, SIG_DFL);
    REQUIRE(pipe(ends) == 0);
    EXPECT(enc_proxy_report_to_fd(3, 1, ends[1]), NRT_INVALID);
    close(ends[0]);
    EXPECT(enc_proxy_report_to_fd(ENC_PROXY_TEXT, 1, ends[1]), NRT_RESOURCE);
    close(ends[1]);
}

static volatile sig_atomic_t signals;
static void count(int number) { (void)number, signals++; }

/* Whether a file that begins so is in the folder, waiting for it. */
static int appears(const char *folder, const char *beginning)
{
    for (time_t since = time(NULL); time(NULL) - since < 60;) {
        DIR *entries = opendir(folder);
        REQUIRE(entries != NULL);
        int found = 0;
        for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
            found |= strncmp(entry->d_name, beginning, strlen(beginning)) == 0 && strstr(entry->d_name, ".partial") == NULL;
        closedir(entries);
        if (found)
            return 1;
        nanosleep(&(struct timespec){0, 5000000}, NULL); /* between two looks */
    }
    return 0;
}

static void on_a_signal(const char *folder)
{
    enc_proxy_report_config config;
    enc_proxy_report_service *service = NULL, *second = NULL;
    signal(SIGUSR1, count);
    INIT(config);
    config.socket = 2;
    EXPECT(enc_proxy_report_service_start(&config, &service), NRT_INVALID);
    config.socket = 1;
    config.signal = SIGKILL;
    EXPECT(enc_proxy_report_service_start(&config, &service), NRT_INVALID);
    REQUIRE(service == NULL && strstr(enc_proxy_last_error(), "signal 9 cannot be taken") != NULL);
    config.signal = SIGUSR1;
    config.directory = folder;
    EXPECT(enc_proxy_report_service_start(&config, &service), NRT_SUCCESS);
    EXPECT(enc_proxy_report_service_start(&config, &second), ENC_PROXY_BUSY);
    raise(SIGUSR1);
    REQUIRE(signals == 1); /* the handler that was there is called, too */
    REQUIRE(appears(folder, "proxy-report-"));
    EXPECT(enc_proxy_group_release((enc_proxy_group *)service, ENC_PROXY_DRAIN, 0, NULL), NRT_INVALID_HANDLE);
    EXPECT(enc_proxy_report_service_stop(service), NRT_SUCCESS);
    EXPECT(enc_proxy_report_service_stop(service), NRT_INVALID_HANDLE);
    raise(SIGUSR1);
    REQUIRE(signals == 2);
    /* Another one can be started. */
    INIT(config);
    EXPECT(enc_proxy_report_service_start(&config, &service), NRT_SUCCESS);
    EXPECT(enc_proxy_report_service_stop(service), NRT_SUCCESS);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    open_world(&world, argv[1], 0);
    encd_context *context = hang();
    in_a_buffer();
    merged();
    of_a_group();
    to_a_descriptor(argv[2]);
    on_a_signal(argv[2]);

    /* After an abort the word may still fire; a reset lets the context begin anew. */
    NRT_STATUS status;
    EXPECT(encd_context_reset(context), ENC_PROXY_BUSY);
    EXPECT(enc_proxy_abort_context(context, SECONDS(60), NULL), NRT_SUCCESS);
    EXPECT(enc_consume_proxy_task_status(context, PROXY_TASK_NETWORK, SECONDS(60), &status), NRT_SUCCESS);
    REQUIRE(status == ENC_PROXY_ABORTED);
    __atomic_store_n(&start_word, 7, __ATOMIC_RELEASE);
    EXPECT(enc_enq_proxy_tasks(context, 813), ENC_PROXY_FIRED_BEFORE_ARM);
    EXPECT(encd_context_reset(context), NRT_SUCCESS);
    EXPECT(enc_enq_proxy_tasks(context, 813), NRT_SUCCESS);
    __atomic_store_n(&start_word, 7, __ATOMIC_RELEASE);
    EXPECT(enc_consume_proxy_task_status(context, PROXY_TASK_NETWORK, SECONDS(60), &status), NRT_SUCCESS);
    REQUIRE(status == NRT_SUCCESS);
    EXPECT(encd_context_destroy(context), NRT_SUCCESS);
    close_world(&world);
    puts("ok");
    return 0;
}
