//! `encd_context`: what the tasks of one loaded collective work on; the FIFO arrays are checked and copied when it is made.
#![allow(unsafe_code, reason = "exported C functions that take addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::ops::Deref;
use std::sync::Arc;

use proxy_core::limits::{BARRIER_DONE_SEMAPHORES, BLOCKS, STREAMS};
use proxy_core::{Arming, Polarity, Rank, StopAt};
use proxy_os::bananaphone::task::TaskBarrier;
use proxy_os::{Context, ContextBuilder, DeviceWord, Fifo, ProxyQueue};

use crate::arg::{self, Out};
use crate::barrier;
use crate::bus::{BUSES, bananaphone};
use crate::call::{self, Failure};
use crate::comm::{COMMS, enc_proxy_comm};
use crate::dynamic;
use crate::fifo::{net_dest_addr, net_ops_info, net_src_addr};
use crate::glb_comm::{GLOBAL_COMMS, User, enc_glb_comm};
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
pub(crate) static CONTEXTS: Table<Object, LIMIT> = Table::new(Kind::Context);

/// A context, and the global communicator that it keeps from being freed.
#[derive(Debug)]
pub(crate) struct Object {
    context: Context,
    _user: Option<User>,
}

impl Deref for Object {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

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
    /// Slot of the host bus for the execution barrier; counts with `barrier_bus` or `glb_comm`, as all that begins with `barrier_`.
    pub barrier_slot: u32,
    /// An execution has a barrier task, too, over this host bus. NULL = it has none, but with `glb_comm`.
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
    /// In place of `barrier_bus`: the barrier is over the bus of this global communicator, whose group the context is in. Cannot be freed before
    /// the context is destroyed.
    pub glb_comm: *mut enc_glb_comm,
}
record!(encd_context_config {
    struct_size: usize, flags: u64, comm: *mut enc_proxy_comm, rank: u32, stream_n: u32, block_n: u32, skip: u32,
    blocks: *const enc_basic_block, start_words: *const *mut u32, polarity: enc_proxy_polarity_t,
    arming: enc_proxy_arming_t, stop_at: enc_proxy_stop_t, barrier_slot: u32, barrier_bus: *mut bananaphone,
    barrier_ranks: *const u16, barrier_rank_n: u32, barrier_word_n: u32, barrier_words: *const *mut u32,
    barrier_timeout_us: u64, barrier_semaphores: [*mut u32; ENC_PROXY_MAX_SEMAPHORES], glb_comm: *mut enc_glb_comm,
});

/// Makes a context: checks everything once, so that nothing malformed reaches the collective library.
///
/// - `context`: receives the handle; give it back by `encd_context_destroy`.
///
/// Errors: `ENC_PROXY_FIFO` (the text names stream, block, array, index and field), `NRT_INVALID`, `NRT_INVALID_HANDLE`, `NRT_CLOSED` (the group has
/// been released), `NRT_RESOURCE` (256 contexts or 64 ranks per group), `ENC_PROXY_NO_DYNAMIC_SIZES`. Threads: any. Cost: one pass over each array.
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
        // SAFETY: the caller's promise.
        let (builder, _user) = unsafe { with_barrier(builder, &config, &group.queue) }?;
        let context = group.queue.context(builder)?;
        out.set(call::handle(&CONTEXTS, Object { context, _user })?);
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
    Ok(builder)
}

/// Adds the barrier task, if the context has one; with it, what the context holds for its life.
///
/// # Safety
/// As for `encd_context_create`.
unsafe fn with_barrier(
    builder: ContextBuilder,
    config: &encd_context_config,
    queue: &Arc<ProxyQueue>,
) -> Result<(ContextBuilder, Option<User>), Failure> {
    let over = (
        config.barrier_slot,
        config.barrier_ranks,
        config.barrier_rank_n,
    );
    let timeout = config.barrier_timeout_us;
    let (task, user) = match (config.barrier_bus.is_null(), config.glb_comm.is_null()) {
        (true, true) => return Ok((builder, None)),
        (false, false) => {
            return Err(Failure::invalid(
                "barrier_bus and glb_comm are both given, accepted: one of them",
            ));
        }
        (false, true) => {
            let bus = call::other(&BUSES, config.barrier_bus)?;
            // SAFETY: the caller's promise.
            let barrier = unsafe { bus.barrier(over.0, over.1, over.2) }?;
            // SAFETY: the caller's promise.
            let semaphores = unsafe { semaphores(config) }?;
            let task = TaskBarrier::new(barrier, semaphores, barrier::within(timeout));
            (task.map_err(Failure::invalid)?, None)
        }
        (true, false) => {
            let comm = call::other(&GLOBAL_COMMS, config.glb_comm)?;
            // SAFETY: the caller's promise.
            let semaphores = unsafe { semaphores(config) }?;
            // SAFETY: the caller's promise.
            let (task, user) = unsafe { comm.barrier(queue, over, semaphores, timeout) }?;
            (task, Some(user))
        }
    };
    let count = limited("barrier_word_n", config.barrier_word_n, STREAMS)?;
    // SAFETY: the caller's promise.
    let words = unsafe { words(config.barrier_words, count, "barrier_words") }?;
    Ok((builder.barrier(Box::new(task), words), user))
}

/// The semaphores of a barrier's leader.
///
/// # Safety
/// As for `encd_context_create`.
unsafe fn semaphores(config: &encd_context_config) -> Result<Vec<DeviceWord>, Failure> {
    let given = config.barrier_semaphores.into_iter();
    let mut raised = Vec::new();
    for semaphore in given.filter(|semaphore| !semaphore.is_null()) {
        // SAFETY: the caller's promise.
        let word = unsafe { DeviceWord::new(semaphore) };
        let misaligned = || {
            Failure::invalid(format_args!(
                "barrier semaphore {semaphore:p} is misaligned"
            ))
        };
        raised.push(word.ok_or_else(misaligned)?);
    }
    Ok(raised)
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
        let (ops, count) = (set.net_ops_info_fifo, set.net_ops_info_n);
        // SAFETY: the caller's promise; any bytes are a value of the record.
        dynamic::answered(unsafe { arg::array(ops, count, MAX_ENTRIES, "net_ops_info_fifo") }?)?;
        // SAFETY: the caller's promise.
        let ops = unsafe { copy(ops, count, "net_ops_info_fifo") }?;
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

/// Gives a context's start words a fresh start after an execution that ended before its device fired (aborted, timed out, a failed start): every
/// word is consumed and none is armed, so that the next enqueue arms anew. Without it a fire that comes late starts the next execution before its
/// time, or has every enqueue refused with `ENC_PROXY_FIRED_BEFORE_ARM`. Stop the device first: a fire that comes after this call is taken for
/// the next execution's.
///
/// Errors: `ENC_PROXY_BUSY` (a task of the context is unfinished; nothing is changed), `NRT_INVALID_HANDLE`. Threads: any, but not beside an enqueue of
/// the context. Cost: two atomic instructions per word.
#[unsafe(no_mangle)]
pub extern "C" fn encd_context_reset(context: *mut encd_context) -> NRT_STATUS {
    call::with("encd_context_reset", &CONTEXTS, context, |context| {
        Ok(context.reset()?)
    })
}
