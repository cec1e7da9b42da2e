/* Dynamic sizes: refused as long as nobody answers for them; then the library asks, through libnrt.so.1, and is answered.  dynamic <library> */
#include <stdio.h>
#include <string.h>

#include <enc_proxy.h>

#define INIT(record) (memset(&(record), 0, sizeof(record)), (record).struct_size = sizeof(record))
#define SECONDS(n) ((uint64_t)(n) * 1000000)
#define REQUIRE(condition)                                                                                     \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #condition, enc_proxy_last_error());    \
            return 1;                                                                                          \
        }                                                                                                      \
    } while (0)

/* What the library has said, each time with the arguments that it gives to all four. */
struct heard {
    void *host_mem;
    size_t bytes;
    int calls;
    int strange;
};

static void hear(struct heard *heard, void *host_mem, size_t elem, int peer, int rank_n)
{
    heard->calls++;
    heard->strange |= heard->host_mem != host_mem || elem != 4 || peer != 3 || rank_n != 8;
}

static size_t send_size(void *user, void *host_mem, size_t elem, int peer, int rank_n)
{
    hear(user, host_mem, elem, peer, rank_n);
    return 400;
}

static size_t send_offset(void *user, void *host_mem, size_t elem, int peer, int rank_n)
{
    hear(user, host_mem, elem, peer, rank_n);
    return 1 << 20;
}

static size_t recv_offset(void *user, void *host_mem, size_t elem, int peer, int rank_n)
{
    hear(user, host_mem, elem, peer, rank_n);
    return (size_t)1 << 40;
}

static void recv_size(void *user, void *host_mem, size_t bytes, size_t elem, int src, int rank_n)
{
    struct heard *heard = user;
    hear(heard, host_mem, elem, src, rank_n);
    heard->bytes = bytes;
}

int main(int argc, char **argv)
{
    static char nccl_comm[8];
    static uint64_t channel[11];
    static struct heard heard = {nccl_comm, 0, 0, 0};
    enc_proxy_library *library;
    enc_proxy_comm *comm;
    enc_proxy_group *group;
    encd_context *context = NULL;
    REQUIRE(argc == 2);
    REQUIRE(enc_proxy_library_open(argv[1], &library) == NRT_SUCCESS);
    REQUIRE(enc_proxy_comm_adopt(library, nccl_comm, 1, &comm) == NRT_SUCCESS);
    enc_proxy_group_config group_config;
    INIT(group_config);
    REQUIRE(enc_proxy_group_acquire(&group_config, &group) == NRT_SUCCESS);

    net_ops_info op;
    net_src_addr src;
    net_dest_addr dest;
    memset(&op, 0, sizeof op);
    memset(&src, 0, sizeof src);
    memset(&dest, 0, sizeof dest);
    op.net_idx_loop_size = 512;
    op.initial_send_credits = op.ending_recv_credits = 1;
    op.data_type_sz = 4;
    op.is_dynamic_send_recv_sz = 1;
    op.enc_channel = channel;
    src.mark = dest.mark = EXEC_COMPLETE;
    enc_fifo_set set = {&op, 1, &src, 1, &dest, 1};
    enc_basic_block block = {0, 0, &set};
    encd_context_config config;
    INIT(config);
    config.comm = comm;
    config.stream_n = config.block_n = 1;
    config.blocks = &block;
    REQUIRE(encd_context_create(group, &config, &context) == ENC_PROXY_NO_DYNAMIC_SIZES && context == NULL);
    REQUIRE(strstr(enc_proxy_last_error(), "net_ops_info_fifo[0].is_dynamic_send_recv_sz is 1") != NULL);

    enc_proxy_dynamic_sizes sizes;
    INIT(sizes);
    sizes.user = &heard;
    sizes.send_size_bytes = send_size;
    sizes.send_offset_bytes = send_offset;
    sizes.recv_offset_bytes = recv_offset;
    REQUIRE(enc_proxy_set_dynamic_sizes(&sizes) == NRT_INVALID);
    REQUIRE(strstr(enc_proxy_last_error(), "set_recv_size_bytes is NULL") != NULL);
    sizes.set_recv_size_bytes = recv_size;
    REQUIRE(enc_proxy_set_dynamic_sizes(&sizes) == NRT_SUCCESS);
    REQUIRE(enc_proxy_set_dynamic_sizes(&sizes) == NRT_SUCCESS);
    sizes.send_size_bytes = recv_offset;
    REQUIRE(enc_proxy_set_dynamic_sizes(&sizes) == NRT_INVALID);

    NRT_STATUS status = 55;
    REQUIRE(encd_context_create(group, &config, &context) == NRT_SUCCESS);
    REQUIRE(enc_enq_proxy_tasks(context, 1) == NRT_SUCCESS);
    REQUIRE(enc_consume_proxy_task_status(context, PROXY_TASK_NETWORK, SECONDS(60), &status) == NRT_SUCCESS);
    REQUIRE(status == NRT_SUCCESS);
    REQUIRE(heard.calls >= 4 && !heard.strange);
    REQUIRE(heard.bytes == ((size_t)1 << 40) + (1 << 20) + 400);
    REQUIRE(encd_context_destroy(context) == NRT_SUCCESS);
    REQUIRE(enc_proxy_comm_destroy(comm, SECONDS(60)) == NRT_SUCCESS);
    REQUIRE(enc_proxy_group_release(group, ENC_PROXY_DRAIN, SECONDS(60), NULL) == NRT_SUCCESS);
    puts("ok");
    return 0;
}
