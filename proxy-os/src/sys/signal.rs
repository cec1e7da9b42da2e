//! Dying the way a killed process dies, without destructor, exit hook or flush; and being stopped.
#![allow(unsafe_code, reason = "raise is a C call")]

/// Kills this process with `SIGKILL`. Only for tests of what its peers do then.
pub(crate) fn kill_self() -> ! {
    // SAFETY: no pointers are passed.
    unsafe { libc::raise(libc::SIGKILL) };
    // The signal cannot be caught, so nobody comes here.
    std::process::abort()
}

/// Stops this process until somebody sends it `SIGCONT`. Only for tests.
pub(crate) fn stop_self() {
    // SAFETY: no pointers are passed.
    unsafe { libc::raise(libc::SIGSTOP) };
}
