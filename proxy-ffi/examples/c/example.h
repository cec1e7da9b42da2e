/* What the examples share: one way to fail. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "enc_proxy.h"

/* Ends the program with the reason when a call does not succeed. */
#define MUST(call) must((call), #call)
static inline void must(NRT_STATUS status, const char *call)
{
    if (status != NRT_SUCCESS) {
        fprintf(stderr, "%s: %s (%d)\n  %s\n", call, enc_proxy_status_text(status), status, enc_proxy_last_error());
        exit(1);
    }
}

/* Zeroes a struct and sets its size. */
#define INIT(record) (memset(&(record), 0, sizeof(record)), (record).struct_size = sizeof(record))

#define SECONDS(n) ((uint64_t)(n) * 1000000)

/* The arrays of a stream that moves nothing: one op without entries, and the terminators. */
static inline void empty_fifos(uint32_t block, void *channel, net_ops_info *op, net_src_addr *src, net_dest_addr *dest,
                               enc_fifo_set *set)
{
    memset(op, 0, sizeof *op);
    memset(src, 0, sizeof *src);
    memset(dest, 0, sizeof *dest);
    memset(set, 0, sizeof *set);
    op->net_idx_loop_size = 512;
    op->initial_send_credits = 1;
    op->ending_recv_credits = 1;
    op->data_type_sz = 4;
    op->basic_block_id = block;
    op->enc_channel = channel;
    src->mark = EXEC_COMPLETE;
    dest->mark = EXEC_COMPLETE;
    set->net_ops_info_fifo = op;
    set->net_ops_info_n = 1;
    set->src_addr_fifo = src;
    set->src_addr_n = 1;
    set->dest_addr_fifo = dest;
    set->dest_addr_n = 1;
}

#endif
