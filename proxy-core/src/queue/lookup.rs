//! The look-up by context and kind (the original's `check_proxy_task_status`).
//!
//! A context remembers per kind what its last look-up found, see [`Hint`]: a task stays the oldest until it is consumed, and
//! where there is none there is none until the next append. So a look costs the same however many statuses there are, but
//! for the first after a consume, which goes over the slots of the rank; and an append pays nothing for it.

use super::Queue;
use super::answer::{Poll, PollError};
use super::append::Of;
use crate::board::{Phase, Slot, Verdict, Word};
use crate::context::is_older;
use crate::hint::Hint;
use crate::id::ContextId;
use crate::limits::{index, narrow};
use crate::status::{RunState, TaskKind};

/// A task that was found.
struct Found<'a> {
    number: u32,
    slot: &'a Slot,
    word: Word,
    state: RunState,
}

impl<const RANKS: usize, const TASKS: usize, const CONTEXTS: usize> Queue<RANKS, TASKS, CONTEXTS> {
    /// State of the oldest unconsumed task of a context and kind; consumes it if it is done (the original's
    /// `check_proxy_task_status`). [`PollError::Unknown`] if there is none. Lock-free; O(1), but for the first look after a
    /// consume, which is O(slots of the rank).
    pub fn check(&self, context: ContextId, kind: TaskKind) -> Result<Poll, PollError> {
        match self.known(context, kind) {
            Some(answer) => answer,
            None => self.find(context, kind),
        }
    }

    /// The answer of a look that changes nothing, if the last one has left what tells it: the oldest task is not done yet, or there is
    /// none. By itself, so that it keeps nothing in memory for the rest.
    #[inline]
    fn known(&self, context: ContextId, kind: TaskKind) -> Option<Result<Poll, PollError>> {
        let of = self.contexts.get(context)?;
        if !of.is_registered(context) {
            return Some(Err(PollError::Unknown));
        }
        let hint = of.hint(kind);
        if let Some((number, tag)) = hint.task()
            && let Some(slot) = self.slot(number)
        {
            let word = slot.word();
            let same = Hint::tag(word.generation()) == tag;
            if let Some(state) = word.unfinished().filter(|_| same)
                && slot.is_of(context, word)
            {
                let told = slot.verdict(word) != Verdict::None;
                return (!told).then_some(Ok(Poll::Pending(state)));
            }
        }
        let none = (of.settled(context)).is_some_and(|appends| hint.is_none_since(appends));
        none.then_some(Err(PollError::Unknown))
    }

    /// The whole of a look.
    #[inline(never)]
    fn find(&self, context: ContextId, kind: TaskKind) -> Result<Poll, PollError> {
        let of = self.registered(context).ok_or(PollError::Unknown)?;
        let row = self
            .slots
            .get(index(of.entry.bucket))
            .ok_or(PollError::Unknown)?;
        let first = of.entry.bucket.wrapping_mul(narrow(TASKS));
        let hint = of.slot.hint(kind);
        loop {
            let found = match self.remembered(of, hint) {
                Some(found) => found,
                None => match search((first, row), of, kind, hint) {
                    Some(found) => found,
                    None => return Err(PollError::Unknown),
                },
            };
            let taken = match found.state {
                RunState::Done => found.slot.consume(found.word),
                state if found.slot.verdict(found.word) == Verdict::None => {
                    return Ok(Poll::Pending(state));
                }
                _ => found.slot.take_verdict(found.word),
            };
            if let Some(status) = taken {
                return Ok(Poll::Done(status));
            }
            // Another consumer took it: look again, there is one task less.
        }
    }

    /// The task that the last look-up found, if nobody has consumed it.
    fn remembered(&self, of: Of<'_>, hint: &Hint) -> Option<Found<'_>> {
        let (number, tag) = hint.task()?;
        let slot = self.slot(number)?;
        let word = slot.word();
        let Phase::Live(state) = word.phase() else {
            return None;
        };
        // The place of the context may have been given to another since; the task then is that one's no more.
        let key = slot.key(word)?;
        let same = Hint::tag(word.generation()) == tag && key.context == of.id;
        // A task whose verdict was consumed is over for look-ups, although its slot is the worker's still.
        (same && slot.verdict(word) != Verdict::Taken).then_some(Found {
            number,
            slot,
            word,
            state,
        })
    }
}

/// Goes over the slots of the rank, and remembers what it finds.
fn search<'a>(
    (first, row): (u32, &'a [Slot]),
    of: Of<'_>,
    kind: TaskKind,
    hint: &Hint,
) -> Option<Found<'a>> {
    let settled = of.slot.settled(of.id);
    let appends = of.slot.appends();
    let mut oldest: Option<(usize, Found<'a>)> = None;
    for (number, slot) in (first..).zip(row) {
        let word = slot.word();
        let Phase::Live(state) = word.phase() else {
            continue;
        };
        if word.kind() != kind || slot.verdict(word) == Verdict::Taken {
            continue;
        }
        let Some(key) = slot.key(word).filter(|key| key.context == of.id) else {
            continue;
        };
        if oldest
            .as_ref()
            .is_none_or(|(sequence, _)| is_older(key.sequence, *sequence))
        {
            let found = Found {
                number,
                slot,
                word,
                state,
            };
            oldest = Some((key.sequence, found));
        }
    }
    match (&oldest, settled) {
        // An append that came while we looked may have filled a place that we had passed, and then one before us.
        (Some((_, found)), _) if of.slot.appends() == appends => {
            hint.keep_task(found.number, found.word.generation());
        }
        (None, Some(appends)) => hint.keep_none(appends),
        _ => {}
    }
    oldest.map(|(_, found)| found)
}
