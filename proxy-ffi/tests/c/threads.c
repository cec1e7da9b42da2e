/* Calls from a worker's thread, inside a callback of the library, about its own group and about another one; an unknown code of the library; destroys beside uses. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "check.h"

enum { USERS = 3, ROUNDS = 200 };

static struct world world;

/* On the worker's thread: what would wait for the worker is refused, what does not wait works. */
static void in_callback(void)
{
    NRT_STATUS status = 55;
    bool done = true;
    enc_proxy_ticket none = {0, 0};
    EXPECT(enc_consume_proxy_task_status(world.context, PROXY_TASK_NETWORK, ENC_PROXY_FOREVER, &status), ENC_PROXY_WRONG_THREAD);
    EXPECT(enc_proxy_consume(world.group, &none, ENC_PROXY_FOREVER, &status), ENC_PROXY_WRONG_THREAD);
    EXPECT(enc_proxy_group_release(world.group, ENC_PROXY_DRAIN, ENC_PROXY_FOREVER, NULL), ENC_PROXY_WRONG_THREAD);
    EXPECT(encd_context_destroy(world.context), ENC_PROXY_BUSY);
    EXPECT(enc_proxy_comm_destroy(world.comm, 1000), ENC_PROXY_BUSY);
    REQUIRE(status == 55);
    EXPECT(enc_proxy_check_status(world.context, PROXY_TASK_NETWORK, &done, &status), NRT_SUCCESS);
    REQUIRE(!done);
    EXPECT(enc_enq_proxy_tasks(world.context, 2), NRT_SUCCESS);
}

static void set_hook(const char *path, void (*hook)(void))
{
    void *mapped = dlopen(path, RTLD_NOW);
    REQUIRE(mapped != NULL);
    void (*set)(void (*)(void));
    *(void **)&set = dlsym(mapped, "hooked_set");
    REQUIRE(set != NULL);
    set(hook);
}

static void callback(const char *path)
{
    set_hook(path, in_callback);
    NRT_STATUS status;
    EXPECT(enc_enq_proxy_tasks(world.context, 1), NRT_SUCCESS);
    for (int task = 1; task <= 2; task++) {
        EXPECT(enc_consume_proxy_task_status(world.context, PROXY_TASK_NETWORK, SECONDS(20), &status), NRT_SUCCESS);
        REQUIRE(status == 1234);
    }
}

/* Two groups whose workers are in callbacks at once, each of which asks about the other's: had one waited, both would for ever. */
static struct side {
    struct world world;
    enc_proxy_ticket ticket;
} sides[2];
static sem_t inside;
static pthread_barrier_t step; /* both workers, and the program */

static void about(const struct side *other)
{
    const struct world *its = &other->world;
    NRT_STATUS status = 55;
    size_t tasks = 55;
    sem_post(&inside);
    pthread_barrier_wait(&step);
    EXPECT(enc_consume_proxy_task_status(its->context, PROXY_TASK_NETWORK, ENC_PROXY_FOREVER, &status), ENC_PROXY_WRONG_THREAD);
    EXPECT(enc_proxy_consume(its->group, &other->ticket, ENC_PROXY_FOREVER, &status), ENC_PROXY_WRONG_THREAD);
    EXPECT(enc_proxy_abort(its->group, &other->ticket, ENC_PROXY_FOREVER), ENC_PROXY_STUCK);
    EXPECT(enc_proxy_abort_context(its->context, ENC_PROXY_FOREVER, &tasks), ENC_PROXY_STUCK);
    EXPECT(enc_proxy_abort_group(its->group, ENC_PROXY_FOREVER, &tasks), ENC_PROXY_STUCK);
    pthread_barrier_wait(&step);
    EXPECT(enc_proxy_abort_all(ENC_PROXY_FOREVER, &tasks), ENC_PROXY_STUCK);
    EXPECT(enc_proxy_group_release(its->group, ENC_PROXY_DRAIN, ENC_PROXY_FOREVER, NULL), ENC_PROXY_STUCK);
    REQUIRE(status == 55 && tasks == 55);
    /* Until here each has found the other inside. */
    pthread_barrier_wait(&step);
}

static void about_second(void) { about(&sides[1]); }
static void about_first(void) { about(&sides[0]); }

static void about_each_other(const char *path)
{
    void (*const hooks[2])(void) = {about_second, about_first};
    REQUIRE(sem_init(&inside, 0, 0) == 0 && pthread_barrier_init(&step, NULL, 3) == 0);
    for (uint32_t side = 0; side < 2; side++) {
        enc_proxy_execution execution;
        INIT(execution);
        open_world(&sides[side].world, path, side);
        set_hook(path, hooks[side]);
        EXPECT(enc_proxy_enqueue(sides[side].world.context, 1, &execution), NRT_SUCCESS);
        sides[side].ticket = execution.network;
        while (sem_wait(&inside) != 0)
            ;
    }
    for (int steps = 0; steps < 3; steps++)
        pthread_barrier_wait(&step);
    for (int side = 0; side < 2; side++) {
        struct world *its = &sides[side].world;
        NRT_STATUS status;
        EXPECT(enc_proxy_consume(its->group, &sides[side].ticket, SECONDS(20), &status), NRT_SUCCESS);
        REQUIRE(status == ENC_PROXY_ABORTED);
        /* Its worker comes out of the library. */
        while ((status = encd_context_destroy(its->context)) == ENC_PROXY_BUSY)
            sched_yield();
        REQUIRE(status == NRT_SUCCESS);
        EXPECT(enc_proxy_comm_destroy(its->comm, SECONDS(20)), NRT_SUCCESS);
        EXPECT(enc_proxy_group_release(its->group, ENC_PROXY_DRAIN, SECONDS(20), NULL), NRT_SUCCESS);
        EXPECT(enc_proxy_settings_destroy(its->settings), NRT_SUCCESS);
        EXPECT(enc_proxy_library_close(its->library), NRT_SUCCESS);
    }
    pthread_barrier_destroy(&step);
    sem_destroy(&inside);
}

static void *shared;
static pthread_barrier_t start;

static void *use(void *unused)
{
    (void)unused;
    char text[64];
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&start);
        NRT_STATUS status;
        do
            status = enc_proxy_settings_get(shared, "NEURON_RT_PROXY_SPIN_US", text, sizeof text, NULL);
        while (status == NRT_SUCCESS);
        REQUIRE(status == NRT_INVALID_HANDLE);
        pthread_barrier_wait(&start);
    }
    return NULL;
}

/* One thread destroys what others use: each use works or is refused, and of two destroys one wins. */
static void beside(void)
{
    pthread_t users[USERS];
    REQUIRE(pthread_barrier_init(&start, NULL, USERS + 1) == 0);
    for (int user = 0; user < USERS; user++)
        REQUIRE(pthread_create(&users[user], NULL, use, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        enc_proxy_settings *settings;
        EXPECT(enc_proxy_settings_create(&settings), NRT_SUCCESS);
        shared = settings;
        pthread_barrier_wait(&start);
        EXPECT(enc_proxy_settings_destroy(settings), NRT_SUCCESS);
        EXPECT(enc_proxy_settings_destroy(settings), NRT_INVALID_HANDLE);
        pthread_barrier_wait(&start);
    }
    for (int user = 0; user < USERS; user++)
        pthread_join(users[user], NULL);
    pthread_barrier_destroy(&start);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    open_world(&world, argv[1], 0);
    callback(argv[1]);
    close_world(&world);
    about_each_other(argv[1]);
    beside();
    puts("ok");
    return 0;
}
