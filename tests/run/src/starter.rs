//! Starts processes on a thread of its own, so that one which never gets as far as its program holds up nobody.
//!
//! Between fork and exec the starting thread sleeps in the kernel until the child is through, and a child that is stopped there is
//! never through. Here that thread is not the launcher's, which goes on with its deadlines, signals and other ranks meanwhile.
//!
//! ```text
//!   launcher ── start(command) ──> thread "starter": fork, exec ── child ──┐
//!   launcher <── next() <── poll of fd() ──────────────────────────────────┘
//! ```
//!
//! The thread lives as long as the [`Starter`]: a child asks the kernel to be killed when the thread that has started it ends.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use crate::sys;

/// How long a child that was killed on its way to exec may take to be gone.
const GONE: Duration = Duration::from_secs(2);

/// The thread, and at most one child on its way. End the children before it is dropped.
#[derive(Debug)]
pub(crate) struct Starter {
    orders: Sender<Command>,
    started: Receiver<io::Result<Child>>,
    /// A byte for each answer, so that a poll can wait for one.
    bell: PipeReader,
    /// Since when a child has been on its way.
    since: Option<Instant>,
}

impl Starter {
    /// Starts the thread.
    pub(crate) fn new() -> io::Result<Self> {
        let (orders, ordered) = mpsc::channel::<Command>();
        let (answer, started) = mpsc::channel();
        let (bell, mut ring) = io::pipe()?;
        let body = move || {
            for mut command in ordered {
                // Without a launcher there is nobody to tell, and the orders end, too.
                let _ = answer.send(command.spawn());
                let _ = ring.write_all(&[0]);
            }
        };
        let thread = std::thread::Builder::new().name("starter".to_owned());
        thread.spawn(body)?;
        Ok(Self {
            orders,
            started,
            bell,
            since: None,
        })
    }

    /// Sends a child on its way. Give the next order when this one was answered by [`next`](Self::next).
    pub(crate) fn start(&mut self, command: Command) -> io::Result<()> {
        self.since = Some(Instant::now());
        let gone = |_| io::Error::other("the thread that starts processes is gone");
        self.orders.send(command).map_err(gone)
    }

    /// How long the child has been on its way, if one is.
    pub(crate) fn underway(&self) -> Option<Duration> {
        self.since.map(|since| since.elapsed())
    }

    /// Readable when [`next`](Self::next) has an answer.
    pub(crate) fn fd(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// The child, when it runs its program or cannot; none while it is on its way. Does not wait.
    pub(crate) fn next(&mut self) -> Option<io::Result<Child>> {
        let answer = self.started.try_recv().ok()?;
        self.since = None;
        // Written right after the answer, so this waits for that one write at most.
        let read = self.bell.read_exact(&mut [0]);
        Some(read.and(answer))
    }

    /// Ends a child that is still on its way. If the kernel does not tell which that is, this process's end is what the child is
    /// left to: it has no program yet that could do anything.
    pub(crate) fn abandon(&mut self) {
        if self.since.is_none() {
            return;
        }
        sys::kill_children_of_other_threads();
        // Killed, it is through as well, and the thread goes on.
        let mut fds = [sys::readable(self.fd())];
        let _ = sys::poll(&mut fds, Some(GONE));
        if let Some(Ok(mut child)) = self.next() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
