//! The oracle taken along a tape: through the same work as the driver, with the same answers, beside the same acts of others.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use proxy_core::port::BarrierPoll;
use proxy_core::{ContextId, OrderError, PollError, Status, TaskKind, Ticket};
use proxy_kit::oracle::{Answer, Call, Changed, Oracle, Outside, Stepped, TaskId};

use crate::pair::{CONTEXTS, DIED, Death, Item, Pair, Seen, Work, Worked};

pub(crate) type Steps = Vec<(Stepped, Vec<(Call, Answer)>)>;

/// Takes the oracle through a piece of work along its tape.
pub(crate) fn replay(
    pair: &mut Pair,
    tape: Vec<Item>,
    work: Work,
) -> (Worked, Steps, Result<(), String>) {
    let mut replay = Replay::new(tape, &mut pair.tasks);
    let oracle = &mut pair.oracle;
    let done = catch_unwind(AssertUnwindSafe(|| match work {
        Work::Tick => Worked::Ticked(oracle.tick(&mut replay)),
        Work::Abort(status) => Worked::Aborted(oracle.abort_all(status, &mut replay)),
    }));
    let worked = match done {
        Ok(worked) => worked,
        Err(payload) if payload.is::<Death>() => DIED,
        Err(payload) => resume_unwind(payload),
    };
    replay.act(oracle);
    if let Some(item) = replay.tape.next() {
        replay.differs(&format!("{item:?}"), "the end of the work");
    }
    let checked = replay.wrong.map_or(Ok(()), Err);
    (worked, replay.steps, checked)
}

/// The oracle's outside: the tape.
pub(crate) struct Replay<'a> {
    tape: std::iter::Peekable<std::vec::IntoIter<Item>>,
    tasks: &'a mut HashMap<Ticket, TaskId>,
    pub(crate) told: Vec<Changed>,
    /// Whether changes are on the tape, too.
    taped: bool,
    steps: Steps,
    calls: Vec<(Call, Answer)>,
    wrong: Option<String>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(tape: Vec<Item>, tasks: &'a mut HashMap<Ticket, TaskId>) -> Self {
        Self {
            taped: !tape.is_empty(),
            tape: tape.into_iter().peekable(),
            tasks,
            told: Vec::new(),
            steps: Vec::new(),
            calls: Vec::new(),
            wrong: None,
        }
    }

    fn differs(&mut self, found: &str, predicted: &str) {
        let what = format!("the driver did {found}, the oracle {predicted}");
        self.wrong.get_or_insert(what);
    }

    /// What others did here.
    fn act(&mut self, oracle: &mut Oracle) {
        while let Some(Item::Seen(seen)) = self.tape.next_if(|item| matches!(item, Item::Seen(_))) {
            if let Err(what) = apply(oracle, self.tasks, &seen) {
                self.wrong.get_or_insert(what);
            }
        }
    }
}

/// The answer for a call that the driver did not make; what follows is not looked at any more.
const LOST: Answer = Answer {
    status: Status::FAILURE,
    idle: true,
    done: true,
    poll: BarrierPoll::Failed(Status::FAILURE),
};

impl Outside for Replay<'_> {
    fn call(&mut self, oracle: &mut Oracle, call: Call) -> Answer {
        // Others act before the answer is given.
        self.act(oracle);
        let answer = match self.tape.next() {
            Some(Item::Call(found, answer)) if found == call => answer,
            Some(Item::Died) => resume_unwind(Box::new(Death)),
            found => {
                self.differs(&format!("{found:?}"), &format!("{call:?}"));
                LOST
            }
        };
        self.calls.push((call, answer));
        answer
    }

    fn changed(&mut self, change: Changed) {
        self.told.push(change);
        if !self.taped {
            return;
        }
        match self.tape.next() {
            Some(Item::Changed(found)) if found == change => {}
            found => self.differs(&format!("{found:?}"), &format!("{change:?}")),
        }
    }

    fn touch(&mut self, oracle: &mut Oracle, context: ContextId, kind: TaskKind, stream: u8) {
        self.act(oracle);
        match self.tape.next() {
            Some(Item::Touch(c, k, s)) if (c, k, s) == (context, kind, stream) => {}
            found => {
                let predicted = format!("a touch of {kind} word {stream} of {context}");
                self.differs(&format!("{found:?}"), &predicted);
            }
        }
    }

    fn stepped(&mut self, step: Stepped) {
        self.steps.push((step, std::mem::take(&mut self.calls)));
    }
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: &T,
    predicted: &T,
) -> Result<(), String> {
    if found == predicted {
        return Ok(());
    }
    Err(format!(
        "{what}: found {found:?}, the oracle says {predicted:?}"
    ))
}

/// Does an operation to the oracle and compares.
pub(crate) fn apply(
    oracle: &mut Oracle,
    tasks: &mut HashMap<Ticket, TaskId>,
    seen: &Seen,
) -> Result<(), String> {
    let places = u32::try_from(CONTEXTS).map_err(|error| error.to_string())?;
    match seen {
        Seen::Register(spec, found) => same("register", found, &oracle.register(*spec, places)),
        Seen::Retire(context, found) => same("retire", found, &oracle.retire(*context)),
        Seen::Enqueue(context, kind, exec, found) => {
            let predicted = match kind {
                None => oracle.enqueue(*context, *exec),
                Some(kind) => oracle.append(*context, *kind, *exec),
            };
            match (found, predicted) {
                (Ok((tickets, bell)), Ok((ids, expected))) => {
                    same("bell of an enqueue", bell, &expected)?;
                    same("tasks of an enqueue", &tickets.len(), &ids.len())?;
                    for (ticket, id) in tickets.iter().zip(ids) {
                        if tasks.insert(*ticket, id).is_some() {
                            return Err(format!("{ticket} was given out twice"));
                        }
                    }
                    Ok(())
                }
                (found, predicted) => same(
                    "enqueue",
                    &found.as_ref().map(|_| ()).map_err(|error| *error),
                    &predicted.map(|_| ()),
                ),
            }
        }
        Seen::Arm(context, kind, found) => same("arm", found, &oracle.arm(*context, *kind)),
        Seen::Fire(context, kind, stream, value) => {
            oracle.fire(*context, *kind, *stream, *value);
            Ok(())
        }
        Seen::Poll(ticket, found) => match tasks.get(ticket) {
            Some(id) => same(&format!("poll of {ticket}"), found, &oracle.poll(*id)),
            None => same("poll of no ticket", found, &Err(PollError::Unknown)),
        },
        Seen::Check(context, kind, found) => same("check", found, &oracle.check(*context, *kind)),
        Seen::Order(ticket, cause, found) => match tasks.get(ticket) {
            Some(id) => same("order", found, &oracle.order(*id, *cause)),
            None => same("order of no ticket", found, &Err(OrderError::Unknown)),
        },
        Seen::Conclude(ticket, found) => {
            let predicted = tasks.get(ticket).is_some_and(|id| oracle.conclude(*id));
            same("verdict", found, &predicted)
        }
        Seen::Reset(context, found) => same("reset", found, &oracle.reset_words(*context)),
        Seen::Shut(by, bell) => same("bell of a shut", bell, &oracle.shut(*by)),
        Seen::ArmBell(armed) => same("arming the bell", armed, &oracle.arm_bell()),
    }
}
