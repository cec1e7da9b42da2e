/* An all-reduce of two rank processes over the stand-in library, every byte compared.  2_all_reduce <libnccom.so>
 *
 * Each rank sends its vector to the other, receives the other's and adds. The program is the device, too: it says when a
 * direction is ready and when a buffer is posted, through the index word of the connector, and waits on semaphores.
 */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "example.h"

enum { RANKS = 2, ELEMENTS = 1 << 16, EXECUTIONS = 3 };

/* enc_net_connector and enc_channel as release 2.31 lays them out. */
struct connector {
    int32_t fold_n;
    uint64_t mem_handle, va, pa, size, unused[6];
    void *nccl_connector;
};
struct channel {
    int32_t id, pattern;
    struct connector *net_recv, *net_send;
    uint64_t unused[8];
};

/* The host index memory of one connector: a word at the start of each of 16 lines. The attribute is that of gcc and clang, as C99 has no
 * word for it. */
struct index_memory {
    uint32_t words[16][32];
} __attribute__((aligned(128)));

enum { RECEIVE, SEND };
static struct index_memory index_words[2];
static struct connector connectors[2];
static struct channel channel;
static uint32_t semaphores[2];
static uint32_t mine[ELEMENTS], theirs[ELEMENTS], sum[ELEMENTS];

static void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* The device waits until a semaphore, a running total, has reached a value. */
static void wait_for(int direction, uint32_t total)
{
    time_t limit = time(NULL) + 30;
    while ((int32_t)(__atomic_load_n(&semaphores[direction], __ATOMIC_ACQUIRE) - total) < 0) {
        if (time(NULL) > limit)
            die("a semaphore was not raised within 30 seconds");
        sched_yield();
    }
}

static void store(int direction, uint32_t value)
{
    __atomic_store_n(&index_words[direction].words[0][0], value, __ATOMIC_RELEASE);
}

/* One execution as the device sees it: both directions ready, one buffer posted in each, both completed. The handshake raises each
 * semaphore by 1, and so does the completion. */
static void run_device(uint32_t execution)
{
    uint32_t before = 2 * (execution - 1);
    store(RECEIVE, UINT32_MAX);
    store(SEND, UINT32_MAX);
    wait_for(RECEIVE, before + 1);
    wait_for(SEND, before + 1);
    store(RECEIVE, 1);
    store(SEND, 1);
    wait_for(RECEIVE, before + 2);
    wait_for(SEND, before + 2);
    for (size_t i = 0; i < ELEMENTS; i++)
        sum[i] = mine[i] + theirs[i];
}

static encd_context *load(enc_proxy_group *group, enc_proxy_comm *comm)
{
    void *handle;
    for (int direction = RECEIVE; direction <= SEND; direction++) {
        MUST(enc_proxy_comm_get_connector(comm, 0, 0, (uint32_t)direction, &handle));
        connectors[direction].fold_n = 1;
        connectors[direction].va = connectors[direction].pa = (uint64_t)(uintptr_t)&index_words[direction];
        connectors[direction].size = sizeof(struct index_memory);
        connectors[direction].nccl_connector = handle;
    }
    channel.net_recv = &connectors[RECEIVE];
    channel.net_send = &connectors[SEND];

    net_ops_info op = {
        .inc_send_handshake = &semaphores[SEND],
        .inc_send_complete = &semaphores[SEND],
        .inc_recv_handshake = &semaphores[RECEIVE],
        .inc_recv_complete = &semaphores[RECEIVE],
        .tx_entry_cnt = 1,
        .rx_entry_cnt = 1,
        .net_idx_loop_size = 512,
        .initial_send_credits = 1,
        .ending_recv_credits = 1,
        .data_type_sz = sizeof(uint32_t),
        .enc_channel = &channel,
    };
    net_src_addr src[3] = {
        {.complete = 1, .host_addr = mine, .size = sizeof mine, .mark = NET_TRANSFER, .dst_rank = -1},
        {.mark = NET_OP_COMPLETE, .dst_rank = -1},
        {.mark = EXEC_COMPLETE, .dst_rank = -1},
    };
    net_dest_addr dest[3] = {
        {.complete = 1, .host_addr = theirs, .size = sizeof theirs, .mark = NET_TRANSFER, .src_rank = -1},
        {.mark = NET_OP_COMPLETE, .src_rank = -1},
        {.mark = EXEC_COMPLETE, .src_rank = -1},
    };
    enc_fifo_set set = {&op, 1, src, 3, dest, 3};
    enc_basic_block block = {0, 0, &set};
    encd_context_config config;
    INIT(config);
    config.comm = comm;
    config.stream_n = 1;
    config.block_n = 1;
    config.blocks = &block;
    encd_context *context;
    MUST(encd_context_create(group, &config, &context));
    return context;
}

static bananaphone *meet(const char *job, uint32_t rank)
{
    bp_config config;
    INIT(config);
    config.job = job;
    config.rank = rank;
    config.world = RANKS;
    bananaphone *bus;
    MUST(bp_create(&config, &bus));
    MUST(bp_connect(bus, SECONDS(30)));
    return bus;
}

static int run_rank(const char *path, const char *job, uint32_t rank)
{
    /* Before the ranks meet: one that fails here is nobody's lost peer. */
    enc_proxy_library *library;
    MUST(enc_proxy_library_open(path, &library));
    bananaphone *bus = meet(job, rank);

    /* Rank 0 makes the id of the communicator and gives it to the others. */
    uint8_t id[ENC_PROXY_UNIQUE_ID_BYTES];
    size_t length;
    if (rank == 0) {
        MUST(enc_proxy_get_unique_id(library, RANKS, id));
        MUST(bp_broadcast(bus, 0, id, sizeof id, SECONDS(30)));
    } else {
        MUST(bp_recv(bus, 0, 0, id, sizeof id, &length, NULL, SECONDS(30)));
    }
    enc_proxy_comm_config comm_config;
    INIT(comm_config);
    comm_config.rank = rank;
    comm_config.rank_n = RANKS;
    comm_config.unique_id = id;
    comm_config.nec_dev_id = rank;
    enc_proxy_comm *comm;
    MUST(enc_proxy_comm_create(library, &comm_config, &comm));

    enc_proxy_group_config group_config;
    INIT(group_config);
    group_config.device = rank;
    enc_proxy_group *group;
    MUST(enc_proxy_group_acquire(&group_config, &group));
    encd_context *context = load(group, comm);

    bp_barrier *barrier;
    MUST(bp_barrier_create(bus, 0, NULL, 0, &barrier));
    for (uint32_t execution = 1; execution <= EXECUTIONS; execution++) {
        for (uint32_t i = 0; i < ELEMENTS; i++)
            mine[i] = (rank + 1) * 2654435761u * (i + execution);
        /* The other rank's buffer is written by it alone, but it must not be one execution ahead. */
        MUST(bp_barrier_sync(barrier, execution, SECONDS(30)));
        NRT_STATUS status;
        MUST(enc_enq_proxy_tasks(context, execution));
        run_device(execution);
        MUST(enc_consume_proxy_task_status(context, PROXY_TASK_NETWORK, SECONDS(30), &status));
        MUST(status);
        for (uint32_t i = 0; i < ELEMENTS; i++)
            if (sum[i] != (1 + 2) * 2654435761u * (i + execution))
                die("wrong sum");
    }
    MUST(bp_barrier_sync(barrier, EXECUTIONS + 1, SECONDS(30)));
    MUST(encd_context_destroy(context));
    MUST(enc_proxy_comm_destroy(comm, SECONDS(30)));
    MUST(enc_proxy_group_release(group, ENC_PROXY_DRAIN, SECONDS(30), NULL));
    MUST(enc_proxy_library_close(library));
    MUST(bp_barrier_hangup(barrier));
    MUST(bp_cleanup(bus));
    return 0;
}

/* Passes on what a rank has written to its standard error. */
static void show(int errors)
{
    char text[4096];
    ssize_t length;
    while ((length = read(errors, text, sizeof text)) > 0)
        fwrite(text, 1, (size_t)length, stderr);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "libnccom.so";
    char job[64];
    snprintf(job, sizeof job, "all-reduce-%ld", (long)getpid());
    /* The ranks are forked before anything of the driver is used: a process that has used it forks children that cannot. */
    pid_t ranks[RANKS];
    int errors[RANKS][2];
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (pipe(errors[rank]) != 0)
            die("pipe failed");
        ranks[rank] = fork();
        if (ranks[rank] == 0) {
            dup2(errors[rank][1], STDERR_FILENO);
            exit(run_rank(path, job, rank));
        }
        if (ranks[rank] < 0)
            die("fork failed");
        close(errors[rank][1]);
    }
    /* One fault makes every rank fail: what the first one says is enough. */
    int failed = 0;
    for (int left = RANKS; left > 0; left--) {
        int status, rank = 0;
        pid_t ended = wait(&status);
        while (rank < RANKS - 1 && ranks[rank] != ended)
            rank++;
        if (status == 0 || !failed)
            show(errors[rank][0]);
        if (WIFSIGNALED(status) && !failed)
            fprintf(stderr, "rank %d was killed by signal %d\n", rank, WTERMSIG(status));
        failed |= status != 0;
    }
    if (!failed)
        printf("all_reduce: %d ranks, %d executions of %d elements, every sum is right\n", RANKS, EXECUTIONS, ELEMENTS);
    return failed;
}
