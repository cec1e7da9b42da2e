/* Every function of the header where it must not be called, or with what it must not get: in a forked child, on the worker's own thread inside
 * the library, beside the destroy of its object, with handles that are none, structs of wrong sizes and flags, and without its out-parameters. */
#define _DEFAULT_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

struct objects {
    struct world world;
    bananaphone *bus;
    bp_barrier *barrier;
    enc_glb_comm *glb;
    enc_proxy_report_service *service;
};

/* The library's errors are many, and expected. */
static void silent(void *user, enc_proxy_log_level_t level, const char *text) { (void)user, (void)level, (void)text; }

static enc_proxy_group *further[2]; /* shares that calls in the callback take */

#define AT(type) ((type[1]){{0}})
#define ZERO(type) (&(type){0})
#define RECORD(type) (&(type){.struct_size = sizeof(type)})
#define TEXT (char[64]){0}, 64, ZERO(size_t)
#define LIBRARY o->world.library
#define COMM o->world.comm
#define SETTINGS o->world.settings
#define GROUP o->world.group
#define CONTEXT o->world.context
#define NETWORK PROXY_TASK_NETWORK
#define FOREVER ENC_PROXY_FOREVER
#define STATUS ZERO(NRT_STATUS)

/* Kind of the object, answer inside a callback (ANY: whatever, at once), name, arguments. Destroys come last, what needs an object first. */
enum { ANY = 4711 };
#define FUNCTIONS(F)                                                                                             \
    F(NONE, NRT_SUCCESS, enc_proxy_version, (RECORD(enc_proxy_version_t)))                                       \
    F(NONE, NRT_SUCCESS, enc_proxy_set_log, (silent, NULL, ENC_PROXY_LOG_ERROR))                                 \
    F(NONE, NRT_SUCCESS, enc_proxy_set_error_handler, (NULL, NULL))                                              \
    F(NONE, ENC_PROXY_LOAD, enc_proxy_library_open, ("x", ZERO(enc_proxy_library *)))                            \
    F(NONE, NRT_INVALID, enc_proxy_settings_create, (NULL))                                                      \
    F(NONE, NRT_SUCCESS, enc_proxy_settings_dump, (SETTINGS, (char[8192]){0}, 8192, NULL))                       \
    F(NONE, NRT_SUCCESS, enc_proxy_group_acquire,                                                                \
      (&(enc_proxy_group_config){.struct_size = sizeof(enc_proxy_group_config), .timeout_us = FOREVER}, &further[0])) \
    F(NONE, NRT_SUCCESS, enc_proxy_abort_all, (FOREVER, ZERO(size_t)))                                           \
    F(NONE, ENC_PROXY_TOO_SMALL, enc_proxy_report, (ENC_PROXY_TEXT, 0, TEXT))                                    \
    F(NONE, NRT_SUCCESS, enc_proxy_report_merge, (NULL, 0, 0, ENC_PROXY_TEXT, TEXT))                             \
    F(NONE, NRT_INVALID, enc_proxy_report_to_fd, (ENC_PROXY_TEXT, 0, -1))                                        \
    F(NONE, NRT_INVALID, enc_proxy_set_dynamic_sizes, (RECORD(enc_proxy_dynamic_sizes)))                         \
    F(NONE, ENC_PROXY_BUSY, enc_proxy_report_service_start,                                                      \
      (RECORD(enc_proxy_report_config), ZERO(enc_proxy_report_service *)))                                       \
    F(NONE, ENC_PROXY_WRONG_THREAD, bp_create,                                                                   \
      (&(bp_config){.struct_size = sizeof(bp_config), .job = "every", .world = 1}, ZERO(bananaphone *)))         \
    F(NONE, ENC_PROXY_WRONG_THREAD, enc_setup_global_comm,                                                       \
      (RECORD(enc_glb_comm_config), ZERO(enc_glb_comm *)))                                                       \
    F(LIB, NRT_SUCCESS, enc_proxy_library_get_version, (LIBRARY, RECORD(enc_proxy_library_version)))             \
    F(LIB, ANY, enc_proxy_library_get_path, (LIBRARY, TEXT))                                                     \
    F(LIB, NRT_SUCCESS, enc_proxy_get_unique_id, (LIBRARY, 1, (uint8_t[128]){0}))                                \
    F(LIB, ENC_PROXY_WRONG_THREAD, enc_proxy_comm_create,                                                        \
      (LIBRARY, &(enc_proxy_comm_config){.struct_size = sizeof(enc_proxy_comm_config), .rank_n = 1},             \
       ZERO(enc_proxy_comm *)))                                                                                  \
    F(LIB, NRT_INVALID, enc_proxy_comm_adopt, (LIBRARY, NULL, 1, ZERO(enc_proxy_comm *)))                        \
    F(COM, ANY, enc_proxy_comm_get_connector, (COMM, 0, 0, 0, ZERO(void *)))                                     \
    F(SET, NRT_SUCCESS, enc_proxy_settings_set, (SETTINGS, "NEURON_RT_PROXY_SPIN_US", "7"))                      \
    F(SET, NRT_SUCCESS, enc_proxy_settings_get, (SETTINGS, "NEURON_RT_PROXY_SPIN_US", TEXT))                     \
    F(GRP, NRT_SUCCESS, enc_proxy_group_get_counters, (GROUP, RECORD(enc_proxy_group_counters)))                 \
    F(GRP, NRT_SUCCESS, enc_proxy_group_get_health, (GROUP, RECORD(enc_proxy_group_health)))                     \
    F(GRP, NRT_INVALID, enc_proxy_trace_start, (GROUP, SIZE_MAX))                                                \
    F(GRP, NRT_INVALID, enc_proxy_trace_write_to_fd, (GROUP, -1))                                                \
    F(GRP, ENC_PROXY_TOO_SMALL, enc_proxy_dump, (GROUP, ENC_PROXY_JSON, TEXT))                                   \
    F(GRP, ENC_PROXY_UNKNOWN_TASK, enc_proxy_poll, (GROUP, AT(enc_proxy_ticket), ZERO(uint32_t), STATUS))        \
    F(GRP, ENC_PROXY_WRONG_THREAD, enc_proxy_consume, (GROUP, AT(enc_proxy_ticket), 0, STATUS))                  \
    F(GRP, ENC_PROXY_UNKNOWN_TASK, enc_proxy_abort, (GROUP, AT(enc_proxy_ticket), FOREVER))                      \
    F(GRP, NRT_SUCCESS, enc_proxy_abort_group, (GROUP, FOREVER, ZERO(size_t)))                                   \
    F(GRP, ANY, encd_context_create, (GROUP, RECORD(encd_context_config), ZERO(encd_context *)))                 \
    F(CTX, NRT_SUCCESS, enc_enq_proxy_tasks, (CONTEXT, 2))                                                       \
    F(CTX, NRT_SUCCESS, enc_proxy_enqueue, (CONTEXT, 3, RECORD(enc_proxy_execution)))                            \
    F(CTX, ANY, enc_proxy_check_status, (CONTEXT, NETWORK, ZERO(bool), STATUS))                                  \
    F(CTX, ANY, enc_check_proxy_network_task_status, (CONTEXT, ZERO(bool), STATUS))                              \
    F(CTX, ENC_PROXY_UNKNOWN_TASK, enc_check_proxy_barrier_task_status, (CONTEXT, ZERO(bool), STATUS))           \
    F(CTX, ENC_PROXY_WRONG_THREAD, enc_consume_proxy_task_status, (CONTEXT, NETWORK, 0, STATUS))                 \
    F(CTX, ANY, enc_proxy_arm, (CONTEXT, NETWORK))                                                               \
    F(CTX, ENC_PROXY_BUSY, encd_context_reset, (CONTEXT))                                                        \
    F(CTX, NRT_SUCCESS, enc_proxy_abort_context, (CONTEXT, 1000, ZERO(size_t)))                                  \
    F(BUS, ENC_PROXY_WRONG_THREAD, bp_connect, (o->bus, FOREVER))                                                \
    F(BUS, ENC_PROXY_WRONG_THREAD, bp_send, (o->bus, 0, 0, NULL, 0, FOREVER))                                    \
    F(BUS, ENC_PROXY_WRONG_THREAD, bp_broadcast, (o->bus, 0, NULL, 0, FOREVER))                                  \
    F(BUS, ENC_PROXY_WRONG_THREAD, bp_recv, (o->bus, 0, 0, NULL, 0, ZERO(size_t), NULL, FOREVER))                \
    F(BUS, ENC_PROXY_WRONG_THREAD, bp_all_gather, (o->bus, NULL, 0, NULL, 0, NULL, FOREVER))                     \
    F(BUS, NRT_SUCCESS, bp_capacity, (o->bus, ZERO(size_t)))                                                     \
    F(BUS, NRT_SUCCESS, bp_get_members, (o->bus, AT(bp_member), 1, ZERO(uint32_t)))                              \
    F(BUS, NRT_SUCCESS, bp_get_counters, (o->bus, RECORD(bp_counters)))                                          \
    F(BUS, NRT_INVALID, bp_barrier_create, (o->bus, 7000, NULL, 0, ZERO(bp_barrier *)))                          \
    F(BAR, ENC_PROXY_WRONG_THREAD, bp_barrier_wait, (o->barrier, 1, FOREVER))                                    \
    F(BAR, ANY, bp_barrier_release, (o->barrier))                                                                \
    F(BAR, ENC_PROXY_WRONG_THREAD, bp_barrier_sync, (o->barrier, 1, FOREVER))                                    \
    F(BAR, NRT_SUCCESS, bp_barrier_arrive, (o->barrier, 1, FOREVER))                                             \
    F(BAR, NRT_SUCCESS, bp_barrier_poll, (o->barrier, ZERO(uint32_t)))                                           \
    F(GLB, NRT_INVALID, enc_proxy_glb_comm_get_unique_id, (o->glb, (uint8_t[128]){0}))                           \
    F(GLB, NRT_SUCCESS, enc_proxy_glb_comm_get_group, (o->glb, &further[1]))                                     \
    F(BAR, NRT_SUCCESS, bp_barrier_hangup, (o->barrier))                                                         \
    F(BUS, NRT_SUCCESS, bp_hangup, (o->bus))                                                                     \
    F(BUS, NRT_SUCCESS, bp_cleanup, (o->bus))                                                                    \
    F(GLB, NRT_TIMEOUT, enc_free_global_comm, (o->glb, ENC_PROXY_DRAIN, FOREVER, RECORD(enc_glb_comm_freed)))    \
    F(SVC, NRT_SUCCESS, enc_proxy_report_service_stop, (o->service))                                             \
    F(CTX, ENC_PROXY_BUSY, encd_context_destroy, (CONTEXT))                                                      \
    F(COM, ENC_PROXY_BUSY, enc_proxy_comm_destroy, (COMM, FOREVER))                                              \
    F(GRP, ENC_PROXY_WRONG_THREAD, enc_proxy_group_release, (GROUP, ENC_PROXY_DRAIN, FOREVER, ZERO(uint32_t)))   \
    F(SET, NRT_SUCCESS, enc_proxy_settings_destroy, (SETTINGS))                                                  \
    F(LIB, NRT_SUCCESS, enc_proxy_library_close, (LIBRARY))

enum kind { NONE, LIB, COM, SET, GRP, CTX, BUS, BAR, GLB, SVC, KINDS };

#define DEFINE(kind, inside, name, arguments) \
    static NRT_STATUS call_##name(struct objects *o) { return (void)o, name arguments; }
FUNCTIONS(DEFINE)

static const struct function {
    enum kind kind;
    NRT_STATUS inside;
    const char *name;
    NRT_STATUS (*call)(struct objects *);
} functions[] = {
#define ROW(kind, inside, name, arguments) {kind, inside, #name, call_##name},
    FUNCTIONS(ROW)
};
enum { COUNT = sizeof functions / sizeof *functions, ENDS = 10 /* the last rows: they end their object */ };

static bp_config bus_config(const char *name, char *job)
{
    bp_config bus;
    INIT(bus);
    sprintf(job, "every-%s-%d", name, (int)getpid());
    bus.job = job;
    bus.world = 1;
    return bus;
}

static void open_bus(struct objects *o)
{
    char job[64];
    bp_config config = bus_config("bus", job);
    EXPECT(bp_create(&config, &o->bus), NRT_SUCCESS);
}

static void open_glb(struct objects *o)
{
    char job[64];
    bp_config bus = bus_config("glb", job);
    enc_glb_comm_config config;
    INIT(config);
    config.bus = &bus;
    config.device = 9;
    EXPECT(enc_setup_global_comm(&config, &o->glb), NRT_SUCCESS);
}

static void open_all(struct objects *o, const char *path)
{
    enc_proxy_report_config service;
    INIT(service);
    open_world(&o->world, path, 0);
    open_bus(o);
    EXPECT(bp_barrier_create(o->bus, 0, NULL, 0, &o->barrier), NRT_SUCCESS);
    open_glb(o);
    EXPECT(enc_proxy_report_service_start(&service, &o->service), NRT_SUCCESS);
}

static struct objects all;

static void close_all(void)
{
    EXPECT(enc_proxy_report_service_stop(all.service), NRT_SUCCESS);
    EXPECT(enc_free_global_comm(all.glb, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
    EXPECT(bp_barrier_hangup(all.barrier), NRT_SUCCESS);
    EXPECT(bp_cleanup(all.bus), NRT_SUCCESS);
    close_world(&all.world);
}

/* Every function that takes a handle, with one that is none of its kind's; the text says what it is instead. */
static void refused(struct objects *o, const char *text)
{
    for (int i = 0; i < COUNT; i++)
        if (functions[i].kind != NONE) {
            expect(functions[i].call(o), NRT_INVALID_HANDLE, functions[i].name, __LINE__);
            require(strstr(enc_proxy_last_error(), text) != NULL, functions[i].name, __LINE__);
        }
}

static void handles(const char *path)
{
    struct objects none, wrong, gone;
    memset(&none, 0, sizeof none);
    refused(&none, "the handle is null");
    for (size_t i = 0; i < sizeof none / sizeof(void *); i++)
        ((void **)&none)[i] = &none;
    refused(&none, ", which was never given out");
    open_all(&all, path);
    wrong.world.library = (enc_proxy_library *)all.world.settings;
    wrong.world.comm = (enc_proxy_comm *)all.world.library;
    wrong.world.settings = (enc_proxy_settings *)all.world.comm;
    wrong.world.group = (enc_proxy_group *)all.world.context;
    wrong.world.context = (encd_context *)all.world.group;
    wrong.bus = (bananaphone *)all.barrier;
    wrong.barrier = (bp_barrier *)all.bus;
    wrong.glb = (enc_glb_comm *)all.service;
    wrong.service = (enc_proxy_report_service *)all.glb;
    refused(&wrong, "the handle is of type ");
    gone = all;
    close_all();
    refused(&gone, "the handle has been destroyed already");
    /* Nor when its place is used again. */
    open_all(&all, path);
    refused(&gone, "the handle has been destroyed already");
    close_all();
}

static void in_a_child(const char *path)
{
    open_all(&all, path);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < COUNT; i++)
            expect(functions[i].call(&all), ENC_PROXY_FORKED, functions[i].name, __LINE__);
        uint32_t word = 1;
        nec_inc_semaphore(&word, 2);
        REQUIRE(word == 3 && enc_proxy_status_text(ENC_PROXY_FORKED)[0] != 0 && enc_proxy_last_error()[0] != 0);
        /* No leak check at this end: it takes the memory of threads that the child does not have for lost. */
        _exit(0);
    }
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    close_all();
}

static enc_proxy_comm *kept_comm;
static encd_context *kept_context; /* in the group of the global communicator */

static void keep_context(void)
{
    static uint32_t start_word = UINT32_MAX; /* nobody fires it */
    static uint32_t *words[1] = {&start_word};
    static char nccl_comm;
    struct world kept = all.world;
    EXPECT(enc_proxy_comm_adopt(all.world.library, &nccl_comm, 1, &kept_comm), NRT_SUCCESS);
    kept.comm = kept_comm;
    EXPECT(enc_proxy_glb_comm_get_group(all.glb, &kept.group), NRT_SUCCESS);
    kept_context = make_context(&kept, words);
    EXPECT(enc_proxy_group_release(kept.group, ENC_PROXY_DRAIN, FOREVER, NULL), NRT_SUCCESS);
}

/* The free of the global communicator has something to wait for: it has the last share of a group with an unfinished task. */
static void occupy(void)
{
    EXPECT(enc_proxy_group_release(further[1], ENC_PROXY_DRAIN, FOREVER, NULL), NRT_SUCCESS);
    EXPECT(enc_enq_proxy_tasks(kept_context, 1), NRT_SUCCESS);
}

static void drop_context(void)
{
    EXPECT(enc_proxy_abort_context(kept_context, SECONDS(60), NULL), NRT_SUCCESS);
    EXPECT(encd_context_destroy(kept_context), NRT_SUCCESS);
    EXPECT(enc_proxy_comm_destroy(kept_comm, SECONDS(60)), NRT_SUCCESS);
}

/* On the worker's thread: nothing waits, whatever the timeout; what works does, the rest says why not. */
static void called_back(void)
{
    for (int i = 0; i < COUNT; i++) {
        const struct function *f = &functions[i];
        if (strcmp(f->name, "enc_free_global_comm") == 0)
            occupy();
        NRT_STATUS got = f->call(&all);
        if (f->inside != ANY)
            expect(got, f->inside, f->name, __LINE__);
        require(got != ENC_PROXY_PANIC && got != ENC_PROXY_POISONED, f->name, __LINE__);
    }
}

static void inside_the_library(const char *path)
{
    void *mapped = dlopen(path, RTLD_NOW);
    REQUIRE(mapped != NULL);
    void (*set)(void (*)(void));
    *(void **)&set = dlsym(mapped, "hooked_set");
    REQUIRE(set != NULL);
    open_all(&all, path);
    keep_context();
    set(called_back);
    EXPECT(enc_enq_proxy_tasks(all.world.context, 1), NRT_SUCCESS);
    NRT_STATUS status, answer;
    /* The context goes when its tasks have ended, those of the callback, too. */
    do
        answer = enc_consume_proxy_task_status(all.world.context, NETWORK, SECONDS(60), &status);
    while (answer == NRT_SUCCESS);
    REQUIRE(answer == ENC_PROXY_UNKNOWN_TASK);
    EXPECT(encd_context_destroy(all.world.context), NRT_SUCCESS);
    EXPECT(enc_proxy_comm_destroy(all.world.comm, SECONDS(60)), NRT_SUCCESS);
    /* What was destroyed in the callback is gone; what was not, is there. */
    EXPECT(enc_proxy_group_release(further[0], ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
    drop_context();
    EXPECT(enc_free_global_comm(all.glb, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
    EXPECT(enc_proxy_group_release(all.world.group, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
    for (int i = 0; i < COUNT; i++)
        if (functions[i].kind != NONE)
            expect(functions[i].call(&all), NRT_INVALID_HANDLE, functions[i].name, __LINE__);
}

static struct objects shared;
static pthread_barrier_t start;
static enum kind used;

/* Uses the object until it is gone. */
static void *use(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&start);
    for (int gone = 0; !gone;) {
        for (int i = 0; i < COUNT - ENDS; i++) {
            if (functions[i].kind != used || strcmp(functions[i].name, "enc_proxy_glb_comm_get_group") == 0)
                continue;
            NRT_STATUS got = functions[i].call(&shared);
            require(got != ENC_PROXY_PANIC && got != ENC_PROXY_POISONED, functions[i].name, __LINE__);
            gone |= got == NRT_INVALID_HANDLE;
        }
        /* Here the context has no task, which its destroy waits for. */
        sched_yield();
    }
    return NULL;
}

static void beside_a_destroy(enum kind kind, NRT_STATUS (*destroy)(void))
{
    pthread_t user;
    used = kind;
    REQUIRE(pthread_create(&user, NULL, use, NULL) == 0);
    pthread_barrier_wait(&start);
    NRT_STATUS status;
    do
        status = destroy();
    while (status == ENC_PROXY_BUSY);
    REQUIRE(status == NRT_SUCCESS);
    EXPECT(destroy(), NRT_INVALID_HANDLE);
    pthread_join(user, NULL);
}

static NRT_STATUS end_context(void) { return encd_context_destroy(shared.world.context); }
static NRT_STATUS end_comm(void) { return enc_proxy_comm_destroy(shared.world.comm, SECONDS(60)); }
static NRT_STATUS end_group(void) { return enc_proxy_group_release(shared.world.group, ENC_PROXY_ABORT, SECONDS(60), NULL); }
static NRT_STATUS end_settings(void) { return enc_proxy_settings_destroy(shared.world.settings); }
static NRT_STATUS end_library(void) { return enc_proxy_library_close(shared.world.library); }
static NRT_STATUS end_barrier(void) { return bp_barrier_hangup(shared.barrier); }
static NRT_STATUS end_bus(void) { return bp_cleanup(shared.bus); }
static NRT_STATUS end_glb(void) { return enc_free_global_comm(shared.glb, ENC_PROXY_ABORT, SECONDS(60), NULL); }

static void beside(const char *path)
{
    REQUIRE(pthread_barrier_init(&start, NULL, 2) == 0);
    for (int round = 0; round < 10; round++) {
        open_all(&shared, path);
        EXPECT(enc_proxy_report_service_stop(shared.service), NRT_SUCCESS);
        beside_a_destroy(CTX, end_context);
        beside_a_destroy(COM, end_comm);
        beside_a_destroy(GRP, end_group);
        beside_a_destroy(SET, end_settings);
        beside_a_destroy(BAR, end_barrier);
        beside_a_destroy(BUS, end_bus);
        beside_a_destroy(GLB, end_glb);
        beside_a_destroy(LIB, end_library);
    }
    pthread_barrier_destroy(&start);
}

/* A struct of `type`, given in each way that is no size, with a flag, misaligned and not at all; `call` has it as `r`. */
enum { OUT, IN /* longer than what is known is accepted as far as the rest is zero */, MAY_BE_NULL };
#define GIVEN(kind, type, call)                                                                \
    do {                                                                                           \
        static const size_t sizes[] = {0, 8, 15, 17, 4104, (size_t)1 << 40, SIZE_MAX};             \
        uint64_t raw[256];                                                                         \
        type *r = (type *)raw;                                                                     \
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {                                \
            memset(raw, 0, sizeof raw);                                                            \
            r->struct_size = sizes[i];                                                             \
            EXPECT(call, NRT_INVALID);                                                             \
        }                                                                                          \
        memset(raw, 0, sizeof raw);                                                                \
        r->struct_size = sizeof *r;                                                                \
        r->flags = 1;                                                                              \
        EXPECT(call, NRT_INVALID);                                                                 \
        REQUIRE(strstr(enc_proxy_last_error(), ".flags is 0x1, accepted: 0") != NULL);             \
        if (kind == IN) {                                                                       \
            r->flags = 0;                                                                          \
            r->struct_size = sizeof *r + 8;                                                        \
            raw[sizeof *r / 8] = (uint64_t)1 << 63;                                                \
            EXPECT(call, ENC_PROXY_UNSUPPORTED_FIELD);                                             \
            raw[sizeof *r / 8] = 0;                                                                \
            require((call) != ENC_PROXY_UNSUPPORTED_FIELD, #call, __LINE__);                       \
        }                                                                                          \
        r = (type *)((char *)raw + 4);                                                             \
        EXPECT(call, NRT_INVALID);                                                                 \
        r = NULL;                                                                                  \
        EXPECT(call, kind == MAY_BE_NULL ? NRT_SUCCESS : NRT_INVALID);                                   \
    } while (0)

static void structs(struct objects *o)
{
    GIVEN(OUT, enc_proxy_version_t, enc_proxy_version(r));
    GIVEN(OUT, enc_proxy_library_version, enc_proxy_library_get_version(LIBRARY, r));
    GIVEN(IN, enc_proxy_comm_config, enc_proxy_comm_create(LIBRARY, r, ZERO(enc_proxy_comm *)));
    GIVEN(OUT, enc_proxy_group_counters, enc_proxy_group_get_counters(GROUP, r));
    GIVEN(OUT, enc_proxy_group_health, enc_proxy_group_get_health(GROUP, r));
    GIVEN(OUT, enc_proxy_execution, enc_proxy_enqueue(CONTEXT, 1, r));
    GIVEN(IN, encd_context_config, encd_context_create(GROUP, r, ZERO(encd_context *)));
    GIVEN(IN, bp_config, bp_create(r, ZERO(bananaphone *)));
    GIVEN(OUT, bp_counters, bp_get_counters(o->bus, r));
    GIVEN(MAY_BE_NULL, enc_glb_comm_freed, enc_free_global_comm(o->glb, ENC_PROXY_DRAIN, SECONDS(60), r));
    open_glb(o);
    GIVEN(IN, enc_glb_comm_config, enc_setup_global_comm(r, ZERO(enc_glb_comm *)));
    GIVEN(IN, enc_proxy_dynamic_sizes, enc_proxy_set_dynamic_sizes(r));
    enc_proxy_group *group = NULL;
    GIVEN(IN, enc_proxy_group_config, enc_proxy_group_acquire(r, &group));
    EXPECT(enc_proxy_group_release(group, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
    GIVEN(IN, enc_proxy_report_config, enc_proxy_report_service_start(r, &o->service));
    EXPECT(enc_proxy_report_service_stop(o->service), NRT_SUCCESS);
}

static void out_parameters(struct objects *o)
{
    enc_proxy_ticket ticket = {0, 0};
    EXPECT(enc_proxy_library_open("x", NULL), NRT_INVALID);
    EXPECT(enc_proxy_library_open(NULL, ZERO(enc_proxy_library *)), NRT_INVALID);
    EXPECT(enc_proxy_get_unique_id(LIBRARY, 1, NULL), NRT_INVALID);
    EXPECT(enc_proxy_comm_create(LIBRARY, RECORD(enc_proxy_comm_config), NULL), NRT_INVALID);
    EXPECT(enc_proxy_comm_adopt(LIBRARY, &ticket, 1, NULL), NRT_INVALID);
    EXPECT(enc_proxy_comm_get_connector(COMM, 0, 0, 0, NULL), NRT_INVALID);
    EXPECT(enc_proxy_settings_create(NULL), NRT_INVALID);
    EXPECT(enc_proxy_settings_set(SETTINGS, NULL, "7"), NRT_INVALID);
    EXPECT(enc_proxy_settings_set(SETTINGS, "NEURON_RT_PROXY_SPIN_US", NULL), NRT_INVALID);
    EXPECT(enc_proxy_settings_get(SETTINGS, NULL, TEXT), NRT_INVALID);
    EXPECT(enc_proxy_settings_get(SETTINGS, "NEURON_RT_PROXY_SPIN_US", NULL, SIZE_MAX, NULL), NRT_INVALID);
    EXPECT(enc_proxy_group_acquire(RECORD(enc_proxy_group_config), NULL), NRT_INVALID);
    EXPECT(encd_context_create(GROUP, RECORD(encd_context_config), NULL), NRT_INVALID);
    EXPECT(enc_proxy_check_status(CONTEXT, NETWORK, NULL, STATUS), NRT_INVALID);
    EXPECT(enc_proxy_check_status(CONTEXT, NETWORK, ZERO(bool), NULL), NRT_INVALID);
    EXPECT(enc_check_proxy_network_task_status(CONTEXT, NULL, NULL), NRT_INVALID);
    EXPECT(enc_check_proxy_barrier_task_status(CONTEXT, NULL, NULL), NRT_INVALID);
    EXPECT(enc_consume_proxy_task_status(CONTEXT, NETWORK, 0, NULL), NRT_INVALID);
    EXPECT(enc_proxy_poll(GROUP, NULL, ZERO(uint32_t), STATUS), NRT_INVALID);
    EXPECT(enc_proxy_poll(GROUP, &ticket, NULL, STATUS), NRT_INVALID);
    EXPECT(enc_proxy_consume(GROUP, NULL, 0, STATUS), NRT_INVALID);
    EXPECT(enc_proxy_consume(GROUP, &ticket, 0, NULL), NRT_INVALID);
    EXPECT(enc_proxy_abort(GROUP, NULL, 0), NRT_INVALID);
    EXPECT(enc_proxy_dump(GROUP, ENC_PROXY_TEXT, NULL, 64, NULL), NRT_INVALID);
    EXPECT(enc_proxy_report(ENC_PROXY_TEXT, 0, NULL, SIZE_MAX, NULL), NRT_INVALID);
    EXPECT(enc_proxy_report_merge(NULL, 1, 0, ENC_PROXY_TEXT, TEXT), NRT_INVALID);
    EXPECT(enc_proxy_report_merge((const char *[]){NULL}, 1, 0, ENC_PROXY_TEXT, TEXT), NRT_INVALID);
    EXPECT(enc_proxy_report_merge((const char *[]){"{}"}, SIZE_MAX, 0, ENC_PROXY_TEXT, TEXT), NRT_INVALID);
    EXPECT(enc_proxy_report_merge(NULL, 0, 0, ENC_PROXY_TEXT, NULL, SIZE_MAX, NULL), NRT_INVALID);
    EXPECT(enc_proxy_report_service_start(RECORD(enc_proxy_report_config), NULL), NRT_INVALID);
    EXPECT(bp_create(RECORD(bp_config), NULL), NRT_INVALID);
    EXPECT(bp_send(o->bus, 0, 0, NULL, 1, 0), NRT_INVALID);
    EXPECT(bp_send(o->bus, 0, 0, (uint8_t *)&ticket, SIZE_MAX, 0), NRT_INVALID);
    EXPECT(bp_broadcast(o->bus, 0, NULL, 1, 0), NRT_INVALID);
    EXPECT(bp_recv(o->bus, 0, 0, NULL, 1, ZERO(size_t), NULL, 0), NRT_INVALID);
    EXPECT(bp_recv(o->bus, 0, 0, NULL, 0, NULL, NULL, 0), NRT_INVALID);
    EXPECT(bp_all_gather(o->bus, NULL, 1, NULL, 0, NULL, 0), NRT_INVALID);
    EXPECT(bp_all_gather(o->bus, NULL, 0, NULL, SIZE_MAX, NULL, 0), NRT_INVALID);
    EXPECT(bp_capacity(o->bus, NULL), NRT_INVALID);
    EXPECT(bp_get_members(o->bus, NULL, 1, NULL), NRT_INVALID);
    EXPECT(bp_barrier_create(o->bus, 0, NULL, 0, NULL), NRT_INVALID);
    EXPECT(bp_barrier_create(o->bus, 0, NULL, 1, ZERO(bp_barrier *)), NRT_INVALID);
    EXPECT(bp_barrier_poll(o->barrier, NULL), NRT_INVALID);
    EXPECT(enc_setup_global_comm(RECORD(enc_glb_comm_config), NULL), NRT_INVALID);
    EXPECT(enc_proxy_glb_comm_get_unique_id(o->glb, NULL), NRT_INVALID);
    EXPECT(enc_proxy_glb_comm_get_group(o->glb, NULL), NRT_INVALID);
    nec_inc_semaphore(NULL, 1);
    REQUIRE(nec_get_dynamic_send_size_bytes(NULL, 0, -1, 0) == 0 && nec_get_dynamic_send_offset_bytes(NULL, 0, -1, 0) == 0);
    REQUIRE(nec_get_dynamic_recv_offset_bytes(NULL, SIZE_MAX, -1, -1) == 0);
    nec_set_recv_size_bytes(NULL, 0, 0, -1, 0);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    EXPECT(enc_proxy_set_log(silent, NULL, ENC_PROXY_LOG_ERROR), NRT_SUCCESS);
    open_all(&all, argv[1]);
    EXPECT(enc_proxy_report_service_stop(all.service), NRT_SUCCESS);
    structs(&all);
    out_parameters(&all);
    enc_proxy_report_config service;
    INIT(service);
    EXPECT(enc_proxy_report_service_start(&service, &all.service), NRT_SUCCESS);
    close_all();
    handles(argv[1]);
    in_a_child(argv[1]);
    inside_the_library(argv[1]);
    beside(argv[1]);
    puts("ok");
    return 0;
}
