//! The side of every other node: comes to the head, starts its share of the ranks when told, and reports until it is over.

use std::io;
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
use crate::launcher::screen::{self, Screen, unwritten_or_signal};
use crate::launcher::trace::TraceFile;
use crate::layout::name;
use crate::sys::{self, Signals, readable};
use crate::wire::Message;

/// The pause between two tries to reach the head: the first, twice as long each time, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];
/// How long one try may take.
const TRY: Duration = Duration::from_secs(1);
/// How much longer than a deadline of the head its word of it is waited for.
const GRACE: Duration = Duration::from_secs(1);
/// How long after a failure here the head, which waits for others to fail, may take to say that it is over.
const VERDICT: Duration = Duration::from_secs(5);

/// How it ended.
enum Over {
    /// As the head says.
    Told {
        code: u8,
        message: Option<String>,
        speaker: Option<u32>,
    },
    /// By a signal.
    Signalled(i32),
}

/// Runs this node's share of a job to its end. All its ranks have ended when it returns.
pub(crate) fn follow(
    job: Job,
    place: &Place,
    output: &Output,
    trace: Option<&TraceFile>,
    signals: &mut Signals,
    screen: &mut Screen,
) -> Result<ExitCode, String> {
    let over = match Follower::meet(job, place, output, trace, signals)? {
        Ok(mut follower) => follower.work(output, signals, screen)?,
        Err(over) => over,
    };
    match over {
        Over::Told { code: 0, .. } => Ok(ExitCode::SUCCESS),
        Over::Told { code, message, .. } => {
            let message = message.unwrap_or_else(|| "failed on node 0".to_owned());
            screen.note(&format!("error: {message}"));
            Ok(ExitCode::from(code))
        }
        Over::Signalled(signal) => {
            let whom = "all ranks of this node";
            let code = screen::signalled(signal, whom, |text| screen.note(text));
            Ok(ExitCode::from(code))
        }
    }
}

/// A node that has met the others.
struct Follower {
    node: u32,
    link: Link,
    start: Start,
}

impl Follower {
    /// Comes to the head and waits until all are there.
    fn meet(
        job: Job,
        place: &Place,
        output: &Output,
        trace: Option<&TraceFile>,
        signals: &mut Signals,
    ) -> Result<Result<Self, Over>, String> {
        let node = place.node;
        let since = Instant::now();
        let mut link = match reach(&place.root, job.deadline(), signals)? {
            Ok(link) => link,
            Err(signal) => return Ok(Err(Over::Signalled(signal))),
        };
        let hello = Hello {
            program: PROGRAM.to_owned(),
            node,
            terms: Terms::of(&job, output.seed_given),
        };
        let root = &place.root;
        link.send(&hello).map_err(|error| {
            format!("--root is {root}, where node 0 cannot be spoken with: {error}")
        })?;
        let started = wait_for_start(&mut link, &job, (root, since), signals)?;
        let started = started.map(|start| Start {
            trace: trace.map(TraceFile::parts),
            ..start
        });
        Ok(started.map(|start| Self { node, link, start }))
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
        let mut crew = Crew::new(start, node..node + 1, output.debug);
        let head = format!(
            "node {node} of {}: {} of {}; the table is node 0's",
            layout.nodes,
            name(&layout.ranks_of(&(node..node + 1))),
            layout.ranks
        );
        // The other ranks end within an execution's deadline of these, or fail.
        let patience = start.job.silence();
        let ended = crew
            .begin()
            .and_then(|()| watch(&mut crew, link, signals, screen, (head, patience)));
        if let Ok(Over::Told {
            speaker: Some(rank),
            ..
        }) = &ended
        {
            crew.show_last_words(*rank, screen);
        }
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

/// Waits, since `since`, until the head at `root` says that all nodes are there.
fn wait_for_start(
    link: &mut Link,
    job: &Job,
    (root, since): (&RootCommId, Instant),
    signals: &mut Signals,
) -> Result<Result<Start, Over>, String> {
    // Whoever listens there may be stopped, or be no launcher at all.
    let (mut until, mut due) = (since + job.deadline(), "that this node is taken");
    loop {
        if until <= Instant::now() {
            let waited = since.elapsed().as_secs();
            return Err(format!(
                "--root is {root}, where within {waited} s node 0 has not said {due}; accepted: the address that node 0 was given"
            ));
        }
        let orders = match hear(link, Some(until), signals)? {
            Ok(orders) => orders,
            Err(signal) => return Ok(Err(Over::Signalled(signal))),
        };
        for order in orders {
            match order {
                Order::Seated { left } => {
                    until = Instant::now() + left.min(job.deadline()) + GRACE;
                    due = "that all nodes are there";
                }
                Order::Start { job: all, root } => {
                    // The library is a file of this machine, and no peer's choice.
                    let library = job.library.clone();
                    return Ok(Ok(Start {
                        job: Job { library, ..*all },
                        root,
                        launcher: std::process::id(),
                        trace: None,
                    }));
                }
                Order::Refused(text) => return Err(text),
                Order::End {
                    code,
                    message,
                    speaker,
                } => {
                    return Ok(Err(Over::Told {
                        code,
                        message,
                        speaker,
                    }));
                }
            }
        }
    }
}

/// Passes on what comes from the ranks, until the head says that it is over. `head` is shown when the ranks have started; `patience` = how
/// long the head may take once all have ended here.
fn watch(
    crew: &mut Crew<'_>,
    link: &mut Link,
    signals: &mut Signals,
    screen: &mut Screen,
    (head, patience): (String, Duration),
) -> Result<Over, String> {
    let (mut ended, mut failed) = (None, None);
    let mut head = Some(head);
    loop {
        let fds: Vec<_> = crew.fds().collect();
        let until = failed.map(|(until, _)| until).or(ended);
        let orders = match hear_also(link, &fds, until, signals)? {
            Ok(orders) => orders,
            Err(signal) => return Ok(Over::Signalled(signal)),
        };
        if let Some(over) = orders.into_iter().find_map(over) {
            if matches!(over, Over::Told { code: 0, .. }) {
                crew.show_warnings(Duration::ZERO, screen);
            }
            return Ok(over);
        }
        for report in crew.hear(screen)? {
            if let Some(rank) = bad(&report) {
                failed.get_or_insert_with(|| (Instant::now() + VERDICT, rank));
            }
            send(link, &report)?;
        }
        if let Some(line) = head.take_if(|_| crew.ready)
            && let Err(unwritten) = screen.line(&line)
        {
            return unwritten_or_signal(unwritten).map(Over::Signalled);
        }
        if let Some((until, rank)) = failed
            && until <= Instant::now()
        {
            crew.show_last_words(rank, screen);
            return Err("a rank failed here, and node 0 does not say that it is over".to_owned());
        }
        if ended.is_some_and(|until| until <= Instant::now()) {
            return Err(
                "all ranks here have ended, and node 0 does not say that it is over".to_owned(),
            );
        }
        if ended.is_none() && (crew.ready || failed.is_some()) && crew.all_ended() {
            ended = Some(Instant::now() + patience);
            send(link, &Report::Ended)?;
        }
    }
}

/// What the head says, if it is that it is over.
fn over(order: Order) -> Option<Over> {
    match order {
        Order::End {
            code,
            message,
            speaker,
        } => Some(Over::Told {
            code,
            message,
            speaker,
        }),
        Order::Seated { .. } | Order::Start { .. } | Order::Refused(_) => None,
    }
}

/// The rank of a report that is no good news.
fn bad(report: &Report) -> Option<u32> {
    match report {
        Report::Said(said) => matches!(said.message, Message::Failed(_)).then_some(said.rank),
        Report::Died { ranks, .. } | Report::Garbled { ranks, .. } => Some(ranks.start),
        Report::Stopped { .. } | Report::Ended | Report::Gone(_) => None,
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
    if let Some(signal) = signals.ending() {
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
    let connect = || {
        let address = resolve(root)?;
        let stream = TcpStream::connect_timeout(&address, TRY.min(patience))?;
        Link::new(stream, address)
    };
    tried(root, patience, signals, connect)
}

/// Tries until it succeeds, with growing pauses; `patience` at most. The inner error is a signal.
fn tried<T>(
    root: &RootCommId,
    patience: Duration,
    signals: &mut Signals,
    mut connect: impl FnMut() -> io::Result<T>,
) -> Result<Result<T, i32>, String> {
    let since = Instant::now();
    let (mut tries, mut pause) = (0, PAUSES[0]);
    loop {
        tries += 1;
        let error = match connect() {
            Ok(link) => return Ok(Ok(link)),
            Err(error) => error,
        };
        let left = patience.saturating_sub(since.elapsed());
        if left.is_zero() {
            let times = if tries == 1 { "try" } else { "tries" };
            return Err(format!(
                "--root is {root}, where node 0 was not reached within {} s, in {tries} {times}: {error}; accepted: the address that node 0 was given",
                patience.as_secs()
            ));
        }
        let mut fds = [readable(signals.fd())];
        sys::poll(&mut fds, Some(pause.min(left)))
            .map_err(|error| format!("cannot wait: {error}"))?;
        if let Some(signal) = signals.ending() {
            return Ok(Err(signal));
        }
        pause = (pause * 2).min(PAUSES[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn signals() -> Signals {
        Signals::take(&[libc::SIGUSR2]).unwrap()
    }

    /// An address of this machine, and a listener there.
    fn listening() -> (RootCommId, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let root = listener.local_addr().unwrap().to_string();
        (root.parse().unwrap(), listener)
    }

    #[test]
    fn f19_a_head_that_comes_late_is_reached_by_the_first_try_after_that() {
        let (root, listener) = listening();
        let address = listener.local_addr().unwrap();
        let (mut listener, mut tries) = (Some(listener), 0);
        let connect = || {
            tries += 1;
            // Nobody listens for three tries.
            let none = (tries <= 3).then(|| io::Error::from(io::ErrorKind::ConnectionRefused));
            none.map_or_else(|| TcpStream::connect(address), Err)
        };
        let reached = tried(&root, Duration::from_secs(60), &mut signals(), connect);
        assert!(reached.unwrap().is_ok());
        assert_eq!(tries, 4);
        assert!(listener.take().unwrap().accept().is_ok());
    }

    #[test]
    fn f19_tries_in_vain_get_rarer_and_are_told_with_the_peer_and_the_last_error() {
        let (root, listener) = listening();
        drop(listener);
        let error = match reach(&root, Duration::from_secs(1), &mut signals()) {
            Err(error) => error,
            Ok(_) => panic!("somebody listens at {root}"),
        };
        let begin = format!("--root is {root}, where node 0 was not reached within 1 s, in ");
        let rest = error
            .strip_prefix(&begin)
            .unwrap_or_else(|| panic!("{error}"));
        let (tries, rest) = rest.split_once(' ').unwrap();
        // 10 ms and twice as long each time, half a second at most; evenly, it would be a hundred.
        assert!((1..=9).contains(&tries.parse::<u32>().unwrap()), "{error}");
        assert!(rest.contains("refused"), "{error}");
    }
}
