/* The embedder's function gets every message, of each level and from each thread, while standard error stays empty; it may call back, take its
 * time, and be replaced at any time; once it was, no call of it is running. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { MESSAGES = 4096, BYTES = 256 };

static struct message {
    enc_proxy_log_level_t level;
    char thread[17];
    char text[BYTES];
} messages[MESSAGES];
static size_t count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int mine, held, settled; /* `mine` is the argument; while `held` a worker is kept; once `settled` the sink stays as it is */

static void sink(void *user, enc_proxy_log_level_t level, const char *text)
{
    char report[64];
    size_t length;
    pthread_mutex_lock(&lock);
    if (count < MESSAGES) {
        struct message *message = &messages[count++];
        message->level = level;
        prctl(PR_GET_NAME, message->thread);
        snprintf(message->text, BYTES, "%s", user == &mine ? text : "the argument is another's");
    }
    pthread_mutex_unlock(&lock);
    /* It may call back, on whatever thread: a report, and itself as the sink. */
    EXPECT(enc_proxy_report(ENC_PROXY_TEXT, 0, report, sizeof report, &length), ENC_PROXY_TOO_SMALL);
    if (!__atomic_load_n(&settled, __ATOMIC_ACQUIRE))
        EXPECT(enc_proxy_set_log(sink, &mine, ENC_PROXY_LOG_INFO), NRT_SUCCESS);
    while (strstr(text, "returns 1234") != NULL && __atomic_load_n(&held, __ATOMIC_ACQUIRE))
        sched_yield();
}

/* Waits for a message, which must come. */
static void hear(const char *thread, enc_proxy_log_level_t level, const char *part)
{
    for (time_t since = time(NULL); time(NULL) - since < 60; sched_yield()) {
        int heard = 0;
        pthread_mutex_lock(&lock);
        for (size_t at = 0; at < count; at++)
            heard |= messages[at].level == level && strncmp(messages[at].thread, thread, strlen(thread)) == 0 &&
                     strstr(messages[at].text, part) != NULL;
        pthread_mutex_unlock(&lock);
        if (heard)
            return;
    }
    printf("no message of %s with level %u and \"%s\"\n", thread, level, part);
    exit(1);
}

static struct world world;

/* The caller, the worker, and the thread of reports. */
static void of_a_failed_task(void)
{
    NRT_STATUS status;
    enc_proxy_report_service *service;
    enc_proxy_report_config config;
    char buffer[65536];
    INIT(config);
    config.signal = SIGUSR1;
    EXPECT(enc_proxy_report_service_start(&config, &service), NRT_SUCCESS);
    __atomic_store_n(&held, 1, __ATOMIC_RELEASE);
    EXPECT(enc_enq_proxy_tasks(world.context, 1), NRT_SUCCESS);
    hear("proxy-", ENC_PROXY_LOG_ERROR, "ncclNetworkProxyProgress returns 1234");
    /* The worker is kept in its message; reports and other threads' messages are not. */
    EXPECT(enc_proxy_report(ENC_PROXY_TEXT, 0, buffer, sizeof buffer, NULL), NRT_SUCCESS);
    raise(SIGUSR1);
    hear("proxy-report", ENC_PROXY_LOG_ERROR, "report: ");
    __atomic_store_n(&held, 0, __ATOMIC_RELEASE);
    EXPECT(enc_consume_proxy_task_status(world.context, PROXY_TASK_NETWORK, SECONDS(60), &status), NRT_SUCCESS);
    REQUIRE(status == 1234);
    hear("log", ENC_PROXY_LOG_ERROR, "Proxy failed to execute task, status = 1234");
    EXPECT(enc_proxy_report_service_stop(service), NRT_SUCCESS);
}

/* A task that waits for its device, in a group whose watchdog soon has enough. */
static void of_a_stalled_task(void)
{
    static uint32_t start_word = UINT32_MAX; /* nobody fires it */
    uint32_t *words[1] = {&start_word};
    struct world stalled = world;
    enc_proxy_settings *settings;
    enc_proxy_group_config config;
    enc_proxy_group *group;
    encd_context *context;
    EXPECT(enc_proxy_settings_create(&settings), NRT_SUCCESS);
    EXPECT(enc_proxy_settings_set(settings, "NEURON_RT_PROXY_STALL_MS", "20"), NRT_SUCCESS);
    INIT(config);
    config.device = 9;
    config.settings = settings;
    EXPECT(enc_proxy_group_acquire(&config, &group), NRT_SUCCESS);
    stalled.group = group;
    context = make_context(&stalled, words);
    EXPECT(enc_enq_proxy_tasks(context, 1), NRT_SUCCESS);
    hear("proxy-watchdog", ENC_PROXY_LOG_WARN, "Timeout exceeded: Waiting on proxy task type");
    EXPECT(enc_proxy_abort_context(context, SECONDS(60), NULL), NRT_SUCCESS);
    EXPECT(encd_context_destroy(context), NRT_SUCCESS);
    EXPECT(enc_proxy_group_release(group, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
    EXPECT(enc_proxy_settings_destroy(settings), NRT_SUCCESS);
}

/* Somebody is turned away at a global communicator's bus, which is told of before. */
static void turned_away(void)
{
    bp_config bus;
    enc_glb_comm_config config;
    enc_glb_comm *glb;
    bananaphone *none;
    char job[64];
    INIT(bus);
    snprintf(job, sizeof job, "log-%d", (int)getpid());
    bus.job = job;
    bus.world = 1;
    bus.timeout_us = SECONDS(60);
    INIT(config);
    config.bus = &bus;
    config.device = 40;
    EXPECT(enc_setup_global_comm(&config, &glb), NRT_SUCCESS);
    EXPECT(bp_create(&bus, &none), ENC_PROXY_JOIN);
    EXPECT(enc_free_global_comm(glb, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
}

static sem_t entered;
static int removing, left;

/* Stays inside until somebody is about to replace it, and a while longer. */
static void slow(void *user, enc_proxy_log_level_t level, const char *text)
{
    (void)user, (void)level;
    if (strstr(text, "returns 1234") == NULL)
        return;
    sem_post(&entered);
    while (!__atomic_load_n(&removing, __ATOMIC_ACQUIRE))
        sched_yield();
    for (int i = 0; i < 2000; i++)
        sched_yield();
    __atomic_store_n(&left, 1, __ATOMIC_RELEASE);
}

/* Once a sink has been replaced from outside, no call of it is running. */
static void replaced(void)
{
    NRT_STATUS status;
    REQUIRE(sem_init(&entered, 0, 0) == 0);
    __atomic_store_n(&settled, 1, __ATOMIC_RELEASE);
    /* Twice: a call of the sink that runs may set itself once more before the first of these returns. */
    EXPECT(enc_proxy_set_log(slow, NULL, ENC_PROXY_LOG_INFO), NRT_SUCCESS);
    EXPECT(enc_proxy_set_log(slow, NULL, ENC_PROXY_LOG_INFO), NRT_SUCCESS);
    EXPECT(enc_enq_proxy_tasks(world.context, 2), NRT_SUCCESS);
    while (sem_wait(&entered) != 0)
        ;
    __atomic_store_n(&removing, 1, __ATOMIC_RELEASE);
    EXPECT(enc_proxy_set_log(sink, &mine, ENC_PROXY_LOG_INFO), NRT_SUCCESS);
    REQUIRE(__atomic_load_n(&left, __ATOMIC_ACQUIRE));
    EXPECT(enc_consume_proxy_task_status(world.context, PROXY_TASK_NETWORK, SECONDS(60), &status), NRT_SUCCESS);
    REQUIRE(status == 1234);
    sem_destroy(&entered);
}

int main(int argc, char **argv)
{
    char path[] = "/tmp/proxy-log-XXXXXX", line[256] = "";
    int file = mkstemp(path);
    REQUIRE(argc == 2 && file >= 0 && unlink(path) == 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
    prctl(PR_SET_NAME, "log");
    EXPECT(enc_proxy_set_log(sink, &mine, ENC_PROXY_LOG_INFO), NRT_SUCCESS);
    open_world(&world, argv[1], 0);
    hear("log", ENC_PROXY_LOG_INFO, "Using CCOM ");
    of_a_failed_task();
    of_a_stalled_task();
    turned_away();
    hear("bp-hub-", ENC_PROXY_LOG_WARN, "a rank was turned away: rank 0 is on the bus already");
    replaced();
    close_world(&world);
    for (size_t at = 0; at < count; at++)
        REQUIRE(strcmp(messages[at].text, "the argument is another's") != 0);
    if (lseek(file, 0, SEEK_END) != 0) {
        REQUIRE(pread(file, line, sizeof line - 1, 0) > 0);
        printf("standard error has: %s\n", line);
        return 1;
    }

    /* Without it, messages are on standard error again. */
    size_t before = count;
    EXPECT(enc_proxy_set_log(NULL, NULL, ENC_PROXY_LOG_WARN), NRT_SUCCESS);
    turned_away();
    REQUIRE(count == before && pread(file, line, sizeof line - 1, 0) > 0);
    REQUIRE(strncmp(line, "proxy WARN: bananaphone: a rank was turned away: ", 49) == 0);
    EXPECT(enc_proxy_set_log(sink, &mine, ENC_PROXY_LOG_DEBUG + 1), NRT_INVALID);
    puts("ok");
    return 0;
}
