/* Two ranks set up their global communicators, run an execution barrier over them and free them; and what is refused meanwhile. */
#define _DEFAULT_SOURCE
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { RANKS = 2 };

static uint8_t (*ids)[ENC_PROXY_UNIQUE_ID_BYTES]; /* what each rank has got, in memory that all processes share */
static char job[64];
static int both_are_there[2]; /* a pipe: rank 0 tells rank 1 */

static NRT_STATUS setup(const char *name, uint32_t rank, uint32_t world, uint64_t timeout_us, const uint8_t *signature,
                        enc_proxy_library *library, enc_glb_comm **made)
{
    bp_config bus;
    enc_glb_comm_config config;
    INIT(bus);
    snprintf(job, sizeof job, "glb-%s-%d", name, (int)getpgrp());
    bus.job = job;
    bus.rank = rank;
    bus.world = world;
    bus.timeout_us = timeout_us;
    INIT(config);
    config.bus = &bus;
    config.signature = signature;
    config.library = library;
    config.device = 40 + rank;
    return enc_setup_global_comm(&config, made);
}

static encd_context *barrier_context(enc_proxy_comm *comm, enc_proxy_group *group, enc_glb_comm *glb, uint32_t rank)
{
    encd_context_config config;
    encd_context *context;
    INIT(config);
    config.comm = comm;
    config.rank = rank;
    config.glb_comm = glb;
    config.barrier_timeout_us = SECONDS(60);
    EXPECT(encd_context_create(group, &config, &context), NRT_SUCCESS);
    return context;
}

/* What a rank alone can get wrong. */
static void refused(enc_proxy_library *library)
{
    enc_glb_comm *glb = NULL;
    enc_glb_comm_config config;
    uint8_t signature[ENC_PROXY_SIGNATURE_BYTES] = {1};
    INIT(config);
    EXPECT(enc_setup_global_comm(&config, &glb), NRT_INVALID); /* no bus */
    EXPECT(enc_setup_global_comm(&config, NULL), NRT_INVALID);
    EXPECT(setup("refused", 1, 1, SECONDS(1), NULL, NULL, &glb), NRT_INVALID); /* no such rank */
    EXPECT(setup("refused", 0, 1, SECONDS(1), signature, NULL, &glb), NRT_INVALID_HANDLE); /* nobody makes the id */
    EXPECT(setup("refused", 0, 2, 50000, NULL, NULL, &glb), NRT_TIMEOUT); /* rank 1 does not come */
    /* A step is named; on a busy machine the deadline may pass in the first. */
    REQUIRE(strstr(enc_proxy_last_error(), "setup of the global communicator, ") != NULL);
    REQUIRE(strstr(enc_proxy_last_error(), " the bus: rank 0 of 2: ") != NULL);
    REQUIRE(glb == NULL);
    /* Alone and without a signature it works; there is no id then. */
    uint8_t id[ENC_PROXY_UNIQUE_ID_BYTES];
    EXPECT(setup("alone", 0, 1, SECONDS(60), NULL, library, &glb), NRT_SUCCESS);
    EXPECT(enc_proxy_glb_comm_get_unique_id(glb, id), NRT_INVALID);
    EXPECT(enc_free_global_comm(glb, 2, 0, NULL), NRT_INVALID);
    EXPECT(enc_proxy_group_release((enc_proxy_group *)glb, ENC_PROXY_DRAIN, 0, NULL), NRT_INVALID_HANDLE);
    REQUIRE(strstr(enc_proxy_last_error(), "is of type enc_glb_comm") != NULL);
    EXPECT(enc_free_global_comm(glb, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
    EXPECT(enc_free_global_comm(glb, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_INVALID_HANDLE);
    REQUIRE(strstr(enc_proxy_last_error(), "has been destroyed already") != NULL);
}

static void both_ranks(enc_proxy_library *library, enc_proxy_comm *comm, uint32_t rank)
{
    enc_glb_comm *glb = NULL;
    uint8_t signature[ENC_PROXY_SIGNATURE_BYTES] = {7};
    signature[15] = (uint8_t)rank;
    /* The signatures meet on rank 0, which then has no id for the others. */
    EXPECT(setup("other", rank, RANKS, SECONDS(60), signature, library, &glb), rank == 0 ? ENC_PROXY_MISMATCH : ENC_PROXY_NO_UNIQUE_ID);
    REQUIRE(glb == NULL && strstr(enc_proxy_last_error(), "exchanging signature and unique id") != NULL);

    signature[15] = 0;
    EXPECT(setup("same", rank, RANKS, SECONDS(60), signature, library, &glb), NRT_SUCCESS);
    EXPECT(enc_proxy_glb_comm_get_unique_id(glb, ids[rank]), NRT_SUCCESS);

    enc_proxy_group *group, *foreign;
    enc_proxy_group_config other;
    INIT(other);
    other.device = 70;
    EXPECT(enc_proxy_glb_comm_get_group(glb, &group), NRT_SUCCESS);
    EXPECT(enc_proxy_group_acquire(&other, &foreign), NRT_SUCCESS);
    encd_context *context = barrier_context(comm, group, glb, rank);

    /* One barrier, on one bus, in one group. */
    encd_context_config config;
    encd_context *none = NULL;
    INIT(config);
    config.comm = comm;
    config.rank = rank;
    config.glb_comm = glb;
    EXPECT(encd_context_create(foreign, &config, &none), NRT_INVALID);
    REQUIRE(strstr(enc_proxy_last_error(), "accepted: that of its glb_comm") != NULL);
    config.barrier_bus = (bananaphone *)glb;
    EXPECT(encd_context_create(group, &config, &none), NRT_INVALID);
    REQUIRE(none == NULL);

    for (uint64_t exec = 1; exec <= 50; exec++) {
        NRT_STATUS status = 55;
        EXPECT(enc_enq_proxy_tasks(context, exec), NRT_SUCCESS);
        EXPECT(enc_consume_proxy_task_status(context, PROXY_TASK_BARRIER, SECONDS(60), &status), NRT_SUCCESS);
        REQUIRE(status == NRT_SUCCESS);
        EXPECT(enc_consume_proxy_task_status(context, PROXY_TASK_NETWORK, SECONDS(60), &status), NRT_SUCCESS);
        REQUIRE(status == NRT_SUCCESS);
    }

    /* Freed after the contexts that use it, and before or after further shares of its group. */
    uint32_t others = 77;
    enc_glb_comm_freed freed;
    INIT(freed);
    freed.others = 77;
    EXPECT(enc_free_global_comm(glb, ENC_PROXY_DRAIN, SECONDS(60), &freed), ENC_PROXY_BUSY);
    REQUIRE(freed.others == 77 && strstr(enc_proxy_last_error(), "1 context uses the global communicator") != NULL);
    EXPECT(encd_context_destroy(context), NRT_SUCCESS);
    EXPECT(enc_free_global_comm(glb, ENC_PROXY_DRAIN, SECONDS(60), &freed), NRT_SUCCESS);
    REQUIRE(freed.others == 1 && freed.dead_n == 0 && freed.dead[0] == 0 && freed.dead[1] == 0);
    EXPECT(enc_proxy_group_release(group, ENC_PROXY_DRAIN, SECONDS(60), &others), NRT_SUCCESS);
    REQUIRE(others == 0);
    EXPECT(enc_proxy_group_release(foreign, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
}

/* Rank 1 dies; rank 0 is told so as it frees, and waits for nobody. */
static void one_dies(uint32_t rank, pid_t child)
{
    enc_glb_comm *glb;
    EXPECT(setup("dies", rank, RANKS, SECONDS(60), NULL, NULL, &glb), NRT_SUCCESS);
    char byte = 0;
    if (rank == 1) {
        REQUIRE(read(both_are_there[0], &byte, 1) == 1);
        _exit(0);
    }
    int status = 1;
    REQUIRE(write(both_are_there[1], &byte, 1) == 1);
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    enc_glb_comm_freed freed;
    INIT(freed);
    EXPECT(enc_free_global_comm(glb, ENC_PROXY_DRAIN, SECONDS(60), &freed), NRT_SUCCESS);
    REQUIRE(freed.others == 0 && freed.dead_n == 1 && freed.dead[0] == 2 && freed.dead[1] == 0);
}

static void run(const char *path, uint32_t rank, pid_t child)
{
    enc_proxy_library *library;
    enc_proxy_comm *comm;
    static char nccl_comm[8];
    EXPECT(enc_proxy_library_open(path, &library), NRT_SUCCESS);
    /* Contexts without a stream never call it. */
    EXPECT(enc_proxy_comm_adopt(library, nccl_comm, RANKS, &comm), NRT_SUCCESS);
    if (rank == 0)
        refused(library);
    both_ranks(library, comm, rank);
    EXPECT(enc_proxy_comm_destroy(comm, SECONDS(60)), NRT_SUCCESS);
    EXPECT(enc_proxy_library_close(library), NRT_SUCCESS);
    one_dies(rank, child);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    ids = mmap(NULL, sizeof *ids * RANKS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(ids != MAP_FAILED && setpgid(0, 0) == 0 && pipe(both_are_there) == 0);
    /* Before the first call, so that each is a process of its own to the library. */
    pid_t child = fork();
    run(argv[1], child == 0, child);
    REQUIRE(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
    puts("ok");
    return 0;
}
