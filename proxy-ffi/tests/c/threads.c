/* Calls from the worker's own thread, inside a callback of the library; an unknown code of the library; destroys beside uses. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <pthread.h>

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

static void callback(const char *path)
{
    void *mapped = dlopen(path, RTLD_NOW);
    REQUIRE(mapped != NULL);
    void (*set)(void (*)(void));
    *(void **)&set = dlsym(mapped, "hooked_set");
    REQUIRE(set != NULL);
    set(in_callback);
    NRT_STATUS status;
    EXPECT(enc_enq_proxy_tasks(world.context, 1), NRT_SUCCESS);
    for (int task = 1; task <= 2; task++) {
        EXPECT(enc_consume_proxy_task_status(world.context, PROXY_TASK_NETWORK, SECONDS(20), &status), NRT_SUCCESS);
        REQUIRE(status == 1234);
    }
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
    beside();
    puts("ok");
    return 0;
}
