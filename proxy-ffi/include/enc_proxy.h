/* The C interface of the proxy driver. Written by `cargo xtask header`; do not edit.
 *
 * - Every function returns a status, but for the two that return a text. 0 is success. `enc_proxy_last_error` says why the
 *   calling thread's last failed call failed.
 * - Handles are opaque and never followed: null, destroyed, made up or of another type is NRT_INVALID_HANDLE.
 * - A struct with `struct_size` is zeroed first, then its size is set: `T x; memset(&x, 0, sizeof x); x.struct_size = sizeof x;`.
 *   0 is the default of every field. A shorter struct (of an older header) has the defaults for what is missing; a longer
 *   one is accepted if what this release does not know is 0, else the answer is ENC_PROXY_UNSUPPORTED_FIELD.
 * - `flags` and `reserved` must be 0.
 * - Out-parameters are untouched on error, but where a function says so.
 * - Times are microseconds; ENC_PROXY_FOREVER never passes.
 * - ENC_PROXY_PANIC: a fault of this library was contained. The handle can only be destroyed then.
 * - The collective library, the log sink, the error handler and the functions for dynamic sizes must not throw: an exception (or a panic of another Rust
 *   runtime) that leaves one of their functions cannot be contained and aborts the process with a message.
 * - ENC_PROXY_WRONG_THREAD: on a worker's thread, inside a function that the library has called, nothing is waited for: calls that could only
 *   wait are refused, the timeouts of others count as 0.
 * - ENC_PROXY_FORKED: a forked child has none of the threads. It can exit, or exec; every call is an error at once.
 * - The shared library stays in the process after a dlclose: its threads end by themselves, later. A shared library of one's own with the static
 *   one in it needs the same: link it with -z nodelete.
 */

#ifndef ENC_PROXY_H
#define ENC_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A timeout that never passes. */
#define ENC_PROXY_FOREVER UINT64_MAX

/** Bytes of a unique id. */
#define ENC_PROXY_UNIQUE_ID_BYTES 128

/** Streams of a context at most. */
#define ENC_PROXY_MAX_STREAMS 4

/** Done semaphores of a barrier's leader at most. */
#define ENC_PROXY_MAX_SEMAPHORES 4

/** Receives messages with any tag. */
#define BP_ANY_TAG UINT32_MAX

/** Ranks of a bus at most. */
#define BP_MAX_RANKS 128

/** Bytes of a signature: a digest of the collectives that a rank is to run. */
#define ENC_PROXY_SIGNATURE_BYTES 16

/** Words of a set of ranks of a bus. */
#define ENC_PROXY_RANK_WORDS 2

/** One rank's place on the host bus. Any thread may use it, one at a time: a second call meanwhile is `ENC_PROXY_BUSY`. */
typedef struct bananaphone bananaphone;

/** One rank's side of a barrier. Any thread may use it, one at a time: a second call meanwhile is `ENC_PROXY_BUSY`. */
typedef struct bp_barrier bp_barrier;

/** One rank's global communicator. Any thread may use it, one at a time: a second call meanwhile is `ENC_PROXY_BUSY`. */
typedef struct enc_glb_comm enc_glb_comm;

/** A communicator whose proxy calls (start, progress, stop) belong to the contexts that are made with it. */
typedef struct enc_proxy_comm enc_proxy_comm;

/** One share of a group: the ranks of a group have one queue and one worker thread, `proxy-<tid>`. */
typedef struct enc_proxy_group enc_proxy_group;

/** A collective library that has been opened, has the right version and all of its 37 exports. */
typedef struct enc_proxy_library enc_proxy_library;

/**
 * Reports that come without a call: on a signal, at intervals, to tools such as `proxytop`, and after a failed task, a deadline or a
 * dead worker. One thread, `proxy-report`; one service per process. The same can be asked for by `NEURON_RT_PROXY_REPORT` and
 * its relatives, without a line of code.
 */
typedef struct enc_proxy_report_service enc_proxy_report_service;

/**
 * Settings by the names of their environment variables. What `enc_proxy_settings_set` gives beats the environment, which
 * beats the default. The environment is read once, when the object is made. They act in what is made with them: a group, a global communicator;
 * there their log level is set and what is used in another form than given is warned of, each time.
 */
typedef struct enc_proxy_settings enc_proxy_settings;

/** A loaded collective of one rank. */
typedef struct encd_context encd_context;

/** A status code: one of the constants, or a code of the collective library, which passes through unchanged. Zero is success. */
typedef int32_t NRT_STATUS;

/** This library's release. */
typedef struct enc_proxy_version_t {
    /** `sizeof(enc_proxy_version_t)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /** Grows when something is taken away or changes its meaning. */
    uint32_t major;
    /** Grows when something is added. */
    uint32_t minor;
    /** Grows with every other release. */
    uint32_t patch;
    /** 0. */
    uint32_t reserved;
    /** The compatibility id that the collective library must report. */
    uint64_t compatibility_id;
} enc_proxy_version_t;

/** How important a message is; a level lets itself and the more important ones pass. */
typedef uint32_t enc_proxy_log_level_t;

/**
 * Receives one message, terminated, without a line end, from any thread. On a worker's thread, which writes one when a call of the collective
 * library or a barrier fails, the other tasks of its group wait for the return. On the
 * watchdog's thread (`proxy-watchdog`), deadlines and stalls of all groups that come due meanwhile are late by as long as it takes. The text is good during the call. May call functions of this
 * header that do not wait; what they log comes to it, too, four calls deep. `user` is what `enc_proxy_set_log` was given.
 */
typedef void (*enc_proxy_log_sink)(void *user, enc_proxy_log_level_t level, const char *text);

/** What a collective library says it is. */
typedef struct enc_proxy_library_version {
    /** `sizeof(enc_proxy_library_version)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /** Major version. */
    uint64_t major;
    /** Minor version. */
    uint64_t minor;
    /** Patch. */
    uint64_t patch;
    /** Maintenance release. */
    uint64_t maintenance;
    /** The hash of its source, terminated; cut if longer. */
    uint8_t git_hash[24];
} enc_proxy_library_version;

/** A rank's communicator, for `enc_proxy_comm_create`. */
typedef struct enc_proxy_comm_config {
    /** `sizeof(enc_proxy_comm_config)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /** Ranks of the communicator, 1 or more. */
    uint32_t rank_n;
    /** This rank, below `rank_n`. */
    uint32_t rank;
    /**
     * What `enc_proxy_get_unique_id` gave to one rank and that rank gave to the others; 128 bytes. NULL = the
     * communicator of all devices of the job, whose ranks meet at `root_comm_id`.
     */
    const uint8_t *unique_id;
    /** `host:port` where the devices of the job meet; for `unique_id` = NULL only. */
    const char *root_comm_id;
    /** Device index of this rank; also its id on the host and for routing. */
    uint32_t nec_dev_id;
    /** 1 = no routes are searched for: for communicators without network. */
    uint32_t bypass_graph;
} enc_proxy_comm_config;

/** The claim on one task's status. Copy it freely; made-up ones are refused. All zero = no task. Never grows. */
typedef struct enc_proxy_ticket {
    /** Place of the task. */
    uint64_t slot;
    /** How often the place has been used. */
    uint64_t generation;
} enc_proxy_ticket;

/** The tasks of one execution, from `enc_proxy_enqueue`. */
typedef struct enc_proxy_execution {
    /** `sizeof(enc_proxy_execution)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /** The network task. */
    struct enc_proxy_ticket network;
    /** The barrier task; all zero if the context has no barrier. */
    struct enc_proxy_ticket barrier;
    /** Position of the network task among the appends of the context; strictly growing. */
    uint64_t sequence;
} enc_proxy_execution;

/** The kind of a task. */
typedef uint32_t proxy_task_state_type;

/** The state of a task. */
typedef uint32_t proxy_task_run_state_t;

/** Which group, for `enc_proxy_group_acquire`. */
typedef struct enc_proxy_group_config {
    /** `sizeof(enc_proxy_group_config)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /** The device; its group is `device / NEURON_RT_RANKS_PER_NETWORK_PROXY`. */
    uint32_t device;
    /** Must be 0. */
    uint32_t reserved;
    /** NULL = those of the environment. What they say of the worker counts for the first share only. */
    struct enc_proxy_settings *settings;
    /**
     * How long to wait, in microseconds, while somebody else is creating or releasing the group; 0 = not at all. Not at all either on a
     * worker's thread.
     */
    uint64_t timeout_us;
} enc_proxy_group_config;

/** How a group is released. */
typedef uint32_t enc_proxy_release_t;

/** Counters of a worker since its start. Each is exact by itself; together they are not one instant. */
typedef struct enc_proxy_group_counters {
    /** `sizeof(enc_proxy_group_counters)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /** Passes over the active tasks. */
    uint64_t ticks;
    /** Pauses between ticks that moved nothing. */
    uint64_t pauses;
    /** Times the worker gave its core away. */
    uint64_t yields;
    /** Times it slept. */
    uint64_t sleeps;
    /** Appends that had to wake it: each is one system call. */
    uint64_t rings;
    /** Tasks that ended with an error. */
    uint64_t failures;
    /** Tasks that are not done. */
    uint64_t unfinished;
    /** The group's id. */
    uint32_t gid;
    /** Shares of the group. */
    uint32_t sharers;
    /** Kernel id of the worker's thread. */
    uint32_t tid;
    /** 0. */
    uint32_t reserved;
} enc_proxy_group_counters;

/** How a group does. */
typedef uint32_t enc_proxy_health_t;

/** How a group does, as of the watchdog's last look. */
typedef struct enc_proxy_group_health {
    /** `sizeof(enc_proxy_group_health)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /** For how long the task that has moved least has not, in microseconds; 0 unless stalled. */
    uint64_t stalled_us;
    /** One of `ENC_PROXY_HEALTH_OK`, `_STALLED`, `_DEAD`. */
    enc_proxy_health_t state;
    /** Workers of this process whose release gave up while they were inside the collective library, and that still are. */
    uint32_t workers_left;
} enc_proxy_group_health;

/** One network op of a basic block; 96 bytes, as in release 2.31. */
typedef struct net_ops_info {
    /** Shift applied to values for the semaphore. */
    uint16_t sema_shift_offset;
    /** 0 or 1: a credit may be released before wire completion. */
    uint8_t early_send_completion;
    /** 0 or 1: receives may be posted ahead of the op. */
    uint8_t early_recv_posting;
    /** Semaphore raised when the sender side is ready; NULL = none. */
    uint32_t *inc_send_handshake;
    /** Semaphore raised by the number of completed sends. */
    uint32_t *inc_send_complete;
    /** Semaphore raised when the receiver side is ready; NULL = none. */
    uint32_t *inc_recv_handshake;
    /** Semaphore raised by the number of completed receives. */
    uint32_t *inc_recv_complete;
    /** Number of source entries of this op, terminator not counted. */
    uint32_t tx_entry_cnt;
    /** Number of destination entries of this op, terminator not counted. */
    uint32_t rx_entry_cnt;
    /** Modulus of the host index ring: 512. */
    uint32_t net_idx_loop_size;
    /** Credits posted at first touch, 1 to 511. */
    uint32_t initial_send_credits;
    /** Credits released at op end, 1 to 511. */
    uint32_t ending_recv_credits;
    /** Bytes of one element, 1 to 16. */
    size_t data_type_sz;
    /** 0 or 1: sizes are known only at post time. */
    uint8_t is_dynamic_send_recv_sz;
    /** 0 or 1: the peer is taken per entry rather than from the ring. */
    uint8_t variable_peer;
    /** 0 or 1: the op is timed. */
    uint8_t add_to_histogram;
    /** The id of the block that the op belongs to. */
    uint32_t basic_block_id;
    /** Index of the op inside its function, for messages. */
    uint32_t func_rel_op_idx;
    /** Completions after which the next op begins. */
    uint32_t unrolled_count;
    /** The op's `enc_channel`; not NULL. */
    void *enc_channel;
} net_ops_info;

/** `net_addr_mark`: what an entry of an address array is. */
typedef uint32_t net_addr_mark;

/** One buffer to send; 72 bytes, as in release 2.31. */
typedef struct net_src_addr {
    /** Index of the owning op in the same block's op array. */
    uint32_t net_op_idx;
    /** Completion weight of the entry. */
    int32_t complete;
    /** Device address of the buffer. */
    uint64_t dev_addr;
    /** Host mapping of the buffer. */
    void *host_addr;
    /** Registration handle. */
    void *nccl_mhandle;
    /** Bytes; 0 is legal and makes no network request. */
    uint32_t size;
    /** `NET_TRANSFER`, `NET_OP_COMPLETE` or `EXEC_COMPLETE`. */
    net_addr_mark mark;
    /** Label for timing. */
    void *proxy_histogram_tag;
    /** Peer of a mesh entry; -1 = the ring neighbour. */
    int32_t dst_rank;
    /** Remote buffer of the local read path. */
    void *dst_addr;
    /** Remote registration of the local read path. */
    void *dst_mhandle;
} net_src_addr;

/** One buffer to receive into; 48 bytes, as in release 2.31. */
typedef struct net_dest_addr {
    /** Index of the owning op in the same block's op array. */
    uint32_t net_op_idx;
    /** Completion weight of the entry. */
    int32_t complete;
    /** Device address of the buffer. */
    uint64_t dev_addr;
    /** Host mapping of the buffer. */
    void *host_addr;
    /** Registration handle. */
    void *nccl_mhandle;
    /** Bytes; 0 is legal and makes no network request. */
    uint32_t size;
    /** `NET_TRANSFER`, `NET_OP_COMPLETE` or `EXEC_COMPLETE`. */
    net_addr_mark mark;
    /** Peer of a mesh entry; -1 = the ring neighbour. */
    int32_t src_rank;
} net_dest_addr;

/** The three FIFO arrays of one stream of one basic block. Never grows: contexts take arrays of it. */
typedef struct enc_fifo_set {
    /** The ops, at least one. */
    const struct net_ops_info *net_ops_info_fifo;
    /** Their number. */
    size_t net_ops_info_n;
    /** What is sent; the last entry is marked `EXEC_COMPLETE`. */
    const struct net_src_addr *src_addr_fifo;
    /** Its entries. */
    size_t src_addr_n;
    /** What is received; the last entry is marked `EXEC_COMPLETE`. */
    const struct net_dest_addr *dest_addr_fifo;
    /** Its entries. */
    size_t dest_addr_n;
} enc_fifo_set;

/** A basic block. Never grows: contexts take arrays of it. */
typedef struct enc_basic_block {
    /** Its id, another for each block of a context. */
    uint32_t id;
    /** Must be 0. */
    uint32_t reserved;
    /** One set per stream of the context. */
    const struct enc_fifo_set *fifo_sets;
} enc_basic_block;

/** Which value of a start word means that the device has reached the network stage. */
typedef uint32_t enc_proxy_polarity_t;

/** Who makes start words ready for the next execution. */
typedef uint32_t enc_proxy_arming_t;

/** When the library is told to stop. */
typedef uint32_t enc_proxy_stop_t;

/** What a context is made of, for `encd_context_create`. All arrays are copied. */
typedef struct encd_context_config {
    /** `sizeof(encd_context_config)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /** The communicator. */
    struct enc_proxy_comm *comm;
    /** Rank whose tasks these are, below the communicator's ranks. */
    uint32_t rank;
    /** Streams, 0 to 4. */
    uint32_t stream_n;
    /** Basic blocks, 1 to 1024; they run in order. 0 with no streams. */
    uint32_t block_n;
    /** 1 = the network stage is skipped: its task is done at its first step. */
    uint32_t skip;
    /** The blocks. */
    const struct enc_basic_block *blocks;
    /** The start words, one per stream: the network task waits for the device. NULL = it starts at once. */
    uint32_t *const *start_words;
    /** `ENC_PROXY_POLARITY_SPECIFICATION` or `ENC_PROXY_POLARITY_HEADER`. */
    enc_proxy_polarity_t polarity;
    /** `ENC_PROXY_ARM_ON_ENQUEUE`, `ENC_PROXY_ARM_EXPLICIT` or `ENC_PROXY_ARM_BY_DEVICE`. */
    enc_proxy_arming_t arming;
    /** `ENC_PROXY_STOP_AT_END` or `ENC_PROXY_STOP_AT_SWITCH`. */
    enc_proxy_stop_t stop_at;
    /** Slot of the host bus for the execution barrier; counts with `barrier_bus` or `glb_comm`, as all that begins with `barrier_`. */
    uint32_t barrier_slot;
    /** An execution has a barrier task, too, over this host bus. NULL = it has none, but with `glb_comm`. */
    struct bananaphone *barrier_bus;
    /** Ranks of the bus that take part. NULL = all. */
    const uint16_t *barrier_ranks;
    /** Their number; 0 with NULL. */
    uint32_t barrier_rank_n;
    /** Start words of the barrier task, 0 to 4; with none it starts at once. */
    uint32_t barrier_word_n;
    /** The words. */
    uint32_t *const *barrier_words;
    /** How long an execution may be at the barrier, in microseconds; 0 = 120 seconds. */
    uint64_t barrier_timeout_us;
    /** Semaphores that the barrier's leader (its lowest rank) raises by one when all have arrived; the NULL ones are left out. */
    uint32_t *barrier_semaphores[ENC_PROXY_MAX_SEMAPHORES];
    /**
     * In place of `barrier_bus`: the barrier is over the bus of this global communicator, whose group the context is in. Cannot be freed before
     * the context is destroyed.
     */
    struct enc_glb_comm *glb_comm;
} encd_context_config;

/** Why an error handler is called. */
typedef uint32_t enc_proxy_cause_t;

/**
 * One error, for an `enc_proxy_error_handler`. Good during the call, its text, too. A newer release adds fields at the end, and makes
 * `struct_size` larger.
 */
typedef struct enc_proxy_error {
    /** `sizeof(enc_proxy_error)` of the release that calls. */
    size_t struct_size;
    /** 0. */
    uint64_t flags;
    /** The task's execution. */
    uint64_t exec;
    /** For how long the task has been in its state, in microseconds; 0 if that is not known any more. */
    uint64_t in_state_us;
    /** All of this in one line, terminated, without a line end. */
    const char *text;
    /** The group of the task. */
    uint32_t gid;
    /** Its rank. */
    uint32_t rank;
    /** `PROXY_TASK_NETWORK` or `PROXY_TASK_BARRIER`. */
    proxy_task_state_type kind;
    /** Its state; before the end if it has ended. */
    proxy_task_run_state_t state;
    /** One of `ENC_PROXY_CAUSE_FAILED` to `ENC_PROXY_CAUSE_EARLY`. */
    enc_proxy_cause_t cause;
    /** What the task ends with, as its consumer gets it; `NRT_SUCCESS` if it goes on. */
    NRT_STATUS status;
} enc_proxy_error;

/**
 * Receives one error of any group. Runs on the watchdog's thread (`proxy-watchdog`), or on the one that is inside `enc_proxy_group_release` or
 * `enc_free_global_comm`, on both at once if need be. Other deadlines wait for its return. May call functions of this
 * header that do not wait, `enc_proxy_set_error_handler` among them: reports, health, counters and polls, or aborts with a timeout of 0. Must
 * return: neither throw nor `longjmp` out of it. `user` is what `enc_proxy_set_error_handler` was given.
 */
typedef void (*enc_proxy_error_handler)(void *user, const struct enc_proxy_error *error);

/** The form of a report. */
typedef uint32_t enc_proxy_form_t;

/** What the service does, for `enc_proxy_report_service_start`. All reports go to the log, those of errors, too. */
typedef struct enc_proxy_report_config {
    /** `sizeof(enc_proxy_report_config)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /** Reports go into this directory as JSON files, too; UTF-8. NULL = they do not. */
    const char *directory;
    /** A report this often, in microseconds; 0 = none. It is one file, which is replaced each time, and its verdict in the log. */
    uint64_t every_us;
    /** A report when this signal comes, after which the handler that was there is called; 0 = none. */
    uint32_t signal;
    /** 1 = tools of the same user are answered. */
    uint32_t socket;
} enc_proxy_report_config;

/** What a rank is told about its bus, for `bp_create`. All ranks must be told the same, but for `rank`. */
typedef struct bp_config {
    /** `sizeof(bp_config)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /** Names the bus on this machine, another one for every job and every bus of a job; UTF-8, not empty. */
    const char *job;
    /** How long to join, in microseconds; 0 = 60 seconds. */
    uint64_t timeout_us;
    /** This rank. */
    uint32_t rank;
    /** Ranks of the bus, 1 to 128. */
    uint32_t world;
    /** Barrier slots, 1 to 64; 0 = 8. */
    uint32_t barriers;
    /**
     * Cells of 64 bytes in each rank's ring, a power of two from 2 to 65536; 0 = 256. A message of up to 48 bytes takes one, a longer
     * one another for each 64 bytes.
     */
    uint32_t cells;
    /** 1 = ranks may run as different users, each of which can break the bus for the others. */
    uint32_t any_user;
    /** With `machine_n`: the number in the job of the bus's rank 0. Else 0. */
    uint32_t first_rank;
    /** With `machine_n`: the machine, below that. Else 0. */
    uint32_t machine;
    /**
     * Machines of a job whose ranks are on several, with a bus each: messages name ranks by their numbers in the job. 0 or 1 = the bus has
     * all ranks.
     */
    uint32_t machine_n;
    /**
     * How often this rank, when it waits, pauses and looks again before it yields; 0 = 250 times, or not at all where more ranks run on its
     * CPUs than there are: those of the thread that calls `bp_create`, and ranks with the same. A look is some loads and a pause,
     * a few tens of nanoseconds. Any number is taken: it costs the CPU, and hides neither the deadline nor a death.
     */
    uint32_t spins;
    /**
     * How often it then yields its CPU and looks before it sleeps; 0 = as long as it has waited for less than 50 microseconds.
     * Any number, likewise.
     */
    uint32_t yields;
} bp_config;

/** Where a rank of a bus is. */
typedef uint32_t bp_member_state_t;

/** One rank of a bus. Never grows. */
typedef struct bp_member {
    /** Where it is. */
    bp_member_state_t state;
    /** Its process id as the rank that opened the bus sees it; 0 = it has none there. */
    uint32_t process;
} bp_member;

/**
 * What a bus has counted on this rank; strangers are counted on the rank that opened it. The others count how often the bus has had to do
 * without something that the system refuses; each is announced by a warning, too.
 */
typedef struct bp_counters {
    /** `sizeof(bp_counters)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /** Connections that were closed because they were none of the bus's, or said nothing. */
    uint64_t strangers;
    /** The shared memory is an unnamed file. */
    uint64_t unnamed_file;
    /** The size of the shared memory is not sealed: a faulty peer can cut it. */
    uint64_t unsealed;
    /** The shared memory is not reserved: its first touch can fail. */
    uint64_t unreserved;
    /** The death of a peer is noticed by the hang-up of its socket. */
    uint64_t hang_up;
    /** The death of some peers is noticed by other processes only. */
    uint64_t unwatched;
    /** Waits poll every millisecond. */
    uint64_t polling;
} bp_counters;

/** How far a barrier is. */
typedef uint32_t bp_barrier_progress_t;

/** What a global communicator is made of, for `enc_setup_global_comm`. */
typedef struct enc_glb_comm_config {
    /** `sizeof(enc_glb_comm_config)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /**
     * The host bus, which all ranks of this machine join. Its `timeout_us` is the deadline of each step that waits for other ranks; 0 =
     * `NEURON_RT_PROXY_BUS_TIMEOUT`.
     */
    const struct bp_config *bus;
    /** NULL = those of the environment. */
    struct enc_proxy_settings *settings;
    /** A digest of this rank's collectives, 16 bytes: all ranks must have the same. NULL = nothing is exchanged, on no rank. */
    const uint8_t *signature;
    /** On rank 0 with a signature: what makes the unique id that all ranks get. Else not looked at. */
    struct enc_proxy_library *library;
    /** The device of this rank, which says what group it is in. */
    uint32_t device;
    /** Ranks of the communicator that the unique id is for; 0 = those of the bus. */
    uint32_t rank_n;
    /**
     * On the lowest rank of one machine among several, its leader: the library's communicator of all ranks, by whose bootstrap messages the leaders
     * exchange, so that barriers span the machines. NULL = there is one machine, or this rank leads none.
     */
    struct enc_proxy_comm *leader_comm;
    /** The leaders' ranks in `leader_comm`, in order of machine, the same on all of them. */
    const uint32_t *leaders;
    /** Their number, at least 1 with `leader_comm`; else 0. */
    uint32_t leader_n;
    /** The place of this machine among them; machine 0 decides. */
    uint32_t machine;
} enc_glb_comm_config;

/** How a global communicator was freed. */
typedef struct enc_glb_comm_freed {
    /** `sizeof(enc_glb_comm_freed)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /** Ranks of the bus that had died without hanging up: rank `r` is bit `r % 64` of `dead[r / 64]`. */
    uint64_t dead[ENC_PROXY_RANK_WORDS];
    /** Their number. */
    uint32_t dead_n;
    /** Shares of the group that are left. */
    uint32_t others;
    /** 1 = the exchange between machines did not end in time: it may be inside the library for ever, so that `leader_comm` cannot be destroyed. */
    uint32_t detached;
    /** 0. */
    uint32_t reserved;
} enc_glb_comm_freed;

/**
 * The embedder's answer to one question of the library: a size or an offset in bytes.
 *
 * - `user`: as given to `enc_proxy_set_dynamic_sizes`.
 * - `host_mem`: the library's, as it is: the host memory (`enc_host_mem`) that the connector names for its dynamic input.
 * - `elem`: the size of an element, by its name: no source says what it is. `peer`: the rank asked about. `rank_n`: ranks of the communicator.
 *
 * Called by a worker inside a tick: it must not wait, and must not call the collective library.
 */
typedef size_t (*enc_proxy_dynamic_get)(void *user, void *host_mem, size_t elem, int peer, int rank_n);

/** Takes the number of bytes that were received from the rank `src`. The other arguments and what it may do: as for `enc_proxy_dynamic_get`. */
typedef void (*enc_proxy_dynamic_set)(void *user,
                                      void *host_mem,
                                      size_t bytes,
                                      size_t elem,
                                      int src,
                                      int rank_n);

/** The embedder's functions for dynamic sizes, for `enc_proxy_set_dynamic_sizes`; none may be NULL. */
typedef struct enc_proxy_dynamic_sizes {
    /** `sizeof(enc_proxy_dynamic_sizes)`. */
    size_t struct_size;
    /** Must be 0. */
    uint64_t flags;
    /** Handed to each function as it is. */
    void *user;
    /** Answers `nec_get_dynamic_send_size_bytes`. */
    enc_proxy_dynamic_get send_size_bytes;
    /** Answers `nec_get_dynamic_send_offset_bytes`. */
    enc_proxy_dynamic_get send_offset_bytes;
    /** Answers `nec_get_dynamic_recv_offset_bytes`. */
    enc_proxy_dynamic_get recv_offset_bytes;
    /** Takes what `nec_set_recv_size_bytes` tells. */
    enc_proxy_dynamic_set set_recv_size_bytes;
} enc_proxy_dynamic_sizes;

/** Success. */
#define NRT_SUCCESS 0

/** Non-specific failure. */
#define NRT_FAILURE 1

/** An argument is not accepted. */
#define NRT_INVALID 2

/** A handle is null, destroyed, of another type, or was never given out. */
#define NRT_INVALID_HANDLE 3

/** A resource could not be had. */
#define NRT_RESOURCE 4

/** The deadline passed. */
#define NRT_TIMEOUT 5

/** Hardware error. */
#define NRT_HW_ERROR 6

/** The rank's tasks fill its places; nothing was appended. */
#define NRT_QUEUE_FULL 7

/** Not enough neuron cores to load. */
#define NRT_LOAD_NOT_ENOUGH_NC 9

/** Unsupported program version. */
#define NRT_UNSUPPORTED_NEFF_VERSION 10

/** Host memory could not be allocated. */
#define NRT_FAIL_HOST_MEM_ALLOC 11

/** The runtime is not initialised. */
#define NRT_UNINITIALIZED 13

/** What was asked is being released. */
#define NRT_CLOSED 14

/** Queue empty. */
#define NRT_QUEUE_EMPTY 15

/** The execution unit cannot recover. */
#define NRT_EXEC_UNIT_UNRECOVERABLE 101

/** Bad input of an execution. */
#define NRT_EXEC_BAD_INPUT 1002

/** Execution completed with numerical errors. */
#define NRT_EXEC_COMPLETED_WITH_NUM_ERR 1003

/** Execution completed with errors. */
#define NRT_EXEC_COMPLETED_WITH_ERR 1004

/** The neuron core is busy. */
#define NRT_EXEC_NC_BUSY 1005

/** Out-of-bounds access in an execution. */
#define NRT_EXEC_OOB 1006

/** A collective is pending. */
#define NRT_COLL_PENDING 1100

/** Hardware error in collectives. */
#define NRT_EXEC_HW_ERR_COLLECTIVES 1200

/** Uncorrectable device memory error. */
#define NRT_EXEC_HW_ERR_HBM_UE 1201

/** Uncorrectable neuron core error. */
#define NRT_EXEC_HW_ERR_NC_UE 1202

/** DMA abort. */
#define NRT_EXEC_HW_ERR_DMA_ABORT 1203

/** Notification queue overflow. */
#define NRT_EXEC_SW_NQ_OVERFLOW 1204

/** Repairable device memory error. */
#define NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE 1205

/** Network proxy failure. */
#define NRT_NETWORK_PROXY_FAILURE 1206

/** Of a task: aborted by its owner. */
#define ENC_PROXY_ABORTED (-1)

/** The worker died; every task of its queue ended with this. */
#define ENC_PROXY_WORKER_DIED (-2)

/** Of a task: its context was destroyed before it ran. */
#define ENC_PROXY_STALE_CONTEXT (-3)

/** Of a barrier task: the context has no host barrier, or is at it already. */
#define ENC_PROXY_BARRIER_MISUSE (-4)

/** A rank that is needed is dead or has left. */
#define ENC_PROXY_PEER_DEAD (-5)

/** A rank waited at the barrier longer than its deadline. */
#define ENC_PROXY_BARRIER_TIMEOUT (-6)

/** Ranks arrived at the barrier for different executions. */
#define ENC_PROXY_MPMD (-7)

/** A rank gave up at the barrier. */
#define ENC_PROXY_PEER_CANCELLED (-8)

/** The shared memory of the host bus holds something that cannot be. */
#define ENC_PROXY_BUS_CORRUPT (-9)

/** The call ran into a fault of this library. The handle can only be destroyed. */
#define ENC_PROXY_PANIC (-100)

/** An earlier call on the handle has panicked. It can only be destroyed. */
#define ENC_PROXY_POISONED (-101)

/** The process was forked from the one that used the library first. */
#define ENC_PROXY_FORKED (-102)

/** The call would wait for the worker whose thread it is on (a callback of the collective library, say). */
#define ENC_PROXY_WRONG_THREAD (-103)

/** A struct of a newer release uses a field that this one does not have. */
#define ENC_PROXY_UNSUPPORTED_FIELD (-104)

/** The buffer is too small; the length that is needed has been written. */
#define ENC_PROXY_TOO_SMALL (-105)

/** The object is used by another thread, or by what must be destroyed before it. */
#define ENC_PROXY_BUSY (-106)

/** The task's end has been reported already. */
#define ENC_PROXY_ALREADY_CONSUMED (-107)

/** No such task was appended. */
#define ENC_PROXY_UNKNOWN_TASK (-108)

/** The device had written a start word before the execution was armed. Nothing was appended. */
#define ENC_PROXY_FIRED_BEFORE_ARM (-109)

/** The deadline passed while the worker was inside one call of the collective library. */
#define ENC_PROXY_STUCK (-110)

/** The collective library cannot be used; the text says every name tried and every symbol missing. */
#define ENC_PROXY_LOAD (-111)

/** A FIFO array is malformed; the text names array, index and field. */
#define ENC_PROXY_FIFO (-112)

/** A setting is not accepted; the text names variable, value and what is. */
#define ENC_PROXY_SETTING (-113)

/** More than 1024 messages of the rank with other tags, or 64 MiB of them, wait to be received. */
#define ENC_PROXY_CROWDED (-114)

/** The rank could not join the host bus. */
#define ENC_PROXY_JOIN (-115)

/** The task has its final code already, which waits to be consumed. */
#define ENC_PROXY_TASK_DONE (-116)

/** An op has dynamic sizes, and `enc_proxy_set_dynamic_sizes` was not called. */
#define ENC_PROXY_NO_DYNAMIC_SIZES (-117)

/** The ranks of a global communicator have different collectives, or one of them has failed. */
#define ENC_PROXY_MISMATCH (-118)

/** The ranks of a global communicator have got no unique id. */
#define ENC_PROXY_NO_UNIQUE_ID (-119)

/** Something failed. */
#define ENC_PROXY_LOG_ERROR 0

/** Something works, but not as asked. */
#define ENC_PROXY_LOG_WARN 1

/** What was decided. */
#define ENC_PROXY_LOG_INFO 2

/** What a worker does, task by task: a message per barrier task, on the worker's time. */
#define ENC_PROXY_LOG_DEBUG 3

/** The entry moves data. */
#define NET_TRANSFER 0

/** The entry ends one op. */
#define NET_OP_COMPLETE 1

/** The entry ends the block for one execution; the last entry of each array. */
#define EXEC_COMPLETE 2

/** No kind. */
#define PROXY_TASK_UNKNOWN 0

/** Crosses the seam into the collective library. */
#define PROXY_TASK_NETWORK 1

/** The host's execution barrier. */
#define PROXY_TASK_BARRIER 2

/** Appended, not stepped yet. */
#define PROXY_TASK_STATE_INIT 0

/** In flight, and moved in its last step. */
#define PROXY_TASK_STATE_PROGRESSING 1

/** Its streams' start words have not all been written by the device. */
#define PROXY_TASK_STATE_WAITING_DEVICE_TRIGGER 2

/** In flight, but nothing moved in its last step. Not terminal. */
#define PROXY_TASK_STATE_IDLE 3

/** Terminal, with a status code. */
#define PROXY_TASK_STATE_DONE 4

/** Tasks are driven to their end. */
#define ENC_PROXY_DRAIN 0

/** Tasks end at once with `ENC_PROXY_ABORTED`. */
#define ENC_PROXY_ABORT 1

/** Every task moves, or there is none. */
#define ENC_PROXY_HEALTH_OK 0

/** A task has not moved for longer than the stall threshold (`NEURON_RT_PROXY_STALL_MS`). */
#define ENC_PROXY_HEALTH_STALLED 1

/** The worker died. */
#define ENC_PROXY_HEALTH_DEAD 2

/** The specification's: 0xFFFFFFFF = not fired, any other value = fired. */
#define ENC_PROXY_POLARITY_SPECIFICATION 0

/** The published vendor header's: 0xFFFFFFFF = fired, any other value = not. */
#define ENC_PROXY_POLARITY_HEADER 1

/** Enqueue arms; the device's doorbell is rung after enqueue has returned. */
#define ENC_PROXY_ARM_ON_ENQUEUE 0

/** The embedder calls `enc_proxy_arm`, before the device's doorbell. */
#define ENC_PROXY_ARM_EXPLICIT 1

/** The device writes the armed value itself, and fires with another value than 0. */
#define ENC_PROXY_ARM_BY_DEVICE 2

/** Once per started stream, when the task ends. */
#define ENC_PROXY_STOP_AT_END 0

/** The specification's letter: every stream at every switch of blocks. */
#define ENC_PROXY_STOP_AT_SWITCH 1

/** The task ended with an error. */
#define ENC_PROXY_CAUSE_FAILED 0

/** The task's deadline has passed (`NEURON_RT_PROXY_TASK_DEADLINE_MS`): it ends with `NRT_TIMEOUT`. */
#define ENC_PROXY_CAUSE_TIMEOUT 1

/** A rank that the task's barrier needs is dead or has left. */
#define ENC_PROXY_CAUSE_PEER_DEAD 2

/** The group's worker died, and its tasks with it: one call for each. */
#define ENC_PROXY_CAUSE_WORKER_DIED 3

/** The task has not moved for longer than `NEURON_RT_PROXY_STALL_MS`; it goes on. */
#define ENC_PROXY_CAUSE_STALLED 4

/** A part of the task's deadline has passed; it goes on. */
#define ENC_PROXY_CAUSE_EARLY 5

/** Lines for people, the verdict first. */
#define ENC_PROXY_TEXT 0

/** One JSON object; its member `schema` is `proxy-report/1.1`; within the first of its two numbers members are only added. */
#define ENC_PROXY_JSON 1

/** Counters and latencies as metrics in the text format of Prometheus; the JSON has them, too. */
#define ENC_PROXY_PROMETHEUS 2

/** It has not come yet. */
#define BP_MEMBER_FREE 0

/** It is joining. */
#define BP_MEMBER_JOINING 1

/** It is there. */
#define BP_MEMBER_JOINED 2

/** It has hung up. */
#define BP_MEMBER_LEFT 3

/** Its process died without hanging up. */
#define BP_MEMBER_DEAD 4

/** Not all have arrived. */
#define BP_BARRIER_PENDING 0

/** All have arrived, and this rank, the leader, is to call `bp_barrier_release`. */
#define BP_BARRIER_COMPLETE 1

/** This rank has passed. */
#define BP_BARRIER_PASSED 2

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * A sentence for a status code, without its number. Never null; static. `"unknown library code"` for a code that
 * only the collective library knows.
 *
 * Threads: any, also in a forked child. Never fails.
 */
const char *enc_proxy_status_text(NRT_STATUS status);

/**
 * The release that runs, which may be another than the header's. Errors: `NRT_INVALID`. Threads: any.
 *
 * The caller promises:
 * `version`, if not null, is readable and writable for the size that it says.
 */
NRT_STATUS enc_proxy_version(struct enc_proxy_version_t *version);

/**
 * Why the calling thread's last failed call failed: function, what was wrong, what is accepted. Empty before the first
 * failure, never null. Good until the thread's next failed call, or its end; a call that succeeds leaves it as it is.
 *
 * Threads: any, also in a forked child. Never fails.
 */
const char *enc_proxy_last_error(void);

/**
 * Says where messages go, and how important they must be.
 *
 * - `sink`: called once per message; NULL = standard error, as at first.
 * - `user`: handed to `sink` as it is.
 * - `level`: `ENC_PROXY_LOG_ERROR`, `ENC_PROXY_LOG_WARN` (as at first), `ENC_PROXY_LOG_INFO` or `ENC_PROXY_LOG_DEBUG`. It beats
 *   `NEURON_RT_LOG_LEVEL` of the environment; one that `enc_proxy_settings_set` gives is set where the settings are used, so the later one holds.
 *
 * When it returns, no call of the former sink is running, and none will begin: its `user` may be freed. It waits for calls that run, so hold no
 * lock that the sink takes. Inside a sink or an error handler, and on a worker's thread, it waits for nothing; other threads may then still be
 * inside the former one.
 *
 * Errors: `NRT_INVALID`. Threads: any, at any time.
 *
 * The caller promises:
 * Until it has been replaced as above: `sink` may be called with `user` from any thread, from several at once, too.
 */
NRT_STATUS enc_proxy_set_log(enc_proxy_log_sink sink,
                             void *user,
                             enc_proxy_log_level_t level);

/**
 * Opens a collective library: a path with a slash is taken as it is, a bare name (`libnccom.so`) as the dynamic loader finds it.
 * A path has to lead to a regular file that is a whole library of this machine: what would wait, or end the process by `SIGBUS`, is an error.
 * The first call for a name decides: later ones get the same library, or the same error. The file stays mapped until the process ends.
 *
 * - `name`: terminated, at most 4095 bytes.
 * - `library`: receives the handle; give it back by `enc_proxy_library_close`.
 *
 * Errors: `ENC_PROXY_LOAD`, `NRT_INVALID`, `NRT_RESOURCE` (64 are open).
 * Threads: any; may take as long as the file's constructors do.
 *
 * The caller promises:
 * `name` is readable up to its end, `library` writable. The file's exports have the signatures of release 2.31.
 */
NRT_STATUS enc_proxy_library_open(const char *name,
                                  struct enc_proxy_library **library);

/**
 * Gives a handle back. The library stays mapped; communicators made with the handle stay good.
 *
 * Errors: `NRT_INVALID_HANDLE`. Threads: any.
 */
NRT_STATUS enc_proxy_library_close(struct enc_proxy_library *library);

/**
 * What the library says it is. Errors: `NRT_INVALID_HANDLE`, `NRT_INVALID`. Threads: any.
 *
 * The caller promises:
 * `version`, if not null, is readable and writable for the size that it says.
 */
NRT_STATUS enc_proxy_library_get_version(struct enc_proxy_library *library,
                                         struct enc_proxy_library_version *version);

/**
 * The file that was opened, links resolved.
 *
 * - `buffer`, `bytes`: room for the text and its terminator; `NULL`, 0 to ask for the length.
 * - `length`: receives the length without terminator, also with `ENC_PROXY_TOO_SMALL`; may be NULL.
 *
 * Errors: `ENC_PROXY_TOO_SMALL`, `NRT_INVALID_HANDLE`, `NRT_INVALID`. Threads: any.
 *
 * The caller promises:
 * `buffer` is writable for `bytes`, `length` writable or null.
 */
NRT_STATUS enc_proxy_library_get_path(struct enc_proxy_library *library,
                                      char *buffer,
                                      size_t bytes,
                                      size_t *length);

/**
 * Makes the id of a new communicator, on one of its ranks; the embedder passes it on to the others, over a host bus, say.
 *
 * - `rank_n`: ranks of the communicator.
 * - `unique_id`: receives 128 bytes.
 *
 * Errors: the library's code, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any. May open sockets.
 *
 * The caller promises:
 * `unique_id` is writable for 128 bytes.
 */
NRT_STATUS enc_proxy_get_unique_id(struct enc_proxy_library *library,
                                   uint32_t rank_n,
                                   uint8_t *unique_id);

/**
 * Joins a communicator: waits, as long as the library does, until all of its ranks have called it.
 *
 * - `comm`: receives the handle; give it back by `enc_proxy_comm_destroy`, which frees the communicator.
 *
 * Errors: the library's code, `NRT_INVALID`, `NRT_INVALID_HANDLE`, `NRT_RESOURCE` (1024 are alive).
 * Threads: any but a worker's (`ENC_PROXY_WRONG_THREAD`); one call at a time per device.
 *
 * The caller promises:
 * `config` is readable for the size that it says and its addresses for what they stand for, `comm` writable. The unique id is one of
 * `enc_proxy_get_unique_id`. Nobody but contexts made with the handle makes proxy calls on the communicator.
 */
NRT_STATUS enc_proxy_comm_create(struct enc_proxy_library *library,
                                 const struct enc_proxy_comm_config *config,
                                 struct enc_proxy_comm **comm);

/**
 * Takes over the proxy calls of a communicator that the embedder has made by itself, and will free.
 *
 * - `nccl_comm`: as the library gave it.
 * - `rank_n`: its ranks.
 * - `comm`: receives the handle; give it back by `enc_proxy_comm_destroy` before the communicator is freed.
 *
 * Errors: `NRT_INVALID`, `NRT_INVALID_HANDLE`, `NRT_RESOURCE`. Threads: any.
 *
 * The caller promises:
 * `nccl_comm` is a communicator of `library` and alive until the handle is destroyed; nobody else makes proxy calls on it. `comm` is writable.
 */
NRT_STATUS enc_proxy_comm_adopt(struct enc_proxy_library *library,
                                void *nccl_comm,
                                uint32_t rank_n,
                                struct enc_proxy_comm **comm);

/**
 * The connector of a channel in one direction, which the collective's channel records point to.
 *
 * - `pattern`: 0 ring, 1 mesh. `channel`: its number. `is_send`: 1 send, 0 receive.
 * - `connector`: receives the library's handle, which lives as long as the communicator.
 *
 * Errors: the library's code, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any.
 *
 * The caller promises:
 * `connector` is writable.
 */
NRT_STATUS enc_proxy_comm_get_connector(struct enc_proxy_comm *comm,
                                        uint32_t pattern,
                                        uint32_t channel,
                                        uint32_t is_send,
                                        void **connector);

/**
 * Destroys a communicator: one that was made here is freed, one that was taken over is the embedder's again.
 *
 * - `timeout_us`: how long to wait, in microseconds, until the worker lets go of contexts that were just destroyed; not at all on a worker's thread.
 *
 * Errors: `ENC_PROXY_BUSY` (contexts, or a global communicator, use it; the handle stays good), `NRT_INVALID_HANDLE`, the library's code (the handle is gone).
 * Threads: any but a worker's.
 */
NRT_STATUS enc_proxy_comm_destroy(struct enc_proxy_comm *comm,
                                  uint64_t timeout_us);

/**
 * Makes settings from the environment as it is now. A bad value there is reported when the settings are used, and not at all if
 * `enc_proxy_settings_set` gives another.
 *
 * - `settings`: receives the handle; give it back by `enc_proxy_settings_destroy`.
 *
 * Errors: `NRT_INVALID`, `NRT_RESOURCE` (256 are alive). Threads: any.
 *
 * The caller promises:
 * `settings` is writable.
 */
NRT_STATUS enc_proxy_settings_create(struct enc_proxy_settings **settings);

/**
 * Destroys settings. Groups that were acquired with them are not affected.
 *
 * Errors: `NRT_INVALID_HANDLE`. Threads: any.
 */
NRT_STATUS enc_proxy_settings_destroy(struct enc_proxy_settings *settings);

/**
 * Sets one setting, whatever the environment says.
 *
 * - `name`: the variable, such as `NEURON_RT_RANKS_PER_NETWORK_PROXY`.
 * - `value`: as the variable would have it.
 *
 * Errors: `ENC_PROXY_SETTING` (no such variable, or the value is not accepted; the text says what is), `NRT_INVALID`, `NRT_INVALID_HANDLE`.
 * Threads: any.
 *
 * The caller promises:
 * Both texts are readable up to their ends.
 */
NRT_STATUS enc_proxy_settings_set(struct enc_proxy_settings *settings,
                                  const char *name,
                                  const char *value);

/**
 * The effective value of one setting, as its variable would have it.
 *
 * - `buffer`, `bytes`, `length`: as for `enc_proxy_library_get_path`.
 *
 * Errors: `ENC_PROXY_SETTING` (no such variable, or any setting is bad), `ENC_PROXY_TOO_SMALL`, `NRT_INVALID`, `NRT_INVALID_HANDLE`.
 * Threads: any.
 *
 * The caller promises:
 * `name` is readable up to its end, `buffer` writable for `bytes`, `length` writable or null.
 */
NRT_STATUS enc_proxy_settings_get(struct enc_proxy_settings *settings,
                                  const char *name,
                                  char *buffer,
                                  size_t bytes,
                                  size_t *length);

/**
 * All settings, one line each: variable, effective value, origin (default, environment, API).
 *
 * - `settings`: NULL = those of the environment as it is now.
 * - `buffer`, `bytes`, `length`: as for `enc_proxy_library_get_path`.
 *
 * Errors: `ENC_PROXY_SETTING`, `ENC_PROXY_TOO_SMALL`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any.
 *
 * The caller promises:
 * `buffer` is writable for `bytes`, `length` writable or null.
 */
NRT_STATUS enc_proxy_settings_dump(struct enc_proxy_settings *settings,
                                   char *buffer,
                                   size_t bytes,
                                   size_t *length);

/**
 * Appends one execution: its network task and, if the context has a barrier, its barrier task; both or none. Their
 * statuses can be asked for at once. Wakes the worker if it sleeps. Further executions may be appended before this one has ended: the network tasks of a
 * communicator, of all its contexts, have the library one after the other, in the order of their appends.
 *
 * - `exec_id`: the execution's id, the embedder's own; the barrier compares it between ranks.
 *
 * Errors: `NRT_QUEUE_FULL`, `NRT_CLOSED`, `ENC_PROXY_WORKER_DIED`, `ENC_PROXY_FIRED_BEFORE_ARM`, `NRT_INVALID_HANDLE`; nothing has been appended then.
 * Threads: any, also the worker's. Cost: lock-free; no allocation; a system call only if the worker sleeps.
 */
NRT_STATUS enc_enq_proxy_tasks(struct encd_context *dctx,
                               uint64_t exec_id);

/**
 * As `enc_enq_proxy_tasks`, and gives the tickets of the tasks.
 *
 * - `execution`: receives them; untouched on error.
 *
 * The caller promises:
 * `execution`, if not null, is readable and writable for the size that it says.
 */
NRT_STATUS enc_proxy_enqueue(struct encd_context *dctx,
                             uint64_t exec_id,
                             struct enc_proxy_execution *execution);

/**
 * State of a context's oldest task of a kind whose end has not been reported; reports its end once.
 *
 * - `type`: `PROXY_TASK_NETWORK` or `PROXY_TASK_BARRIER`.
 * - `done`: receives whether the task is done.
 * - `status`: receives its code when it is done, else `NRT_SUCCESS`.
 *
 * Errors: `ENC_PROXY_UNKNOWN_TASK`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any, also the worker's. Cost: lock-free; a look at every
 * place of the rank.
 *
 * The caller promises:
 * `done` and `status` are writable.
 */
NRT_STATUS enc_proxy_check_status(const struct encd_context *dctx,
                                  proxy_task_state_type type,
                                  bool *done,
                                  NRT_STATUS *status);

/**
 * `enc_proxy_check_status` of the network task.
 *
 * The caller promises:
 * As there.
 */
NRT_STATUS enc_check_proxy_network_task_status(const struct encd_context *dctx,
                                               bool *done,
                                               NRT_STATUS *status);

/**
 * `enc_proxy_check_status` of the barrier task.
 *
 * The caller promises:
 * As there.
 */
NRT_STATUS enc_check_proxy_barrier_task_status(const struct encd_context *dctx,
                                               bool *done,
                                               NRT_STATUS *status);

/**
 * Waits until a context's oldest task of a kind is done, and consumes its status. Logs a warning from time to time.
 *
 * - `type`: `PROXY_TASK_NETWORK` or `PROXY_TASK_BARRIER`.
 * - `timeout_us`: microseconds to wait at most; `ENC_PROXY_FOREVER` = no limit.
 * - `status`: receives the task's code, `NRT_SUCCESS` if it went well; untouched on error.
 *
 * Errors: `NRT_TIMEOUT` (the task goes on and can be waited for again), `ENC_PROXY_UNKNOWN_TASK`, `ENC_PROXY_WRONG_THREAD`, `NRT_INVALID`, `NRT_INVALID_HANDLE`.
 * Threads: any but a worker's, of whatever group.
 *
 * The caller promises:
 * `status` is writable.
 */
NRT_STATUS enc_consume_proxy_task_status(const struct encd_context *dctx,
                                         proxy_task_state_type type,
                                         uint64_t timeout_us,
                                         NRT_STATUS *status);

/**
 * State of a task; reports its end once, after which the ticket is spent.
 *
 * - `ticket`: from `enc_proxy_enqueue`.
 * - `state`: receives one of the five states. With `PROXY_TASK_STATE_DONE` the status has been consumed.
 * - `status`: receives its code when it is done, else `NRT_SUCCESS`.
 *
 * Errors: `ENC_PROXY_ALREADY_CONSUMED`, `ENC_PROXY_UNKNOWN_TASK`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any, also the worker's.
 * Cost: wait-free but for the handle; one load, and one compare-and-swap when done.
 *
 * The caller promises:
 * `ticket` is readable, `state` and `status` writable.
 */
NRT_STATUS enc_proxy_poll(struct enc_proxy_group *group,
                          const struct enc_proxy_ticket *ticket,
                          proxy_task_run_state_t *state,
                          NRT_STATUS *status);

/**
 * Waits until a task is done, and consumes its status. Logs a warning from time to time.
 *
 * - `ticket`: from `enc_proxy_enqueue`.
 * - `timeout_us`, `status`: as for `enc_consume_proxy_task_status`.
 *
 * Errors: those of `enc_consume_proxy_task_status` and `ENC_PROXY_ALREADY_CONSUMED`. Threads: any but a worker's.
 *
 * The caller promises:
 * `ticket` is readable, `status` writable.
 */
NRT_STATUS enc_proxy_consume(struct enc_proxy_group *group,
                             const struct enc_proxy_ticket *ticket,
                             uint64_t timeout_us,
                             NRT_STATUS *status);

/**
 * Takes a share of a device's group. The first share starts the worker; the caller's own CPUs are not changed.
 *
 * - `group`: receives the handle; give it back by `enc_proxy_group_release`.
 *
 * Errors: `ENC_PROXY_SETTING`, `NRT_RESOURCE` (worker, doorbell or CPUs could not be had; 1024 shares are alive), `NRT_FAIL_HOST_MEM_ALLOC`,
 * `NRT_TIMEOUT`, `NRT_INVALID`, `NRT_INVALID_HANDLE` (of the settings). Threads: any.
 *
 * The caller promises:
 * `config` is readable for the size that it says, `group` writable.
 */
NRT_STATUS enc_proxy_group_acquire(const struct enc_proxy_group_config *config,
                                   struct enc_proxy_group **group);

/**
 * Gives up a share. The last one ends the worker: with `ENC_PROXY_DRAIN` after all tasks, with `ENC_PROXY_ABORT` at once.
 * Contexts of the group stay valid handles; what they are asked for is refused.
 *
 * - `way`: `ENC_PROXY_DRAIN` or `ENC_PROXY_ABORT`; only the last share's counts.
 * - `timeout_us`: how long the worker may take, in microseconds; not at all on the thread of another worker.
 * - `others`: receives the number of shares that are left; may be NULL.
 *
 * Errors: `NRT_TIMEOUT` (the text lists what is unfinished), `ENC_PROXY_STUCK` (the text names the library's call), `ENC_PROXY_WRONG_THREAD`,
 * `ENC_PROXY_BUSY` (another thread is releasing it), `NRT_INVALID`, `NRT_INVALID_HANDLE`. After an error the handle is still
 * good, for another release. Threads: any but the worker's own.
 *
 * The caller promises:
 * `others` is writable or null.
 */
NRT_STATUS enc_proxy_group_release(struct enc_proxy_group *group,
                                   enc_proxy_release_t way,
                                   uint64_t timeout_us,
                                   uint32_t *others);

/**
 * What the group's worker has done so far. Errors: `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any, also while the worker is stuck.
 *
 * The caller promises:
 * `counters`, if not null, is readable and writable for the size that it says.
 */
NRT_STATUS enc_proxy_group_get_counters(struct enc_proxy_group *group,
                                        struct enc_proxy_group_counters *counters);

/**
 * How the group does. Errors: `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any, also while the worker is stuck.
 *
 * The caller promises:
 * `health`, if not null, is readable and writable for the size that it says.
 */
NRT_STATUS enc_proxy_group_get_health(struct enc_proxy_group *group,
                                      struct enc_proxy_group_health *health);

/**
 * Makes a context: checks everything once, so that nothing malformed reaches the collective library.
 *
 * - `context`: receives the handle; give it back by `encd_context_destroy`.
 *
 * Errors: `ENC_PROXY_FIFO` (the text names stream, block, array, index and field), `NRT_INVALID`, `NRT_INVALID_HANDLE`, `NRT_CLOSED` (the group has
 * been released), `NRT_RESOURCE` (256 contexts or 64 ranks per group), `ENC_PROXY_NO_DYNAMIC_SIZES`. Threads: any. Cost: one pass over each array.
 *
 * The caller promises:
 * `config` is readable for the size that it says, and its arrays for the lengths that it says; `context` is writable. Until the context
 * is destroyed and its last task is done: every address in the FIFO arrays is what the collective library takes it for and stays
 * valid, words and semaphores stay mapped and are written in single 32-bit accesses only. All contexts of a communicator belong to one group.
 */
NRT_STATUS encd_context_create(struct enc_proxy_group *group,
                               const struct encd_context_config *config,
                               struct encd_context **context);

/**
 * Destroys a context: the collective library gets no further call for it.
 *
 * Errors: `ENC_PROXY_BUSY` (tasks are unfinished; the handle stays good), `NRT_INVALID_HANDLE`. Statuses of its tasks that
 * are not consumed stay with the group. Threads: any.
 */
NRT_STATUS encd_context_destroy(struct encd_context *context);

/**
 * Arms the start words of one kind of task for one more execution; for contexts with `ENC_PROXY_ARM_EXPLICIT`.
 *
 * - `kind`: `PROXY_TASK_NETWORK` or `PROXY_TASK_BARRIER`.
 *
 * Errors: `ENC_PROXY_FIRED_BEFORE_ARM`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any. Lock-free.
 */
NRT_STATUS enc_proxy_arm(struct encd_context *context,
                         proxy_task_state_type kind);

/**
 * Gives a context's start words a fresh start after an execution that ended before its device fired (aborted, timed out, a failed start): every
 * word is consumed and none is armed, so that the next enqueue arms anew. Without it a fire that comes late starts the next execution before its
 * time, or has every enqueue refused with `ENC_PROXY_FIRED_BEFORE_ARM`. Stop the device first: a fire that comes after this call is taken for
 * the next execution's.
 *
 * Errors: `ENC_PROXY_BUSY` (a task of the context is unfinished; nothing is changed), `NRT_INVALID_HANDLE`. Threads: any, but not beside an enqueue of
 * the context. Cost: two atomic instructions per word.
 */
NRT_STATUS encd_context_reset(struct encd_context *context);

/**
 * Ends one task with `ENC_PROXY_ABORTED`: its started streams are stopped, barrier peers are told. The status is left for its consumer.
 *
 * - `ticket`: from `enc_proxy_enqueue`.
 * - `timeout_us`: how long the worker may take, in microseconds.
 *
 * Errors: `ENC_PROXY_STUCK` (the worker is inside the collective library, the text names the call) and `NRT_TIMEOUT`: the ticket has its final
 * code all the same, but the library may use the task's memory until its call returns, and the context cannot be destroyed before.
 * `ENC_PROXY_TASK_DONE`, `ENC_PROXY_ALREADY_CONSUMED`, `ENC_PROXY_UNKNOWN_TASK`, `NRT_INVALID`, `NRT_INVALID_HANDLE`: nothing was to be ended.
 * Threads: any; on a worker's nothing is waited for: a task of its own group ends in its next tick, and of another group, whose worker has not
 * come to it yet, the answer is as after a timeout.
 *
 * The caller promises:
 * `ticket` is readable.
 */
NRT_STATUS enc_proxy_abort(struct enc_proxy_group *group,
                           const struct enc_proxy_ticket *ticket,
                           uint64_t timeout_us);

/**
 * Ends every task of a context that is unfinished at this moment; later ones are not concerned.
 *
 * - `timeout_us`: as for `enc_proxy_abort`.
 * - `tasks`: receives how many; may be NULL.
 *
 * Errors and threads: as for `enc_proxy_abort`, but that there may be nothing to end.
 *
 * The caller promises:
 * `tasks` is writable or null.
 */
NRT_STATUS enc_proxy_abort_context(struct encd_context *dctx, uint64_t timeout_us, size_t *tasks);

/**
 * Ends every task of a group that is unfinished at this moment, those of its other shares, too; later ones are not concerned.
 *
 * - `timeout_us`, `tasks`: as for `enc_proxy_abort_context`.
 *
 * Errors and threads: as there.
 *
 * The caller promises:
 * As there.
 */
NRT_STATUS enc_proxy_abort_group(struct enc_proxy_group *group,
                                 uint64_t timeout_us,
                                 size_t *tasks);

/**
 * Ends every task of every group of this process that is unfinished at this moment. The groups stay.
 *
 * - `timeout_us`: how long all workers together may take, in microseconds.
 * - `tasks`: receives how many; may be NULL.
 *
 * Errors: those of the first group, in order of gid, that has one; the text names all that have. Threads: as for `enc_proxy_abort`.
 *
 * The caller promises:
 * As for `enc_proxy_abort_context`.
 */
NRT_STATUS enc_proxy_abort_all(uint64_t timeout_us,
                               size_t *tasks);

/**
 * Says who is told of errors of tasks, in all groups of the process, present and future ones; the error has its group's id. Aborts are not
 * told: who orders one has its answer.
 *
 * - `handler`: called once per error, soon after it came up; NULL = nobody, as at first. It replaces the former one. Of more than 8192 errors of a
 *   group that wait to be told it gets the first ones; how many more there were is a warning in the log, and the counter `failures` has all.
 * - `user`: handed to `handler` as it is.
 *
 * When it returns, no call of the former handler is running, and none will begin: its `user` may be freed. It waits for calls that run, so
 * hold no lock that the handler takes. Inside a handler or a log sink, and on a worker's thread, it waits for nothing; other threads may then
 * still be inside the former one.
 *
 * Errors: none of its own. Threads: any, at any time.
 *
 * The caller promises:
 * Until it has been replaced as above: `handler` may be called with `user` from any thread, from two at once, too.
 */
NRT_STATUS enc_proxy_set_error_handler(enc_proxy_error_handler handler,
                                       void *user);

/**
 * The report of the whole process: a verdict in one sentence, then tasks, workers, the last changes of state, libraries and settings with
 * their origins. It is read from words that the workers publish anyway, so it is there while a worker is stuck.
 *
 * - `form`: `ENC_PROXY_TEXT`, `ENC_PROXY_JSON` or `ENC_PROXY_PROMETHEUS`.
 * - `stall_us`: a wait counts as a stall from this age on, in microseconds; 0 = one second.
 * - `buffer`, `bytes`, `length`: as for `enc_proxy_library_get_path`. Each call makes a new report, which may be longer than the one whose
 *   length was asked for.
 *
 * Errors: `ENC_PROXY_TOO_SMALL`, `NRT_INVALID`. Threads: any, also the worker's and while a worker is stuck inside the collective
 * library; calls nothing in it. Cost: milliseconds, 200 at most; what could not be had then is named in the report.
 *
 * The caller promises:
 * `buffer` is writable for `bytes`, `length` writable or null.
 */
NRT_STATUS enc_proxy_report(enc_proxy_form_t form,
                            uint64_t stall_us,
                            char *buffer,
                            size_t bytes,
                            size_t *length);

/**
 * As `enc_proxy_report`, written to a descriptor: of a file, a pipe, a socket. The descriptor stays open. Waits as long as its other end
 * takes to read. Raises neither SIGPIPE nor SIGXFSZ, whatever they do in the process: a pipe that nobody reads and a limit of file sizes are
 * errors.
 *
 * Errors: `NRT_INVALID` (also: `fd` is no open descriptor), `NRT_RESOURCE` (the write failed; a part may have been written). Threads: as for
 * `enc_proxy_report`.
 */
NRT_STATUS enc_proxy_report_to_fd(enc_proxy_form_t form,
                                  uint64_t stall_us,
                                  int fd);

/**
 * The report of one group: the record of `enc_proxy_report` without the other groups, its verdict about this one.
 *
 * - `form`, `buffer`, `bytes`, `length`: as for `enc_proxy_report`.
 *
 * Errors: `ENC_PROXY_TOO_SMALL`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads and cost: as for `enc_proxy_report`.
 *
 * The caller promises:
 * `buffer` is writable for `bytes`, `length` writable or null.
 */
NRT_STATUS enc_proxy_dump(struct enc_proxy_group *group,
                          enc_proxy_form_t form,
                          char *buffer,
                          size_t bytes,
                          size_t *length);

/**
 * What the reports of many processes say together: who is behind, in which operation, waiting for whom; ranges of ranks, not lists.
 *
 * - `reports`, `report_n`: texts as `ENC_PROXY_JSON` has them, of any processes and machines, at most 65536; their order does not matter.
 * - `world`: the number of ranks of the job, up to 1048576: ranks that no report has a task of are then named; 0 = not known.
 * - `form`: `ENC_PROXY_TEXT`: one sentence; `ENC_PROXY_JSON`: an object of the schema `proxy-merge/1` with the sentence and what it was made
 *   from; `ENC_PROXY_PROMETHEUS`: the metrics of all of them.
 * - `buffer`, `bytes`, `length`: as for `enc_proxy_library_get_path`.
 *
 * Errors: `ENC_PROXY_TOO_SMALL`, `NRT_INVALID` (also: a text is no report; the error's text says which). Threads: any. Cost: that of reading
 * the texts.
 *
 * The caller promises:
 * `reports` is readable for `report_n` addresses, each of a text that is terminated within 256 MiB; `buffer` is writable for `bytes`,
 * `length` writable or null.
 */
NRT_STATUS enc_proxy_report_merge(const char *const *reports,
                                  size_t report_n,
                                  uint32_t world,
                                  enc_proxy_form_t form,
                                  char *buffer,
                                  size_t bytes,
                                  size_t *length);

/**
 * Starts the service. Takes a signal whose handler is then the service's own, until it is stopped.
 *
 * - `service`: receives the handle; give it back by `enc_proxy_report_service_stop`.
 *
 * Errors: `ENC_PROXY_BUSY` (the process has one, perhaps by its environment), `NRT_INVALID` (also: the signal cannot be caught), `NRT_RESOURCE`. Nothing
 * is left of one that did not start. Threads: any. Waits for one that is being stopped, up to 2 seconds.
 *
 * The caller promises:
 * `config` is readable for the size that it says and its `directory` up to its end, `service` writable.
 */
NRT_STATUS enc_proxy_report_service_start(const struct enc_proxy_report_config *config,
                                          struct enc_proxy_report_service **service);

/**
 * Stops the service, and puts the signal's former handler back if nobody has changed it since. Waits up to 2 seconds, on a worker's thread, too,
 * for a report that is being written.
 *
 * Errors: `NRT_INVALID_HANDLE`. Threads: any.
 */
NRT_STATUS enc_proxy_report_service_stop(struct enc_proxy_report_service *service);

/**
 * Starts the trace of a group's worker, from its next event on: changes of state, calls of the collective library, semaphores, sleeps.
 *
 * - `events`: room for so many, 48 bytes each, at most 16777216; 0 = 65536. What finds no room is counted.
 *
 * Errors: `NRT_INVALID`, `NRT_INVALID_HANDLE`, `ENC_PROXY_BUSY` (the group is traced already: it has one trace),
 * `NRT_FAIL_HOST_MEM_ALLOC`. Threads: any. Cost: sets the memory aside; a traced worker reads the clock and writes 48 bytes per event.
 */
NRT_STATUS enc_proxy_trace_start(struct enc_proxy_group *group,
                                 size_t events);

/**
 * Writes a group's trace as it is now to a descriptor, which stays open: one JSON object in the Trace Event Format. Raises no signal.
 *
 * Errors: `NRT_INVALID` (`fd` is no open descriptor), `NRT_INVALID_HANDLE`, `NRT_UNINITIALIZED` (no trace was started), `NRT_RESOURCE` (the write
 * failed; a part may have been written). Threads: any, also while the worker runs or is stuck. Cost: microseconds per event.
 */
NRT_STATUS enc_proxy_trace_write_to_fd(struct enc_proxy_group *group,
                                       int fd);

/**
 * Joins the bus of a job, or opens it. Returns when this rank is on it; `bp_connect` waits for the others.
 *
 * - `bus`: receives the handle; give it back by `bp_cleanup`.
 *
 * Errors: `ENC_PROXY_JOIN`, `NRT_TIMEOUT`, `ENC_PROXY_PEER_DEAD`, `ENC_PROXY_WRONG_THREAD`, `NRT_RESOURCE`, `NRT_INVALID`; nothing is left of a join that failed.
 * Threads: any but a worker's.
 *
 * The caller promises:
 * `config` is readable for the size that it says and its `job` up to its end, `bus` writable.
 */
NRT_STATUS bp_create(const struct bp_config *config,
                     struct bananaphone **bus);

/**
 * Waits until all ranks are on the bus.
 *
 * - `timeout_us`: microseconds to wait at most.
 *
 * Errors: `NRT_TIMEOUT` (the text lists the missing ranks), `ENC_PROXY_PEER_DEAD`, `ENC_PROXY_JOIN` (another rank could not), `ENC_PROXY_BUSY`,
 * `NRT_INVALID_HANDLE`.
 * Threads: any but a worker's (`ENC_PROXY_WRONG_THREAD`).
 */
NRT_STATUS bp_connect(struct bananaphone *bus,
                      uint64_t timeout_us);

/**
 * Sends a message to one rank. Returns when it is in this rank's ring; a message longer than `bp_capacity` goes in parts.
 *
 * - `to`: another rank of the bus. `tag`: below 2^31 as the bus accepts it; the text of an error says the limit.
 * - `data`, `bytes`: the message; may be empty.
 * - `timeout_us`: microseconds to wait at most while the ring is full.
 *
 * Errors: `NRT_TIMEOUT`, `ENC_PROXY_PEER_DEAD`, `NRT_CLOSED` (after a hang-up), `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`.
 * Threads: any but a worker's (`ENC_PROXY_WRONG_THREAD`).
 *
 * The caller promises:
 * `data` is readable for `bytes`.
 */
NRT_STATUS bp_send(struct bananaphone *bus,
                   uint32_t to,
                   uint32_t tag,
                   const uint8_t *data,
                   size_t bytes,
                   uint64_t timeout_us);

/**
 * Sends a message to all other ranks; each receives it as any other. Arguments, errors and threads: as for `bp_send`.
 *
 * The caller promises:
 * `data` is readable for `bytes`.
 */
NRT_STATUS bp_broadcast(struct bananaphone *bus,
                        uint32_t tag,
                        const uint8_t *data,
                        size_t bytes,
                        uint64_t timeout_us);

/**
 * Receives the next message of a rank. Messages of one rank with the same tag come in the order in which they were sent.
 *
 * - `from`: another rank of the bus. `tag`: the tag wanted, or `BP_ANY_TAG`.
 * - `buffer`, `bytes`: room for the message.
 * - `length`: receives its length, also with `ENC_PROXY_TOO_SMALL`, after which the message is still the next of such a call.
 * - `got_tag`: receives its tag; may be NULL.
 * - `timeout_us`: microseconds to wait at most.
 *
 * Errors: `NRT_TIMEOUT`, `ENC_PROXY_PEER_DEAD`, `ENC_PROXY_TOO_SMALL`, `ENC_PROXY_CROWDED`, `NRT_CLOSED`, `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`.
 * What was written to `buffer` means nothing on error. Threads: any but a worker's (`ENC_PROXY_WRONG_THREAD`).
 *
 * The caller promises:
 * `buffer` is writable for `bytes`, `length` writable, `got_tag` writable or null.
 */
NRT_STATUS bp_recv(struct bananaphone *bus,
                   uint32_t from,
                   uint32_t tag,
                   uint8_t *buffer,
                   size_t bytes,
                   size_t *length,
                   uint32_t *got_tag,
                   uint64_t timeout_us);

/**
 * Gives `own` to all ranks and gets what all have given. All ranks must call it, in the same order if more than once.
 *
 * - `own`, `bytes`: this rank's part; the parts may differ in size.
 * - `all`, `stride`: room for one part of up to `stride` bytes per rank; part `r` begins at `r * stride`.
 * - `lengths`: receives the length of each part, in order of rank; may be NULL.
 * - `timeout_us`: microseconds to wait at most.
 *
 * Errors: `ENC_PROXY_TOO_SMALL` (a part is longer than `stride`; the exchange is over all the same), `NRT_TIMEOUT`, `ENC_PROXY_PEER_DEAD`, `NRT_CLOSED`, `ENC_PROXY_BUSY`,
 * `NRT_INVALID`, `NRT_INVALID_HANDLE`.
 * Threads: any but a worker's (`ENC_PROXY_WRONG_THREAD`).
 *
 * The caller promises:
 * `own` is readable for `bytes`, `all` writable for the bus's ranks times `stride`, `lengths` for as many lengths, or null.
 */
NRT_STATUS bp_all_gather(struct bananaphone *bus,
                         const uint8_t *own,
                         size_t bytes,
                         uint8_t *all,
                         size_t stride,
                         size_t *lengths,
                         uint64_t timeout_us);

/**
 * Bytes of the longest message that is sent in one piece. Errors: `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any.
 *
 * The caller promises:
 * `bytes` is writable.
 */
NRT_STATUS bp_capacity(struct bananaphone *bus,
                       size_t *bytes);

/**
 * Leaves the bus: peers that wait for this rank are told at once. Messages of this rank are not received any more, and barriers that need
 * it fail. The handle stays, for `bp_cleanup`.
 *
 * Errors: `ENC_PROXY_BUSY`, `NRT_INVALID_HANDLE`. Threads: any.
 */
NRT_STATUS bp_hangup(struct bananaphone *bus);

/**
 * Hangs up, if that has not been done, and gives back memory, descriptors and threads. Barriers keep the memory until they are hung up.
 *
 * Errors: `ENC_PROXY_BUSY`, `NRT_INVALID_HANDLE`. Threads: any.
 */
NRT_STATUS bp_cleanup(struct bananaphone *bus);

/**
 * Who is on the bus, in order of rank.
 *
 * - `members`, `room`: where they go, and for how many there is room; not null.
 * - `world`: receives the number of ranks; may be NULL. It is written when there is too little room, too.
 *
 * Errors: `ENC_PROXY_TOO_SMALL`, `ENC_PROXY_BUS_CORRUPT`, `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any.
 *
 * The caller promises:
 * `members` is writable for `room` members, `world` writable or null.
 */
NRT_STATUS bp_get_members(struct bananaphone *bus,
                          struct bp_member *members,
                          uint32_t room,
                          uint32_t *world);

/**
 * What the bus has counted on this rank. Errors: `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any.
 *
 * The caller promises:
 * `counters`, if not null, is readable and writable for the size that it says.
 */
NRT_STATUS bp_get_counters(struct bananaphone *bus,
                           struct bp_counters *counters);

/**
 * Makes this rank's side of a barrier. All participants must use the same slot, and no other set of ranks the slot.
 *
 * - `slot`: below the bus's barrier slots.
 * - `ranks`, `rank_n`: the participants, this rank among them; NULL, 0 = all ranks of the bus.
 * - `barrier`: receives the handle; give it back by `bp_barrier_hangup`.
 *
 * Errors: `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`, `NRT_RESOURCE`. Threads: any.
 *
 * The caller promises:
 * `ranks` is readable for `rank_n` ranks, `barrier` writable.
 */
NRT_STATUS bp_barrier_create(struct bananaphone *bus,
                             uint32_t slot,
                             const uint16_t *ranks,
                             uint32_t rank_n,
                             struct bp_barrier **barrier);

/**
 * Arrives, and waits: the leader (the lowest participant) until all have arrived, and then it is to call `bp_barrier_release`; the
 * others until the leader has released them.
 *
 * - `exec_id`: the execution; all must arrive for the same.
 * - `timeout_us`: microseconds to wait at most.
 *
 * Errors: `ENC_PROXY_BARRIER_TIMEOUT` (the text lists the missing ranks), `ENC_PROXY_PEER_DEAD`, `ENC_PROXY_MPMD`, `ENC_PROXY_PEER_CANCELLED`, the same for all
 * participants, after which the barrier can be used again; `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any but a worker's
 * (`ENC_PROXY_WRONG_THREAD`).
 */
NRT_STATUS bp_barrier_wait(struct bp_barrier *barrier,
                           uint64_t exec_id,
                           uint64_t timeout_us);

/**
 * On the leader, after `bp_barrier_wait` or `BP_BARRIER_COMPLETE`: lets everybody pass. Waits for nothing.
 *
 * Errors: a verdict of `bp_barrier_wait` if somebody gave up meanwhile; `NRT_INVALID` (not all have arrived, or not the leader),
 * `ENC_PROXY_BUSY`, `NRT_INVALID_HANDLE`. Threads: any.
 */
NRT_STATUS bp_barrier_release(struct bp_barrier *barrier);

/**
 * Arrives, waits until all have, and passes: `bp_barrier_wait` and, on the leader, `bp_barrier_release`. Arguments, errors and threads: as
 * for `bp_barrier_wait`.
 */
NRT_STATUS bp_barrier_sync(struct bp_barrier *barrier,
                           uint64_t exec_id,
                           uint64_t timeout_us);

/**
 * Arrives and returns at once; `bp_barrier_poll` says how it goes on.
 *
 * - `exec_id`, `timeout_us`: as for `bp_barrier_wait`.
 *
 * Errors: `NRT_INVALID` (this rank is at the barrier already), `ENC_PROXY_BUSY`, `NRT_INVALID_HANDLE`. Threads: any.
 */
NRT_STATUS bp_barrier_arrive(struct bp_barrier *barrier,
                             uint64_t exec_id,
                             uint64_t timeout_us);

/**
 * How far a barrier is that was arrived at. Waits for nothing.
 *
 * - `progress`: receives `BP_BARRIER_PENDING`, `BP_BARRIER_COMPLETE` or `BP_BARRIER_PASSED`.
 *
 * Errors: as for `bp_barrier_wait`; `NRT_INVALID` also if this rank has not arrived. Threads: any.
 *
 * The caller promises:
 * `progress` is writable.
 */
NRT_STATUS bp_barrier_poll(struct bp_barrier *barrier, bp_barrier_progress_t *progress);

/**
 * Gives a barrier up and its handle back. If this rank is at the barrier, the execution fails for all participants, with
 * `ENC_PROXY_PEER_CANCELLED`.
 *
 * Errors: `ENC_PROXY_BUSY`, `NRT_INVALID_HANDLE`. Threads: any.
 */
NRT_STATUS bp_barrier_hangup(struct bp_barrier *barrier);

/**
 * Sets up a rank's global communicator: joins the host bus and waits for all its ranks, compares signatures and hands out the unique id, and
 * shares or starts the worker of the rank's group.
 *
 * - `glb_comm`: receives the handle; give it back by `enc_free_global_comm`. Contexts name it for their barrier; `enc_proxy_glb_comm_get_group` has
 *   its group.
 *
 * Errors: those of `bp_create` and `bp_connect`; `ENC_PROXY_MISMATCH` (signatures differ) or `ENC_PROXY_NO_UNIQUE_ID` (there is no
 * id, or not for ranks that differ), one of them on every rank; those of
 * `enc_proxy_group_acquire`; `ENC_PROXY_BUSY` (another one exchanges over `leader_comm`); `ENC_PROXY_WRONG_THREAD`. The text names the step; what was done before it has been undone. Threads: any but a worker's. Waits for other
 * ranks, up to the deadline in each step.
 *
 * The caller promises:
 * `config` is readable for the size that it says, its `bus` as for `bp_create`, its `signature`, if not null, for 16 bytes, its `leaders` for
 * `leader_n` ranks; `glb_comm` is writable. Until the free nobody else makes bootstrap calls on `leader_comm`.
 */
NRT_STATUS enc_setup_global_comm(const struct enc_glb_comm_config *config,
                                 struct enc_glb_comm **glb_comm);

/**
 * Frees a rank's global communicator: gives its share of the group up, as by `enc_proxy_group_release`, ends the exchange between machines, and
 * leaves the bus. Waits for no other
 * rank.
 *
 * - `way`: `ENC_PROXY_DRAIN` or `ENC_PROXY_ABORT`; only the group's last share's counts.
 * - `timeout_us`: how long worker and exchange may take together, in microseconds; not at all on the thread of another worker.
 * - `freed`: receives who had died, and more; may be NULL.
 *
 * Errors: `ENC_PROXY_BUSY` (contexts have their barrier on its bus, destroy them first; or another thread's call is on it), those of
 * `enc_proxy_group_release`. After an error nothing has been undone and the handle is still good. Threads: any but the worker's own.
 *
 * The caller promises:
 * `freed`, if not null, is readable and writable for the size that it says.
 */
NRT_STATUS enc_free_global_comm(struct enc_glb_comm *glb_comm,
                                enc_proxy_release_t way,
                                uint64_t timeout_us,
                                struct enc_glb_comm_freed *freed);

/**
 * The unique id that the ranks have got at the setup.
 *
 * - `unique_id`: receives 128 bytes.
 *
 * Errors: `NRT_INVALID` (nothing was exchanged), `ENC_PROXY_BUSY`, `NRT_INVALID_HANDLE`. Threads: any.
 *
 * The caller promises:
 * `unique_id` is writable for 128 bytes.
 */
NRT_STATUS enc_proxy_glb_comm_get_unique_id(struct enc_glb_comm *glb_comm, uint8_t *unique_id);

/**
 * A further share of its group, for functions that take a group: contexts, tickets, aborts, reports. It may outlive the global communicator.
 *
 * - `group`: receives the handle; give it back by `enc_proxy_group_release`.
 *
 * Errors: `NRT_RESOURCE`, `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any.
 *
 * The caller promises:
 * `group` is writable.
 */
NRT_STATUS enc_proxy_glb_comm_get_group(struct enc_glb_comm *glb_comm,
                                        struct enc_proxy_group **group);

/**
 * Raises the semaphore at `address` by `value`: tells the device that a network operation has completed.
 *
 * On the hardware a plain store does it, as the increment register adds by itself; on host memory the addition is made
 * here, atomically, with release ordering: a device that reads the new value with acquire sees what was written before. A null or
 * misaligned address is ignored. Any thread; one atomic instruction; never blocks.
 *
 * The caller promises:
 * `address`, if not null, is a semaphore of the device that stays mapped during the call.
 */
void nec_inc_semaphore(uint32_t *address,
                       uint32_t value);

/**
 * Gives the functions that answer for dynamic sizes; once per process, before the first context with a dynamic op is made.
 *
 * - `sizes`: copied.
 *
 * Errors: `NRT_INVALID` (a function is NULL; or other functions have been given before, which stay: the same ones again are accepted).
 * Threads: any.
 *
 * The caller promises:
 * `sizes` is readable for the size that it says. Until the process ends the functions may be called with `user` from any worker's thread.
 */
NRT_STATUS enc_proxy_set_dynamic_sizes(const struct enc_proxy_dynamic_sizes *sizes);

/**
 * Bytes that an op with dynamic sizes sends to `peer`. Asked by the collective library as it posts the send.
 *
 * - `host_mem`: host memory of the connector's dynamic input, not looked at here.
 * - `elem`, `peer`, `rank_n`: as for `enc_proxy_dynamic_get`.
 *
 * 0, which sends nothing, if no functions were given; a context with such an op is refused then, so only a library that asks without being told
 * to sees it. Any thread; never blocks.
 *
 * The caller promises:
 * The arguments are what the embedder's function takes them for.
 */
size_t nec_get_dynamic_send_size_bytes(void *host_mem,
                                       size_t elem,
                                       int peer,
                                       int rank_n);

/**
 * Where in the send buffer the bytes for `peer` begin. Arguments and the rest: as for `nec_get_dynamic_send_size_bytes`.
 *
 * The caller promises:
 * As there.
 */
size_t nec_get_dynamic_send_offset_bytes(void *host_mem,
                                         size_t elem,
                                         int peer,
                                         int rank_n);

/**
 * Where in the receive buffer the bytes of `peer` go. Arguments and the rest: as for `nec_get_dynamic_send_size_bytes`.
 *
 * The caller promises:
 * As there.
 */
size_t nec_get_dynamic_recv_offset_bytes(void *host_mem,
                                         size_t elem,
                                         int peer,
                                         int rank_n);

/**
 * Tells that `bytes` have been received from the rank `src`. Nothing happens if no functions were given. The other arguments and the rest: as for
 * `nec_get_dynamic_send_size_bytes`.
 *
 * The caller promises:
 * As there.
 */
void nec_set_recv_size_bytes(void *host_mem,
                             size_t bytes,
                             size_t elem,
                             int src,
                             int rank_n);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ENC_PROXY_H */
