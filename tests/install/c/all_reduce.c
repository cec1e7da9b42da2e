/* An all-reduce of float vectors around a ring of forked ranks.  all_reduce <libnccom.so> <ranks> <elements> <inputs> <outputs>
 *
 * Both files hold one vector per rank. In each of ranks - 1 executions a rank passes on the vector that it received last, its own at
 * first, and adds the one that comes. The program is the device, too: see the second example of the project.
 */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <enc_proxy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECONDS(n) ((uint64_t)(n) * 1000000)
#define INIT(record) (memset(&(record), 0, sizeof(record)), (record).struct_size = sizeof(record))
#define MUST(call) must((call), #call)

enum { RECEIVE, SEND };

/* The records of release 2.31 that the library reads besides the arrays, and the words that it and the device share. */
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
struct index_memory {
    _Alignas(128) uint32_t words[16][32];
};

static struct index_memory index_words[2];
static struct connector connectors[2];
static struct channel channel;
static uint32_t semaphores[2];
static size_t element_n, bytes;
static float *passed, *received, *sum;

static void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void must(NRT_STATUS status, const char *call)
{
    if (status != NRT_SUCCESS) {
        fprintf(stderr, "%s: %s (%d)\n  %s\n", call, enc_proxy_status_text(status), status, enc_proxy_last_error());
        exit(1);
    }
}

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
    for (size_t i = 0; i < element_n; i++)
        sum[i] += received[i];
    memcpy(passed, received, bytes);
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
        .data_type_sz = sizeof(float),
        .enc_channel = &channel,
    };
    net_src_addr src[3] = {
        {.complete = 1, .host_addr = passed, .size = (uint32_t)bytes, .mark = NET_TRANSFER, .dst_rank = -1},
        {.mark = NET_OP_COMPLETE, .dst_rank = -1},
        {.mark = EXEC_COMPLETE, .dst_rank = -1},
    };
    net_dest_addr dest[3] = {
        {.complete = 1, .host_addr = received, .size = (uint32_t)bytes, .mark = NET_TRANSFER, .src_rank = -1},
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

/* Rank 0 makes the id of the communicator and gives it to the others over the host bus. */
static void exchange_id(enc_proxy_library *library, const char *job, uint32_t rank, uint32_t rank_n, uint8_t *id)
{
    bp_config config;
    INIT(config);
    config.job = job;
    config.rank = rank;
    config.world = rank_n;
    bananaphone *bus;
    MUST(bp_create(&config, &bus));
    MUST(bp_connect(bus, SECONDS(30)));
    size_t length;
    if (rank == 0) {
        MUST(enc_proxy_get_unique_id(library, rank_n, id));
        MUST(bp_broadcast(bus, 0, id, ENC_PROXY_UNIQUE_ID_BYTES, SECONDS(30)));
    } else {
        MUST(bp_recv(bus, 0, 0, id, ENC_PROXY_UNIQUE_ID_BYTES, &length, NULL, SECONDS(30)));
    }
    MUST(bp_cleanup(bus));
}

static void move_vector(const char *path, int flags, uint32_t rank, float *vector, int is_write)
{
    int file = open(path, flags, 0600);
    off_t at = (off_t)(rank * bytes);
    ssize_t moved = is_write ? pwrite(file, vector, bytes, at) : pread(file, vector, bytes, at);
    if (moved != (ssize_t)bytes || close(file) != 0)
        die("a file has not one vector per rank");
}

static int run_rank(char **argv, const char *job, uint32_t rank, uint32_t rank_n)
{
    passed = malloc(bytes);
    received = malloc(bytes);
    sum = malloc(bytes);
    if (!passed || !received || !sum)
        die("no memory");
    move_vector(argv[4], O_RDONLY, rank, passed, 0);
    memcpy(sum, passed, bytes);

    enc_proxy_library *library;
    MUST(enc_proxy_library_open(argv[1], &library));
    uint8_t id[ENC_PROXY_UNIQUE_ID_BYTES];
    exchange_id(library, job, rank, rank_n, id);
    enc_proxy_comm_config comm_config;
    INIT(comm_config);
    comm_config.rank = rank;
    comm_config.rank_n = rank_n;
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
    for (uint32_t execution = 1; execution < rank_n; execution++) {
        NRT_STATUS status;
        MUST(enc_enq_proxy_tasks(context, execution));
        run_device(execution);
        MUST(enc_consume_proxy_task_status(context, PROXY_TASK_NETWORK, SECONDS(30), &status));
        MUST(status);
    }
    MUST(encd_context_destroy(context));
    MUST(enc_proxy_comm_destroy(comm, SECONDS(30)));
    MUST(enc_proxy_group_release(group, ENC_PROXY_DRAIN, SECONDS(30), NULL));
    MUST(enc_proxy_library_close(library));
    move_vector(argv[5], O_WRONLY | O_CREAT, rank, sum, 1);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        die("usage: all_reduce <libnccom.so> <ranks> <elements> <inputs> <outputs>");
    uint32_t rank_n = (uint32_t)atoi(argv[2]);
    element_n = (size_t)atoi(argv[3]);
    bytes = element_n * sizeof(float);
    char job[64];
    snprintf(job, sizeof job, "installed-%ld", (long)getpid());
    for (uint32_t rank = 0; rank < rank_n; rank++) {
        pid_t child = fork();
        if (child == 0)
            exit(run_rank(argv, job, rank, rank_n));
        if (child < 0)
            die("fork failed");
    }
    int failed = 0;
    for (uint32_t rank = 0; rank < rank_n; rank++) {
        int status;
        if (wait(&status) < 0 || status != 0)
            failed = 1;
    }
    return failed;
}
