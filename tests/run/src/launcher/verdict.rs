//! Which of several failures is the cause: one rank that ends takes the others with it within moments.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::process::ending;
use crate::wire::Failure;

/// How long the others' failures are waited for after the first one: whoever was hit by the cause itself may be late.
const GRACE: Duration = Duration::from_millis(500);

/// The order of a rank that blames others.
const LEAST: u8 = 4;

/// What happened to one rank.
#[derive(Debug)]
pub(super) enum Cause {
    /// It said so itself.
    Told(Failure),
    /// Its process ended.
    Died(ExitStatus),
    /// It said something that is no message.
    Garbled(String),
}

impl Cause {
    /// The lower, the nearer to the cause.
    fn order(&self) -> u8 {
        match self {
            Self::Died(status) if status.signal().is_some() => 0,
            Self::Told(failure) if !failure.by_peer => 1,
            Self::Garbled(_) => 2,
            Self::Died(_) => 3,
            Self::Told(_) => LEAST,
        }
    }
}

/// All failures of a run, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    failures: Vec<(u32, Cause)>,
    since: Option<Instant>,
}

impl Verdict {
    /// Adds what happened to `rank`, if nothing has happened to it before.
    pub(super) fn add(&mut self, rank: u32, cause: Cause) {
        if self.failures.iter().all(|(other, _)| *other != rank) {
            self.failures.push((rank, cause));
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// Time left for further failures: `None` = nothing has failed, zero = none.
    pub(super) fn grace(&self) -> Option<Duration> {
        self.since
            .map(|since| GRACE.saturating_sub(since.elapsed()))
    }

    /// The rank whose failure is the cause, and the message; `started` ranks have been started.
    pub(super) fn message(&self, started: usize) -> Option<(u32, String)> {
        // `min_by_key` keeps the first of equals.
        let (rank, cause) = self
            .failures
            .iter()
            .min_by_key(|(_, cause)| cause.order())?;
        let mut text = match cause {
            // The rank is alone while it only looks at library and settings, which are the same for all.
            Cause::Told(failure) if started == 1 => failure.text.clone(),
            Cause::Told(failure) => format!("rank {rank}: {}", failure.text),
            Cause::Died(status) => format!("rank {rank} {}", ending(*status)),
            Cause::Garbled(what) => format!("rank {rank} {what}"),
        };
        if cause.order() == LEAST {
            text += &self.silent(started);
        }
        Some((*rank, text))
    }

    /// Ranks that have not failed, where all that have failed blame others: a stopped process says nothing.
    fn silent(&self, started: usize) -> String {
        let failed = |rank: &usize| {
            self.failures
                .iter()
                .any(|(other, _)| *other as usize == *rank)
        };
        let silent: Vec<String> = (0..started)
            .filter(|rank| !failed(rank))
            .map(|rank| rank.to_string())
            .collect();
        if silent.is_empty() {
            String::new()
        } else {
            format!("\n  nothing was heard from rank {}", silent.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_outranks_what_its_peers_say() {
        let mut verdict = Verdict::default();
        assert_eq!((verdict.grace(), verdict.message(4)), (None, None));
        verdict.add(
            0,
            Cause::Told(Failure::by_peer("peer rank 2: closed the connection")),
        );
        verdict.add(3, Cause::Told(Failure::own("the device failed")));
        assert_eq!(
            verdict.message(4),
            Some((3, "rank 3: the device failed".to_owned()))
        );
        verdict.add(2, Cause::Died(ExitStatus::from_raw(9)));
        verdict.add(2, Cause::Garbled("said nothing".to_owned()));
        assert_eq!(
            verdict.message(4),
            Some((2, "rank 2 was killed by signal 9 (SIGKILL)".to_owned()))
        );
        assert!(verdict.grace().is_some_and(|left| left <= GRACE));
    }

    #[test]
    fn the_first_of_equals_counts_and_an_exit_code_is_named() {
        let mut verdict = Verdict::default();
        verdict.add(1, Cause::Died(ExitStatus::from_raw(3 << 8)));
        verdict.add(0, Cause::Died(ExitStatus::from_raw(4 << 8)));
        let text = "rank 1 ended with exit code 3 before it was finished";
        assert_eq!(verdict.message(2), Some((1, text.to_owned())));
    }

    #[test]
    fn a_rank_that_says_nothing_is_named_when_all_others_blame_their_peers() {
        let mut verdict = Verdict::default();
        verdict.add(0, Cause::Told(Failure::by_peer("late")));
        verdict.add(3, Cause::Told(Failure::by_peer("late")));
        let text = "rank 0: late\n  nothing was heard from rank 1, 2";
        assert_eq!(verdict.message(4), Some((0, text.to_owned())));
    }

    #[test]
    fn a_rank_alone_speaks_for_all() {
        let mut verdict = Verdict::default();
        verdict.add(0, Cause::Told(Failure::own("no library")));
        assert_eq!(verdict.message(1), Some((0, "no library".to_owned())));
    }
}
