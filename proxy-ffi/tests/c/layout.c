/* Sizes, alignments and offsets of every public struct, checked by the compiler; compiles as C99, C11, C++11 and C++20. */
#include "enc_proxy.h"

#define CHECK(name, condition) typedef char check_##name[(condition) ? 1 : -1]
#define SIZE(type, bytes) CHECK(size_##type, sizeof(type) == (bytes))
#define AT(type, field, bytes) CHECK(type##_##field, offsetof(type, field) == (bytes))

#if defined(__cplusplus)
#define ALIGN(type, bytes) static_assert(alignof(type) == (bytes), #type)
#elif __STDC_VERSION__ >= 201112L
#define ALIGN(type, bytes) _Static_assert(_Alignof(type) == (bytes), #type)
#else
#define ALIGN(type, bytes) CHECK(align_##type, offsetof(struct { char c; type t; }, t) == (bytes))
#endif

/* The three FIFO records of release 2.31. */
SIZE(net_ops_info, 96);
AT(net_ops_info, sema_shift_offset, 0);
AT(net_ops_info, early_send_completion, 2);
AT(net_ops_info, early_recv_posting, 3);
AT(net_ops_info, inc_send_handshake, 8);
AT(net_ops_info, inc_send_complete, 16);
AT(net_ops_info, inc_recv_handshake, 24);
AT(net_ops_info, inc_recv_complete, 32);
AT(net_ops_info, tx_entry_cnt, 40);
AT(net_ops_info, rx_entry_cnt, 44);
AT(net_ops_info, net_idx_loop_size, 48);
AT(net_ops_info, initial_send_credits, 52);
AT(net_ops_info, ending_recv_credits, 56);
AT(net_ops_info, data_type_sz, 64);
AT(net_ops_info, is_dynamic_send_recv_sz, 72);
AT(net_ops_info, variable_peer, 73);
AT(net_ops_info, add_to_histogram, 74);
AT(net_ops_info, basic_block_id, 76);
AT(net_ops_info, func_rel_op_idx, 80);
AT(net_ops_info, unrolled_count, 84);
AT(net_ops_info, enc_channel, 88);

SIZE(net_src_addr, 72);
AT(net_src_addr, net_op_idx, 0);
AT(net_src_addr, complete, 4);
AT(net_src_addr, dev_addr, 8);
AT(net_src_addr, host_addr, 16);
AT(net_src_addr, nccl_mhandle, 24);
AT(net_src_addr, size, 32);
AT(net_src_addr, mark, 36);
AT(net_src_addr, proxy_histogram_tag, 40);
AT(net_src_addr, dst_rank, 48);
AT(net_src_addr, dst_addr, 56);
AT(net_src_addr, dst_mhandle, 64);

SIZE(net_dest_addr, 48);
AT(net_dest_addr, net_op_idx, 0);
AT(net_dest_addr, complete, 4);
AT(net_dest_addr, dev_addr, 8);
AT(net_dest_addr, host_addr, 16);
AT(net_dest_addr, nccl_mhandle, 24);
AT(net_dest_addr, size, 32);
AT(net_dest_addr, mark, 36);
AT(net_dest_addr, src_rank, 40);

/* The structs of this interface. */
SIZE(enc_proxy_version_t, 40);
AT(enc_proxy_version_t, struct_size, 0);
AT(enc_proxy_version_t, flags, 8);
AT(enc_proxy_version_t, major, 16);
AT(enc_proxy_version_t, minor, 20);
AT(enc_proxy_version_t, patch, 24);
AT(enc_proxy_version_t, reserved, 28);
AT(enc_proxy_version_t, compatibility_id, 32);

SIZE(enc_proxy_library_version, 72);
AT(enc_proxy_library_version, struct_size, 0);
AT(enc_proxy_library_version, flags, 8);
AT(enc_proxy_library_version, major, 16);
AT(enc_proxy_library_version, minor, 24);
AT(enc_proxy_library_version, patch, 32);
AT(enc_proxy_library_version, maintenance, 40);
AT(enc_proxy_library_version, git_hash, 48);

SIZE(enc_proxy_comm_config, 48);
AT(enc_proxy_comm_config, struct_size, 0);
AT(enc_proxy_comm_config, flags, 8);
AT(enc_proxy_comm_config, rank_n, 16);
AT(enc_proxy_comm_config, rank, 20);
AT(enc_proxy_comm_config, unique_id, 24);
AT(enc_proxy_comm_config, root_comm_id, 32);
AT(enc_proxy_comm_config, nec_dev_id, 40);
AT(enc_proxy_comm_config, bypass_graph, 44);

SIZE(enc_proxy_ticket, 16);
AT(enc_proxy_ticket, slot, 0);
AT(enc_proxy_ticket, generation, 8);

SIZE(enc_proxy_execution, 56);
AT(enc_proxy_execution, struct_size, 0);
AT(enc_proxy_execution, flags, 8);
AT(enc_proxy_execution, network, 16);
AT(enc_proxy_execution, barrier, 32);
AT(enc_proxy_execution, sequence, 48);

SIZE(enc_proxy_group_config, 40);
AT(enc_proxy_group_config, struct_size, 0);
AT(enc_proxy_group_config, flags, 8);
AT(enc_proxy_group_config, device, 16);
AT(enc_proxy_group_config, reserved, 20);
AT(enc_proxy_group_config, settings, 24);
AT(enc_proxy_group_config, timeout_us, 32);

SIZE(enc_proxy_group_counters, 88);
AT(enc_proxy_group_counters, struct_size, 0);
AT(enc_proxy_group_counters, flags, 8);
AT(enc_proxy_group_counters, ticks, 16);
AT(enc_proxy_group_counters, pauses, 24);
AT(enc_proxy_group_counters, yields, 32);
AT(enc_proxy_group_counters, sleeps, 40);
AT(enc_proxy_group_counters, rings, 48);
AT(enc_proxy_group_counters, failures, 56);
AT(enc_proxy_group_counters, unfinished, 64);
AT(enc_proxy_group_counters, gid, 72);
AT(enc_proxy_group_counters, sharers, 76);
AT(enc_proxy_group_counters, tid, 80);
AT(enc_proxy_group_counters, reserved, 84);

SIZE(enc_proxy_group_health, 32);
AT(enc_proxy_group_health, struct_size, 0);
AT(enc_proxy_group_health, flags, 8);
AT(enc_proxy_group_health, stalled_us, 16);
AT(enc_proxy_group_health, state, 24);
AT(enc_proxy_group_health, workers_left, 28);

SIZE(enc_fifo_set, 48);
AT(enc_fifo_set, net_ops_info_fifo, 0);
AT(enc_fifo_set, net_ops_info_n, 8);
AT(enc_fifo_set, src_addr_fifo, 16);
AT(enc_fifo_set, src_addr_n, 24);
AT(enc_fifo_set, dest_addr_fifo, 32);
AT(enc_fifo_set, dest_addr_n, 40);

SIZE(enc_basic_block, 16);
AT(enc_basic_block, id, 0);
AT(enc_basic_block, reserved, 4);
AT(enc_basic_block, fifo_sets, 8);

SIZE(encd_context_config, 152);
AT(encd_context_config, struct_size, 0);
AT(encd_context_config, flags, 8);
AT(encd_context_config, comm, 16);
AT(encd_context_config, rank, 24);
AT(encd_context_config, stream_n, 28);
AT(encd_context_config, block_n, 32);
AT(encd_context_config, skip, 36);
AT(encd_context_config, blocks, 40);
AT(encd_context_config, start_words, 48);
AT(encd_context_config, polarity, 56);
AT(encd_context_config, arming, 60);
AT(encd_context_config, stop_at, 64);
AT(encd_context_config, barrier_slot, 68);
AT(encd_context_config, barrier_bus, 72);
AT(encd_context_config, barrier_ranks, 80);
AT(encd_context_config, barrier_rank_n, 88);
AT(encd_context_config, barrier_word_n, 92);
AT(encd_context_config, barrier_words, 96);
AT(encd_context_config, barrier_timeout_us, 104);
AT(encd_context_config, barrier_semaphores, 112);
AT(encd_context_config, glb_comm, 144);
CHECK(context_semaphores, sizeof(((encd_context_config *)0)->barrier_semaphores) == 4 * sizeof(uint32_t *));

SIZE(bp_config, 72);
AT(bp_config, struct_size, 0);
AT(bp_config, flags, 8);
AT(bp_config, job, 16);
AT(bp_config, timeout_us, 24);
AT(bp_config, rank, 32);
AT(bp_config, world, 36);
AT(bp_config, barriers, 40);
AT(bp_config, cells, 44);
AT(bp_config, any_user, 48);
AT(bp_config, first_rank, 52);
AT(bp_config, machine, 56);
AT(bp_config, machine_n, 60);
AT(bp_config, spins, 64);
AT(bp_config, yields, 68);

SIZE(enc_glb_comm_config, 80);
AT(enc_glb_comm_config, struct_size, 0);
AT(enc_glb_comm_config, flags, 8);
AT(enc_glb_comm_config, bus, 16);
AT(enc_glb_comm_config, settings, 24);
AT(enc_glb_comm_config, signature, 32);
AT(enc_glb_comm_config, library, 40);
AT(enc_glb_comm_config, device, 48);
AT(enc_glb_comm_config, rank_n, 52);
AT(enc_glb_comm_config, leader_comm, 56);
AT(enc_glb_comm_config, leaders, 64);
AT(enc_glb_comm_config, leader_n, 72);
AT(enc_glb_comm_config, machine, 76);

SIZE(enc_glb_comm_freed, 48);
AT(enc_glb_comm_freed, struct_size, 0);
AT(enc_glb_comm_freed, flags, 8);
AT(enc_glb_comm_freed, dead, 16);
AT(enc_glb_comm_freed, dead_n, 32);
AT(enc_glb_comm_freed, others, 36);
AT(enc_glb_comm_freed, detached, 40);
AT(enc_glb_comm_freed, reserved, 44);

SIZE(enc_proxy_report_config, 40);
AT(enc_proxy_report_config, struct_size, 0);
AT(enc_proxy_report_config, flags, 8);
AT(enc_proxy_report_config, directory, 16);
AT(enc_proxy_report_config, every_us, 24);
AT(enc_proxy_report_config, signal, 32);
AT(enc_proxy_report_config, socket, 36);

SIZE(enc_proxy_dynamic_sizes, 56);
AT(enc_proxy_dynamic_sizes, struct_size, 0);
AT(enc_proxy_dynamic_sizes, flags, 8);
AT(enc_proxy_dynamic_sizes, user, 16);
AT(enc_proxy_dynamic_sizes, send_size_bytes, 24);
AT(enc_proxy_dynamic_sizes, send_offset_bytes, 32);
AT(enc_proxy_dynamic_sizes, recv_offset_bytes, 40);
AT(enc_proxy_dynamic_sizes, set_recv_size_bytes, 48);

SIZE(bp_member, 8);
AT(bp_member, state, 0);
AT(bp_member, process, 4);

SIZE(bp_counters, 72);
AT(bp_counters, struct_size, 0);
AT(bp_counters, flags, 8);
AT(bp_counters, strangers, 16);
AT(bp_counters, unnamed_file, 24);
AT(bp_counters, unsealed, 32);
AT(bp_counters, unreserved, 40);
AT(bp_counters, hang_up, 48);
AT(bp_counters, unwatched, 56);
AT(bp_counters, polling, 64);

SIZE(enc_proxy_error, 64);
AT(enc_proxy_error, struct_size, 0);
AT(enc_proxy_error, flags, 8);
AT(enc_proxy_error, exec, 16);
AT(enc_proxy_error, in_state_us, 24);
AT(enc_proxy_error, text, 32);
AT(enc_proxy_error, gid, 40);
AT(enc_proxy_error, rank, 44);
AT(enc_proxy_error, kind, 48);
AT(enc_proxy_error, state, 52);
AT(enc_proxy_error, cause, 56);
AT(enc_proxy_error, status, 60);

/* Enumerations are 32-bit numbers whatever the compiler's own enumerations are. */
SIZE(NRT_STATUS, 4);
SIZE(proxy_task_state_type, 4);
SIZE(proxy_task_run_state_t, 4);
SIZE(net_addr_mark, 4);
SIZE(enc_proxy_release_t, 4);
SIZE(enc_proxy_polarity_t, 4);
SIZE(enc_proxy_arming_t, 4);
SIZE(enc_proxy_stop_t, 4);
SIZE(enc_proxy_log_level_t, 4);
SIZE(bp_barrier_progress_t, 4);
SIZE(enc_proxy_health_t, 4);
SIZE(enc_proxy_form_t, 4);
SIZE(bp_member_state_t, 4);
SIZE(enc_proxy_cause_t, 4);

ALIGN(net_ops_info, 8);
ALIGN(net_src_addr, 8);
ALIGN(net_dest_addr, 8);
ALIGN(enc_proxy_version_t, 8);
ALIGN(enc_proxy_library_version, 8);
ALIGN(enc_proxy_comm_config, 8);
ALIGN(enc_proxy_ticket, 8);
ALIGN(enc_proxy_execution, 8);
ALIGN(enc_proxy_group_config, 8);
ALIGN(enc_proxy_group_counters, 8);
ALIGN(enc_fifo_set, 8);
ALIGN(enc_basic_block, 8);
ALIGN(encd_context_config, 8);
ALIGN(enc_proxy_group_health, 8);
ALIGN(bp_config, 8);
ALIGN(enc_glb_comm_config, 8);
ALIGN(enc_glb_comm_freed, 8);
ALIGN(enc_proxy_report_config, 8);
ALIGN(enc_proxy_dynamic_sizes, 8);
ALIGN(bp_member, 4);
ALIGN(bp_counters, 8);
ALIGN(enc_proxy_error, 8);

/* The numbers of the specification's enumerations, and of the status codes at both ends. */
CHECK(network, PROXY_TASK_UNKNOWN == 0 && PROXY_TASK_NETWORK == 1 && PROXY_TASK_BARRIER == 2);
CHECK(states, PROXY_TASK_STATE_INIT == 0 && PROXY_TASK_STATE_PROGRESSING == 1
                  && PROXY_TASK_STATE_WAITING_DEVICE_TRIGGER == 2 && PROXY_TASK_STATE_IDLE == 3
                  && PROXY_TASK_STATE_DONE == 4);
CHECK(marks, NET_TRANSFER == 0 && NET_OP_COMPLETE == 1 && EXEC_COMPLETE == 2);
CHECK(codes, NRT_SUCCESS == 0 && NRT_QUEUE_FULL == 7 && NRT_QUEUE_EMPTY == 15 && NRT_EXEC_UNIT_UNRECOVERABLE == 101
                 && NRT_NETWORK_PROXY_FAILURE == 1206 && ENC_PROXY_ABORTED == -1 && ENC_PROXY_JOIN == -115
                 && ENC_PROXY_TASK_DONE == -116
                 && ENC_PROXY_NO_UNIQUE_ID == -119);

int layout_is_checked_by_the_compiler(void);
int layout_is_checked_by_the_compiler(void) { return 0; }
