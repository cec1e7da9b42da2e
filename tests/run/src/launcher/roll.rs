//! What the launcher knows of each rank: how far it is, and when it was last heard of.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::job::Job;
use crate::layout::names;
use crate::wire::{Message, SizeResult};

/// How far a rank is, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Its process has been started.
    Started,
    /// Its process loads the library.
    Loading,
    /// Its process has loaded the library.
    Ready,
    /// It has met all others, and is through with so many sizes, and the iterations before this one of the next.
    Running { sizes: usize, iteration: u32 },
    /// It is through.
    Finished,
}

/// One rank.
#[derive(Debug)]
struct Heard {
    step: Step,
    last: Instant,
    /// Results of sizes that not all ranks have come to.
    results: VecDeque<SizeResult>,
}

/// All ranks of a job.
#[derive(Debug)]
pub(super) struct Roll<'a> {
    job: &'a Job,
    ranks: Vec<Heard>,
}

impl<'a> Roll<'a> {
    /// Nobody has said anything.
    pub(super) fn new(job: &'a Job) -> Self {
        let heard = |_| Heard {
            step: Step::Started,
            last: Instant::now(),
            results: VecDeque::new(),
        };
        let ranks = (0..job.layout.ranks).map(heard).collect();
        Self { job, ranks }
    }

    /// The time from which on the ranks may be expected to say something.
    pub(super) fn begin(&mut self, ranks: Range<u32>) {
        for rank in ranks {
            if let Some(heard) = self.ranks.get_mut(rank as usize) {
                heard.last = Instant::now();
            }
        }
    }

    /// Takes in what a rank says.
    pub(super) fn said(&mut self, rank: u32, message: Message) {
        let of_process = match message {
            Message::Loading => Some(Step::Loading),
            Message::Ready => Some(Step::Ready),
            _ => None,
        };
        if let Some(step) = of_process {
            // Said once for all ranks of a process.
            let process = self.job.layout.process(rank).unwrap_or(rank..rank + 1);
            self.begin(process.clone());
            process.for_each(|rank| self.move_on(rank, step));
            return;
        }
        let Some(heard) = self.ranks.get_mut(rank as usize) else {
            return;
        };
        heard.last = Instant::now();
        let sizes = match heard.step {
            Step::Running { sizes, .. } => sizes,
            _ => 0,
        };
        let running = |sizes, iteration| Step::Running { sizes, iteration };
        match message {
            Message::Joined => self.move_on(rank, running(0, 1)),
            Message::Iteration(iteration) => self.move_on(rank, running(sizes, iteration)),
            Message::Size(result) => {
                heard.results.push_back(result);
                self.move_on(rank, running(sizes + 1, 1));
            }
            Message::Finished => self.move_on(rank, Step::Finished),
            Message::Loading | Message::Ready | Message::Failed(_) => {}
        }
    }

    fn move_on(&mut self, rank: u32, step: Step) {
        if let Some(heard) = self.ranks.get_mut(rank as usize) {
            heard.step = heard.step.max(step);
        }
    }

    /// Whether all ranks have met.
    pub(super) fn have_met(&self) -> bool {
        self.ranks.iter().all(|heard| heard.step > Step::Ready)
    }

    /// The results of the next size that all ranks are through with.
    pub(super) fn next_size(&mut self) -> Option<Vec<SizeResult>> {
        if self.ranks.iter().any(|heard| heard.results.is_empty()) {
            return None;
        }
        let ranks = self.ranks.iter_mut();
        Some(
            ranks
                .filter_map(|heard| heard.results.pop_front())
                .collect(),
        )
    }

    /// Whether a rank is through.
    pub(super) fn is_through(&self, rank: u32) -> bool {
        let heard = self.ranks.get(rank as usize);
        heard.is_none_or(|heard| heard.step == Step::Finished)
    }

    /// Those of `ranks` that are not through and from which nothing has come for `time`.
    pub(super) fn unheard(&self, ranks: Range<u32>, time: Duration) -> Vec<u32> {
        ranks
            .filter(|rank| !self.is_through(*rank) && self.silence(*rank) >= time)
            .collect()
    }

    /// The longest that nothing has come from one of `ranks` that is not through.
    pub(super) fn longest(&self, ranks: Range<u32>) -> Option<Duration> {
        let open = ranks.filter(|rank| !self.is_through(*rank));
        open.map(|rank| self.silence(rank)).max()
    }

    fn silence(&self, rank: u32) -> Duration {
        let heard = self.ranks.get(rank as usize);
        heard.map_or(Duration::ZERO, |heard| heard.last.elapsed())
    }

    /// Which of `ranks` are silent, for how long and where, in words. Of ranks that have not met, those that have got least far: the others
    /// may have come no further because of them.
    pub(super) fn account(&self, ranks: &[u32]) -> String {
        let running = |step: Step| matches!(step, Step::Running { .. });
        let least = self.least(ranks);
        let open = ranks.iter().copied().filter(|rank| {
            // Of ranks that run, some are always an iteration behind.
            let step = self.step(*rank);
            step == least || running(least) && running(step)
        });
        let open: Vec<u32> = open.collect();
        let longest = open.iter().map(|rank| self.silence(*rank)).max();
        let time = longest.unwrap_or_default().as_secs_f64();
        let verb = if open.len() == 1 { "is" } else { "are" };
        let (who, place) = (names(open), self.place(ranks));
        format!("{who} {verb} silent: nothing was heard for {time:.1} s, last {place}")
    }

    fn step(&self, rank: u32) -> Step {
        let heard = self.ranks.get(rank as usize);
        heard.map_or(Step::Started, |heard| heard.step)
    }

    fn least(&self, ranks: &[u32]) -> Step {
        let steps = ranks.iter().map(|rank| self.step(*rank));
        steps.min().unwrap_or(Step::Started)
    }

    /// Where all of `ranks` are, in words for the message of their end, if that is in the library's own beginning.
    pub(super) fn end_in_loading(&self, ranks: &[u32]) -> Option<String> {
        let loading = |rank: &u32| self.step(*rank) == Step::Loading;
        ranks.iter().all(loading).then(|| self.loading())
    }

    fn loading(&self) -> String {
        format!("while --library {} was loaded", self.job.library.display())
    }

    /// How far the hindmost of `ranks` is, in words.
    pub(super) fn place(&self, ranks: &[u32]) -> String {
        match self.least(ranks) {
            Step::Started => "at the start of the process".to_owned(),
            Step::Loading => self.loading(),
            Step::Ready => "before all ranks had met".to_owned(),
            Step::Running { sizes, iteration } => match self.job.sizes.iter().nth(sizes) {
                Some(bytes) => {
                    let all = self.job.all_iterations();
                    format!("at {bytes} bytes, iteration {iteration} of {all}")
                }
                None => "after the last size".to_owned(),
            },
            Step::Finished => "at the end".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse_from;

    #[test]
    fn the_hindmost_are_named_before_all_have_met_and_all_that_run_afterwards() {
        let (job, _) = parse_from("allr -r 4 -b 4 -e 8 -f 2 -n 3 -w 0").unwrap();
        let mut roll = Roll::new(&job);
        let text = |roll: &Roll<'_>, ranks: &[u32]| roll.account(ranks);
        for rank in [0, 2, 3] {
            roll.said(rank, Message::Ready);
        }
        let told =
            "rank 1 is silent: nothing was heard for 0.0 s, last at the start of the process";
        assert_eq!(text(&roll, &[0, 1, 2, 3]), told);
        roll.said(1, Message::Ready);
        (0..4).for_each(|rank| roll.said(rank, Message::Joined));
        assert!(roll.have_met());
        let size = SizeResult {
            bytes: 4,
            nanos: Vec::new(),
            wrong: None,
            digest: None,
        };
        (0..4).for_each(|rank| roll.said(rank, Message::Size(size.clone())));
        assert_eq!(roll.next_size().map(|all| all.len()), Some(4));
        roll.said(3, Message::Iteration(2));
        let told = "ranks 2 to 3 are silent: nothing was heard for 0.0 s, last at 8 bytes, iteration 1 of 3";
        assert_eq!(text(&roll, &[2, 3]), told);
        roll.said(3, Message::Finished);
        assert_eq!(roll.unheard(0..4, Duration::ZERO), [0, 1, 2]);
    }
}
