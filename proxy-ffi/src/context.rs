//! `encd_context`: what the tasks of one loaded collective work on; the FIFO arrays are checked and copied when it is made.
#![allow(unsafe_code, reason = "exported C functions that take addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use proxy_core::limits::{BARRIER_DONE_SEMAPHORES, BLOCKS, STREAMS};
use proxy_core::{Arming, Polarity, Rank, StopAt};
use proxy_os::{Context, ContextBuilder, DeviceWord, Fifo};

use crate::arg::{self, Out};
use crate::barrier;
use crate::bus::{BUSES, bananaphone};
use crate::call::{self, Failure};
use crate::comm::{COMMS, enc_proxy_comm};
use crate::fifo::{net_dest_addr, net_ops_info, net_src_addr};
use crate::group::{GROUPS, enc_proxy_group};
use crate::handle::Kind;
use crate::record::{self, record};
use crate::status::NRT_STATUS;
use crate::table::Table;

/// A loaded collective of one rank.
#[derive(Debug)]
pub struct encd_context {
    _opaque: [u8; 0],
}

/// Contexts of all groups of a process; a group has 256.
const LIMIT: usize = 8192;
pub(crate) static CONTEXTS: Table<Context, LIMIT> = Table::new(Kind::Context);

/// Streams of a context at most.
pub const ENC_PROXY_MAX_STREAMS: usize = 4;
/// Done semaphores of a barrier's leader at most.
pub const ENC_PROXY_MAX_SEMAPHORES: usize = 4;
const _: () = assert!(ENC_PROXY_MAX_STREAMS == STREAMS);
const _: () = assert!(ENC_PROXY_MAX_SEMAPHORES == BARRIER_DONE_SEMAPHORES);

/// The three FIFO arrays of one stream of one basic block. Never grows: contexts take arrays of it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_fifo_set {
    /// The ops, at least one.
    pub net_ops_info_fifo: *const net_ops_info,
    /// Their number.
    pub net_ops_info_n: usize,
    /// What is sent; the last entry is marked `EXEC_COMPLETE`.
    pub src_addr_fifo: *const net_src_addr,
    /// Its entries.
    pub src_addr_n: usize,
    /// What is received; the last entry is marked `EXEC_COMPLETE`.
    pub dest_addr_fifo: *const net_dest_addr,
    /// Its entries.
    pub dest_addr_n: usize,
}

/// A basic block. Never grows: contexts take arrays of it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_basic_block {
    /// Its id, another for each block of a context.
    pub id: u32,
    /// Must be 0.
    pub reserved: u32,
    /// One set per stream of the context.
    pub fifo_sets: *const enc_fifo_set,
}

/// Which value of a start word means that the device has reached the network stage.
pub type enc_proxy_polarity_t = u32;
/// The specification's: 0xFFFFFFFF = not fired, any other value = fired.
pub const ENC_PROXY_POLARITY_SPECIFICATION: enc_proxy_polarity_t = 0;
/// The published vendor header's: 0xFFFFFFFF = fired, any other value = not.
pub const ENC_PROXY_POLARITY_HEADER: enc_proxy_polarity_t = 1;

/// Who makes start words ready for the next execution.
pub type enc_proxy_arming_t = u32;
/// Enqueue arms; the device's doorbell is rung after enqueue has returned.
pub const ENC_PROXY_ARM_ON_ENQUEUE: enc_proxy_arming_t = 0;
/// The embedder calls `enc_proxy_arm`, before the device's doorbell.
pub const ENC_PROXY_ARM_EXPLICIT: enc_proxy_arming_t = 1;
/// The device writes the armed value itself, and fires with another value than 0.
pub const ENC_PROXY_ARM_BY_DEVICE: enc_proxy_arming_t = 2;

/// When the library is told to stop.
pub type enc_proxy_stop_t = u32;
/// Once per started stream, when the task ends.
pub const ENC_PROXY_STOP_AT_END: enc_proxy_stop_t = 0;
/// The specification's letter: every stream at every switch of blocks.
pub const ENC_PROXY_STOP_AT_SWITCH: enc_proxy_stop_t = 1;

/// What a context is made of, for `encd_context_create`. All arrays are copied.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct encd_context_config {
    /// `sizeof(encd_context_config)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// The communicator.
    pub comm: *mut enc_proxy_comm,
    /// Rank whose tasks these are, below the communicator's ranks.
    pub rank: u32,
    /// Streams, 0 to 4.
    pub stream_n: u32,
    /// Basic blocks, 1 to 1024; they run in order. 0 with no streams.
    pub block_n: u32,
    /// 1 = the network stage is skipped: its task is done at its first step.
    pub skip: u32,
    /// The blocks.
    pub blocks: *const enc_basic_block,
    /// The start words, one per stream: the network task waits for the device. NULL = it starts at once.
    pub start_words: *const *mut u32,
    /// `ENC_PROXY_POLARITY_SPECIFICATION` or `ENC_PROXY_POLARITY_HEADER`.
    pub polarity: enc_proxy_polarity_t,
    /// `ENC_PROXY_ARM_ON_ENQUEUE`, `ENC_PROXY_ARM_EXPLICIT` or `ENC_PROXY_ARM_BY_DEVICE`.
    pub arming: enc_proxy_arming_t,
    /// `ENC_PROXY_STOP_AT_END` or `ENC_PROXY_STOP_AT_SWITCH`.
    pub stop_at: enc_proxy_stop_t,
    /// Slot of the host bus for the execution barrier; counts with `barrier_bus`.
    pub barrier_slot: u32,
    /// An execution has a barrier task, too, over this host bus. NULL = it has none.
    pub barrier_bus: *mut bananaphone,
    /// Ranks of the bus that take part. NULL = all.
    pub barrier_ranks: *const u16,
    /// Their number; 0 with NULL.
    pub barrier_rank_n: u32,
    /// Start words of the barrier task, 0 to 4; with none it starts at once.
    pub barrier_word_n: u32,
    /// The words.
    pub barrier_words: *const *mut u32,
    /// How long an execution may be at the barrier, in microseconds; 0 = 120 seconds.
    pub barrier_timeout_us: u64,
    /// Semaphores that the barrier's leader (its lowest rank) raises by one when all have arrived; the NULL ones are left out.
    pub barrier_semaphores: [*mut u32; ENC_PROXY_MAX_SEMAPHORES],
}
record!(encd_context_config {
    struct_size: usize, flags: u64, comm: *mut enc_proxy_comm, rank: u32, stream_n: u32, block_n: u32, skip: u32,
    blocks: *const enc_basic_block, start_words: *const *mut u32, polarity: enc_proxy_polarity_t,
    arming: enc_proxy_arming_t, stop_at: enc_proxy_stop_t, barrier_slot: u32, barrier_bus: *mut bananaphone,
    barrier_ranks: *const u16, barrier_rank_n: u32, barrier_word_n: u32, barrier_words: *const *mut u32,
    barrier_timeout_us: u64, barrier_semaphores: [*mut u32; ENC_PROXY_MAX_SEMAPHORES],
});

/// Makes a context: checks everything once, so that nothing malformed reaches the collective library.
///
/// - `context`: receives the handle; give it back by `encd_context_destroy`.
///
/// Errors: `ENC_PROXY_FIFO` (the text names stream, block, array, index and field), `NRT_INVALID`, `NRT_INVALID_HANDLE`, `NRT_CLOSED` (the group has
/// been released), `NRT_RESOURCE` (256 contexts or 64 ranks per group). Threads: any. Cost: one pass over each array.
///
/// # Safety
/// `config` is readable for the size that it says, and its arrays for the lengths that it says; `context` is writable. Until the context
/// is destroyed and its last task is done: every address in the FIFO arrays is what the collective library takes it for and stays
/// valid, words and semaphores stay mapped and are written in single 32-bit accesses only. All contexts of a communicator belong to one group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn encd_context_create(
    group: *mut enc_proxy_group,
    config: *const encd_context_config,
    context: *mut *mut encd_context,
) -> NRT_STATUS {
    call::with("encd_context_create", &GROUPS, group, |group| {
        // SAFETY: the caller's promise.
        let config = unsafe { record::read(config) }?;
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(context, "context") }?;
        // SAFETY: the caller's promise.
        let builder = unsafe { builder(&config) }?;
        let made = group.queue.context(builder)?;
        out.set(call::handle(&CONTEXTS, made)?);
        Ok(())
    })
}

/// # Safety
/// As for `encd_context_create`.
unsafe fn builder(config: &encd_context_config) -> Result<ContextBuilder, Failure> {
    let comm = call::other(&COMMS, config.comm)?.proxy()?;
    let mut builder = ContextBuilder::new(comm, Rank(config.rank))
        .skip(choice("skip", config.skip, &[false, true])?)
        .polarity(choice(
            "polarity",
            config.polarity,
            &[Polarity::Specification, Polarity::Header],
        )?)
        .arming(choice(
            "arming",
            config.arming,
            &[Arming::OnEnqueue, Arming::Explicit, Arming::ByDevice],
        )?)
        .stop_at(choice(
            "stop_at",
            config.stop_at,
            &[StopAt::End, StopAt::Switch],
        )?);
    let streams = limited("stream_n", config.stream_n, STREAMS)?;
    let blocks = limited("block_n", config.block_n, BLOCKS.into())?;
    if streams > 0 && blocks == 0 {
        return Err(Failure::invalid(
            "block_n is 0, accepted: 1 to 1024 with streams",
        ));
    }
    // SAFETY: the caller's promise.
    for block in unsafe { arg::array(config.blocks, blocks, blocks, "blocks") }? {
        // SAFETY: the caller's promise.
        builder = builder.block(block.id, unsafe { sets(block, streams) }?);
    }
    if !config.start_words.is_null() {
        // SAFETY: the caller's promise.
        builder =
            builder.device_wait(unsafe { words(config.start_words, streams, "start_words") }?);
    }
    if config.barrier_bus.is_null() {
        return Ok(builder);
    }
    // SAFETY: the caller's promise.
    unsafe { with_barrier(builder, config) }
}

/// # Safety
/// As for `encd_context_create`.
unsafe fn with_barrier(
    builder: ContextBuilder,
    config: &encd_context_config,
) -> Result<ContextBuilder, Failure> {
    let bus = call::other(&BUSES, config.barrier_bus)?;
    // SAFETY: the caller's promise.
    let barrier = unsafe {
        bus.barrier(
            config.barrier_slot,
            config.barrier_ranks,
            config.barrier_rank_n,
        )
    }?;
    let semaphores = config.barrier_semaphores.into_iter();
    let mut raised = Vec::new();
    for semaphore in semaphores.filter(|semaphore| !semaphore.is_null()) {
        // SAFETY: the caller's promise.
        let word = unsafe { DeviceWord::new(semaphore) };
        let misaligned = || {
            Failure::invalid(format_args!(
                "barrier semaphore {semaphore:p} is misaligned"
            ))
        };
        raised.push(word.ok_or_else(misaligned)?);
    }
    let count = limited("barrier_word_n", config.barrier_word_n, STREAMS)?;
    // SAFETY: the caller's promise.
    let words = unsafe { words(config.barrier_words, count, "barrier_words") }?;
    let task = barrier::task(barrier, raised, config.barrier_timeout_us)?;
    Ok(builder.barrier(Box::new(task), words))
}

/// A choice by its number.
fn choice<T: Copy>(name: &str, number: u32, choices: &[T]) -> Result<T, Failure> {
    let found = choices.get(number as usize).copied();
    found.ok_or_else(|| {
        let last = choices.len() - 1;
        Failure::invalid(format_args!("{name} is {number}, accepted: 0 to {last}"))
    })
}

fn limited(name: &str, count: u32, limit: usize) -> Result<usize, Failure> {
    let count = count as usize;
    if count > limit {
        return Err(Failure::invalid(format_args!(
            "{name} is {count}, accepted: 0 to {limit}"
        )));
    }
    Ok(count)
}

/// # Safety
/// As for `encd_context_create`.
unsafe fn sets(block: &enc_basic_block, streams: usize) -> Result<Vec<Fifo>, Failure> {
    let id = block.id;
    if block.reserved != 0 {
        return Err(Failure::invalid(format_args!(
            "reserved of block {id} is not 0"
        )));
    }
    // SAFETY: the caller's promise.
    let sets = unsafe { arg::array(block.fifo_sets, streams, streams, "fifo_sets") }?;
    let mut copied = Vec::with_capacity(streams);
    for set in sets {
        // SAFETY: the caller's promise.
        let ops = unsafe {
            copy(
                set.net_ops_info_fifo,
                set.net_ops_info_n,
                "net_ops_info_fifo",
            )
        }?;
        // SAFETY: the caller's promise.
        let src = unsafe { copy(set.src_addr_fifo, set.src_addr_n, "src_addr_fifo") }?;
        // SAFETY: the caller's promise.
        let dest = unsafe { copy(set.dest_addr_fifo, set.dest_addr_n, "dest_addr_fifo") }?;
        copied.push(Fifo { ops, src, dest });
    }
    Ok(copied)
}

/// The library counts entries in an `int`.
const MAX_ENTRIES: usize = i32::MAX as usize;

/// # Safety
/// `from` is readable for `count` records.
unsafe fn copy<C, T>(from: *const C, count: usize, name: &str) -> Result<Vec<T>, Failure>
where
    T: for<'a> From<&'a C>,
{
    // SAFETY: the caller's promise; any bytes are a value of each of the three records.
    let records = unsafe { arg::array(from, count, MAX_ENTRIES, name) }?;
    let mut copied = Vec::new();
    copied.try_reserve_exact(count).map_err(|error| {
        Failure::new(
            crate::status::NRT_FAIL_HOST_MEM_ALLOC,
            format_args!("{name}: {error}"),
        )
    })?;
    copied.extend(records.iter().map(T::from));
    Ok(copied)
}

/// The words at `count` addresses; null and misaligned ones are the builder's to refuse, which names them.
///
/// # Safety
/// `from` is readable for `count` addresses, and each address is a word as `DeviceWord::new` wants it.
unsafe fn words(
    from: *const *mut u32,
    count: usize,
    name: &str,
) -> Result<Vec<Option<DeviceWord>>, Failure> {
    // SAFETY: the caller's promise.
    let addresses = unsafe { arg::array(from, count, STREAMS, name) }?;
    let mut words = Vec::with_capacity(count);
    for &address in addresses {
        // SAFETY: the caller's promise.
        words.push(unsafe { DeviceWord::new(address) });
    }
    Ok(words)
}

/// Destroys a context: the collective library gets no further call for it.
///
/// Errors: `ENC_PROXY_BUSY` (tasks are unfinished; the handle stays good), `NRT_INVALID_HANDLE`. Statuses of its tasks that
/// are not consumed stay with the group. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn encd_context_destroy(context: *mut encd_context) -> NRT_STATUS {
    call::destroy("encd_context_destroy", &CONTEXTS, context, |context| {
        Ok(context.try_retire()?)
    })
}

/// Arms the start words of one kind of task for one more execution; for contexts with `ENC_PROXY_ARM_EXPLICIT`.
///
/// - `kind`: `PROXY_TASK_NETWORK` or `PROXY_TASK_BARRIER`.
///
/// Errors: `ENC_PROXY_FIRED_BEFORE_ARM`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any. Lock-free.
#[unsafe(no_mangle)]
pub extern "C" fn enc_proxy_arm(
    context: *mut encd_context,
    kind: crate::task::proxy_task_state_type,
) -> NRT_STATUS {
    call::with("enc_proxy_arm", &CONTEXTS, context, |context| {
        Ok(context.arm(crate::task::kind(kind)?)?)
    })
}
