//! The head's side: who comes to `--root` is looked at, seated if it belongs to the job, and listened to until the end.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use proxy_os::config::RootCommId;

use super::link::Link;
use super::terms::Terms;
use super::{Hello, Order, PROGRAM, Report};
use crate::job::Job;
use crate::layout::{Layout, list, name};
use crate::sys::{self, Signals, readable};

/// How long a connection may take to say who it is. Launchers say it at once.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// Connections that have not said who they are; one more drops the oldest.
const STRANGERS: usize = 64;

/// Another node's launcher.
#[derive(Debug)]
struct Seat {
    node: u32,
    link: Link,
    /// Its end has been told.
    over: bool,
}

/// Why one was not seated.
struct Refusal {
    text: String,
    /// It belongs to this job, which so cannot be.
    fatal: bool,
}

/// How the wait for the others ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// All are there.
    All,
    /// A signal came.
    Signalled(i32),
}

/// The head's end of all connections.
#[derive(Debug)]
pub(crate) struct Door {
    listener: TcpListener,
    address: SocketAddr,
    layout: Layout,
    terms: Terms,
    strangers: Vec<(Link, Instant)>,
    seats: Vec<Seat>,
    /// When the wait for the others ends.
    until: Instant,
    /// The rank whose last words tell more about the failure, on whatever node.
    pub(crate) speaker: Option<u32>,
}

impl Door {
    /// Listens at `root`.
    pub(crate) fn open(root: &RootCommId, job: &Job, seed_given: bool) -> Result<Self, String> {
        let listening = resolve(root).and_then(|address| {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok((listener, address))
        });
        let (listener, address) = listening.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "--root is {root}, but port {} is in use; accepted: a free port of node 0, the same on all nodes",
                root.port
            ),
            _ => format!(
                "--root is {root}, where this machine, node 0, cannot listen: {error}; accepted: an address of node 0 that the other \
                 nodes reach, and a free port"
            ),
        })?;
        Ok(Self {
            listener,
            address,
            layout: job.layout,
            terms: Terms::of(job, seed_given),
            strangers: Vec::new(),
            seats: Vec::new(),
            until: Instant::now(),
            speaker: None,
        })
    }

    /// The address of this node that the others reach.
    pub(crate) const fn ip(&self) -> IpAddr {
        self.address.ip()
    }

    /// Waits until all other nodes are there and agree, `patience` at most.
    pub(crate) fn gather(
        &mut self,
        patience: Duration,
        signals: &mut Signals,
    ) -> Result<Gathered, String> {
        let since = Instant::now();
        self.until = since + patience;
        loop {
            if let Some(text) = self.pass().into_iter().find(|refusal| refusal.fatal) {
                return Err(text.text);
            }
            self.unseat();
            let missing = list((1..self.layout.nodes).filter(|node| !self.is_here(*node)));
            if missing.is_empty() {
                return Ok(Gathered::All);
            }
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(format!(
                    "after {} s these nodes have not come to {}: {missing}",
                    patience.as_secs(),
                    self.address
                ));
            }
            let mut fds: Vec<_> = self.fds().chain([signals.fd()]).map(readable).collect();
            // A stranger's time is looked at when the next one comes, or at the end.
            sys::poll(&mut fds, Some(left))
                .map_err(|error| format!("cannot wait for the other nodes: {error}"))?;
            if let Some(signal) = signals.ending() {
                return Ok(Gathered::Signalled(signal));
            }
        }
    }

    fn is_here(&self, node: u32) -> bool {
        self.seats.iter().any(|seat| seat.node == node)
    }

    /// Takes away those that have left before the start; they may come again.
    fn unseat(&mut self) {
        let fds: Vec<_> = self
            .seats
            .iter()
            .filter_map(|seat| seat.link.fd())
            .collect();
        let ready = ready(&fds);
        for seat in &mut self.seats {
            if seat.link.fd().is_some_and(|fd| ready.contains(&fd)) {
                // Nothing is due from it before the start but its end.
                let _: Vec<Result<Report, String>> = seat.link.receive();
            }
        }
        self.seats.retain(|seat| seat.link.is_open());
    }

    /// Lets in who comes, without waiting for anybody. Returns those that were refused.
    fn pass(&mut self) -> Vec<Refusal> {
        while let Ok((stream, peer)) = self.listener.accept() {
            if let Ok(link) = Link::new(stream, peer) {
                self.strangers.push((link, Instant::now()));
            }
        }
        let excess = self.strangers.len().saturating_sub(STRANGERS);
        self.strangers.drain(..excess);
        let fds: Vec<_> = self
            .strangers
            .iter()
            .filter_map(|(link, _)| link.fd())
            .collect();
        let ready = ready(&fds);
        let mut refusals = Vec::new();
        for (mut link, since) in std::mem::take(&mut self.strangers) {
            let spoke = link.fd().is_some_and(|fd| ready.contains(&fd));
            let said = if spoke {
                link.receive::<Hello>()
            } else {
                Vec::new()
            };
            match said.into_iter().next() {
                Some(Ok(hello)) => refusals.extend(self.seat(hello, link)),
                // Something else than a launcher: a port scan, a health check.
                Some(Err(_)) => {}
                None if !link.is_open() || since.elapsed() > HELLO_TIME => {}
                None => self.strangers.push((link, since)),
            }
        }
        refusals
    }

    fn seat(&mut self, hello: Hello, mut link: Link) -> Option<Refusal> {
        let node = hello.node;
        let Err(refusal) = self.judge(hello, link.peer()) else {
            let left = self.until.saturating_duration_since(Instant::now());
            // One that cannot be told is gone, which is found when it is listened to.
            let _ = link.send(&Order::Seated { left });
            self.seats.push(Seat {
                node,
                link,
                over: false,
            });
            return None;
        };
        // One that has left already needs no answer.
        let _ = link.send(&Order::Refused(refusal.text.clone()));
        Some(refusal)
    }

    fn judge(&self, hello: Hello, peer: SocketAddr) -> Result<(), Refusal> {
        let node = hello.node;
        let refuse = |text, fatal| Err(Refusal { text, fatal });
        if hello.program != PROGRAM {
            let text = format!(
                "node {node} runs {}, node 0 {PROGRAM}; accepted: the same on all nodes",
                hello.program
            );
            return refuse(text, true);
        }
        if let Some(text) = self.terms.difference(&hello.terms, node) {
            return refuse(text, true);
        }
        if let Some(seat) = self.seats.iter().find(|seat| seat.node == node) {
            let there = seat.link.peer();
            return refuse(
                format!(
                    "--node-rank is {node}, but node {node} has come already, from {there}, and this one comes from {peer}; accepted: each node once"
                ),
                false,
            );
        }
        if !(1..self.layout.nodes).contains(&node) {
            let last = self.layout.nodes - 1;
            return refuse(
                format!("--node-rank is {node}, accepted: 1 to {last}"),
                false,
            );
        }
        Ok(())
    }

    /// Tells all that they start.
    pub(crate) fn start(&mut self, job: &Job, root: &str) {
        let order = Order::Start {
            job: Box::new(job.clone()),
            root: root.to_owned(),
        };
        self.tell(&order);
    }

    /// Tells all that it is over.
    pub(crate) fn end(&mut self, code: u8, message: Option<&str>) {
        let message = message.map(str::to_owned);
        let speaker = self.speaker;
        self.tell(&Order::End {
            code,
            message,
            speaker,
        });
    }

    fn tell(&mut self, order: &Order) {
        for seat in &mut self.seats {
            // One that cannot be told is gone, which is found when it is listened to.
            let _ = seat.link.send(order);
        }
    }

    /// What can become readable.
    pub(crate) fn fds(&self) -> impl Iterator<Item = RawFd> {
        let links = self.seats.iter().map(|seat| &seat.link);
        let strangers = self.strangers.iter().map(|(link, _)| link);
        links
            .chain(strangers)
            .filter_map(Link::fd)
            .chain([self.listener.as_raw_fd()])
    }

    /// The other nodes whose launchers seem to be silent, in words: of those that are not over, the ones of whose `open` ranks, those that are
    /// not through, all are among the `silent` ones. None if that is so on this node as well.
    pub(crate) fn silent(&self, open: &[u32], silent: &[u32]) -> Option<String> {
        let ranks = |node: u32| self.layout.ranks_of(&(node..node + 1));
        let open_of = |node| open.iter().filter(move |rank| ranks(node).contains(rank));
        let is_silent = |node| open_of(node).all(|rank| silent.contains(rank));
        if is_silent(0) && open_of(0).next().is_some() {
            return None;
        }
        let seats = self.seats.iter();
        let nodes = seats.filter(|seat| !seat.over && is_silent(seat.node));
        let nodes = nodes.map(|seat| {
            let (node, peer) = (seat.node, seat.link.peer());
            let ranks = name(&ranks(node));
            format!("the launcher of node {node}, {peer} ({ranks})")
        });
        let nodes: Vec<String> = nodes.collect();
        (!nodes.is_empty()).then(|| nodes.join(" and "))
    }

    /// What has come from the other nodes, each with the ranks of its node. Who comes too late is told so.
    pub(crate) fn reports(&mut self) -> Vec<(Range<u32>, Report)> {
        self.pass();
        let fds: Vec<_> = self
            .seats
            .iter()
            .filter_map(|seat| seat.link.fd())
            .collect();
        let ready = ready(&fds);
        let mut reports = Vec::new();
        for seat in &mut self.seats {
            if !seat.link.fd().is_some_and(|fd| ready.contains(&fd)) {
                continue;
            }
            let node = seat.node;
            let ranks = self.layout.ranks_of(&(node..node + 1));
            for report in seat.link.receive() {
                let report = checked(report, &ranks);
                seat.over |= matches!(report, Report::Ended | Report::Gone(_));
                reports.push((ranks.clone(), report));
            }
            if !seat.link.is_open() && !seat.over {
                seat.over = true;
                let text = format!("the launcher of node {node}, {}, is gone", seat.link.peer());
                reports.push((ranks, Report::Gone(text)));
            }
        }
        reports
    }
}

/// A report that speaks for other ranks than those of its node is none.
fn checked(report: Result<Report, String>, ranks: &Range<u32>) -> Report {
    let within = |part: &Range<u32>| ranks.start <= part.start && part.end <= ranks.end;
    let what = match report {
        Ok(Report::Said(said)) if !ranks.contains(&said.rank) => {
            format!("spoke for rank {}", said.rank)
        }
        Ok(
            Report::Garbled { ranks: part, .. }
            | Report::Died { ranks: part, .. }
            | Report::Stopped { ranks: part, .. },
        ) if !within(&part) => {
            format!("spoke for ranks {part:?}")
        }
        Ok(report) => return report,
        Err(what) => what,
    };
    Report::Garbled {
        ranks: ranks.clone(),
        what,
    }
}

/// Those descriptors that are readable now.
fn ready(fds: &[RawFd]) -> Vec<RawFd> {
    let mut asked: Vec<_> = fds.iter().copied().map(readable).collect();
    // After an error nothing is ready, and the next wait tells of it.
    let _ = sys::poll(&mut asked, Some(Duration::ZERO));
    let ready = asked.iter().filter(|fd| fd.revents != 0);
    ready.map(|fd| fd.fd).collect()
}

/// The address of a root, IPv4 before IPv6 where a name has both; one that nobody can connect to is none.
pub(super) fn resolve(root: &RootCommId) -> io::Result<SocketAddr> {
    let addresses = root.to_string().to_socket_addrs()?;
    let usable = addresses.filter(|address| !address.ip().is_unspecified());
    let first = usable.min_by_key(SocketAddr::is_ipv6);
    first.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no address that others can connect to",
        )
    })
}
