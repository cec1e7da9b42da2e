//! Reading which CPUs a thread runs on and may run on. Setting is done at creation only, in [`super::thread`].
#![allow(
    unsafe_code,
    reason = "sched_getaffinity and sched_setaffinity are C calls"
)]

use std::io;

use super::cpuset::CpuSet;
use super::fault::{self, Call};
use super::{check, thread};

/// Words of the first try: 1024 CPUs, the C library's own limit and Linux's usual one.
const FIRST_WORDS: usize = 16;
/// Words of the last try: every CPU that [`CpuSet`] can hold.
const LAST_WORDS: usize = (CpuSet::MAX_CPU as usize + 1) / 64;

/// The CPUs of the calling thread.
///
/// # Errors
/// The kernel's.
pub fn current() -> io::Result<CpuSet> {
    of(0)
}

/// The CPUs of thread `tid`; 0 = the calling thread.
///
/// # Errors
/// The kernel's: `ESRCH` when there is no such thread.
pub fn of(tid: u32) -> io::Result<CpuSet> {
    fault::point(Call::GetAffinity)?;
    let tid = libc::pid_t::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let mut words = vec![0_u64; FIRST_WORDS];
    loop {
        let bytes = size_of_val(words.as_slice());
        // SAFETY: the buffer is valid for `bytes` bytes and aligned for the words that the kernel writes.
        let answer =
            check(unsafe { libc::sched_getaffinity(tid, bytes, words.as_mut_ptr().cast()) });
        match answer {
            Ok(_) => return Ok(CpuSet::from_words(words)),
            // The kernel knows more CPUs than the buffer holds.
            Err(error)
                if error.raw_os_error() == Some(libc::EINVAL) && words.len() < LAST_WORDS =>
            {
                words = vec![0; words.len() * 2];
            }
            Err(error) => return Err(error),
        }
    }
}

/// The CPUs that the kernel lets a thread of this process use at all: the online CPUs of its cpuset.
///
/// Not the caller's own mask: programs are commonly started with `taskset` on some CPUs and give the proxy others. The
/// kernel tells only by being asked, so a short-lived thread asks for every CPU and reads what it got; the caller's mask is
/// not touched.
///
/// # Errors
/// The kernel's, from creating the thread or from either call.
pub fn allowed() -> io::Result<CpuSet> {
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    let ask = move || {
        // The receiver lives until the answer is there.
        let _ = send.send(widen().and_then(|()| current()));
    };
    let asker = thread::spawn(
        |_| thread::ThreadName::new("proxy-cpus"),
        None,
        Box::new(ask),
    )?;
    let answer = receive
        .recv()
        .map_err(|_| io::Error::other("the thread that asks for the allowed CPUs ended early"))?;
    asker.join()?;
    answer
}

/// Asks for every CPU for the calling thread; the kernel gives those of the cpuset.
fn widen() -> io::Result<()> {
    fault::point(Call::SetAffinity)?;
    let words = [u64::MAX; LAST_WORDS];
    // SAFETY: the buffer is valid for its bytes; 0 = the calling thread.
    let answer = unsafe { libc::sched_setaffinity(0, size_of_val(&words), words.as_ptr().cast()) };
    check(answer).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_runs_on_is_allowed() {
        let (current, allowed) = (current().unwrap(), allowed().unwrap());
        assert!(!current.is_empty());
        assert!(current.difference(&allowed).is_empty());
    }

    #[test]
    fn a_thread_that_is_not_there_is_an_error() {
        assert_eq!(of(u32::MAX).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
