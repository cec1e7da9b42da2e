//! H73: a panic in every exported function becomes a code and a text, and leaves handles that can be destroyed.
#![allow(unsafe_code, reason = "functions of C are called as C calls them")]
#![allow(clippy::wildcard_imports, reason = "every exported name is used here")]

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::*;
use crate::abort::*;
use crate::barrier::*;
use crate::bus::*;
use crate::comm::*;
use crate::context::*;
use crate::dynamic::*;
use crate::error::*;
use crate::glb_comm::*;
use crate::group::*;
use crate::library::*;
use crate::log::*;
use crate::members::*;
use crate::record::Record;
use crate::report::*;
use crate::settings::*;
use crate::status::*;
use crate::task::*;
use crate::trace::*;
use crate::version::*;
use crate::{ENC_PROXY_FOREVER, nec_inc_semaphore};

/// One object of each kind.
struct Objects {
    library: *mut enc_proxy_library,
    comm: *mut enc_proxy_comm,
    settings: *mut enc_proxy_settings,
    group: *mut enc_proxy_group,
    context: *mut encd_context,
    bus: *mut bananaphone,
    barrier: *mut bp_barrier,
    glb_comm: *mut enc_glb_comm,
    service: *mut enc_proxy_report_service,
}

fn good(status: NRT_STATUS) {
    assert_eq!(status, NRT_SUCCESS, "{}", last_error());
}

fn last_error() -> String {
    // SAFETY: terminated, and good until this thread's next failed call.
    let text = unsafe { CStr::from_ptr(enc_proxy_last_error()) };
    text.to_string_lossy().into_owned()
}

/// The scripted library, whose calls do nothing here.
fn scripted() -> Option<CString> {
    let path = std::env::var_os("PROXY_SCRIPTED_LIB").map(PathBuf::from)?;
    Some(CString::new(path.to_string_lossy().as_bytes()).expect("no zero byte"))
}

/// Calls an unsafe exported function; every argument in this file is valid or null.
macro_rules! c {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: every address is that of a live value of the type wanted, or null, which the function refuses or allows.
        unsafe { $function($($argument),*) }
    };
}

/// A struct of C, all zero but for its size.
fn zeroed<R: Record>() -> R {
    let mut record = MaybeUninit::<R>::zeroed();
    // SAFETY: the size is the first field of every record.
    unsafe { record.as_mut_ptr().cast::<usize>().write(size_of::<R>()) };
    // SAFETY: any bytes are a value of a record.
    unsafe { record.assume_init() }
}

impl Objects {
    fn new(library: &CStr) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut objects = Self {
            library: null_mut(),
            comm: null_mut(),
            settings: null_mut(),
            group: null_mut(),
            context: null_mut(),
            bus: null_mut(),
            barrier: null_mut(),
            glb_comm: null_mut(),
            service: null_mut(),
        };
        good(c!(enc_proxy_library_open(
            library.as_ptr(),
            &mut objects.library
        )));
        // The scripted library looks at no communicator that nothing progresses.
        let comm = null_mut::<u8>().wrapping_add(8).cast();
        good(c!(enc_proxy_comm_adopt(
            objects.library,
            comm,
            1,
            &mut objects.comm
        )));
        good(c!(enc_proxy_settings_create(&mut objects.settings)));
        let mut group = zeroed::<enc_proxy_group_config>();
        group.device = 1000 + number;
        group.settings = objects.settings;
        good(c!(enc_proxy_group_acquire(&group, &mut objects.group)));
        let mut context = zeroed::<encd_context_config>();
        context.comm = objects.comm;
        good(c!(encd_context_create(
            objects.group,
            &context,
            &mut objects.context
        )));
        let job =
            CString::new(format!("panic-{}-{number}", std::process::id())).expect("no zero byte");
        let mut bus = zeroed::<bp_config>();
        (bus.job, bus.world) = (job.as_ptr(), 1);
        good(c!(bp_create(&bus, &mut objects.bus)));
        good(c!(bp_barrier_create(
            objects.bus,
            0,
            null(),
            0,
            &mut objects.barrier
        )));
        objects.with_globals(number)
    }

    /// Adds what there is one of per rank and per process.
    fn with_globals(mut self, number: u32) -> Self {
        let job = CString::new(format!("panic-glb-{}-{number}", std::process::id()));
        let job = job.expect("no zero byte");
        let mut bus = zeroed::<bp_config>();
        (bus.job, bus.world) = (job.as_ptr(), 1);
        let mut config = zeroed::<enc_glb_comm_config>();
        (config.bus, config.device) = (&raw const bus, 2000 + number);
        good(c!(enc_setup_global_comm(&config, &mut self.glb_comm)));
        let config = zeroed::<enc_proxy_report_config>();
        good(c!(enc_proxy_report_service_start(
            &config,
            &mut self.service
        )));
        self
    }

    /// Every handle can be destroyed, whatever happened to it.
    fn destroy(self) {
        good(enc_proxy_report_service_stop(self.service));
        good(c!(enc_free_global_comm(
            self.glb_comm,
            ENC_PROXY_DRAIN,
            ENC_PROXY_FOREVER,
            null_mut()
        )));
        good(bp_barrier_hangup(self.barrier));
        good(bp_cleanup(self.bus));
        good(encd_context_destroy(self.context));
        good(enc_proxy_comm_destroy(self.comm, ENC_PROXY_FOREVER));
        good(c!(enc_proxy_group_release(
            self.group,
            ENC_PROXY_DRAIN,
            ENC_PROXY_FOREVER,
            null_mut()
        )));
        good(enc_proxy_settings_destroy(self.settings));
        good(enc_proxy_library_close(self.library));
    }
}

/// An exported function: its name, a call of it, and a call that shows whether its handle is poisoned (`None`: it has no handle).
type Row = (
    &'static str,
    fn(&Objects) -> NRT_STATUS,
    Option<fn(&Objects) -> NRT_STATUS>,
);

macro_rules! rows {
    ($($probe:expr => { $($function:ident |$objects:ident| $call:expr;)+ })+) => {
        &[$($((stringify!($function), |$objects: &Objects| $call, $probe),)+)+]
    };
}

/// Where places of [`out`] are, so that a leak check finds them.
static PLACES: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// A place to write to, for as long as the process lives.
fn out<T: Copy>() -> *mut T {
    // SAFETY: all zeroes are a value of the numbers and pointers that it is used for.
    let place: *mut T = Box::leak(Box::new(unsafe { std::mem::zeroed() }));
    PLACES.lock().expect("no push panics").push(place.addr());
    place
}

const NO_PROBE: Option<fn(&Objects) -> NRT_STATUS> = None;

/// Every function with a status.
const ROWS: &[Row] = rows! {
    NO_PROBE => {
        enc_proxy_version |_objects| c!(enc_proxy_version(&mut zeroed::<enc_proxy_version_t>()));
        enc_proxy_set_log |_objects| c!(enc_proxy_set_log(None, null_mut(), ENC_PROXY_LOG_WARN));
        enc_proxy_set_error_handler |_objects| c!(enc_proxy_set_error_handler(None, null_mut()));
        enc_proxy_library_open |_objects| c!(enc_proxy_library_open(c"x".as_ptr(), out()));
        enc_proxy_settings_create |_objects| c!(enc_proxy_settings_create(out()));
        enc_proxy_settings_dump |o| c!(enc_proxy_settings_dump(o.settings, null_mut(), 0, out()));
        enc_proxy_group_acquire |_objects| c!(enc_proxy_group_acquire(&zeroed::<enc_proxy_group_config>(), out()));
        enc_proxy_abort_all |_objects| c!(enc_proxy_abort_all(0, out()));
        enc_proxy_report |_objects| c!(enc_proxy_report(ENC_PROXY_TEXT, 0, null_mut(), 0, out()));
        enc_proxy_report_merge |_objects|
            c!(enc_proxy_report_merge(null(), 0, 0, ENC_PROXY_TEXT, null_mut(), 0, out()));
        enc_proxy_report_to_fd |_objects| enc_proxy_report_to_fd(ENC_PROXY_TEXT, 0, -1);
        enc_proxy_report_service_start |_objects|
            c!(enc_proxy_report_service_start(&zeroed::<enc_proxy_report_config>(), out()));
        enc_proxy_set_dynamic_sizes |_objects|
            c!(enc_proxy_set_dynamic_sizes(&zeroed::<enc_proxy_dynamic_sizes>()));
        enc_setup_global_comm |_objects| c!(enc_setup_global_comm(&zeroed::<enc_glb_comm_config>(), out()));
        bp_create |_objects| c!(bp_create(&zeroed::<bp_config>(), out()));
        enc_proxy_report_service_stop |o| enc_proxy_report_service_stop(o.service);
    }
    Some(|o| c!(enc_proxy_glb_comm_get_group(o.glb_comm, out()))) => {
        enc_free_global_comm |o| c!(enc_free_global_comm(o.glb_comm, ENC_PROXY_DRAIN, 0, null_mut()));
        enc_proxy_glb_comm_get_unique_id |o|
            c!(enc_proxy_glb_comm_get_unique_id(o.glb_comm, out::<[u8; 128]>().cast()));
        enc_proxy_glb_comm_get_group |o| c!(enc_proxy_glb_comm_get_group(o.glb_comm, out()));
    }
    Some(|o| c!(enc_proxy_library_get_path(o.library, null_mut(), 0, out()))) => {
        enc_proxy_library_close |o| enc_proxy_library_close(o.library);
        enc_proxy_library_get_version |o|
            c!(enc_proxy_library_get_version(o.library, &mut zeroed::<enc_proxy_library_version>()));
        enc_proxy_library_get_path |o| c!(enc_proxy_library_get_path(o.library, null_mut(), 0, out()));
        enc_proxy_get_unique_id |o| c!(enc_proxy_get_unique_id(o.library, 1, out::<[u8; 128]>().cast()));
        enc_proxy_comm_create |o| c!(enc_proxy_comm_create(o.library, &zeroed::<enc_proxy_comm_config>(), out()));
        enc_proxy_comm_adopt |o| c!(enc_proxy_comm_adopt(o.library, out::<u64>().cast(), 1, out()));
    }
    Some(|o| c!(enc_proxy_comm_get_connector(o.comm, 0, 0, 0, out()))) => {
        enc_proxy_comm_get_connector |o| c!(enc_proxy_comm_get_connector(o.comm, 0, 0, 0, out()));
        enc_proxy_comm_destroy |o| enc_proxy_comm_destroy(o.comm, 0);
    }
    Some(|o| c!(enc_proxy_settings_get(o.settings, c"x".as_ptr(), null_mut(), 0, out()))) => {
        enc_proxy_settings_destroy |o| enc_proxy_settings_destroy(o.settings);
        enc_proxy_settings_set |o| c!(enc_proxy_settings_set(o.settings, c"x".as_ptr(), c"y".as_ptr()));
        enc_proxy_settings_get |o| c!(enc_proxy_settings_get(o.settings, c"x".as_ptr(), null_mut(), 0, out()));
    }
    Some(|o| c!(enc_proxy_group_get_counters(o.group, &mut zeroed::<enc_proxy_group_counters>()))) => {
        enc_proxy_group_release |o| c!(enc_proxy_group_release(o.group, ENC_PROXY_DRAIN, 0, null_mut()));
        enc_proxy_group_get_counters |o|
            c!(enc_proxy_group_get_counters(o.group, &mut zeroed::<enc_proxy_group_counters>()));
        enc_proxy_group_get_health |o|
            c!(enc_proxy_group_get_health(o.group, &mut zeroed::<enc_proxy_group_health>()));
        enc_proxy_abort |o| c!(enc_proxy_abort(o.group, out(), 0));
        enc_proxy_abort_group |o| c!(enc_proxy_abort_group(o.group, 0, out()));
        enc_proxy_trace_start |o| enc_proxy_trace_start(o.group, usize::MAX);
        enc_proxy_trace_write_to_fd |o| enc_proxy_trace_write_to_fd(o.group, -1);
        enc_proxy_dump |o| c!(enc_proxy_dump(o.group, ENC_PROXY_TEXT, null_mut(), 0, out()));
        encd_context_create |o| c!(encd_context_create(o.group, &zeroed::<encd_context_config>(), out()));
        enc_proxy_poll |o| c!(enc_proxy_poll(o.group, out(), out(), out()));
        enc_proxy_consume |o| c!(enc_proxy_consume(o.group, out(), 0, out()));
    }
    Some(|o| enc_proxy_arm(o.context, PROXY_TASK_NETWORK)) => {
        encd_context_destroy |o| encd_context_destroy(o.context);
        encd_context_reset |o| encd_context_reset(o.context);
        enc_proxy_arm |o| enc_proxy_arm(o.context, PROXY_TASK_NETWORK);
        enc_proxy_abort_context |o| c!(enc_proxy_abort_context(o.context, 0, out()));
        enc_enq_proxy_tasks |o| enc_enq_proxy_tasks(o.context, 1);
        enc_proxy_enqueue |o| c!(enc_proxy_enqueue(o.context, 1, &mut zeroed::<enc_proxy_execution>()));
        enc_proxy_check_status |o| c!(enc_proxy_check_status(o.context, PROXY_TASK_NETWORK, out(), out()));
        enc_check_proxy_network_task_status |o| c!(enc_check_proxy_network_task_status(o.context, out(), out()));
        enc_check_proxy_barrier_task_status |o| c!(enc_check_proxy_barrier_task_status(o.context, out(), out()));
        enc_consume_proxy_task_status |o|
            c!(enc_consume_proxy_task_status(o.context, PROXY_TASK_NETWORK, 0, out()));
    }
    Some(|o| c!(bp_capacity(o.bus, out()))) => {
        bp_connect |o| bp_connect(o.bus, 0);
        bp_send |o| c!(bp_send(o.bus, 0, 0, null(), 0, 0));
        bp_broadcast |o| c!(bp_broadcast(o.bus, 0, null(), 0, 0));
        bp_recv |o| c!(bp_recv(o.bus, 0, 0, null_mut(), 0, out(), out(), 0));
        bp_all_gather |o| c!(bp_all_gather(o.bus, null(), 0, null_mut(), 0, null_mut(), 0));
        bp_capacity |o| c!(bp_capacity(o.bus, out()));
        bp_get_members |o| c!(bp_get_members(o.bus, out(), 1, out()));
        bp_get_counters |o| c!(bp_get_counters(o.bus, &mut zeroed::<bp_counters>()));
        bp_barrier_create |o| c!(bp_barrier_create(o.bus, 1, null(), 0, out()));
        bp_hangup |o| bp_hangup(o.bus);
        bp_cleanup |o| bp_cleanup(o.bus);
    }
    Some(|o| c!(bp_barrier_poll(o.barrier, out()))) => {
        bp_barrier_wait |o| bp_barrier_wait(o.barrier, 1, 0);
        bp_barrier_release |o| bp_barrier_release(o.barrier);
        bp_barrier_sync |o| bp_barrier_sync(o.barrier, 1, 0);
        bp_barrier_arrive |o| bp_barrier_arrive(o.barrier, 1, 0);
        bp_barrier_poll |o| c!(bp_barrier_poll(o.barrier, out()));
        bp_barrier_hangup |o| bp_barrier_hangup(o.barrier);
    }
};

/// Functions without a status: nothing of them can panic but an injected panic.
const WITHOUT_STATUS: [&str; 7] = [
    "enc_proxy_status_text",
    "enc_proxy_last_error",
    "nec_inc_semaphore",
    "nec_get_dynamic_send_size_bytes",
    "nec_get_dynamic_send_offset_bytes",
    "nec_get_dynamic_recv_offset_bytes",
    "nec_set_recv_size_bytes",
];

/// The names of the functions that the header declares.
fn declared() -> BTreeSet<&'static str> {
    let header = include_str!("../../include/enc_proxy.h");
    let before_parenthesis = header
        .split_inclusive('(')
        .filter_map(|part| part.strip_suffix('('));
    let names = before_parenthesis.filter_map(|part| {
        let line = part.rsplit('\n').next()?;
        let starts = ["NRT_STATUS ", "void ", "size_t ", "const char *"];
        let rest = starts.iter().find_map(|start| line.strip_prefix(start))?;
        (!rest.is_empty()).then_some(rest)
    });
    names.collect()
}

/// The tests that make objects of every kind, or leave no room for them, take turns.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn a_global_comm_without_room_for_its_handle_is_not_set_up() {
    let Some(library) = scripted() else {
        println!(
            "SKIPPED: the library of PROXY_SCRIPTED_LIB not available: cargo xtask test builds it"
        );
        return;
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let objects = Objects::new(&library);
    let job = CString::new(format!("full-{}", std::process::id())).expect("no zero byte");
    let mut bus = zeroed::<bp_config>();
    (bus.job, bus.world) = (job.as_ptr(), 1);
    let mut config = zeroed::<enc_glb_comm_config>();
    (config.bus, config.device) = (&raw const bus, 3000);
    let leader = 0;
    (config.leader_comm, config.leaders, config.leader_n) = (objects.comm, &raw const leader, 1);
    let kept: Vec<_> = std::iter::from_fn(|| GLOBAL_COMMS.reserve().ok()).collect();
    let mut comm = null_mut();
    assert_eq!(c!(enc_setup_global_comm(&config, &mut comm)), NRT_RESOURCE);
    drop(kept);
    // Nothing of it is left: neither the rank on the bus nor a hold on the leader's communicator.
    good(c!(enc_setup_global_comm(&config, &mut comm)));
    good(c!(enc_free_global_comm(
        comm,
        ENC_PROXY_DRAIN,
        ENC_PROXY_FOREVER,
        null_mut()
    )));
    objects.destroy();
}

#[test]
fn h73_every_function_of_the_header_is_among_those_that_are_made_to_panic() {
    let rows = ROWS.iter().map(|(name, ..)| *name);
    let known: BTreeSet<&str> = rows.chain(WITHOUT_STATUS).collect();
    assert_eq!(known, declared());
}

#[test]
fn h73_a_panic_in_any_function_is_a_code_and_leaves_handles_that_can_be_destroyed() {
    let Some(library) = scripted() else {
        println!(
            "SKIPPED: the library of PROXY_SCRIPTED_LIB not available: cargo xtask test builds it"
        );
        return;
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, call, probe) in ROWS {
        let objects = Objects::new(&library);
        arm();
        assert_eq!(call(&objects), ENC_PROXY_PANIC, "{name}: {}", last_error());
        assert!(!is_armed(), "{name}");
        assert_eq!(last_error(), format!("{name}: panic: injected into {name}"));
        if let Some(probe) = probe {
            assert_eq!(probe(&objects), ENC_PROXY_POISONED, "{name}");
            assert!(
                last_error().ends_with("can only be destroyed: an earlier call on it has panicked")
            );
        }
        objects.destroy();
    }
}

#[test]
fn h73_a_panic_under_a_call_of_the_library_goes_no_further() {
    let mut word = 5_u32;
    arm();
    c!(nec_inc_semaphore(&raw mut word, 3));
    assert!(!is_armed());
    c!(nec_inc_semaphore(&raw mut word, 3));
    assert_eq!(word, 8);
    let nobody = null_mut();
    for get in [
        nec_get_dynamic_send_size_bytes,
        nec_get_dynamic_send_offset_bytes,
        nec_get_dynamic_recv_offset_bytes,
    ] {
        arm();
        assert_eq!(c!(get(nobody, 4, 0, 1)), 0);
        assert!(!is_armed());
    }
    arm();
    c!(nec_set_recv_size_bytes(nobody, 64, 4, 0, 1));
    assert!(!is_armed());
}

#[test]
fn h73_a_log_sink_that_throws_costs_its_message_only() {
    static SEEN: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C-unwind" fn throws(
        _: *mut std::ffi::c_void,
        _: u32,
        _: *const std::ffi::c_char,
    ) {
        SEEN.fetch_add(1, Ordering::Relaxed); // read by the same thread
        panic!("planted");
    }
    good(c!(enc_proxy_set_log(
        Some(throws),
        null_mut(),
        ENC_PROXY_LOG_WARN
    )));
    proxy_os::log::warn(format_args!("one message"));
    good(c!(enc_proxy_set_log(None, null_mut(), ENC_PROXY_LOG_WARN)));
    assert!(SEEN.load(Ordering::Relaxed) >= 1); // the same thread
}

#[test]
fn h73_functions_for_dynamic_sizes_that_throw_cost_their_answer_only() {
    use std::ffi::{c_int, c_void};
    unsafe extern "C-unwind" fn get(
        _: *mut c_void,
        _: *mut c_void,
        _: usize,
        _: c_int,
        _: c_int,
    ) -> usize {
        panic!("planted");
    }
    unsafe extern "C-unwind" fn set(
        told: *mut c_void,
        _: *mut c_void,
        bytes: usize,
        _: usize,
        _: c_int,
        _: c_int,
    ) {
        // SAFETY: `user` is the static below.
        let told = unsafe { &*told.cast::<AtomicU32>() };
        told.store(u32::try_from(bytes).expect("small"), Ordering::Relaxed); // read by the same thread
        panic!("planted");
    }
    static TOLD: AtomicU32 = AtomicU32::new(0);
    let mut sizes = zeroed::<enc_proxy_dynamic_sizes>();
    sizes.user = TOLD.as_ptr().cast();
    (sizes.send_size_bytes, sizes.send_offset_bytes) = (Some(get as _), Some(get as _));
    (sizes.recv_offset_bytes, sizes.set_recv_size_bytes) = (Some(get as _), Some(set as _));
    good(c!(enc_proxy_set_dynamic_sizes(&sizes)));
    assert_eq!(c!(nec_get_dynamic_send_size_bytes(null_mut(), 4, 0, 1)), 0);
    c!(nec_set_recv_size_bytes(null_mut(), 64, 4, 0, 1));
    assert_eq!(TOLD.load(Ordering::Relaxed), 64); // the same thread
}
