/* A task that waits for a device that never fires: seen, waited for with a deadline, aborted.  4_hang <libnccom.so> */
#include "example.h"

static uint64_t channel[11];
static uint32_t start_word = UINT32_MAX; /* not fired, and nobody will */

int main(int argc, char **argv)
{
    enc_proxy_library *library;
    MUST(enc_proxy_library_open(argc > 1 ? argv[1] : "libnccom.so", &library));
    uint8_t id[ENC_PROXY_UNIQUE_ID_BYTES];
    MUST(enc_proxy_get_unique_id(library, 1, id));
    enc_proxy_comm_config comm_config;
    INIT(comm_config);
    comm_config.rank_n = 1;
    comm_config.unique_id = id;
    comm_config.bypass_graph = 1;
    enc_proxy_comm *comm;
    MUST(enc_proxy_comm_create(library, &comm_config, &comm));
    enc_proxy_group_config group_config;
    INIT(group_config);
    enc_proxy_group *group;
    MUST(enc_proxy_group_acquire(&group_config, &group));

    net_ops_info op;
    net_src_addr src;
    net_dest_addr dest;
    enc_fifo_set set;
    empty_fifos(0, channel, &op, &src, &dest, &set);
    enc_basic_block block = {0, 0, &set};
    uint32_t *words[1] = {&start_word};
    encd_context_config config;
    INIT(config);
    config.comm = comm;
    config.stream_n = 1;
    config.block_n = 1;
    config.blocks = &block;
    config.start_words = words;
    encd_context *context;
    MUST(encd_context_create(group, &config, &context));

    enc_proxy_execution execution;
    INIT(execution);
    MUST(enc_proxy_enqueue(context, 812, &execution));

    /* The wait ends at its deadline, the task goes on. */
    NRT_STATUS status = 77;
    if (enc_proxy_consume(group, &execution.network, 100000, &status) != NRT_TIMEOUT || status != 77)
        return 2;
    printf("%s\n", enc_proxy_last_error());

    /* Is it well, and if not, why: the report's first line names group, rank, execution, stream and word. */
    enc_proxy_group_health health;
    INIT(health);
    MUST(enc_proxy_group_get_health(group, &health));
    printf("health %u\n", health.state);
    fflush(stdout);
    MUST(enc_proxy_report_to_fd(ENC_PROXY_TEXT, 1000, 1));

    /* A drain would wait for the device, too; its deadline says what is left. An abort ends the task at once. */
    if (enc_proxy_group_release(group, ENC_PROXY_DRAIN, 100000, NULL) != NRT_TIMEOUT)
        return 3;
    printf("%s\n", enc_proxy_last_error());
    if (encd_context_destroy(context) != ENC_PROXY_BUSY)
        return 4;
    MUST(enc_proxy_group_release(group, ENC_PROXY_ABORT, SECONDS(10), NULL));
    MUST(enc_consume_proxy_task_status(context, PROXY_TASK_NETWORK, SECONDS(10), &status));
    if (status != ENC_PROXY_ABORTED)
        return 5;
    printf("execution 812: %s (%d)\n", enc_proxy_status_text(status), status);
    MUST(encd_context_destroy(context));
    MUST(enc_proxy_comm_destroy(comm, SECONDS(10)));
    MUST(enc_proxy_library_close(library));
    return 0;
}
