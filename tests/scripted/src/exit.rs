//! The exit hook: notes that the process is exiting, and reports proxy calls that come after it.
//!
//! A host that leaves its worker running while the process exits would call into a library whose exit hook has run
//! already. With `SCRIPTED_EXIT_FILE` set each such call appends one line to that file.
#![allow(
    unsafe_code,
    reason = "the hook is placed in .fini_array, which the linker collects by section name"
)]

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::rule::Call;

static EXITED: AtomicBool = AtomicBool::new(false);

/// Run by the dynamic loader at process exit (or at the last unload), after every `atexit` handler of the host.
#[used]
// SAFETY: the section holds pointers to functions without arguments that the loader calls once each; this is one.
#[unsafe(link_section = ".fini_array")]
static ON_EXIT: extern "C" fn() = on_exit;

extern "C" fn on_exit() {
    // Release: pairs with the acquire load in `report_late_call`.
    EXITED.store(true, Ordering::Release);
}

/// Called at the start of each proxy call; one load while the process lives.
pub(crate) fn report_late_call(call: Call, stream: u32) {
    // Acquire: pairs with the release store in `on_exit`.
    if !EXITED.load(Ordering::Acquire) {
        return;
    }
    let Some(path) = std::env::var_os("SCRIPTED_EXIT_FILE") else {
        return;
    };
    let line = format!("{} stream={stream} after the exit hook\n", call.name());
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        eprintln!(
            "scripted: cannot write SCRIPTED_EXIT_FILE {}: {error}",
            path.display()
        );
    }
}
