//! What tests do to processes and sockets: limits, signals, timers, strangers at a socket.
#![allow(unsafe_code, reason = "limits, signals and sockets are C calls")]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

fn check(answer: libc::c_int) -> libc::c_int {
    assert!(answer >= 0, "{}", io::Error::last_os_error());
    answer
}

/// Lowers the soft limit of a resource of this process.
pub fn limit(resource: libc::__rlimit_resource_t, soft: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for the kernel to write.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) });
    limit.rlim_cur = soft;
    // SAFETY: `limit` is valid for the kernel to read.
    check(unsafe { libc::setrlimit(resource, &raw const limit) });
}

/// Bytes of this process's address space.
pub fn address_space() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages = statm.split(' ').next().and_then(|size| size.parse().ok());
    let pages: u64 = pages.expect("a number");
    pages * 4096
}

/// Threads of this process.
pub fn threads() -> usize {
    std::fs::read_dir("/proc/self/task")
        .expect("procfs")
        .count()
}

/// Sends a signal to a process.
pub fn signal(pid: u32, signal: libc::c_int) {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::kill(pid.cast_signed(), signal) });
}

/// Sends this process a signal every `period`, which does nothing but interrupt system calls.
pub fn interrupt_every(period: Duration) {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all zeros is a valid action: no flags, so that system calls are not restarted, and an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
    // SAFETY: the action is valid and its handler touches nothing.
    check(unsafe { libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) });
    let every = libc::timeval {
        tv_sec: 0,
        tv_usec: i64::from(period.subsec_micros()),
    };
    let timer = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: the timer is valid.
    check(unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) });
}

/// CPU time of this process, all threads.
pub fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the kernel to write.
    check(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) });
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// A socket, and the address with this name, which is in no file system, with its length.
fn socket(name: &str) -> (OwnedFd, libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0) });
    // SAFETY: just created, owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut address = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    };
    for (place, byte) in address.sun_path.iter_mut().skip(1).zip(name.bytes()) {
        *place = byte.cast_signed();
    }
    let length = (mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len()) as libc::socklen_t;
    (socket, address, length)
}

/// Takes a name without listening at it.
pub fn take_name(name: &str) -> OwnedFd {
    let (socket, address, length) = socket(name);
    // SAFETY: the address is valid for its length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) });
    socket
}

/// A connection to who listens at a name.
pub fn connected(name: &str) -> OwnedFd {
    let (socket, address, length) = socket(name);
    // SAFETY: the address is valid for its length.
    check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) });
    socket
}

/// Takes the name of a job's bus without listening at it.
pub fn squatter(job: &str) -> OwnedFd {
    take_name(&format!("bananaphone/{job}"))
}

/// A connection to a job's bus by somebody who is no rank; `bytes` are sent first, if there are any.
pub fn stranger(job: &str, bytes: &[u8]) -> OwnedFd {
    let socket = connected(&format!("bananaphone/{job}"));
    if !bytes.is_empty() {
        // SAFETY: the buffer is valid for its length.
        let sent = unsafe {
            libc::send(
                socket.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        assert_eq!(usize::try_from(sent), Ok(bytes.len()));
    }
    socket
}

/// Descriptors that this process has open.
pub fn descriptors() -> usize {
    // One of them reads the list.
    std::fs::read_dir("/proc/self/fd").expect("procfs").count() - 1
}

/// Whether a process is stopped by a signal.
pub fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('T'))
}
