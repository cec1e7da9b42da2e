//! The exchange as arithmetic: what machine 0 concludes from votes, and what the others make of what it says. No clock, no link.
//!
//! Machine 0 decides the generations of a channel one after another. A generation has passed when all machines have voted that they arrived
//! for the same execution; it has failed as soon as one has voted otherwise, has gone on to the next, or is gone. None is decided
//! before all machines have voted on the one before it, so a worker need not remember more than two.

use std::collections::VecDeque;

use proxy_core::phone::barrier::{Elsewhere, RankSet};

use super::channel::{Ballot, Outcome, Vote};
use super::desk::Desk;
use super::frame::{ENTRIES, Entry, Fact};

/// Whether generation `a` comes after `b`; they may wrap.
fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

impl Ballot {
    /// How a generation that is not decided has failed on this machine, as far as its last vote tells.
    fn failure_of(&self, generation: u32) -> Option<Elsewhere> {
        match self.vote {
            Vote::Failed(why) if self.generation == generation => Some(why),
            _ if self.generation == generation.wrapping_add(1) => {
                // It has gone on without a verdict, so it has failed; who gives up says why.
                Some(self.before.unwrap_or(Elsewhere::Cancelled))
            }
            // Two votes were overtaken: who goes on so fast has given up.
            _ if is_after(self.generation, generation) => Some(Elsewhere::Cancelled),
            _ => None,
        }
    }
}

/// One channel on machine 0.
#[derive(Debug)]
struct Ledger {
    /// The last generation that was decided.
    decided: u32,
    /// Every machine's last vote.
    votes: Vec<Ballot>,
}

impl Ledger {
    fn new(machines: u16) -> Self {
        Self {
            decided: 0,
            votes: vec![Ballot::NONE; machines.into()],
        }
    }

    /// Machines and their votes.
    fn votes(&self) -> impl Iterator<Item = (u8, Ballot)> + Clone {
        (0..).zip(self.votes.iter().copied())
    }

    /// How the next generation has ended, if that can be said; `gone` = machines that cannot vote any more.
    fn outcome(&self, gone: RankSet) -> Option<Outcome> {
        let next = self.decided.wrapping_add(1);
        let votes = || {
            self.votes()
                .filter(|(machine, _)| !gone.has((*machine).into()))
        };
        if votes().any(|(_, ballot)| is_after(self.decided, ballot.generation)) {
            return None;
        }
        let failed = votes().find_map(|(machine, ballot)| match ballot.failure_of(next)? {
            Elsewhere::Missing => Some(self.missed_by(machine)),
            why => Some((machine, why)),
        });
        if let Some(failed) = failed {
            return Some(Err(failed));
        }
        let mut arrived = votes().filter_map(|(machine, ballot)| match ballot.vote {
            Vote::Arrived(exec) if ballot.generation == next => Some((machine, exec)),
            _ => None,
        });
        let (_, exec) = arrived.next()?;
        if let Some((odd, _)) = arrived.clone().find(|(_, other)| *other != exec) {
            return Some(Err((odd, Elsewhere::OtherExecution)));
        }
        if let Some(gone) = gone.first().and_then(|gone| u8::try_from(gone).ok()) {
            return Some(Err((gone, Elsewhere::Gone)));
        }
        (arrived.count() + 1 == self.votes.len()).then_some(Ok(()))
    }

    /// Who is to blame when a machine that has arrived has waited too long for the others.
    fn missed_by(&self, machine: u8) -> (u8, Elsewhere) {
        let late = self.missing().first();
        match late.and_then(|late| u8::try_from(late).ok()) {
            Some(late) => (late, Elsewhere::Missing),
            None => (machine, Elsewhere::TimedOut),
        }
    }

    /// Machines that have not voted on the next generation.
    fn missing(&self) -> RankSet {
        let late = self
            .votes()
            .filter(|(_, ballot)| !is_after(ballot.generation, self.decided));
        late.map(|(machine, _)| machine.into()).collect()
    }

    /// Whether machine 0 itself has arrived, and waits.
    fn is_open(&self) -> bool {
        is_after(self.votes[0].generation, self.decided)
    }
}

/// Machine 0.
#[derive(Debug)]
pub(super) struct Root {
    ledgers: Vec<Ledger>,
    gone: RankSet,
    /// Verdicts that the others have not been told.
    untold: VecDeque<Entry>,
}

impl Root {
    pub(super) fn new(machines: u16, channels: u16) -> Self {
        Self {
            ledgers: (0..channels).map(|_| Ledger::new(machines)).collect(),
            gone: RankSet::default(),
            untold: VecDeque::new(),
        }
    }

    pub(super) fn is_gone(&self, machine: u16) -> bool {
        self.gone.has(machine)
    }

    pub(super) fn bury(&mut self, machine: u16) {
        self.gone = self.gone.with(machine);
    }

    /// Notes a machine's vote. True = it was news.
    pub(super) fn hear(&mut self, machine: u16, entry: &Entry) -> bool {
        let Fact::Voted(vote, before) = entry.fact else {
            return false;
        };
        let ballot = Ballot {
            generation: entry.generation,
            vote,
            before,
        };
        self.note(machine, entry.channel, ballot)
    }

    fn note(&mut self, machine: u16, channel: u16, new: Ballot) -> bool {
        let ledger = self.ledgers.get_mut(usize::from(channel));
        let Some(vote) = ledger.and_then(|ledger| ledger.votes.get_mut(usize::from(machine)))
        else {
            return false;
        };
        std::mem::replace(vote, new) != new
    }

    /// Takes the own machine's votes, decides what can be decided, and tells the own machine. True = there was news.
    pub(super) fn settle(&mut self, desk: &Desk) -> bool {
        let mut news = false;
        for (index, channel) in (0..).zip(&desk.channels) {
            news |= self.note(0, index, channel.vote());
            let ledger = &mut self.ledgers[usize::from(index)];
            while let Some(outcome) = ledger.outcome(self.gone) {
                ledger.decided = ledger.decided.wrapping_add(1);
                channel.decide(ledger.decided, outcome);
                self.untold.push_back(Entry {
                    channel: index,
                    generation: ledger.decided,
                    fact: match outcome {
                        Ok(()) => Fact::Passed,
                        Err((machine, why)) => Fact::Verdict(machine, why),
                    },
                });
                news = true;
            }
            let next = ledger.missing().iter().find(|machine| *machine != 0);
            let waits = ledger.is_open().then_some(next).flatten();
            channel.set_awaited(waits.and_then(|machine| u8::try_from(machine).ok()));
        }
        news
    }

    /// Whether the others have something to be told.
    pub(super) fn has_news(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Whether this machine waits for others.
    pub(super) fn is_open(&self) -> bool {
        self.ledgers.iter().any(Ledger::is_open)
    }

    /// The entries of the next frame: verdicts, then what is waited for.
    pub(super) fn next_entries(&mut self) -> Vec<Entry> {
        let told = self.untold.len().min(ENTRIES);
        let verdicts = self.untold.drain(..told);
        let open = (0..)
            .zip(&self.ledgers)
            .filter(|(_, ledger)| ledger.is_open());
        let waiting = open.map(|(channel, ledger)| Entry {
            channel,
            generation: ledger.decided.wrapping_add(1),
            fact: Fact::Waiting(ledger.missing()),
        });
        verdicts.chain(waiting).take(ENTRIES).collect()
    }
}

/// Every other machine.
#[derive(Debug)]
pub(super) struct Leaf {
    machine: u16,
    /// The votes that machine 0 was told.
    told: Vec<Ballot>,
}

impl Leaf {
    pub(super) fn new(machine: u16, channels: u16) -> Self {
        Self {
            machine,
            told: vec![Ballot::NONE; channels.into()],
        }
    }

    /// Takes what machine 0 says.
    pub(super) fn hear(&self, desk: &Desk, entries: &[Entry]) {
        for entry in entries {
            let Some(channel) = desk.channels.get(usize::from(entry.channel)) else {
                continue;
            };
            match entry.fact {
                Fact::Passed => channel.decide(entry.generation, Ok(())),
                Fact::Verdict(machine, why) => {
                    channel.decide(entry.generation, Err((machine, why)))
                }
                Fact::Waiting(machines) => {
                    // Of several it does not know which one keeps machine 0 from answering.
                    let others = machines.without(self.machine);
                    let only = others.first().filter(|_| others.len() == 1);
                    channel.set_awaited(only.and_then(|machine| u8::try_from(machine).ok()));
                }
                Fact::Voted(..) => {}
            }
        }
    }

    /// Votes that machine 0 has not been told, as many as go into a frame.
    pub(super) fn news(&mut self, desk: &Desk) -> Vec<Entry> {
        let mut entries = Vec::new();
        for ((index, channel), told) in (0..).zip(&desk.channels).zip(&mut self.told) {
            let ballot = channel.vote();
            if *told == ballot {
                continue;
            }
            if entries.len() == ENTRIES {
                break;
            }
            *told = ballot;
            entries.push(Entry {
                channel: index,
                generation: ballot.generation,
                fact: Fact::Voted(ballot.vote, ballot.before),
            });
        }
        entries
    }
}

#[cfg(test)]
mod tests;
