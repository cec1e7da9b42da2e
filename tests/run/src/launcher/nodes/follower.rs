//! The side of every other node: comes to the head, starts its share of the ranks when told, and reports until it is over.

use std::net::TcpStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use proxy_os::config::RootCommId;

use super::door::resolve;
use super::link::Link;
use super::terms::Terms;
use super::{Hello, Order, PROGRAM, Place, Report};
use crate::cli::Output;
use crate::job::{Job, Start};
use crate::launcher::crew::Crew;
use crate::launcher::screen::Screen;
use crate::layout::name;
use crate::sys::{self, Signals, readable};
use crate::wire::Message;

/// Between two tries to reach the head, which may be started later.
const PAUSE: Duration = Duration::from_millis(50);
/// How long one try may take.
const TRY: Duration = Duration::from_secs(1);
/// How much longer than the head's own deadlines its word is waited for.
const GRACE: Duration = Duration::from_secs(5);

/// How it ended.
enum Over {
    /// As the head says.
    Told { code: u8, message: Option<String> },
    /// By a signal.
    Signalled(i32),
}

/// Runs this node's share of a job to its end. All its ranks have ended when it returns.
pub(crate) fn follow(
    job: Job,
    place: &Place,
    output: &Output,
    signals: &mut Signals,
    screen: &mut Screen,
) -> Result<ExitCode, String> {
    let over = match Follower::meet(job, place, output, signals)? {
        Ok(mut follower) => follower.work(output, signals, screen)?,
        Err(over) => over,
    };
    match over {
        Over::Told { code: 0, .. } => Ok(ExitCode::SUCCESS),
        Over::Told { code, message } => {
            let message = message.unwrap_or_else(|| "failed on node 0".to_owned());
            screen.note(&format!("error: {message}"));
            Ok(ExitCode::from(code))
        }
        Over::Signalled(signal) => {
            screen.note(&format!(
                "ended by signal {signal}; all ranks of this node are ended"
            ));
            Ok(ExitCode::from(
                u8::try_from(128 + signal).unwrap_or(u8::MAX),
            ))
        }
    }
}

/// A node that has met the others.
struct Follower {
    node: u32,
    link: Link,
    start: Start,
}

/// A signal that is to end this program, if one has come.
fn ended_by(signals: &mut Signals) -> Option<i32> {
    while let Some(signal) = signals.next() {
        if signal != libc::SIGCHLD {
            return Some(signal);
        }
    }
    None
}

impl Follower {
    /// Comes to the head and waits until all are there.
    fn meet(
        job: Job,
        place: &Place,
        output: &Output,
        signals: &mut Signals,
    ) -> Result<Result<Self, Over>, String> {
        let node = place.node;
        let mut link = match reach(&place.root, job.deadline(), signals)? {
            Ok(link) => link,
            Err(signal) => return Ok(Err(Over::Signalled(signal))),
        };
        let hello = Hello {
            program: PROGRAM.to_owned(),
            node,
            terms: Terms::of(&job, output.seed_given),
        };
        link.send(&hello)
            .map_err(|error| format!("cannot speak with node 0 at {}: {error}", place.root))?;
        let until = Instant::now() + job.deadline() + GRACE;
        let late = || {
            format!(
                "after {} s node 0 at {} has not said that all nodes are there",
                job.timeout, place.root
            )
        };
        loop {
            if until <= Instant::now() {
                return Err(late());
            }
            let orders = match hear(&mut link, Some(until), signals)? {
                Ok(orders) => orders,
                Err(signal) => return Ok(Err(Over::Signalled(signal))),
            };
            // The head says one thing here.
            match orders.into_iter().next() {
                Some(Order::Start { job: all, root }) => {
                    // The library is a file of this machine, and no peer's choice.
                    let library = job.library.clone();
                    let job = Job { library, ..*all };
                    let launcher = std::process::id();
                    let start = Start {
                        job,
                        root,
                        launcher,
                    };
                    return Ok(Ok(Self { node, link, start }));
                }
                Some(Order::Refused(text)) => return Err(text),
                Some(Order::End { code, message }) => return Ok(Err(Over::Told { code, message })),
                None => {}
            }
        }
    }

    /// Starts the ranks and reports until the head says that it is over.
    fn work(
        &mut self,
        output: &Output,
        signals: &mut Signals,
        screen: &mut Screen,
    ) -> Result<Over, String> {
        let Self { node, link, start } = self;
        let (node, layout) = (*node, start.job.layout);
        let ranks = layout.ranks_of(&(node..node + 1));
        screen
            .line(&format!(
                "node {node} of {}: {} of {}; the table is node 0's",
                layout.nodes,
                name(&ranks),
                layout.ranks
            ))
            .map_err(|error| format!("cannot write: {error}"))?;
        // The other ranks end within an execution's deadline of these, or fail.
        let patience = start.job.silence();
        let mut crew = Crew::new(start, node..node + 1, output.debug);
        let ended = crew
            .begin(screen)
            .and_then(|()| watch(&mut crew, link, signals, screen, patience));
        crew.end();
        let gone = match &ended {
            Err(text) => format!("node {node}: {text}"),
            Ok(Over::Signalled(signal)) => format!("node {node} was ended by signal {signal}"),
            Ok(Over::Told { .. }) => return ended,
        };
        // If it cannot be told, the end of the connection tells it without the reason.
        let _ = link.send(&Report::Gone(gone));
        ended
    }
}

/// Passes on what comes from the ranks, until the head says that it is over; `patience` = how long it may take to, once all have ended
/// here.
fn watch(
    crew: &mut Crew<'_>,
    link: &mut Link,
    signals: &mut Signals,
    screen: &mut Screen,
    patience: Duration,
) -> Result<Over, String> {
    let (mut ended, mut failed) = (None, None);
    loop {
        let fds: Vec<_> = crew.fds().collect();
        let orders = match hear_also(link, &fds, failed.or(ended), signals)? {
            Ok(orders) => orders,
            Err(signal) => return Ok(Over::Signalled(signal)),
        };
        for order in orders {
            if let Order::End { code, message } = order {
                if code == 0 {
                    crew.show_warnings(screen);
                }
                return Ok(Over::Told { code, message });
            }
        }
        for report in crew.hear(screen)? {
            if let Some(rank) = bad(&report) {
                failed.get_or_insert_with(|| {
                    crew.show_last_words(rank, screen);
                    Instant::now() + GRACE
                });
            }
            send(link, &report)?;
        }
        if failed.is_some_and(|until| until <= Instant::now()) {
            return Err("a rank failed here, and node 0 does not say that it is over".to_owned());
        }
        if ended.is_some_and(|until| until <= Instant::now()) {
            return Err(
                "all ranks here have ended, and node 0 does not say that it is over".to_owned(),
            );
        }
        if crew.ready && crew.all_ended() && failed.is_none() && ended.is_none() {
            ended = Some(Instant::now() + patience);
            send(link, &Report::Ended)?;
        }
    }
}

/// The rank of a report that is no good news.
fn bad(report: &Report) -> Option<u32> {
    match report {
        Report::Said(said) => matches!(said.message, Message::Failed(_)).then_some(said.rank),
        Report::Died { ranks, .. } | Report::Garbled { ranks, .. } => Some(ranks.start),
        Report::Ended | Report::Gone(_) => None,
    }
}

fn send(link: &mut Link, report: &Report) -> Result<(), String> {
    let peer = link.peer();
    link.send(report).map_err(|_| gone(peer))
}

fn gone(peer: std::net::SocketAddr) -> String {
    format!("the launcher of node 0, {peer}, is gone")
}

/// What the head says next; waits for it until `until`. The inner error is a signal.
fn hear(
    link: &mut Link,
    until: Option<Instant>,
    signals: &mut Signals,
) -> Result<Result<Vec<Order>, i32>, String> {
    hear_also(link, &[], until, signals)
}

/// As [`hear`]; returns early when one of `others` is readable.
fn hear_also(
    link: &mut Link,
    others: &[std::os::fd::RawFd],
    until: Option<Instant>,
    signals: &mut Signals,
) -> Result<Result<Vec<Order>, i32>, String> {
    let own = link.fd().into_iter();
    let fds = own.chain([signals.fd()]).chain(others.iter().copied());
    let mut fds: Vec<_> = fds.map(readable).collect();
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    sys::poll(&mut fds, left).map_err(|error| format!("cannot wait: {error}"))?;
    if let Some(signal) = ended_by(signals) {
        return Ok(Err(signal));
    }
    let readable = fds.first().is_some_and(|fd| fd.revents != 0);
    if !readable {
        return Ok(Ok(Vec::new()));
    }
    let orders: Result<Vec<Order>, String> = link.receive().into_iter().collect();
    let orders = orders.map_err(|what| format!("node 0 {what}"))?;
    if orders.is_empty() && !link.is_open() {
        return Err(gone(link.peer()));
    }
    Ok(Ok(orders))
}

/// Connects to the head, which may not have been started yet. The inner error is a signal.
fn reach(
    root: &RootCommId,
    patience: Duration,
    signals: &mut Signals,
) -> Result<Result<Link, i32>, String> {
    let since = Instant::now();
    loop {
        let tried = resolve(root).and_then(|address| {
            let stream = TcpStream::connect_timeout(&address, TRY.min(patience))?;
            Link::new(stream, address)
        });
        let error = match tried {
            Ok(link) => return Ok(Ok(link)),
            Err(error) => error,
        };
        let left = patience.saturating_sub(since.elapsed());
        if left.is_zero() {
            return Err(format!(
                "--root is {root}, where node 0 was not reached within {} s: {error}; accepted: the address that node 0 was given",
                patience.as_secs()
            ));
        }
        let mut fds = [readable(signals.fd())];
        sys::poll(&mut fds, Some(PAUSE.min(left)))
            .map_err(|error| format!("cannot wait: {error}"))?;
        if let Some(signal) = ended_by(signals) {
            return Ok(Err(signal));
        }
    }
}
