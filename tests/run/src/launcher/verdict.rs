//! Which of several failures is the cause: one rank that ends takes the others with it within moments.

use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::process::ending;
use crate::layout::name;
use crate::wire::Failure;

/// How long the others' failures are waited for after the first one: whoever was hit by the cause itself may be late.
const GRACE: Duration = Duration::from_millis(500);

/// The order of a rank that blames others.
const LEAST: u8 = 4;

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

impl Cause {
    /// The lower, the nearer to the cause.
    fn order(&self) -> u8 {
        match self {
            Self::Died(status) if status.signal().is_some() => 0,
            // A process that was killed takes nobody's launcher with it, and a launcher takes its ranks with it.
            Self::Lost(_) => 0,
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
    failures: Vec<(Range<u32>, Cause)>,
    since: Option<Instant>,
}

impl Verdict {
    /// Adds what one rank has told, if nothing has happened to it before.
    pub(super) fn told(&mut self, rank: u32, failure: Failure) {
        if !self.has_failed(rank) {
            self.add(rank..rank.saturating_add(1), Cause::Told(failure));
        }
    }

    /// Adds what happened to the process of `ranks`. That it ends with an exit code is no news once one of them has told why.
    pub(super) fn process(&mut self, ranks: &Range<u32>, cause: Cause) {
        let mut failed = ranks.clone().map(|rank| self.has_failed(rank));
        let known = match &cause {
            Cause::Died(status) if status.signal().is_none() => failed.any(|failed| failed),
            _ => failed.all(|failed| failed),
        };
        if !known {
            self.add(ranks.clone(), cause);
        }
    }

    fn has_failed(&self, rank: u32) -> bool {
        self.failures.iter().any(|(ranks, _)| ranks.contains(&rank))
    }

    fn add(&mut self, ranks: Range<u32>, cause: Cause) {
        self.failures.push((ranks, cause));
        self.since.get_or_insert_with(Instant::now);
    }

    /// Time left for further failures: `None` = nothing has failed, zero = none.
    pub(super) fn grace(&self) -> Option<Duration> {
        self.since
            .map(|since| GRACE.saturating_sub(since.elapsed()))
    }

    /// The ranks whose failure is the cause, and the message. `all` = the number of ranks, or `None` while only the first process has
    /// been started: what it finds wrong with library and settings is wrong for all.
    pub(super) fn message(&self, all: Option<u32>) -> Option<(Range<u32>, String)> {
        // `min_by_key` keeps the first of equals.
        let (ranks, cause) = self
            .failures
            .iter()
            .min_by_key(|(_, cause)| cause.order())?;
        let who = name(ranks);
        let mut text = match cause {
            Cause::Told(failure) if all.is_none() => failure.text.clone(),
            Cause::Told(failure) => format!("{who}: {}", failure.text),
            Cause::Died(status) if ranks.len() > 1 => {
                format!("the process of {who} {}", ending(*status))
            }
            Cause::Died(status) => format!("{who} {}", ending(*status)),
            Cause::Garbled(what) => format!("{who} {what}"),
            Cause::Lost(text) => text.clone(),
        };
        if cause.order() == LEAST {
            text += &self.silent(all.unwrap_or(1));
        }
        Some((ranks.clone(), text))
    }

    /// Ranks that have not failed, where all that have failed blame others: a stopped process says nothing.
    fn silent(&self, all: u32) -> String {
        let silent: Vec<String> = (0..all)
            .filter(|rank| !self.has_failed(*rank))
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
        assert_eq!((verdict.grace(), verdict.message(Some(4))), (None, None));
        verdict.told(0, Failure::by_peer("peer rank 2: closed the connection"));
        verdict.told(3, Failure::own("the device failed"));
        assert_eq!(
            verdict.message(Some(4)),
            Some((3..4, "rank 3: the device failed".to_owned()))
        );
        verdict.process(&(2..3), Cause::Died(ExitStatus::from_raw(9)));
        verdict.process(&(2..3), Cause::Garbled("said nothing".to_owned()));
        assert_eq!(
            verdict.message(Some(4)),
            Some((2..3, "rank 2 was killed by signal 9 (SIGKILL)".to_owned()))
        );
        assert!(verdict.grace().is_some_and(|left| left <= GRACE));
    }

    #[test]
    fn the_first_of_equals_counts_and_an_exit_code_is_named() {
        let mut verdict = Verdict::default();
        verdict.process(&(1..2), Cause::Died(ExitStatus::from_raw(3 << 8)));
        verdict.process(&(0..1), Cause::Died(ExitStatus::from_raw(4 << 8)));
        let text = "rank 1 ended with exit code 3 before it was finished";
        assert_eq!(verdict.message(Some(2)), Some((1..2, text.to_owned())));
    }

    #[test]
    fn a_rank_that_says_nothing_is_named_when_all_others_blame_their_peers() {
        let mut verdict = Verdict::default();
        verdict.told(0, Failure::by_peer("late"));
        verdict.told(3, Failure::by_peer("late"));
        let text = "rank 0: late\n  nothing was heard from rank 1, 2";
        assert_eq!(verdict.message(Some(4)), Some((0..1, text.to_owned())));
    }

    #[test]
    fn a_rank_alone_speaks_for_all() {
        let mut verdict = Verdict::default();
        verdict.told(0, Failure::own("no library"));
        assert_eq!(verdict.message(None), Some((0..1, "no library".to_owned())));
    }

    #[test]
    fn a_process_of_several_ranks_is_named_once_and_not_for_what_one_of_them_told() {
        let mut verdict = Verdict::default();
        verdict.told(1, Failure::by_peer("late"));
        // Its exit code is no news; a signal may be the cause of what its ranks tell.
        verdict.process(&(0..4), Cause::Died(ExitStatus::from_raw(1 << 8)));
        let text = "rank 1: late\n  nothing was heard from rank 0, 2, 3";
        assert_eq!(verdict.message(Some(4)), Some((1..2, text.to_owned())));
        verdict.process(&(0..4), Cause::Died(ExitStatus::from_raw(9)));
        let text = "the process of ranks 0 to 3 was killed by signal 9 (SIGKILL)";
        assert_eq!(verdict.message(Some(4)), Some((0..4, text.to_owned())));
    }
}
