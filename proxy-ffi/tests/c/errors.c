/* Errors of two groups are told as they come up, to one function: which group, which task, what came of it. The function may call back, even
 * replace itself; once it was taken back from outside, no call of it is running. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/prctl.h>

#include "check.h"

enum { ERRORS = 64, STALLED_GROUP = 9 };

static struct told {
    enc_proxy_error error;
    char thread[17], text[512];
} told[ERRORS];
static size_t count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int mine;
static struct world world;

static void handler(void *user, const enc_proxy_error *error)
{
    enc_proxy_group_counters counters;
    char report[64];
    size_t length;
    REQUIRE(user == &mine && error->struct_size == sizeof *error && error->flags == 0);
    /* It may call back, the group's lock and the watchdog's being free. */
    INIT(counters);
    EXPECT(enc_proxy_group_get_counters(world.group, &counters), NRT_SUCCESS);
    EXPECT(enc_proxy_dump(world.group, ENC_PROXY_TEXT, report, sizeof report, &length), ENC_PROXY_TOO_SMALL);
    pthread_mutex_lock(&lock);
    if (count < ERRORS) {
        struct told *place = &told[count++];
        place->error = *error;
        prctl(PR_GET_NAME, place->thread);
        snprintf(place->text, sizeof place->text, "%s", error->text);
    }
    pthread_mutex_unlock(&lock);
}

/* Waits for the error of a group, which must come. */
static struct told of_group(uint32_t gid)
{
    for (;;) {
        struct told found = {.thread = ""};
        pthread_mutex_lock(&lock);
        for (size_t at = 0; at < count; at++)
            if (told[at].error.gid == gid)
                found = told[at];
        pthread_mutex_unlock(&lock);
        if (found.thread[0] != 0)
            return found;
        sched_yield();
    }
}

/* Execution `exec` fails in the library, which nobody polls for. */
static void fail(uint64_t exec) { EXPECT(enc_enq_proxy_tasks(world.context, exec), NRT_SUCCESS); }

static void consume_failure(void)
{
    NRT_STATUS status;
    EXPECT(enc_consume_proxy_task_status(world.context, PROXY_TASK_NETWORK, SECONDS(60), &status), NRT_SUCCESS);
    REQUIRE(status == 1234);
}

static void of_a_failed_task(void)
{
    fail(77);
    struct told one = of_group(0);
    REQUIRE(strcmp(one.thread, "proxy-watchdog") == 0);
    REQUIRE(one.error.cause == ENC_PROXY_CAUSE_FAILED && one.error.status == 1234);
    REQUIRE(one.error.exec == 77 && one.error.rank == 0 && one.error.kind == PROXY_TASK_NETWORK);
    REQUIRE(strstr(one.text, "network task exec 77") != NULL && strstr(one.text, "failed: ") != NULL);
    consume_failure();
}

/* A stall is told, too, and is no end; an abort is not told. */
static void of_another_group(void)
{
    static uint32_t start_word = UINT32_MAX; /* nobody fires it */
    uint32_t *words[1] = {&start_word};
    struct world stalled = world;
    enc_proxy_group_config config;
    enc_proxy_settings *settings;
    EXPECT(enc_proxy_settings_create(&settings), NRT_SUCCESS);
    EXPECT(enc_proxy_settings_set(settings, "NEURON_RT_PROXY_STALL_MS", "20"), NRT_SUCCESS);
    INIT(config);
    config.device = STALLED_GROUP;
    config.settings = settings;
    EXPECT(enc_proxy_group_acquire(&config, &stalled.group), NRT_SUCCESS);
    encd_context *context = make_context(&stalled, words);
    EXPECT(enc_enq_proxy_tasks(context, 5), NRT_SUCCESS);
    struct told one = of_group(STALLED_GROUP);
    REQUIRE(one.error.cause == ENC_PROXY_CAUSE_STALLED && one.error.status == NRT_SUCCESS);
    REQUIRE(one.error.exec == 5 && one.error.state == PROXY_TASK_STATE_WAITING_DEVICE_TRIGGER);
    REQUIRE(one.error.in_state_us >= 20000);
    EXPECT(enc_proxy_abort_context(context, SECONDS(60), NULL), NRT_SUCCESS);
    EXPECT(encd_context_destroy(context), NRT_SUCCESS);
    EXPECT(enc_proxy_group_release(stalled.group, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
    EXPECT(enc_proxy_settings_destroy(settings), NRT_SUCCESS);
    pthread_mutex_lock(&lock);
    for (size_t at = 0; at < count; at++)
        REQUIRE(told[at].error.status != ENC_PROXY_ABORTED);
    pthread_mutex_unlock(&lock);
}

static sem_t entered;
static int removing, left, calls;

/* Stays inside until somebody is about to take it back, and a while longer. */
static void slow(void *user, const enc_proxy_error *error)
{
    (void)user, (void)error;
    sem_post(&entered);
    while (!__atomic_load_n(&removing, __ATOMIC_ACQUIRE))
        sched_yield();
    for (int i = 0; i < 2000; i++)
        sched_yield();
    __atomic_store_n(&left, 1, __ATOMIC_RELEASE);
}

static void taken_back(void)
{
    REQUIRE(sem_init(&entered, 0, 0) == 0);
    EXPECT(enc_proxy_set_error_handler(slow, NULL), NRT_SUCCESS);
    fail(78);
    while (sem_wait(&entered) != 0)
        ;
    __atomic_store_n(&removing, 1, __ATOMIC_RELEASE);
    EXPECT(enc_proxy_set_error_handler(NULL, NULL), NRT_SUCCESS);
    REQUIRE(__atomic_load_n(&left, __ATOMIC_ACQUIRE));
    consume_failure();
    /* Nobody is told of this one: its record is made and told before the release returns. */
    size_t before = count;
    fail(79);
    consume_failure();
    sem_destroy(&entered);
    REQUIRE(count == before);
}

/* Takes itself back, which must not wait for itself. */
static void once(void *user, const enc_proxy_error *error)
{
    (void)user, (void)error;
    EXPECT(enc_proxy_set_error_handler(NULL, NULL), NRT_SUCCESS);
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELEASE);
}

static void taken_back_by_itself(void)
{
    EXPECT(enc_proxy_set_error_handler(once, NULL), NRT_SUCCESS);
    fail(80);
    while (__atomic_load_n(&calls, __ATOMIC_ACQUIRE) == 0)
        sched_yield();
    consume_failure();
    fail(81);
    consume_failure();
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    open_world(&world, argv[1], 0);
    EXPECT(enc_proxy_set_error_handler(handler, &mine), NRT_SUCCESS);
    of_a_failed_task();
    of_another_group();
    taken_back();
    taken_back_by_itself();
    /* A release tells what the watchdog has not come to, so that all errors are told by now. */
    close_world(&world);
    REQUIRE(calls == 1);
    puts("ok");
    return 0;
}
