/* What the C tests share: a check that says where it failed. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "enc_proxy.h"

#define EXPECT(call, wanted) expect((call), (wanted), #call, __LINE__)
static inline void expect(NRT_STATUS got, NRT_STATUS wanted, const char *call, int line)
{
    if (got != wanted) {
        fprintf(stderr, "line %d: %s is %d, wanted %d: %s\n", line, call, got, wanted, enc_proxy_last_error());
        exit(1);
    }
}

#define REQUIRE(condition) require((condition), #condition, __LINE__)
static inline void require(int condition, const char *text, int line)
{
    if (!condition) {
        fprintf(stderr, "line %d: %s does not hold; last error: %s\n", line, text, enc_proxy_last_error());
        exit(1);
    }
}

#define INIT(record) (memset(&(record), 0, sizeof(record)), (record).struct_size = sizeof(record))
#define SECONDS(n) ((uint64_t)(n) * 1000000)

/* One object of each kind, over a library that does nothing. */
struct world {
    enc_proxy_library *library;
    enc_proxy_comm *comm;
    enc_proxy_settings *settings;
    enc_proxy_group *group;
    encd_context *context;
};

/* A context of one block that ends at once; its start words, if it has any, are the caller's and outlive it. */
static inline encd_context *make_context(const struct world *world, uint32_t *const *start_words)
{
    static uint64_t channel[11];
    net_ops_info op;
    net_src_addr src;
    net_dest_addr dest;
    memset(&op, 0, sizeof op);
    memset(&src, 0, sizeof src);
    memset(&dest, 0, sizeof dest);
    op.net_idx_loop_size = 512;
    op.initial_send_credits = op.ending_recv_credits = 1;
    op.data_type_sz = 4;
    op.enc_channel = channel;
    src.mark = dest.mark = EXEC_COMPLETE;
    enc_fifo_set set = {&op, 1, &src, 1, &dest, 1};
    enc_basic_block block = {0, 0, &set};
    encd_context_config config;
    encd_context *context;
    INIT(config);
    config.comm = world->comm;
    config.stream_n = config.block_n = 1;
    config.blocks = &block;
    config.start_words = start_words;
    EXPECT(encd_context_create(world->group, &config, &context), NRT_SUCCESS);
    return context;
}

static inline void open_world(struct world *world, const char *path, uint32_t device)
{
    EXPECT(enc_proxy_library_open(path, &world->library), NRT_SUCCESS);
    uint8_t id[ENC_PROXY_UNIQUE_ID_BYTES];
    EXPECT(enc_proxy_get_unique_id(world->library, 1, id), NRT_SUCCESS);
    enc_proxy_comm_config comm;
    INIT(comm);
    comm.rank_n = 1;
    comm.unique_id = id;
    comm.bypass_graph = 1;
    EXPECT(enc_proxy_comm_create(world->library, &comm, &world->comm), NRT_SUCCESS);
    EXPECT(enc_proxy_settings_create(&world->settings), NRT_SUCCESS);
    enc_proxy_group_config group;
    INIT(group);
    group.device = device;
    group.settings = world->settings;
    EXPECT(enc_proxy_group_acquire(&group, &world->group), NRT_SUCCESS);
    world->context = make_context(world, NULL);
}

static inline void close_world(struct world *world)
{
    EXPECT(encd_context_destroy(world->context), NRT_SUCCESS);
    EXPECT(enc_proxy_comm_destroy(world->comm, SECONDS(10)), NRT_SUCCESS);
    EXPECT(enc_proxy_group_release(world->group, ENC_PROXY_DRAIN, SECONDS(10), NULL), NRT_SUCCESS);
    EXPECT(enc_proxy_settings_destroy(world->settings), NRT_SUCCESS);
    EXPECT(enc_proxy_library_close(world->library), NRT_SUCCESS);
}

#endif
