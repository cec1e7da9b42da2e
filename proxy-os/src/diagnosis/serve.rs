//! Reports on request: from a signal, from a tool outside of the process, at intervals, and when something has gone wrong.
//!
//! One thread per process, `proxy-report`, which touches nothing that a worker waits for. Nothing of it exists unless asked for: no
//! thread, no socket, no signal handler. The socket has no name in any file system, answers its own user only, and sends a report as
//! a descriptor, so a tool that is slow or stopped holds nobody up.

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::door::Door;
use super::record::{Process, Report};
use crate::config::Settings;
use crate::log::{self, Level};
use crate::sys::eventfd::EventFd;
use crate::sys::fork;
use crate::sys::mute;
use crate::sys::poll::{For, poll};
use crate::sys::signal::Hooked;
use crate::sys::thread::{self, Thread, ThreadName};

/// Reports that events leave behind, per process; what goes wrong again and again must not fill a disk.
const LEFT_BEHIND: u32 = 100;
/// Reasons that wait to be written.
const WAITING: usize = 16;
/// How long the end of the service is waited for.
const END: Duration = Duration::from_secs(2);

/// What the service does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Answer tools of the same user, such as `proxytop`. A socket that cannot be had costs a warning, and the rest is done without.
    pub socket: bool,
    /// Write a report when this signal comes; the handler that was there is called, too.
    pub signal: Option<i32>,
    /// Write a report this often: a file that is replaced, and its verdict to the log.
    pub every: Option<Duration>,
    /// Write reports as JSON files into this directory, besides the log.
    pub directory: Option<PathBuf>,
}

impl Options {
    /// Each setting that is another one, with both values.
    fn differing(&self, used: &Self) -> Vec<String> {
        let values = |options: &Self| {
            let directory = options.directory.as_ref();
            [
                u8::from(options.socket).to_string(),
                options.signal.unwrap_or_default().to_string(),
                format!("{} s", options.every.unwrap_or_default().as_secs_f64()),
                directory.map_or_else(|| "none".to_owned(), |path| path.display().to_string()),
            ]
        };
        let pairs = values(self).into_iter().zip(values(used));
        (VARIABLES.iter().zip(pairs))
            .filter(|(_, (asked, used))| asked != used)
            .map(|(name, (asked, used))| format!("{name} = {asked}, where {used} is used"))
            .collect()
    }
}

/// The settings that ask for [`Options`], in their order there.
const VARIABLES: [&str; 4] = [
    "NEURON_RT_PROXY_REPORT",
    "NEURON_RT_PROXY_REPORT_SIGNAL",
    "NEURON_RT_PROXY_REPORT_EVERY",
    "NEURON_RT_PROXY_REPORT_DIR",
];

/// Why the service did not start; nothing is left of it then.
#[derive(Debug)]
pub enum ServeError {
    /// It is running already: one per process.
    Running,
    /// The signal could not be taken.
    Signal(i32, io::Error),
    /// The thread could not be started.
    Thread(io::Error),
    /// This process was forked from one that uses the driver.
    Forked,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("reports are served already; a process has one service"),
            Self::Signal(signal, error) => {
                write!(
                    f,
                    "signal {signal} cannot be taken: {error}; accepted: a signal that can be caught"
                )
            }
            Self::Thread(error) => write!(f, "the report thread could not be started: {error}"),
            Self::Forked => f.write_str(proxy_core::FORKED),
        }
    }
}

impl std::error::Error for ServeError {}

#[derive(Debug)]
struct Shared {
    bell: EventFd,
    end: AtomicBool,
    reasons: Mutex<Reasons>,
    options: Options,
    /// What others have asked for in vain, so that each is told once.
    unmet: Mutex<Vec<Options>>,
}

/// Why reports are to be written.
#[derive(Debug, Default)]
struct Reasons {
    waiting: VecDeque<String>,
    /// Those that found no room.
    dropped: u32,
}

impl Shared {
    fn reasons(&self) -> MutexGuard<'_, Reasons> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running service; ends when dropped, and puts the signal's former handler back.
#[derive(Debug)]
pub struct Service {
    shared: Arc<Shared>,
    hooked: Option<Hooked>,
    thread: Thread,
}

/// The service that the settings ask for, shared by the queues of the process.
static SHARED: Mutex<Weak<Service>> = Mutex::new(Weak::new());

/// The service that the settings ask for, as long as a queue holds it. One that cannot be had costs a warning and no queue.
pub(crate) fn for_queue(settings: &Settings) -> Option<Arc<Service>> {
    let signal = i32::try_from(*settings.report_signal())
        .ok()
        .filter(|signal| *signal != 0);
    let options = Options {
        socket: *settings.report(),
        signal,
        every: Some(*settings.report_every()).filter(|every| !every.is_zero()),
        directory: settings.report_directory().clone(),
    };
    if options == Options::default() {
        return None;
    }
    match shared_service(&options) {
        Ok(service) => {
            tell_unmet(&options);
            Some(service)
        }
        // The embedder has started one of its own.
        Err(ServeError::Running) => {
            tell_unmet(&options);
            None
        }
        Err(error) => {
            log::warn(format_args!("no reports on request: {error}"));
            None
        }
    }
}

/// The service of the queues, started if there is none.
fn shared_service(options: &Options) -> Result<Arc<Service>, ServeError> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(service) = shared.upgrade() {
        return Ok(service);
    }
    let service = Arc::new(Service::start(options.clone())?);
    *shared = Arc::downgrade(&service);
    Ok(service)
}

/// Says which report settings of a queue have no effect, as the service of the process was started with others.
fn tell_unmet(asked: &Options) {
    let Some(shared) = running().clone() else {
        return;
    };
    let unmet = asked.differing(&shared.options);
    let mut told = shared.unmet.lock().unwrap_or_else(PoisonError::into_inner);
    if unmet.is_empty() || told.contains(asked) {
        return;
    }
    told.push(asked.clone());
    drop(told);
    log::warn(format_args!(
        "a process has one service of reports, so these settings of a later queue have no effect: {}",
        unmet.join(", ")
    ));
}

/// Held over the whole beginning and the whole end of a service: until one has given its signal and its name back, the next one would take the
/// handler of the first for the program's, and lose its own as the first ends.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held for moments only, never while the service begins or ends.
static RUNNING: Mutex<Option<Arc<Shared>>> = Mutex::new(None);

fn running() -> MutexGuard<'static, Option<Arc<Shared>>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    /// Starts the service. Any thread; one per process. Waits for one that is ending, up to two seconds.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn start(options: Options) -> Result<Self, ServeError> {
        fork::settle();
        if fork::is_child() {
            return Err(ServeError::Forked);
        }
        let _turn = turn();
        if running().is_some() {
            return Err(ServeError::Running);
        }
        let shared = Arc::new(Shared {
            bell: EventFd::new().map_err(ServeError::Thread)?,
            end: AtomicBool::new(false),
            reasons: Mutex::default(),
            options,
            unmet: Mutex::default(),
        });
        *running() = Some(Arc::clone(&shared));
        let begun = Self::begin(shared);
        if begun.is_err() {
            *running() = None;
        }
        begun
    }

    fn begin(shared: Arc<Shared>) -> Result<Self, ServeError> {
        let options = shared.options.clone();
        let signal = options.signal;
        let hook = |signal| Hooked::new(signal).map_err(|error| ServeError::Signal(signal, error));
        let hooked = signal.map(hook).transpose()?;
        let door = options.socket.then(Door::open).flatten();
        let mut serving = Serving {
            shared: Arc::clone(&shared),
            door,
            options,
            left: LEFT_BEHIND,
        };
        let name = |_| ThreadName::new("proxy-report");
        let thread = thread::spawn(name, None, Box::new(move || serving.run()));
        let thread = thread.map_err(ServeError::Thread)?;
        Ok(Self {
            shared,
            hooked,
            thread,
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // A forked child has not the thread, shares the bell with its parent, and perhaps a lock is held by a thread that it has not either.
        if fork::is_child() {
            return;
        }
        let _turn = turn();
        // First of all: whatever was asked for until here is written, and nothing is asked for any more.
        *running() = None;
        // Release pairs with the acquire in `run`.
        self.shared.end.store(true, Ordering::Release);
        self.shared.bell.ring();
        if !self.thread.join_timeout(END) {
            log::warn(format_args!(
                "the report thread has not ended within {END:?}"
            ));
        }
        // Within the turn.
        self.hooked = None;
    }
}

/// Asks the service for a report, if there is one. Any thread; its locks are held for moments only; a reason that finds no room is
/// counted, and the service says how many did not.
pub(crate) fn leave_behind(reason: fmt::Arguments<'_>) {
    // Held until the reason is there, so that the service's end comes before all of this or after it.
    let running = running();
    let Some(shared) = running.as_ref() else {
        return;
    };
    let mut reasons = shared.reasons();
    if reasons.waiting.len() < WAITING {
        reasons.waiting.push_back(reason.to_string());
    } else {
        reasons.dropped += 1;
    }
    shared.bell.ring();
}

/// The thread's side.
struct Serving {
    shared: Arc<Shared>,
    door: Option<Door>,
    options: Options,
    left: u32,
}

impl Serving {
    fn run(&mut self) {
        self.serve();
        // What was asked for last: a task fails, say, and its queue is released at once.
        self.write_reasons();
    }

    fn serve(&mut self) {
        let every = self.options.every;
        let due = || every.and_then(|every| Instant::now().checked_add(every));
        let mut next = due();
        // Acquire pairs with the release in the service's drop.
        while !self.shared.end.load(Ordering::Acquire) {
            let timeout = next.map(|next| next.saturating_duration_since(Instant::now()));
            if let Err(error) = self.wait(timeout) {
                log::error(format_args!(
                    "the report thread ends: it cannot wait: {error}"
                ));
                return;
            }
            if next.is_some_and(|next| Instant::now() >= next) {
                self.write_interval();
                next = due();
            }
        }
    }

    /// Sleeps until there is something to do, and does it.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let signal_bell = self.options.signal.and_then(|_| Hooked::bell());
        let pause = self.door.as_ref().and_then(Door::pause);
        let door = self.door.as_ref().filter(|_| pause.is_none());
        let mut fds = vec![(self.shared.bell.fd(), For::Input)];
        fds.extend(door.map(|door| (door.as_fd(), For::Input)));
        fds.extend(signal_bell.map(|bell| (bell.fd(), For::Input)));
        poll(&fds, timeout.into_iter().chain(pause).min())?;
        drop(fds);
        if self.shared.bell.wait(Some(Duration::ZERO))? {
            self.write_reasons();
        }
        if let Some(bell) = signal_bell
            && bell.wait(Some(Duration::ZERO))?
        {
            let signal = self.options.signal.unwrap_or_default();
            self.write(&format!("signal {signal}"));
        }
        if let Some(door) = self.door.as_mut().filter(|_| pause.is_none()) {
            door.let_in();
        }
        Ok(())
    }

    fn write_reasons(&mut self) {
        loop {
            let reason = self.shared.reasons().waiting.pop_front();
            let Some(reason) = reason else { break };
            if self.left == 0 {
                continue;
            }
            self.left -= 1;
            self.write(&reason);
            if self.left == 0 {
                log::warn(format_args!(
                    "{LEFT_BEHIND} reports were written; events leave no more behind"
                ));
            }
        }
        let dropped = mem::take(&mut self.shared.reasons().dropped);
        if dropped > 0 {
            log::warn(format_args!(
                "{dropped} more events asked for a report, which were not written: {WAITING} wait at most"
            ));
        }
    }

    /// Writes one report to the directory, and to the log: last, as that may be slow.
    fn write(&self, reason: &str) {
        let report = Report::collect(reason);
        let Process {
            pid, monotonic_ns, ..
        } = &report.process;
        self.write_file(&report, &format!("proxy-report-{pid}-{monotonic_ns}.json"));
        log::error(format_args!("report: {report}"));
    }

    /// Writes the report that comes at intervals: one file that is replaced, so that a long run does not fill the disk, and for the same
    /// reason one line.
    fn write_interval(&self) {
        let report = Report::collect("interval");
        let file = format!("proxy-report-{}.json", report.process.pid);
        self.write_file(&report, &file);
        let level = match report.stall {
            Some(_) => Level::Warn,
            None => Level::Info,
        };
        log::write(level, format_args!("report: {}", report.verdict));
    }

    fn write_file(&self, report: &Report, file: &str) {
        let Some(directory) = &self.options.directory else {
            return;
        };
        let path = directory.join(file);
        let partial = directory.join(format!("{file}.partial"));
        let written = report
            .to_json()
            .and_then(|json| mute::while_writing(|| fs::write(&partial, json)))
            .and_then(|()| fs::rename(&partial, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&partial);
            log::warn(format_args!(
                "the report could not be written to {}: {error}",
                path.display()
            ));
        }
    }
}
