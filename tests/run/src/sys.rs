//! System calls that the standard library has no safe form of: signals as a descriptor, poll, a reserved port, and what
//! ties a rank to its launcher.
#![allow(unsafe_code, reason = "system calls through the C library")]

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libc::{c_int, c_void, pollfd, socklen_t};

fn check(answer: c_int) -> io::Result<c_int> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer)
    }
}

/// Signals that arrive as data. While it exists they have no other effect on this thread and those that it starts later.
#[derive(Debug)]
pub(crate) struct Signals(File);

impl Signals {
    /// Takes over `signals`. Call it before the first thread is started. The signals stay blocked for good, also in the
    /// programs that are started: a terminal and `timeout` send them to launcher and ranks alike, and the launcher answers for all.
    pub(crate) fn take(signals: &[c_int]) -> io::Result<Self> {
        // SAFETY: a signal set is plain bits; `sigemptyset` gives it its value.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is a valid local.
        check(unsafe { libc::sigemptyset(&raw mut set) })?;
        for &signal in signals {
            // SAFETY: the set is a valid local.
            check(unsafe { libc::sigaddset(&raw mut set, signal) })?;
        }
        // SAFETY: the set is a valid local, the old one is not wanted.
        match unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())
        } {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        // SAFETY: the set is a valid local.
        let fd = check(unsafe {
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        })?;
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// For [`poll`].
    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// The next signal that has arrived.
    pub(crate) fn next(&mut self) -> Option<c_int> {
        let mut record = [0_u8; size_of::<libc::signalfd_siginfo>()];
        // Nothing there, or an interruption: the caller polls again.
        self.0.read_exact(&mut record).ok()?;
        let (number, _) = record.split_first_chunk()?;
        c_int::try_from(u32::from_ne_bytes(*number)).ok()
    }

    /// The next signal that is to end this program, if one has arrived. What tells of a child is passed over: who polls looks after
    /// the children anyway.
    pub(crate) fn ending(&mut self) -> Option<c_int> {
        let ending = std::iter::from_fn(|| self.next()).find(|signal| *signal != libc::SIGCHLD);
        if ending.is_some() {
            // Relaxed: see `wait_for_room`.
            ENDING.store(true, Ordering::Relaxed);
        }
        ending
    }
}

/// Waits until one of `fds` is ready or `timeout` passes; `None` waits for ever. An interruption counts as nothing ready.
pub(crate) fn poll(fds: &mut [pollfd], timeout: Option<Duration>) -> io::Result<()> {
    // Rounded up, so that the rest of a deadline does not become a busy loop.
    let millis = timeout.map_or(-1, |time| {
        c_int::try_from(time.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
    });
    let count = libc::nfds_t::try_from(fds.len()).unwrap_or(0);
    // SAFETY: a valid array of `count` records that this call alone uses.
    match check(unsafe { libc::poll(fds.as_mut_ptr(), count, millis) }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// A record for [`poll`]: something to read, or the other end closed.
pub(crate) const fn readable(fd: RawFd) -> pollfd {
    pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Waits until a line of up to `PIPE_BUF` bytes can be written to a descriptor at once. False = a signal that is to end this program has
/// come, and a second later there still was no room: a write would wait on, as those signals are blocked.
pub(crate) fn wait_for_room(fd: RawFd) -> bool {
    let mut entry = [pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    }];
    let mut told: Option<Instant> = None;
    loop {
        // Where it cannot be asked, the write itself finds out.
        let asked = poll(&mut entry, Some(ROOM_SLICE));
        if asked.is_err() || entry.iter().any(|entry| entry.revents != 0) {
            return true;
        }
        // Relaxed: a flag of the thread that takes the signals, which is the one that writes.
        if ENDING.load(Ordering::Relaxed) || pending().is_some() {
            let since = told.get_or_insert_with(Instant::now);
            if since.elapsed() >= LAST_WORDS {
                return false;
            }
        }
    }
}

/// How long a signal may wait for a writer to look at it.
const ROOM_SLICE: Duration = Duration::from_millis(100);
/// How long a reader is waited for once a signal has come.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// A signal that ends this program was taken: it is not pending any more.
static ENDING: AtomicBool = AtomicBool::new(false);

/// A signal that is to end this program, is blocked, and was not taken yet.
pub(crate) fn pending() -> Option<c_int> {
    // SAFETY: a signal set is plain bits, which the next call fills in.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a valid local.
    check(unsafe { libc::sigpending(&raw mut set) }).ok()?;
    let mut ending = wanted_signals().into_iter();
    // SAFETY: the set is a valid local, the number that of a signal.
    let has = |signal: c_int| unsafe { libc::sigismember(&raw const set, signal) } == 1;
    ending.find(|signal| *signal != libc::SIGCHLD && has(*signal))
}

/// Reserves so many bytes of a file, from its beginning.
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let bytes = libc::off_t::try_from(bytes).unwrap_or(libc::off_t::MAX);
    // SAFETY: an open descriptor; no memory is passed.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Makes reads of a descriptor return at once.
pub(crate) fn set_nonblocking(fd: &impl AsFd) -> io::Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: an open descriptor; no memory is passed.
    let flags = check(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

/// The last change of a child since the last call: it was stopped by a signal, or goes on (the inner `None`). Its end is no such change.
pub(crate) fn stop_news(child: u32) -> Option<Option<c_int>> {
    let mut news = None;
    loop {
        // SAFETY: plain bits, of which zero is a value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let what = libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG;
        // SAFETY: the record is a valid local.
        let answer = check(unsafe { libc::waitid(libc::P_PID, child, &raw mut info, what) });
        // SAFETY: the call has filled the record in for a child, or left it zero.
        let (pid, status) = (unsafe { info.si_pid() }, unsafe { info.si_status() });
        // An error would mean that the child has been reaped.
        if answer.is_err() || pid == 0 {
            return news;
        }
        news = Some((info.si_code != libc::CLD_CONTINUED).then_some(status));
    }
}

/// The signals that end a run, and the one that tells of a child. A run that was started with hang-ups ignored goes on after one.
pub(crate) fn wanted_signals() -> Vec<c_int> {
    let mut wanted = vec![libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGCHLD];
    wanted.extend((!is_ignored(libc::SIGHUP)).then_some(libc::SIGHUP));
    wanted
}

/// Kills the children that threads other than the first one have: those of the first may be none of this program, which may have
/// come to an older process by exec. Without the kernel's lists of children it kills none.
pub(crate) fn kill_children_of_other_threads() {
    let own = std::process::id().to_string();
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    for thread in threads.flatten().filter(|one| *own != one.file_name()) {
        let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for child in children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
        {
            // SAFETY: no memory is passed. A child that nobody has collected keeps its number.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
    }
}

/// Whether this process was started with a signal ignored, as `nohup` does with `SIGHUP`.
fn is_ignored(signal: c_int) -> bool {
    // SAFETY: plain bits, of which zero is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the record is a valid local; no action is set.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// A free port of an address of this machine, kept from everybody who lets the system choose a port.
///
/// It is bound but does not listen, with `SO_REUSEADDR`: whoever names this very port with the same option can listen there.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    _socket: OwnedFd,
    /// The address.
    pub(crate) address: SocketAddr,
}

impl ReservedPort {
    /// Reserves one of `ip`.
    pub(crate) fn new(ip: IpAddr) -> io::Result<Self> {
        let family = match ip {
            IpAddr::V4(_) => libc::AF_INET,
            IpAddr::V6(_) => libc::AF_INET6,
        };
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: a fresh descriptor that nobody else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let on: c_int = 1;
        let size = size_of::<c_int>() as socklen_t;
        let value = (&raw const on).cast::<c_void>();
        // SAFETY: the option is an integer of that size.
        check(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, value, size) })?;
        bind(fd, ip)?;
        let address = TcpListener::from(socket.try_clone()?).local_addr()?;
        Ok(Self {
            _socket: socket,
            address,
        })
    }
}

/// Binds a socket to an address and whatever port is free.
fn bind(fd: RawFd, ip: IpAddr) -> io::Result<()> {
    let answer = match ip {
        IpAddr::V4(ip) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: 0,
                sin_addr: libc::in_addr {
                    s_addr: u32::from(ip).to_be(),
                },
                sin_zero: [0; 8],
            };
            let length = size_of::<libc::sockaddr_in>() as socklen_t;
            // SAFETY: the address is valid for its length.
            unsafe { libc::bind(fd, (&raw const raw).cast(), length) }
        }
        IpAddr::V6(ip) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: 0,
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: ip.octets(),
                },
                sin6_scope_id: 0,
            };
            let length = size_of::<libc::sockaddr_in6>() as socklen_t;
            // SAFETY: the address is valid for its length.
            unsafe { libc::bind(fd, (&raw const raw).cast(), length) }
        }
    };
    check(answer).map(drop)
}

/// Has the kernel kill this process when its parent ends. `launcher` is the parent's process id: false = it has ended before.
pub(crate) fn die_with_parent(launcher: u32) -> io::Result<bool> {
    // SAFETY: this option takes a signal number; no memory is passed.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    Ok(std::os::unix::process::parent_id() == launcher)
}

/// Takes standard output away from everybody else in the process: what a library prints there goes to standard error, and
/// the returned descriptor alone leads to where standard output led.
pub(crate) fn take_stdout() -> io::Result<File> {
    // SAFETY: no memory is passed.
    let fd = check(unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    let pipe = unsafe { File::from_raw_fd(fd) };
    // SAFETY: both are open or the call fails; no memory is passed.
    check(unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) })?;
    Ok(pipe)
}

/// Whether this process was started without a standard output that can be written: with none, or with one that was opened for reading
/// alone, which the standard library takes for none. The runtime opens the null device in its place before `main`, so that
/// what is written is lost without an error.
pub(crate) fn stdout_is_missing() -> bool {
    // Relaxed: written before `main`, by the thread that runs it.
    NO_STDOUT.load(Ordering::Relaxed)
}

static NO_STDOUT: AtomicBool = AtomicBool::new(false);

/// Called by the C library before the runtime's beginning.
#[used]
// SAFETY: the section holds pointers to functions that the C library calls once, with arguments that this one leaves alone.
#[unsafe(link_section = ".init_array")]
static LOOK_AT_STDOUT: extern "C" fn() = look_at_stdout;

extern "C" fn look_at_stdout() {
    // SAFETY: no memory is passed.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFL) };
    // Relaxed: see `stdout_is_missing`.
    NO_STDOUT.store(
        flags < 0 || flags & libc::O_ACCMODE == libc::O_RDONLY,
        Ordering::Relaxed,
    );
}

/// From now on a file that would become larger than the process may write (`ulimit -f`) is an error of the write, as a full disk is, here
/// and in the programs that are started, and not a signal that ends them without a word.
pub(crate) fn refuse_large_files_by_error() {
    // SAFETY: a signal's number and a treatment of it without a handler; the call cannot fail for these.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Ends the process at once: no exit hooks, which a library that is stuck could hold up.
pub(crate) fn exit_now(code: u8) -> ! {
    // SAFETY: does not return; nothing of this process is used afterwards.
    unsafe { libc::_exit(c_int::from(code)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_reserved_port_can_be_listened_at() {
        let port = ReservedPort::new(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert_ne!(port.address.port(), 0);
        let listener = TcpListener::bind(port.address).unwrap();
        assert_eq!(
            TcpListener::bind(port.address).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        drop(listener);
    }
}
