//! The C interface, called in any order with any arguments: the input is a list of calls, each with handles that are live, destroyed, of
//! another kind or made up, and with numbers from anywhere.
//!
//! No call may crash, hang for longer than its deadline or answer `ENC_PROXY_PANIC`; a failed call leaves its out-parameters alone; and
//! at the end everything that is live can be destroyed. What only the caller can see to is kept: addresses are valid or null.
//! The same body runs under libFuzzer and, over seeded inputs, as a plain test.
#![allow(unsafe_code, reason = "functions of C are called as C calls them")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::AtomicU32;

use enc_proxy::abort::*;
use enc_proxy::barrier::*;
use enc_proxy::bus::*;
use enc_proxy::comm::*;
use enc_proxy::context::*;
use enc_proxy::dynamic::*;
use enc_proxy::fifo::*;
use enc_proxy::glb_comm::*;
use enc_proxy::group::*;
use enc_proxy::library::*;
use enc_proxy::members::*;
use enc_proxy::report::*;
use enc_proxy::settings::*;
use enc_proxy::status::*;
use enc_proxy::task::*;
use enc_proxy::trace::*;
use enc_proxy::version::*;

use crate::input::Input;

/// Calls of one input at most.
const CALLS: usize = 200;
/// Handles that an input can name.
const KEPT: usize = 24;
/// What out-parameters hold before a call.
const MARK: u64 = 0x5A5A_5A5A_5A5A_5A5A;

/// The start word and the channel record of all contexts, which outlives them: the arrays are copied, what they point to is not. It never fires.
static WORD: AtomicU32 = AtomicU32::new(u32::MAX);

/// A deadline that any call keeps on a busy machine.
const AMPLE_US: u64 = 20_000_000;

/// Memory that the calls may write to.
struct Out {
    word: u64,
    more: [u64; 2],
    bytes: Bytes,
}

/// Room for messages, texts and members.
#[repr(align(8))]
struct Bytes([u8; 256]);

/// One struct of the interface, all zero but for its size, which is sometimes wrong.
fn record<R>(input: &mut Input<'_>) -> R {
    let mut record = MaybeUninit::<R>::zeroed();
    let size = match input.byte() % 16 {
        0 => 0,
        1 => size_of::<R>() - 8,
        2 => 16,
        3 => usize::MAX,
        _ => size_of::<R>(),
    };
    // SAFETY: the size is the first field of every struct that this is used for.
    unsafe { record.as_mut_ptr().cast::<usize>().write(size) };
    // SAFETY: all fields are numbers and pointers.
    unsafe { record.assume_init() }
}

/// What the calls of one input work on.
struct Run<'a> {
    library: &'a CStr,
    job: CString,
    handles: Vec<*mut c_void>,
    out: Out,
}

/// What a run of the body came to.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    /// Calls that succeeded.
    pub(crate) good: u64,
    /// Calls that were refused.
    pub(crate) refused: u64,
}

/// Calls an unsafe function of the interface.
macro_rules! c {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: every address is null or that of a live value of the type and length given; handles may be anything.
        unsafe { $function($($argument),*) }
    };
}

impl Run<'_> {
    fn handle<H>(&self, input: &mut Input<'_>) -> *mut H {
        let byte = usize::from(input.byte());
        let made_up = [0, 8, 0x9300_0000_0001_0000, usize::MAX];
        match self.handles.get(byte % (KEPT + 2)) {
            Some(handle) => handle.cast(),
            None => std::ptr::without_provenance_mut(made_up[byte % 4]),
        }
    }

    /// Where a new handle goes.
    fn place<H>(&mut self) -> *mut *mut H {
        (&raw mut self.out.word).cast()
    }

    fn create(&mut self, input: &mut Input<'_>) -> NRT_STATUS {
        // None is forgotten: a group without a handle would keep its contexts for ever.
        if self.handles.len() == KEPT {
            return NRT_RESOURCE;
        }
        let (library, group) = (self.handle(input), self.handle::<c_void>(input));
        let status = match input.byte() % 11 {
            8 => self.global_comm(input),
            9 => c!(enc_proxy_glb_comm_get_group(group.cast(), self.place())),
            10 => {
                let mut config: enc_proxy_report_config = record(input);
                (config.socket, config.every_us) = (input.number() % 3, 1 << 30);
                c!(enc_proxy_report_service_start(&config, self.place()))
            }
            0 => c!(enc_proxy_library_open(self.library.as_ptr(), self.place())),
            1 => c!(enc_proxy_settings_create(self.place())),
            2 | 3 => {
                let mut config: enc_proxy_group_config = record(input);
                config.device = 2000 + input.number() % 3;
                config.flags = u64::from(input.byte() == 9);
                c!(enc_proxy_group_acquire(&config, self.place()))
            }
            4 => {
                let id = [0_u8; ENC_PROXY_UNIQUE_ID_BYTES];
                let mut config: enc_proxy_comm_config = record(input);
                (config.rank_n, config.rank) = (input.number(), input.number());
                config.unique_id = id.as_ptr();
                c!(enc_proxy_comm_create(library, &config, self.place()))
            }
            5 => self.context(input, group.cast()),
            6 => {
                let mut config: bp_config = record(input);
                config.job = self.job.as_ptr();
                (config.world, config.rank) = (1 + input.number() % 2, input.number() % 2);
                config.timeout_us = 2000;
                c!(bp_create(&config, self.place()))
            }
            _ => c!(bp_barrier_create(
                group.cast(),
                input.number(),
                null(),
                0,
                self.place()
            )),
        };
        if status == NRT_SUCCESS {
            let handle = std::ptr::without_provenance_mut(self.out.word as usize);
            self.handles.push(handle);
            self.out.word = MARK;
        }
        status
    }

    fn global_comm(&mut self, input: &mut Input<'_>) -> NRT_STATUS {
        let mut bus: bp_config = record(input);
        bus.job = self.job.as_ptr();
        (bus.world, bus.rank) = (1 + input.number() % 2, input.number() % 2);
        bus.timeout_us = 2000;
        let mut config: enc_glb_comm_config = record(input);
        (config.bus, config.library) = (&raw const bus, self.handle(input));
        config.device = 2000 + input.number() % 3;
        if input.byte().is_multiple_of(2) {
            config.signature = self.out.bytes.0.as_ptr();
        }
        c!(enc_setup_global_comm(&config, self.place()))
    }

    fn context(&mut self, input: &mut Input<'_>, group: *mut enc_proxy_group) -> NRT_STATUS {
        // SAFETY: numbers and pointers.
        let mut op: net_ops_info = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: as above.
        let mut src: net_src_addr = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: as above.
        let mut dest: net_dest_addr = unsafe { MaybeUninit::zeroed().assume_init() };
        (op.net_idx_loop_size, op.initial_send_credits) = (512, 1);
        (op.ending_recv_credits, op.data_type_sz) = (1, 4);
        op.enc_channel = WORD.as_ptr().cast();
        (src.mark, dest.mark) = (EXEC_COMPLETE, EXEC_COMPLETE);
        match input.byte() % 8 {
            0 => op.net_idx_loop_size = input.number(),
            1 => src.mark = input.number(),
            2 => dest.net_op_idx = input.number(),
            3 => op.is_dynamic_send_recv_sz = 1,
            _ => {}
        }
        let set = enc_fifo_set {
            net_ops_info_fifo: &raw const op,
            net_ops_info_n: 1,
            src_addr_fifo: &raw const src,
            src_addr_n: 1,
            dest_addr_fifo: &raw const dest,
            dest_addr_n: usize::from(!input.byte().is_multiple_of(8)),
        };
        let block = enc_basic_block {
            id: 0,
            reserved: 0,
            fifo_sets: &raw const set,
        };
        let words = [WORD.as_ptr()];
        let mut config: encd_context_config = record(input);
        config.comm = self.handle(input);
        (config.stream_n, config.block_n, config.blocks) = (1, 1, &raw const block);
        match input.byte() % 8 {
            0 => config.start_words = words.as_ptr(),
            1 => config.polarity = input.number(),
            2 => config.arming = input.number(),
            3 => config.barrier_bus = self.handle(input),
            4 => config.rank = input.number(),
            5 => config.glb_comm = self.handle(input),
            _ => {}
        }
        c!(encd_context_create(group, &config, self.place()))
    }

    fn use_tasks(&mut self, input: &mut Input<'_>) -> NRT_STATUS {
        let context = self.handle::<encd_context>(input);
        let group = self.handle::<enc_proxy_group>(input);
        let ticket = enc_proxy_ticket {
            slot: input.number().into(),
            generation: input.number().into(),
        };
        let code = (&raw mut self.out.more[0]).cast();
        let (number, timeout) = (input.number(), input.timeout());
        let mut count = 0;
        match input.byte() % 15 {
            11 => encd_context_reset(context),
            // No descriptor of this process: a negative number, or one above its limit.
            12 => enc_proxy_report_to_fd(0, 1, number.cast_signed() | 1 << 30),
            13 => enc_proxy_trace_write_to_fd(group, number.cast_signed() | 1 << 30),
            0 | 1 => enc_enq_proxy_tasks(context, number.into()),
            2 => c!(enc_proxy_enqueue(context, 1, &mut record(input))),
            3 => c!(enc_proxy_check_status(
                context,
                number,
                (&raw mut self.out.word).cast(),
                code
            )),
            4 => c!(enc_consume_proxy_task_status(
                context,
                1 + number % 2,
                timeout,
                code
            )),
            5 => c!(enc_proxy_poll(
                group,
                &ticket,
                (&raw mut self.out.word).cast(),
                code
            )),
            6 => c!(enc_proxy_consume(group, &ticket, timeout, code)),
            7 => c!(enc_proxy_abort(group, &ticket, timeout)),
            8 => c!(enc_proxy_abort_context(context, timeout, &mut count)),
            9 => c!(enc_proxy_abort_group(group, timeout, &mut count)),
            10 => c!(enc_proxy_abort_all(timeout, &mut count)),
            _ => enc_proxy_arm(context, number),
        }
    }

    fn use_bus(&mut self, input: &mut Input<'_>) -> NRT_STATUS {
        let (bus, barrier) = (
            self.handle::<bananaphone>(input),
            self.handle::<bp_barrier>(input),
        );
        let (peer, tag, timeout) = (input.number(), input.number(), input.timeout());
        let (data, length) = (self.out.bytes.0.as_mut_ptr(), &raw mut self.out.more[0]);
        let bytes = usize::from(input.byte());
        match input.byte() % 14 {
            0 => bp_connect(bus, timeout),
            1 => c!(bp_send(bus, peer, tag, data, bytes, timeout)),
            2 => c!(bp_broadcast(bus, tag, data, bytes, timeout)),
            3 => c!(bp_recv(
                bus,
                peer,
                tag,
                data,
                bytes,
                length.cast(),
                null_mut(),
                timeout
            )),
            4 => c!(bp_all_gather(
                bus,
                data.wrapping_add(192),
                bytes.min(64),
                data,
                64,
                null_mut(),
                timeout
            )),
            5 => c!(bp_capacity(bus, length.cast())),
            6 => bp_hangup(bus),
            7 => bp_barrier_wait(barrier, 1, timeout),
            8 => bp_barrier_release(barrier),
            9 => bp_barrier_sync(barrier, 1, timeout),
            10 => bp_barrier_arrive(barrier, 1, timeout),
            11 => c!(bp_get_members(bus, data.cast(), peer % 32, null_mut())),
            12 => c!(bp_get_counters(bus, &mut record(input))),
            _ => c!(bp_barrier_poll(barrier, length.cast())),
        }
    }

    fn look(&mut self, input: &mut Input<'_>) -> NRT_STATUS {
        let handle: *mut c_void = self.handle(input);
        let (buffer, bytes) = (
            self.out.bytes.0.as_mut_ptr().cast(),
            usize::from(input.byte()),
        );
        match input.byte() % 11 {
            8 => c!(enc_proxy_report(
                input.number() % 3,
                1,
                buffer,
                bytes,
                null_mut()
            )),
            9 => set_sizes(input),
            10 => c!(enc_proxy_glb_comm_get_unique_id(
                handle.cast(),
                buffer.cast()
            )),
            0 => c!(enc_proxy_version(&mut record(input))),
            1 => c!(enc_proxy_library_get_version(
                handle.cast(),
                &mut record(input)
            )),
            2 => c!(enc_proxy_library_get_path(
                handle.cast(),
                buffer,
                bytes,
                null_mut()
            )),
            3 => c!(enc_proxy_settings_set(
                handle.cast(),
                c"NEURON_RT_PROXY_SPIN_US".as_ptr(),
                c"7".as_ptr()
            )),
            4 => c!(enc_proxy_settings_dump(
                handle.cast(),
                buffer,
                bytes,
                null_mut()
            )),
            5 => c!(enc_proxy_group_get_counters(
                handle.cast(),
                &mut record(input)
            )),
            6 => c!(enc_proxy_group_get_health(
                handle.cast(),
                &mut record(input)
            )),
            _ => c!(enc_proxy_dump(
                handle.cast(),
                input.number(),
                buffer,
                bytes,
                null_mut()
            )),
        }
    }

    fn destroy(handle: *mut c_void, kind: u8, timeout: u64) -> NRT_STATUS {
        match kind % 9 {
            7 => c!(enc_free_global_comm(
                handle.cast(),
                ENC_PROXY_ABORT,
                timeout,
                null_mut()
            )),
            8 => enc_proxy_report_service_stop(handle.cast()),
            0 => bp_barrier_hangup(handle.cast()),
            1 => bp_cleanup(handle.cast()),
            2 => encd_context_destroy(handle.cast()),
            3 => enc_proxy_comm_destroy(handle.cast(), timeout),
            4 => c!(enc_proxy_group_release(
                handle.cast(),
                ENC_PROXY_ABORT,
                timeout,
                null_mut()
            )),
            5 => enc_proxy_settings_destroy(handle.cast()),
            _ => enc_proxy_library_close(handle.cast()),
        }
    }
}

/// What the scripted library never asks for.
unsafe extern "C-unwind" fn get(
    _: *mut c_void,
    _: *mut c_void,
    _: usize,
    _: c_int,
    _: c_int,
) -> usize {
    0
}

unsafe extern "C-unwind" fn set(
    _: *mut c_void,
    _: *mut c_void,
    _: usize,
    _: usize,
    _: c_int,
    _: c_int,
) {
}

fn set_sizes(input: &mut Input<'_>) -> NRT_STATUS {
    let mut sizes: enc_proxy_dynamic_sizes = record(input);
    sizes.send_size_bytes = Some(get);
    sizes.send_offset_bytes = Some(get);
    if !input.byte().is_multiple_of(4) {
        sizes.recv_offset_bytes = Some(get);
    }
    sizes.set_recv_size_bytes = Some(set);
    c!(enc_proxy_set_dynamic_sizes(&sizes))
}

/// Runs the calls that `data` says against the collective library at `library`.
pub(crate) fn run(data: &[u8], library: &CStr) -> Tally {
    let job = format!("c-api-{}-{:p}", std::process::id(), data);
    let out = Out {
        word: MARK,
        more: [MARK; 2],
        bytes: Bytes([0; 256]),
    };
    let job = CString::new(job).expect("no zero byte");
    let mut run = Run {
        library,
        job,
        handles: Vec::new(),
        out,
    };
    let mut tally = Tally::default();
    let mut input = Input(data);
    for _ in 0..CALLS {
        if input.is_empty() {
            break;
        }
        let status = match input.byte() % 8 {
            0..=2 => run.create(&mut input),
            3 | 4 => run.use_tasks(&mut input),
            5 => run.use_bus(&mut input),
            6 => run.look(&mut input),
            _ => Run::destroy(run.handle(&mut input), input.byte(), 2000),
        };
        assert_ne!(status, ENC_PROXY_PANIC, "{}", last_error());
        match status {
            NRT_SUCCESS => tally.good += 1,
            _ => tally.refused += 1,
        }
        // The length of a text or message that does not fit is written, as documented.
        if status != NRT_SUCCESS && status != ENC_PROXY_TOO_SMALL {
            assert_eq!(
                (run.out.word, run.out.more[0]),
                (MARK, MARK),
                "{}",
                last_error()
            );
        }
        (run.out.word, run.out.more) = (MARK, [MARK; 2]);
    }
    close(&run.handles);
    tally
}

/// Destroys what is left, in an order that nothing keeps another thing from; unfinished tasks would keep their contexts.
fn close(handles: &[*mut c_void]) {
    let ended = c!(enc_proxy_abort_all(AMPLE_US, null_mut()));
    assert_eq!(ended, NRT_SUCCESS, "{}", last_error());
    for kind in [0, 2, 7, 4, 1, 3, 5, 6, 8] {
        for handle in handles {
            let status = Run::destroy(*handle, kind, AMPLE_US);
            assert!(
                matches!(status, NRT_SUCCESS | NRT_INVALID_HANDLE),
                "{}",
                last_error()
            );
        }
    }
}

fn last_error() -> String {
    // SAFETY: terminated, and good until this thread's next failed call.
    let text = unsafe { CStr::from_ptr(enc_proxy_last_error()) };
    text.to_string_lossy().into_owned()
}
