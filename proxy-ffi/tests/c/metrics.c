/* Every counter and histogram by its name, as Prometheus' text and as JSON, after a job whose numbers are known. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <sched.h>

#include "check.h"

/* Tasks that end well, the last of them with a device; and those that are aborted. */
static uint64_t good, aborted;

static struct world world;
static uint32_t start_word = UINT32_MAX;
static char prometheus[1 << 20], json[1 << 20];

/* The aborts are many, and wanted. */
static void silent(void *user, enc_proxy_log_level_t level, const char *text) { (void)user, (void)level, (void)text; }

/* The value of the one sample of this name whose labels have `label`. */
static double sample(const char *name, const char *label)
{
    double value = NAN;
    int found = 0;
    for (char *line = prometheus; line != NULL && *line != 0; line = strchr(line, '\n'), line += line != NULL) {
        size_t length = strlen(name);
        char *end = strstr(line, "} ");
        if (strncmp(line, name, length) != 0 || line[length] != '{' || end == NULL)
            continue;
        char *at = strstr(line, label);
        if (at != NULL && at < end)
            value = strtod(end + 2, NULL), found++;
    }
    require(found == 1, name, __LINE__);
    return value;
}

static void is(const char *name, const char *label, uint64_t wanted)
{
    double got = sample(name, label);
    if (got != (double)wanted) {
        fprintf(stderr, "%s{%s} is %.17g, wanted %llu in\n%s\n", name, label, got, (unsigned long long)wanted, prometheus);
        exit(1);
    }
}

/* A member of the JSON with this value. */
static void member(const char *name, uint64_t wanted)
{
    char text[64];
    int found = 0;
    int length = snprintf(text, sizeof text, "\"%s\": %llu", name, (unsigned long long)wanted);
    for (const char *at = json; (at = strstr(at, text)) != NULL; at += length)
        found |= strchr(",\n", at[length]) != NULL; /* the number ends here */
    require(found, text, __LINE__);
}

static enc_proxy_group_counters now(void)
{
    enc_proxy_group_counters counters;
    INIT(counters);
    EXPECT(enc_proxy_group_get_counters(world.group, &counters), NRT_SUCCESS);
    return counters;
}

/* Both forms and the counters, of one moment: that of a worker that sleeps. */
static enc_proxy_group_counters at_rest(void)
{
    for (;; sched_yield()) {
        enc_proxy_group_counters before = now();
        EXPECT(enc_proxy_dump(world.group, ENC_PROXY_PROMETHEUS, prometheus, sizeof prometheus, NULL), NRT_SUCCESS);
        EXPECT(enc_proxy_dump(world.group, ENC_PROXY_JSON, json, sizeof json, NULL), NRT_SUCCESS);
        enc_proxy_group_counters after = now();
        if (memcmp(&before, &after, sizeof after) == 0 && after.unfinished == 0)
            return after;
    }
}

static NRT_STATUS consumed(encd_context *context)
{
    NRT_STATUS status;
    EXPECT(enc_consume_proxy_task_status(context, PROXY_TASK_NETWORK, SECONDS(60), &status), NRT_SUCCESS);
    return status;
}

/* Executions that end well; then as many as find place behind one that waits for its device, which are aborted. */
static void job(void)
{
    uint32_t *words[1] = {&start_word};
    NRT_STATUS status;
    while (good < 4 || now().rings == 0) {
        EXPECT(enc_enq_proxy_tasks(world.context, ++good), NRT_SUCCESS);
        REQUIRE(consumed(world.context) == NRT_SUCCESS);
    }
    /* One that a device starts. */
    encd_context *context = make_context(&world, words);
    EXPECT(enc_enq_proxy_tasks(context, ++good), NRT_SUCCESS);
    __atomic_store_n(&start_word, 7, __ATOMIC_RELEASE);
    REQUIRE(consumed(context) == NRT_SUCCESS);
    EXPECT(encd_context_destroy(context), NRT_SUCCESS);

    __atomic_store_n(&start_word, UINT32_MAX, __ATOMIC_RELEASE);
    context = make_context(&world, words);
    while ((status = enc_enq_proxy_tasks(context, aborted + 1)) == NRT_SUCCESS)
        aborted++;
    REQUIRE(status == NRT_QUEUE_FULL && aborted > 0);
    while (now().yields == 0) /* pauses, then yields */
        sched_yield();
    /* What waits is seen by state, and as a stall of the age that is asked for: one microsecond. */
    do
        EXPECT(enc_proxy_report(ENC_PROXY_PROMETHEUS, 1, prometheus, sizeof prometheus, NULL), NRT_SUCCESS);
    while (sample("proxy_tasks", "state=\"WAITING_DEVICE_TRIGGER\"") != (double)aborted);
    REQUIRE(sample("proxy_stall_age_seconds", "group=\"0\"") > 0);
    EXPECT(enc_proxy_abort_context(context, SECONDS(60), NULL), NRT_SUCCESS);
    for (uint64_t task = 0; task < aborted; task++)
        REQUIRE(consumed(context) == ENC_PROXY_ABORTED);
    EXPECT(encd_context_destroy(context), NRT_SUCCESS);
}

static void counters(const enc_proxy_group_counters *worker)
{
    const char *all = "group=\"0\"";
    is("proxy_ticks_total", all, worker->ticks);
    is("proxy_pauses_total", all, worker->pauses);
    is("proxy_yields_total", all, worker->yields);
    is("proxy_sleeps_total", all, worker->sleeps);
    is("proxy_wakes_total", all, worker->rings);
    is("proxy_appends_total", all, good + aborted);
    is("proxy_full_total", all, 1);
    is("proxy_ended_total", all, good + aborted);
    is("proxy_errors_total", "code=\"-1\"", aborted);
    is("proxy_stall_age_seconds", all, 0);
    REQUIRE(worker->failures == aborted && worker->pauses > 0 && worker->yields > 0 && worker->sleeps > 0 && worker->rings > 0);
    double steps = sample("proxy_steps_total", all), idle = sample("proxy_idle_ticks_total", all);
    REQUIRE(steps >= (double)(good + aborted) && idle > 0 && idle < (double)worker->ticks);
    static const char *const states[] = {"INIT", "WAITING_DEVICE_TRIGGER", "PROGRESSING", "IDLE", "DONE"};
    for (size_t at = 0; at < sizeof states / sizeof *states; at++) {
        char label[64];
        snprintf(label, sizeof label, "state=\"%s\"", states[at]);
        is("proxy_tasks", label, 0);
    }

    member("ticks", worker->ticks);
    member("steps", (uint64_t)steps);
    member("idle_ticks", (uint64_t)idle);
    member("pauses", worker->pauses);
    member("yields", worker->yields);
    member("sleeps", worker->sleeps);
    member("wakes", worker->rings);
    member("enqueued", good + aborted);
    member("full", 1);
    member("ended", good + aborted);
    REQUIRE(strstr(json, "\"status\": -1,") != NULL);
    member("count", aborted);
}

/* Of every task its start is counted, of those that a device started its wait, the rest of those that ended well. */
static void histograms(void)
{
    static const char *const spans[] = {"enqueue_to_start", "trigger_wait", "run", "total"};
    const uint64_t counts[] = {good + aborted, 1, good, good};
    double sums[4];
    for (size_t at = 0; at < 4; at++) {
        char label[64], member_text[64];
        snprintf(label, sizeof label, "kind=\"network\",span=\"%s\"", spans[at]);
        is("proxy_task_seconds_count", label, counts[at]);
        sums[at] = sample("proxy_task_seconds_sum", label);
        snprintf(label, sizeof label, "span=\"%s\",le=\"+Inf\"", spans[at]);
        is("proxy_task_seconds_bucket", label, counts[at]);
        snprintf(label, sizeof label, "span=\"%s\",le=\"0.000001\"", spans[at]);
        REQUIRE(sample("proxy_task_seconds_bucket", label) <= (double)counts[at]);
        snprintf(member_text, sizeof member_text, "\"span\": \"%s\"", spans[at]);
        REQUIRE(strstr(json, member_text) != NULL);
        member("count", counts[at]);
    }
    REQUIRE(sums[3] > 0 && sums[1] <= sums[3] && sums[2] <= sums[3]);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    /* A worker that sleeps at once has to be woken by most appends. */
    REQUIRE(setenv("NEURON_RT_PROXY_SPIN_US", "0", 1) == 0);
    EXPECT(enc_proxy_set_log(silent, NULL, ENC_PROXY_LOG_ERROR), NRT_SUCCESS);
    open_world(&world, argv[1], 0);
    job();
    enc_proxy_group_counters worker = at_rest();
    counters(&worker);
    histograms();
    close_world(&world);
    puts("ok");
    return 0;
}
