/* One device, one context, three executions.  1_context <libnccom.so>
 *
 * Any library with the 37 exports of release 2.31 does, the scripted stand-in of the tests too.
 */
#include "example.h"

static uint64_t channel[11]; /* enc_channel of an op without entries */

int main(int argc, char **argv)
{
    /* 1. The library: opened, version checked, 37 names found, or one error that says what is missing. */
    enc_proxy_library *library;
    MUST(enc_proxy_library_open(argc > 1 ? argv[1] : "libnccom.so", &library));

    /* 2. A communicator, of one rank here; with more, the id travels from rank 0 to the others. */
    uint8_t id[ENC_PROXY_UNIQUE_ID_BYTES];
    MUST(enc_proxy_get_unique_id(library, 1, id));
    enc_proxy_comm_config comm_config;
    INIT(comm_config);
    comm_config.rank_n = 1;
    comm_config.unique_id = id;
    comm_config.bypass_graph = 1;
    enc_proxy_comm *comm;
    MUST(enc_proxy_comm_create(library, &comm_config, &comm));

    /* 3. The device's group: the first user starts the worker, later ones share it. */
    enc_proxy_group_config group_config;
    INIT(group_config);
    group_config.timeout_us = SECONDS(10);
    enc_proxy_group *group;
    MUST(enc_proxy_group_acquire(&group_config, &group));

    /* 4. A context: one basic block (id 7) with one stream. The arrays are copied. */
    net_ops_info op;
    net_src_addr src;
    net_dest_addr dest;
    enc_fifo_set set;
    empty_fifos(7, channel, &op, &src, &dest, &set);
    enc_basic_block block = {7, 0, &set};
    encd_context_config context_config;
    INIT(context_config);
    context_config.comm = comm;
    context_config.stream_n = 1;
    context_config.block_n = 1;
    context_config.blocks = &block;
    encd_context *context;
    MUST(encd_context_create(group, &context_config, &context));

    /* 5. Executions: enqueue, ring the device's doorbell (there is none here), wait. */
    for (uint64_t exec_id = 1; exec_id <= 3; exec_id++) {
        NRT_STATUS status;
        MUST(enc_enq_proxy_tasks(context, exec_id));
        MUST(enc_consume_proxy_task_status(context, PROXY_TASK_NETWORK, SECONDS(10), &status));
        printf("execution %u: %s (%d)\n", (unsigned)exec_id, enc_proxy_status_text(status), status);
    }

    /* 6. The end, in reverse order. Nothing is freed while the worker may still touch it. */
    MUST(encd_context_destroy(context));
    MUST(enc_proxy_comm_destroy(comm, SECONDS(10)));
    MUST(enc_proxy_group_release(group, ENC_PROXY_DRAIN, SECONDS(10), NULL));
    MUST(enc_proxy_library_close(library));
    return 0;
}
