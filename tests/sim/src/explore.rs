//! Exhaustion: every state that a small queue and its driver can reach, over the real code, and what must hold in each.
//!
//! A state is what queue, driver and words are, written out, with what consumers have taken; numbers that only count ticks are left
//! out. The real thing cannot be copied, so a state is kept as the choices that lead to it and is reached again by taking them again.
//! From each state every operation is tried with every combination of answers to the calls that it makes.
//!
//! Besides the oracle's agreement, what must hold are the laws ([`Law`]): no task is lost, none ends twice, every seam call is legal and in
//! order, no gate is passed early, no sleep with work, everything ends after an abort. Calls, gates and sleeps are looked at in every
//! transition. In each new state
//! - a library, a barrier and a device that do what they should from here on must bring every task to its end in a bounded number of
//!   ticks, and each ticket must tell it once;
//! - an abort must end every task at once, after which the worker may sleep unless the queue is shut.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use proxy_core::port::BarrierPoll;
use proxy_core::{
    Bell, ContextId, EnqueueError, ExecId, Polarity, Poll, PollError, RunState, Shut, Spec, Status,
    TaskKind, Ticket,
};
use proxy_kit::oracle::{Answer, Call, Stepped};

use crate::choice::{Choices, next_script};
use crate::laws::Law;
use crate::pair::{Host, Pair, Work, Worked, work};

/// Ticks after which a world with two tasks of two blocks must have come to rest if everybody does what they should.
const TICKS_TO_REST: u32 = 16;

/// A small world.
#[derive(Debug, Clone)]
pub struct Small {
    /// What it shows.
    pub name: &'static str,
    /// One context each.
    pub specs: Vec<Spec>,
    /// Executions of each context.
    pub executions: u64,
    /// The worker can die in any call.
    pub dies: bool,
}

/// What exploring it came to.
#[derive(Debug, Default)]
pub struct Explored {
    /// States.
    pub states: usize,
    /// Transitions, each with one combination of answers.
    pub transitions: u64,
    /// Operations from the first state to the farthest.
    pub depth: usize,
    /// Edges of the machines that were taken.
    pub edges: BTreeSet<String>,
    /// How often each law was looked at: in new transitions, not in the steps that lead to them again.
    pub checked: BTreeMap<Law, u64>,
    /// What was wrong, and the operations that led there.
    pub wrong: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Tick,
    Enqueue(usize),
    Fire(usize, TaskKind, u8),
    Poll(usize),
    ArmBell,
    Abort,
    Close,
}

/// One run of a small world.
struct Run<'a> {
    small: &'a Small,
    pair: Pair,
    contexts: Vec<ContextId>,
    appended: Vec<u64>,
    tickets: Vec<(Ticket, Option<Status>)>,
    is_dead: bool,
    /// From here on nothing goes wrong.
    is_fair: bool,
    choices: Choices,
    ops: Vec<Op>,
    edges: BTreeSet<String>,
    /// Looks at laws before what is new in this run.
    before: BTreeMap<Law, u64>,
}

impl<'a> Run<'a> {
    fn new(small: &'a Small, script: Vec<u32>) -> Self {
        let mut pair = Pair::default();
        let register = |spec: &Spec| pair.register(*spec).expect("few contexts");
        let contexts: Vec<ContextId> = small.specs.iter().map(register).collect();
        Self {
            small,
            pair,
            appended: vec![0; contexts.len()],
            contexts,
            tickets: Vec::new(),
            is_dead: false,
            is_fair: false,
            choices: Choices::scripted(script),
            ops: Vec::new(),
            edges: BTreeSet::new(),
            before: BTreeMap::new(),
        }
    }

    /// What can be done. A worker wants to sleep only when nothing is active; a dead one does nothing.
    fn menu(&self) -> Vec<Op> {
        let mut menu = vec![];
        if !self.is_dead {
            menu.extend([Op::Tick, Op::Abort]);
        }
        if !self.is_dead && self.pair.active() == 0 {
            menu.push(Op::ArmBell);
        }
        for (at, spec) in self.small.specs.iter().enumerate() {
            if self.appended[at] < self.small.executions {
                menu.push(Op::Enqueue(at));
            }
            for (kind, words) in words(spec) {
                menu.extend((0..words).map(|stream| Op::Fire(at, kind, stream)));
            }
        }
        let open = |place: &usize| self.tickets[*place].1.is_none();
        menu.extend((0..self.tickets.len()).filter(open).map(Op::Poll));
        menu.push(Op::Close);
        menu
    }

    fn transition(&mut self) {
        let op = self.choices.pick(&self.menu());
        self.ops.push(op);
        match op {
            Op::Tick => self.work(Work::Tick),
            Op::Abort => self.work(Work::Abort(Status::ABORTED)),
            Op::Enqueue(at) => self.enqueue(at),
            Op::Fire(at, kind, stream) => self.fire(at, kind, stream),
            Op::Poll(place) => self.poll(place),
            Op::ArmBell => {
                let armed = self.pair.arm_bell();
                self.edge(format!(
                    "doorbell: arm {}",
                    if armed { "granted" } else { "refused" }
                ));
            }
            Op::Close => {
                let bell = self.pair.shut(Shut::Closed);
                self.edge(format!("doorbell: close, {}", heard(bell)));
            }
        }
    }

    fn edge(&mut self, edge: String) {
        self.edges.insert(edge);
    }

    fn work(&mut self, piece: Work) {
        self.is_dead |= matches!(work(self, 0, piece), Worked::Died(_));
    }

    fn enqueue(&mut self, at: usize) {
        self.appended[at] += 1;
        let exec = ExecId(self.appended[at]);
        match self.pair.enqueue(self.contexts[at], None, exec) {
            Ok((tickets, bell)) => {
                let tickets = tickets.into_iter().map(|(_, ticket)| (ticket, None));
                self.tickets.extend(tickets);
                self.edge(format!("doorbell: push, {}", heard(bell)));
            }
            // Refused before it came to a push.
            Err(EnqueueError::FiredBeforeArm(_)) => {}
            Err(error) => self.edge(format!("doorbell: push refused, {error}")),
        }
    }

    fn fire(&mut self, at: usize, kind: TaskKind, stream: u8) {
        let value = match self.small.specs[at].polarity {
            Polarity::Specification => 7,
            Polarity::Header => u32::MAX,
        };
        self.pair.fire(self.contexts[at], kind, stream, value);
    }

    /// A consumer looks. What it has been told once it is not told again.
    fn poll(&mut self, place: usize) {
        let (ticket, taken) = self.tickets[place];
        let found = self.pair.poll(ticket);
        let what = || format!("{ticket} with {taken:?} polls as {found:?}");
        match (taken, found) {
            (None, Ok(Poll::Done(status))) => self.tickets[place].1 = Some(status),
            (None, found) => self.must(Law::NoneLost, found.is_ok(), what),
            (Some(_), found) => {
                let once = found == Err(PollError::AlreadyConsumed);
                self.must(Law::NoneTwice, once, what);
            }
        }
    }

    fn must(&mut self, law: Law, holds: bool, what: impl FnOnce() -> String) {
        self.pair.laws.must(law, holds, what);
    }

    /// What is new in this run begins here.
    fn mark(&mut self) {
        self.before.clone_from(self.pair.laws.checked());
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.pair.state().hash(&mut hasher);
        let tickets = self.tickets.iter().map(|(_, taken)| taken.is_some());
        for taken in tickets {
            taken.hash(&mut hasher);
        }
        (&self.appended, self.is_dead).hash(&mut hasher);
        hasher.finish()
    }

    /// Everybody does what they should from here on: every task ends.
    fn rest(&mut self) {
        self.is_fair = true;
        for _ in 0..TICKS_TO_REST {
            for (at, spec) in self.small.specs.iter().enumerate() {
                for (kind, words) in words(spec) {
                    (0..words).for_each(|stream| self.fire(at, kind, stream));
                }
            }
            if !self.is_dead {
                self.work(Work::Tick);
            }
        }
        self.all_end(Law::NoneLost, "everybody does what they should, and");
    }

    /// An abort ends everything at once.
    fn abort(&mut self) {
        self.is_fair = true;
        if !self.is_dead {
            self.work(Work::Abort(Status::ABORTED));
        }
        self.all_end(Law::AbortEndsAll, "after an abort");
        let may_sleep = self.pair.queue.shut_by().is_none();
        let right = self.pair.arm_bell() == may_sleep;
        self.must(Law::AbortEndsAll, right, || {
            "the worker cannot sleep after it, or sleeps on a close".to_owned()
        });
    }

    fn all_end(&mut self, law: Law, when: &str) {
        for place in 0..self.tickets.len() {
            self.poll(place);
            let (ticket, taken) = self.tickets[place];
            self.must(law, taken.is_some(), || {
                format!("{when} {ticket} has not ended")
            });
            self.poll(place);
        }
        let active = self.pair.active();
        self.must(law, active == 0, || format!("{when} {active} are active"));
    }
}

/// Start words of both kinds.
fn words(spec: &Spec) -> [(TaskKind, u8); 2] {
    let network = if spec.device_wait { spec.streams } else { 0 };
    [
        (TaskKind::Network, network),
        (TaskKind::Barrier, spec.barrier_triggers),
    ]
}

const fn heard(bell: Bell) -> &'static str {
    match bell {
        Bell::Ring => "rings",
        Bell::Quiet => "quiet",
    }
}

impl Host for Run<'_> {
    fn pair(&mut self, _: usize) -> &mut Pair {
        &mut self.pair
    }

    fn answer(&mut self, _: usize, call: Call) -> Option<Answer> {
        let answer = |status, idle, done, poll| Answer {
            status,
            idle,
            done,
            poll,
        };
        let ok = answer(Status::SUCCESS, true, true, BarrierPoll::Ready);
        let failed = answer(
            Status::FAILURE,
            true,
            true,
            BarrierPoll::Failed(Status::FAILURE),
        );
        let idle = answer(Status::SUCCESS, true, false, BarrierPoll::Pending);
        let moved = answer(Status::SUCCESS, false, false, BarrierPoll::Pending);
        let options: &[Answer] = match call {
            _ if self.is_fair => &[ok],
            Call::Start(..) | Call::Stop(..) | Call::Signal(..) => &[ok, failed],
            Call::Progress(..) => &[ok, idle, moved, failed],
            Call::Arrive(..) | Call::Release(..) => &[ok, idle, failed],
            Call::Cancel(..) => &[ok],
        };
        if self.small.dies && !self.is_fair && self.choices.once_in(2) {
            return None;
        }
        Some(self.choices.pick(options))
    }

    fn touch(&mut self, _: usize) {}

    fn stepped(&mut self, _: usize, piece: Work, step: Stepped, calls: &[(Call, Answer)]) {
        let cause = match piece {
            Work::Tick => cause(step, calls),
            Work::Abort(_) => "abort",
        };
        let (kind, from, to) = (step.kind, step.from, step.to);
        self.edge(format!("{kind}: {from} -- {cause} --> {to}"));
    }
}

/// Why a step went where it went, from the calls that it made.
fn cause(step: Stepped, calls: &[(Call, Answer)]) -> &'static str {
    let failed = |answer: &Answer| !answer.status.is_success();
    let gone = |answer: &Answer| matches!(answer.poll, BarrierPoll::Failed(_));
    for (call, answer) in calls {
        match call {
            Call::Start(..) if failed(answer) => return "start failed",
            Call::Progress(..) if failed(answer) => return "progress failed",
            Call::Stop(..) if failed(answer) => return "stop failed",
            Call::Signal(..) if failed(answer) => return "signal failed",
            Call::Arrive(..) if gone(answer) => return "arrive failed",
            Call::Release(..) if gone(answer) => return "release failed",
            _ => {}
        }
    }
    let moved = |(call, answer): &(Call, Answer)| {
        matches!(call, Call::Progress(..)) && !answer.idle && !answer.done
    };
    match calls.last() {
        None if step.to == RunState::WaitingDeviceTrigger => "not fired",
        None if step.to == RunState::Progressing => "fired",
        None => "nothing to do",
        Some((Call::Start(..), _)) => "started",
        Some((Call::Stop(..) | Call::Progress(..), _)) => match step.to {
            RunState::Done => "last block drained",
            RunState::Idle => "idle",
            _ if calls.iter().any(moved) => "moved",
            _ => "drained",
        },
        Some((Call::Arrive(..), _)) => "arrive pending",
        Some((Call::Release(..), answer)) if answer.poll == BarrierPoll::Pending => {
            "release pending"
        }
        Some((Call::Release(..), _)) => "released",
        Some((Call::Signal(..) | Call::Cancel(..), _)) => "cancelled",
    }
}

impl Explored {
    /// Adds what was new in a run.
    fn finish(&mut self, run: &Run<'_>) {
        for (law, count) in run.pair.laws.checked() {
            let before = run.before.get(law).copied().unwrap_or(0);
            *self.checked.entry(*law).or_default() += count - before;
        }
        if let (None, Some(what)) = (&self.wrong, run.pair.wrong()) {
            self.wrong = Some(format!("{}: {what}\nafter {:?}", run.small.name, run.ops));
        }
    }
}

/// Explores a small world to its last state.
#[must_use]
pub fn explore(small: &Small) -> Explored {
    let mut explored = Explored::default();
    let first = Run::new(small, Vec::new());
    let mut seen = HashSet::from([first.hash()]);
    let mut open: VecDeque<(Vec<u32>, usize)> = VecDeque::from([(Vec::new(), 0)]);
    while let Some((path, ops)) = open.pop_front() {
        let mut script = Some(path.clone());
        while let Some(now) = script {
            let mut run = reach(small, now, ops + 1);
            let taken = run.choices.taken().to_vec();
            explored.transitions += 1;
            explored.edges.append(&mut run.edges);
            let state = run.hash();
            if seen.insert(state) {
                let to: Vec<u32> = taken.iter().map(|choice| choice.value).collect();
                run.rest();
                let mut aborted = reach(small, to.clone(), ops + 1);
                aborted.mark();
                aborted.abort();
                explored.depth = explored.depth.max(ops + 1);
                open.push_back((to, ops + 1));
                explored.finish(&aborted);
            }
            explored.finish(&run);
            if explored.wrong.is_some() {
                return explored;
            }
            script = next_script(&taken, path.len());
        }
    }
    explored.states = seen.len();
    explored
}

/// Takes the first `ops` operations along a script.
fn reach(small: &Small, script: Vec<u32>, ops: usize) -> Run<'_> {
    let mut run = Run::new(small, script);
    for _ in 0..ops {
        run.mark();
        run.transition();
    }
    run
}
