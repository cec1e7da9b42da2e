/* Ending one task, a context's, a group's, all; with a worker that obeys and with one that is stuck in the library; health meanwhile. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <semaphore.h>

#include "check.h"

static struct world world;
static uint32_t start_word = UINT32_MAX; /* nobody fires it */

/* A context whose tasks wait for a device for ever. */
static encd_context *waiting_context(void)
{
    uint32_t *words[1] = {&start_word};
    return make_context(&world, words);
}

static void consume_aborted(encd_context *context)
{
    NRT_STATUS status = 55;
    EXPECT(enc_consume_proxy_task_status(context, PROXY_TASK_NETWORK, SECONDS(20), &status), NRT_SUCCESS);
    REQUIRE(status == ENC_PROXY_ABORTED);
}

static void require_health(enc_proxy_health_t state)
{
    enc_proxy_group_health health;
    INIT(health);
    EXPECT(enc_proxy_group_get_health(world.group, &health), NRT_SUCCESS);
    REQUIRE(health.state == state && health.stalled_us == 0 && health.workers_left == 0);
}

static void scopes(encd_context *context)
{
    enc_proxy_execution first;
    enc_proxy_ticket made_up = {UINT64_MAX, 7};
    NRT_STATUS status = 55;
    size_t tasks = 77;
    INIT(first);
    EXPECT(enc_proxy_enqueue(context, 1, &first), NRT_SUCCESS);
    for (uint64_t exec = 2; exec <= 4; exec++)
        EXPECT(enc_enq_proxy_tasks(context, exec), NRT_SUCCESS);
    require_health(ENC_PROXY_HEALTH_OK);

    /* One: its end waits for its consumer, the others' do not come. */
    EXPECT(enc_proxy_abort(world.group, NULL, SECONDS(20)), NRT_INVALID);
    EXPECT(enc_proxy_abort(world.group, &made_up, SECONDS(20)), ENC_PROXY_UNKNOWN_TASK);
    EXPECT(enc_proxy_abort(world.group, &first.network, SECONDS(20)), NRT_SUCCESS);
    EXPECT(enc_proxy_abort(world.group, &first.network, SECONDS(20)), ENC_PROXY_TASK_DONE);
    EXPECT(enc_proxy_consume(world.group, &first.network, SECONDS(20), &status), NRT_SUCCESS);
    REQUIRE(status == ENC_PROXY_ABORTED);
    EXPECT(enc_proxy_abort(world.group, &first.network, SECONDS(20)), ENC_PROXY_ALREADY_CONSUMED);

    /* A context's; another context has none. */
    EXPECT(enc_proxy_abort_context(world.context, SECONDS(20), &tasks), NRT_SUCCESS);
    REQUIRE(tasks == 0);
    EXPECT(enc_proxy_abort_context(context, SECONDS(20), &tasks), NRT_SUCCESS);
    REQUIRE(tasks == 3);
    for (int task = 0; task < 3; task++)
        consume_aborted(context);

    /* A group's, then all; what comes later is not concerned, and the context goes on. */
    EXPECT(enc_enq_proxy_tasks(context, 5), NRT_SUCCESS);
    EXPECT(enc_proxy_abort_group(world.group, SECONDS(20), &tasks), NRT_SUCCESS);
    REQUIRE(tasks == 1);
    consume_aborted(context);
    EXPECT(enc_enq_proxy_tasks(context, 6), NRT_SUCCESS);
    EXPECT(enc_proxy_abort_all(SECONDS(20), &tasks), NRT_SUCCESS);
    REQUIRE(tasks == 1);
    consume_aborted(context);
    EXPECT(enc_proxy_abort_all(SECONDS(20), NULL), NRT_SUCCESS);
}

static sem_t entered, leave;

/* On the worker's thread: an abort is an order there, which waits for nothing; then the library is stuck. */
static void stick(void)
{
    size_t tasks = 77;
    EXPECT(enc_proxy_abort_context(world.context, ENC_PROXY_FOREVER, &tasks), NRT_SUCCESS);
    REQUIRE(tasks == 1);
    sem_post(&entered);
    while (sem_wait(&leave) != 0)
        ;
}

/* The code is final though the worker does not come; the context is kept until it does. */
static void stuck(const char *path)
{
    enc_proxy_execution execution;
    NRT_STATUS status = 55;
    size_t tasks = 77;
    void *mapped = dlopen(path, RTLD_NOW);
    REQUIRE(mapped != NULL && sem_init(&entered, 0, 0) == 0 && sem_init(&leave, 0, 0) == 0);
    void (*set)(void (*)(void));
    *(void **)&set = dlsym(mapped, "hooked_set");
    REQUIRE(set != NULL);
    set(stick);
    INIT(execution);
    EXPECT(enc_proxy_enqueue(world.context, 7, &execution), NRT_SUCCESS);
    while (sem_wait(&entered) != 0)
        ;
    EXPECT(enc_proxy_abort_all(20000, &tasks), ENC_PROXY_STUCK);
    REQUIRE(tasks == 77);
    REQUIRE(strstr(enc_proxy_last_error(), "neuronNetworkProxyProgress") != NULL);
    EXPECT(enc_proxy_consume(world.group, &execution.network, 0, &status), NRT_SUCCESS);
    REQUIRE(status == ENC_PROXY_ABORTED);
    EXPECT(encd_context_destroy(world.context), ENC_PROXY_BUSY);
    sem_post(&leave);
    /* The worker comes back, and the task after this one shows that it works. */
    EXPECT(enc_enq_proxy_tasks(world.context, 8), NRT_SUCCESS);
    EXPECT(enc_consume_proxy_task_status(world.context, PROXY_TASK_NETWORK, SECONDS(20), &status), NRT_SUCCESS);
    REQUIRE(status == 1234);
    sem_destroy(&entered);
    sem_destroy(&leave);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    open_world(&world, argv[1], 0);
    encd_context *context = waiting_context();
    scopes(context);
    stuck(argv[1]);
    EXPECT(encd_context_destroy(context), NRT_SUCCESS);
    close_world(&world);
    puts("ok");
    return 0;
}
