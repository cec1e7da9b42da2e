//! Which of several failures is the cause: one rank that ends takes the others with it within moments, and one that is silent lets all
//! others give up.

use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::process::{ending, signal_name};
use super::roll::Roll;
use crate::layout::{name, names};
use crate::wire::Failure;

/// How long nothing may come after a failure before the others are not waited for any longer: whoever was hit by the cause itself may be
/// late.
const QUIET: Duration = Duration::from_millis(500);
/// How long further failures are waited for in all.
const GRACE: Duration = Duration::from_secs(3);

/// What happened to a rank, or to all ranks of a process.
#[derive(Debug)]
pub(super) enum Cause {
    /// It said so itself.
    Told(Failure),
    /// The process ended.
    Died(ExitStatus),
    /// It said something that is no message.
    Garbled(String),
    /// The launcher of their node is gone, in words.
    Lost(String),
}

/// How near a failure is to the cause, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// Killed by a signal, or its launcher is gone: a process that was killed takes nobody's launcher with it, and a launcher takes its
    /// ranks with it.
    Killed,
    /// It says that it is the cause.
    Own,
    Garbled,
    Exited,
    /// It blames others.
    Blames,
}

impl Cause {
    fn order(&self) -> Order {
        match self {
            Self::Died(status) if status.signal().is_some() => Order::Killed,
            Self::Lost(_) => Order::Killed,
            Self::Told(failure) if !failure.by_peer => Order::Own,
            Self::Garbled(_) => Order::Garbled,
            Self::Died(_) => Order::Exited,
            Self::Told(_) => Order::Blames,
        }
    }
}

/// What the cause is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// The rank whose last words may tell more; none of a rank that is silent.
    pub(super) speaker: Option<u32>,
    /// The message.
    pub(super) text: String,
}

impl Finding {
    const fn silent(text: String) -> Self {
        let speaker = None;
        Self { speaker, text }
    }
}

/// A process that does not run, though it has not ended.
#[derive(Debug)]
struct Stop {
    ranks: Range<u32>,
    signal: i32,
    since: Instant,
}

/// All failures of a run, in the order in which they came.
#[derive(Debug)]
pub(super) struct Verdict {
    failures: Vec<(Range<u32>, Cause)>,
    stopped: Vec<Stop>,
    /// When the first and the last failure came.
    times: Option<(Instant, Instant)>,
    /// The deadline of an execution.
    deadline: Duration,
}

impl Verdict {
    /// Nothing has happened. `deadline` = that of an execution.
    pub(super) const fn new(deadline: Duration) -> Self {
        Self {
            failures: Vec::new(),
            stopped: Vec::new(),
            times: None,
            deadline,
        }
    }

    /// Adds what one rank has told, if nothing has happened to it before.
    pub(super) fn told(&mut self, rank: u32, failure: Failure) {
        if !self.has_failed(rank) {
            self.add(rank..rank.saturating_add(1), Cause::Told(failure));
        }
    }

    /// Adds what happened to the process of `ranks`. That it ends with an exit code is no news once one of them has told why; a signal is,
    /// as the others may have been killed, too, and have blamed them in their last moment.
    pub(super) fn process(&mut self, ranks: &Range<u32>, cause: Cause) {
        let mut failed = ranks.clone().map(|rank| self.has_failed(rank));
        let known = match (&cause, cause.order()) {
            (Cause::Died(_), Order::Killed) => false,
            (Cause::Died(_), _) => failed.any(|failed| failed),
            _ => failed.all(|failed| failed),
        };
        if !known {
            self.add(ranks.clone(), cause);
        }
    }

    /// The process of `ranks` was stopped by a signal, or goes on (`None`).
    pub(super) fn stopped(&mut self, ranks: &Range<u32>, signal: Option<i32>) {
        self.stopped.retain(|stop| stop.ranks != *ranks);
        self.stopped.extend(signal.map(|signal| Stop {
            ranks: ranks.clone(),
            signal,
            since: Instant::now(),
        }));
    }

    fn has_failed(&self, rank: u32) -> bool {
        self.failures.iter().any(|(ranks, _)| ranks.contains(&rank))
    }

    fn add(&mut self, ranks: Range<u32>, cause: Cause) {
        self.failures.push((ranks, cause));
        let now = Instant::now();
        self.times = Some((self.times.map_or(now, |(first, _)| first), now));
    }

    /// Time left for further failures: `None` = nothing has failed, zero = none. After a death all others end, too, mostly at once, and whoever
    /// died together with the first may be late on a busy machine: that is waited for until all have ended.
    pub(super) fn grace(&self) -> Option<Duration> {
        self.times.map(|(first, last)| {
            let left = GRACE.saturating_sub(first.elapsed());
            match self.order() {
                Some(Order::Killed) => left,
                _ => left.min(QUIET.saturating_sub(last.elapsed())),
            }
        })
    }

    /// What is the cause. `all` = the number of ranks, or `None` while only the first process has been started: what it finds wrong with
    /// library and settings is wrong for all.
    pub(super) fn finding(&self, all: Option<u32>, roll: &Roll<'_>) -> Option<Finding> {
        let order = self.order()?;
        if order > Order::Killed
            && let Some(text) = self.stop(order, roll)
        {
            return Some(Finding::silent(text));
        }
        let mut found = self.of(order);
        let (ranks, cause) = found.next()?;
        let who = name(ranks);
        let text = match cause {
            Cause::Died(_) | Cause::Lost(_) => self.ended(order, roll),
            Cause::Garbled(what) => format!("{who} {what}"),
            Cause::Told(failure) if all.is_none() => failure.text.clone(),
            Cause::Told(failure) => format!("{who}: {}", failure.text),
        };
        // Whoever blames others may have waited for them, or have failed at once, while they are where they should be.
        let mut silent = roll.unheard(0..all.unwrap_or(1), self.deadline / 2);
        silent.retain(|rank| !self.has_failed(*rank));
        if order == Order::Blames && !silent.is_empty() {
            let account = roll.account(&silent);
            return Some(Finding::silent(format!("{account}; {text}")));
        }
        let speaker = Some(ranks.start);
        Some(Finding { speaker, text })
    }

    /// What is known when nothing has come from `silent` for longer than can be, and nobody has failed.
    pub(super) fn silence(&self, silent: &[u32], roll: &Roll<'_>) -> String {
        let stopped = self.stop(Order::Blames, roll);
        stopped.unwrap_or_else(|| roll.account(silent))
    }

    fn order(&self) -> Option<Order> {
        self.failures.iter().map(|(_, cause)| cause.order()).min()
    }

    /// The failures of this order.
    fn of(&self, order: Order) -> impl Iterator<Item = &(Range<u32>, Cause)> {
        let failures = self.failures.iter();
        failures.filter(move |(_, cause)| cause.order() == order)
    }

    /// The processes that are stopped, in words, if that can be behind failures of this order: what says that it is a cause itself may be
    /// one, unless a deadline has passed since the stop.
    fn stop(&self, order: Order, roll: &Roll<'_>) -> Option<String> {
        let failed = self.times.map_or_else(Instant::now, |(first, _)| first);
        let behind = |stop: &&Stop| {
            let before = failed.saturating_duration_since(stop.since);
            order == Order::Blames || before >= self.deadline.mul_f64(0.75)
        };
        let stops: Vec<&Stop> = self.stopped.iter().filter(behind).collect();
        let first = stops.iter().min_by_key(|stop| stop.since)?;
        let mut ranks: Vec<u32> = stops.iter().flat_map(|stop| stop.ranks.clone()).collect();
        ranks.sort_unstable();
        let (signal, place) = (first.signal, roll.place(&ranks));
        let verb = if ranks.len() == 1 { "is" } else { "are" };
        Some(format!(
            "{} {verb} silent: stopped by signal {signal}{} {:.1} s ago, last {place}",
            names(ranks),
            signal_name(signal),
            first.since.elapsed().as_secs_f64(),
        ))
    }

    /// All processes that have ended or are lost with this order, in words; those that ended alike together.
    fn ended(&self, order: Order, roll: &Roll<'_>) -> String {
        let mut ways: Vec<(ExitStatus, Vec<Range<u32>>)> = Vec::new();
        // A launcher that is gone comes first: it has taken its ranks with it.
        let mut texts = Vec::new();
        for (ranks, cause) in self.of(order) {
            match cause {
                Cause::Died(status) => match ways.iter_mut().find(|(way, _)| way == status) {
                    Some((_, alike)) => alike.push(ranks.clone()),
                    None => ways.push((*status, vec![ranks.clone()])),
                },
                Cause::Lost(text) => texts.push(text.clone()),
                Cause::Told(_) | Cause::Garbled(_) => {}
            }
        }
        texts.extend(
            ways.iter()
                .map(|(status, alike)| dead(*status, alike, roll)),
        );
        texts.join("; ")
    }
}

/// Processes that have ended alike.
fn dead(status: ExitStatus, processes: &[Range<u32>], roll: &Roll<'_>) -> String {
    let many = processes.len() > 1;
    let mut ranks: Vec<u32> = processes.iter().cloned().flatten().collect();
    ranks.sort_unstable();
    let threads = ranks.len() > processes.len();
    let place = roll.end_in_loading(&ranks);
    let place = place.map_or_else(String::new, |place| format!(", {place}"));
    let (who, how) = (names(ranks), ending(status, many) + &place);
    match (threads, many) {
        (false, _) => format!("{who} {how}"),
        (true, false) => format!("the process of {who} {how}"),
        (true, true) => format!("the processes of {who} {how}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse_from;
    use crate::job::Job;
    use crate::wire::Message;

    const DEADLINE: Duration = Duration::from_secs(600);

    fn job() -> Job {
        parse_from("allr -r 4 -b 4 -e 4 -n 2 -w 0").unwrap().0
    }

    /// The finding of four ranks that have met just now.
    fn text(verdict: &Verdict) -> Option<String> {
        let job = job();
        let mut roll = Roll::new(&job);
        (0..4).for_each(|rank| roll.said(rank, Message::Joined));
        verdict.finding(Some(4), &roll).map(|found| found.text)
    }

    fn killed() -> Cause {
        Cause::Died(ExitStatus::from_raw(9))
    }

    #[test]
    fn a_signal_outranks_what_its_peers_say() {
        let mut verdict = Verdict::new(DEADLINE);
        assert_eq!((verdict.grace(), text(&verdict)), (None, None));
        verdict.told(0, Failure::by_peer("peer rank 2: closed the connection"));
        verdict.told(3, Failure::own("the device failed"));
        assert_eq!(text(&verdict).as_deref(), Some("rank 3: the device failed"));
        verdict.process(&(2..3), killed());
        verdict.process(&(2..3), Cause::Garbled("said nothing".to_owned()));
        let told = "rank 2 was killed by signal 9 (SIGKILL)";
        assert_eq!(text(&verdict).as_deref(), Some(told));
        assert!(verdict.grace().is_some_and(|left| left > QUIET));
    }

    #[test]
    fn all_that_died_together_are_named_also_those_that_blamed_others_before() {
        let mut verdict = Verdict::new(DEADLINE);
        verdict.told(2, Failure::by_peer("peer rank 1: closed the connection"));
        verdict.process(&(1..2), killed());
        verdict.process(&(2..3), killed());
        let told = "ranks 1 to 2 were killed by signal 9 (SIGKILL)";
        assert_eq!(text(&verdict).as_deref(), Some(told));
        verdict.process(&(0..1), Cause::Died(ExitStatus::from_raw(11)));
        let told = "ranks 1 to 2 were killed by signal 9 (SIGKILL); rank 0 was killed by signal 11 (SIGSEGV)";
        assert_eq!(text(&verdict).as_deref(), Some(told));
    }

    #[test]
    fn exit_codes_are_named_with_their_ranks() {
        let mut verdict = Verdict::new(DEADLINE);
        let code = |code: i32| Cause::Died(ExitStatus::from_raw(code << 8));
        verdict.process(&(1..2), code(3));
        let told = "rank 1 ended with exit code 3 before it was finished";
        assert_eq!(text(&verdict).as_deref(), Some(told));
        verdict.process(&(3..4), code(3));
        let told = "ranks 1 and 3 ended with exit code 3 before they were finished";
        assert_eq!(text(&verdict).as_deref(), Some(told));
    }

    #[test]
    fn ranks_that_say_nothing_are_named_first_when_all_others_blame_their_peers() {
        let mut verdict = Verdict::new(DEADLINE);
        verdict.told(0, Failure::by_peer("late"));
        verdict.told(3, Failure::by_peer("late"));
        assert!(verdict.grace().is_some_and(|left| left <= QUIET));
        // They have been heard a moment ago.
        assert_eq!(text(&verdict).as_deref(), Some("rank 0: late"));
        verdict.deadline = Duration::ZERO;
        let told = "ranks 1 to 2 are silent: nothing was heard for 0.0 s, last at 4 bytes, iteration 1 of 2; rank 0: late";
        assert_eq!(text(&verdict).as_deref(), Some(told));
        verdict.stopped(&(2..3), Some(libc::SIGSTOP));
        let told = "rank 2 is silent: stopped by signal 19 (SIGSTOP) 0.0 s ago, last at 4 bytes, iteration 1 of 2";
        assert_eq!(text(&verdict).as_deref(), Some(told));
        // Who goes on is late at most.
        verdict.stopped(&(2..3), None);
        assert!(text(&verdict).is_some_and(|text| text.starts_with("ranks 1 to 2 are silent")));
    }

    #[test]
    fn a_rank_that_was_stopped_a_moment_ago_is_not_behind_what_another_says_of_itself() {
        let mut verdict = Verdict::new(DEADLINE);
        verdict.stopped(&(2..3), Some(libc::SIGSTOP));
        verdict.told(1, Failure::own("the device failed"));
        assert_eq!(text(&verdict).as_deref(), Some("rank 1: the device failed"));
        verdict.deadline = Duration::ZERO;
        assert!(text(&verdict).is_some_and(|text| text.starts_with("rank 2 is silent")));
    }

    #[test]
    fn a_rank_alone_speaks_for_all() {
        let mut verdict = Verdict::new(DEADLINE);
        verdict.told(0, Failure::own("no library"));
        let found = verdict.finding(None, &Roll::new(&job()));
        assert_eq!(found.map(|found| found.text).as_deref(), Some("no library"));
    }

    #[test]
    fn a_process_of_several_ranks_is_named_once_and_not_for_what_one_of_them_told() {
        let mut verdict = Verdict::new(DEADLINE);
        verdict.told(1, Failure::by_peer("late"));
        // Its exit code is no news; a signal may be the cause of what its ranks tell.
        verdict.process(&(0..4), Cause::Died(ExitStatus::from_raw(1 << 8)));
        assert_eq!(text(&verdict).as_deref(), Some("rank 1: late"));
        verdict.process(&(0..4), killed());
        let told = "the process of ranks 0 to 3 was killed by signal 9 (SIGKILL)";
        assert_eq!(text(&verdict).as_deref(), Some(told));
    }
}
