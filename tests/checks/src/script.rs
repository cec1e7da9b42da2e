//! The scripted library from a test's side: open a communicator, add rules, read the calls.
#![allow(
    unsafe_code,
    reason = "control exports of the scripted library are C calls"
)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use libloading::os::unix::{Library as Mapped, Symbol};
use proxy_core::Rank;
use proxy_kit::entryless;
use proxy_os::nccom::{self, Comm, Library, ProxyComm};
use proxy_os::{ContextBuilder, Fifo};

pub use scripted::script::CallRecord;

/// Where `libscripted.so` is: where `cargo xtask test` says, else beside the test program, where cargo builds it.
fn path() -> PathBuf {
    if let Some(path) = std::env::var_os("PROXY_SCRIPTED_LIB") {
        return path.into();
    }
    let program = std::env::current_exe().expect("the path of this program");
    program.with_file_name("libscripted.so")
}

/// The scripted library as the driver loads it.
pub fn library() -> Arc<Library> {
    nccom::shared(path().as_os_str()).expect("the scripted library loads")
}

/// One communicator of the scripted library. It lives as long as the process, as a worker that is left behind may use it.
#[derive(Debug)]
pub struct Script {
    comm: Comm,
    mapped: Mapped,
}

impl Default for Script {
    fn default() -> Self {
        Self::open()
    }
}

impl Script {
    /// Default script: start 0, progress done at once, stop 0.
    pub fn open() -> Self {
        library();
        // SAFETY: the file is loaded already, so no constructor runs.
        let mapped = unsafe { Mapped::new(path()) }.expect("the scripted library is loaded");
        // SAFETY: the signature of the control export.
        let open: Symbol<extern "C" fn() -> *mut c_void> =
            unsafe { mapped.get(b"scripted_open\0") }.expect("export");
        let comm = Comm::new(open()).expect("a handle");
        keep(comm);
        Self { comm, mapped }
    }

    /// A communicator with rules; see the library for their grammar.
    pub fn with(rules: &[&str]) -> Self {
        let script = Self::open();
        for rule in rules {
            script.rule(rule);
        }
        script
    }

    /// Adds a rule; later ones win.
    pub fn rule(&self, rule: &str) {
        type Rule = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;
        let text = CString::new(rule).expect("no zero byte");
        // SAFETY: the signature of the control export.
        let add: Symbol<Rule> = unsafe { self.mapped.get(b"scripted_rule\0") }.expect("export");
        // SAFETY: the handle is live, the text terminated.
        let answer = unsafe { add(self.comm.as_ptr(), text.as_ptr()) };
        assert_eq!(answer, 0, "{rule}");
    }

    /// Lets blocked calls go on.
    pub fn release(&self) {
        // SAFETY: the signature of the control export.
        let release: Symbol<unsafe extern "C" fn(*mut c_void)> =
            unsafe { self.mapped.get(b"scripted_release\0") }.expect("export");
        // SAFETY: the handle is live.
        unsafe { release(self.comm.as_ptr()) };
    }

    /// The recorded calls, first 4096.
    pub fn calls(&self) -> Vec<CallRecord> {
        type Calls = unsafe extern "C" fn(*mut c_void, *mut CallRecord, u64) -> u64;
        let mut calls = Vec::with_capacity(4096);
        // SAFETY: the signature of the control export.
        let copy: Symbol<Calls> = unsafe { self.mapped.get(b"scripted_calls\0") }.expect("export");
        // SAFETY: the handle is live, and there is room for 4096 records.
        let total = unsafe { copy(self.comm.as_ptr(), calls.as_mut_ptr(), 4096) };
        let copied = usize::try_from(total).map_or(4096, |total| total.min(4096));
        // SAFETY: the library has written this many.
        unsafe { calls.set_len(copied) };
        calls
    }

    /// The recorded calls as `start 0 7` (call, stream, block), with repeated progress calls told once.
    pub fn order(&self) -> Vec<String> {
        let mut order: Vec<String> = self.calls().iter().map(told).collect();
        order.dedup();
        order
    }

    /// Number of calls of one kind: 0 start, 1 progress, 2 stop.
    pub fn count(&self, call: u32) -> u64 {
        type Count = unsafe extern "C" fn(*mut c_void, u32) -> u64;
        // SAFETY: the signature of the control export.
        let count: Symbol<Count> = unsafe { self.mapped.get(b"scripted_count\0") }.expect("export");
        // SAFETY: the handle is live.
        unsafe { count(self.comm.as_ptr(), call) }
    }

    /// A builder for contexts of `rank` on this communicator, of 8 ranks.
    pub fn context(&self, rank: u32) -> ContextBuilder {
        self.context_among(rank, 8)
    }

    /// A builder for contexts of `rank` on this communicator, of `ranks` ranks.
    pub fn context_among(&self, rank: u32, ranks: u32) -> ContextBuilder {
        ContextBuilder::new(self.comm(ranks), Rank(rank))
    }

    /// This communicator, of `ranks` ranks. Contexts whose tasks are to have turns share one.
    pub fn comm(&self, ranks: u32) -> Arc<ProxyComm> {
        // SAFETY: the handle lives as long as the process; each test uses it from one queue; the scripted library follows
        // no address of the arrays.
        unsafe { ProxyComm::new(library(), self.comm, ranks) }
    }
}

/// Keeps a handle reachable to the end of the process, so that a leak check can tell it from what is lost.
pub fn keep(comm: Comm) {
    static KEPT: Mutex<Vec<Comm>> = Mutex::new(Vec::new());
    KEPT.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(comm);
}

/// A word for a device that lives as long as the process; reachable to its end, as above.
pub fn word() -> &'static AtomicU32 {
    static KEPT: Mutex<Vec<&AtomicU32>> = Mutex::new(Vec::new());
    let word: &AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    KEPT.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(word);
    word
}

fn told(call: &CallRecord) -> String {
    match call.call {
        0 => format!("start {} {}", call.stream, call.block),
        1 => format!("progress {} {}", call.stream, call.block),
        _ => format!("stop {}", call.stream),
    }
}

/// FIFO sets of `streams` streams for a block: one op without entries, and the terminators.
pub fn sets(block: u32, streams: usize) -> Vec<Fifo> {
    let (ops, src, dest) = entryless::arrays(block);
    let set = Fifo { ops, src, dest };
    vec![set; streams]
}
