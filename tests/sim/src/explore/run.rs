//! One state of a small world, the operations that lead on from it, and what must come of it.

mod arms;

use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};

use proxy_core::{
    Arming, Cause, ContextError, ContextId, EnqueueError, ExecId, Polarity, Poll, PollError,
    RunState, Shut, Spec, Status, TaskKind, Ticket,
};
use proxy_kit::oracle::{Answer, Call, Stepped};
use rustc_hash::FxHasher;

use crate::choice::{Choices, Taken};
use crate::laws::Law;
use crate::pair::{Host, Pair, Work, Worked, work};

use super::Small;
use super::answers::{FAIR, options};
use super::edge::{Edge, heard};
use super::held::{Held, Order};

use arms::at_kind;

/// Ticks after which a world with two tasks of two blocks must have come to rest if everybody does what they should.
const TICKS_TO_REST: u32 = 16;

const KINDS: [TaskKind; 2] = [TaskKind::Network, TaskKind::Barrier];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Tick,
    Enqueue(usize),
    Fire(usize, TaskKind, u8),
    Arm(usize, TaskKind),
    Poll(usize),
    Order(usize, Cause),
    OrderContext(usize),
    Conclude(usize),
    Retire(usize),
    Register(usize),
    Reset(usize),
    ArmBell,
    Abort,
    Close,
}

/// A context's place in the world.
#[derive(Debug, Clone, Copy, Hash)]
struct Place {
    context: ContextId,
    appended: u64,
    /// Attempts to arm.
    arms: u64,
    /// Explicit arms of each kind that no execution has come for yet.
    spare: [u8; 2],
    is_retired: bool,
    /// How often it is registered anew.
    lives: u8,
}

/// See the [module](self).
pub(super) struct Run<'a> {
    small: &'a Small,
    pair: Pair,
    places: Vec<Place>,
    held: Vec<Held>,
    is_dead: bool,
    /// From here on nothing goes wrong.
    is_fair: bool,
    choices: Choices,
    ops: Vec<Op>,
    edges: HashSet<Edge>,
}

impl<'a> Run<'a> {
    pub(super) fn new(small: &'a Small) -> Self {
        let mut pair = Pair::default();
        let register = |spec: &Spec| Place {
            context: pair.register(*spec).expect("few contexts"),
            appended: 0,
            arms: 0,
            spare: [0; 2],
            is_retired: false,
            lives: small.acts.retires.unwrap_or(0),
        };
        let places = small.specs.iter().map(register).collect();
        Self {
            small,
            pair,
            places,
            held: Vec::new(),
            is_dead: false,
            is_fair: false,
            choices: Choices::scripted(Vec::new()),
            ops: Vec::new(),
            edges: HashSet::new(),
        }
    }

    /// The same state again, with choices of its own; nothing has been looked at or taken in it.
    pub(super) fn copy(&self, script: Vec<u32>) -> Self {
        Self {
            small: self.small,
            pair: self.pair.copy(),
            places: self.places.clone(),
            held: self.held.clone(),
            is_dead: self.is_dead,
            is_fair: self.is_fair,
            choices: Choices::scripted(script),
            ops: self.ops.clone(),
            edges: HashSet::new(),
        }
    }

    pub(super) fn taken(&self) -> &[Taken] {
        self.choices.taken()
    }

    pub(super) const fn ops(&self) -> usize {
        self.ops.len()
    }

    pub(super) const fn checked(&self) -> &BTreeMap<Law, u64> {
        self.pair.laws.checked()
    }

    pub(super) fn take_edges(&mut self) -> HashSet<Edge> {
        std::mem::take(&mut self.edges)
    }

    /// What is wrong, and what led to it.
    pub(super) fn wrong(&self) -> Option<String> {
        let what = self.pair.wrong()?;
        Some(format!("{}: {what}\nafter {:?}", self.small.name, self.ops))
    }

    /// What the state is told by.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.pair.hash_state(&mut hasher);
        for held in &self.held {
            (held.told.is_some(), held.order, held.armed).hash(&mut hasher);
        }
        (&self.places, self.is_dead).hash(&mut hasher);
        hasher.finish()
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
        for at in 0..self.places.len() {
            self.menu_of_context(at, &mut menu);
        }
        for place in 0..self.held.len() {
            self.menu_of_ticket(place, &mut menu);
        }
        menu.push(Op::Close);
        menu
    }

    fn menu_of_context(&self, at: usize, menu: &mut Vec<Op>) {
        let (place, spec, acts) = (self.places[at], self.small.specs[at], self.small.acts);
        if place.appended < self.small.executions {
            menu.push(Op::Enqueue(at));
        }
        if place.is_retired {
            if place.lives > 0 {
                menu.push(Op::Register(at));
            }
            return;
        }
        for (kind, words) in words(&spec) {
            menu.extend((0..words).map(|stream| Op::Fire(at, kind, stream)));
            let arms = spec.arming == Arming::Explicit && place.arms < self.small.executions;
            if arms && words > 0 {
                menu.push(Op::Arm(at, kind));
            }
        }
        if acts.orders {
            menu.push(Op::OrderContext(at));
        }
        if acts.resets {
            menu.push(Op::Reset(at));
        }
        if acts.retires.is_some() {
            menu.push(Op::Retire(at));
        }
    }

    fn menu_of_ticket(&self, place: usize, menu: &mut Vec<Op>) {
        if self.held[place].told.is_some() {
            return;
        }
        menu.push(Op::Poll(place));
        if self.small.acts.orders {
            let causes = [Cause::Aborted, Cause::TimedOut];
            menu.extend(causes.map(|cause| Op::Order(place, cause)));
            menu.push(Op::Conclude(place));
        }
    }

    /// One operation, as the choices have it.
    pub(super) fn transition(&mut self) {
        let op = self.choices.pick(&self.menu());
        self.ops.push(op);
        match op {
            Op::Tick => self.work(Work::Tick),
            Op::Abort => self.work(Work::Abort(Status::ABORTED)),
            Op::Enqueue(at) => self.enqueue(at),
            Op::Fire(at, kind, stream) => self.fire(at, kind, stream),
            Op::Arm(at, kind) => self.arm(at, kind),
            Op::Poll(place) => self.poll(place),
            Op::Order(place, cause) => self.order(place, cause),
            Op::OrderContext(at) => self.order_context(at),
            Op::Conclude(place) => self.conclude(place),
            Op::Retire(at) => self.retire(at),
            Op::Register(at) => self.register(at),
            Op::Reset(at) => self.reset(at),
            Op::ArmBell => {
                let armed = self.pair.arm_bell();
                let answer = if armed { "granted" } else { "refused" };
                self.bell(format!("arm {answer}"));
            }
            Op::Close => {
                let bell = self.pair.shut(Shut::Closed);
                self.bell(format!("close, {}", heard(bell)));
            }
        }
    }

    fn bell(&mut self, edge: String) {
        self.edges.insert(Edge::Bell(edge));
    }

    fn work(&mut self, piece: Work) {
        let died = matches!(work(self, 0, piece), Worked::Died { .. });
        self.is_dead |= died;
        self.passes_armed();
        for place in 0..self.held.len() {
            let held = self.held[place];
            let Some(mut order) = held.order.filter(Order::is_open) else {
                continue;
            };
            let found = self.pair.queue.peek(held.ticket);
            self.must(Law::OrdersEnd, found == Ok(RunState::Done), || {
                format!(
                    "{} was ordered to end and is {found:?} after {piece:?}",
                    held.ticket
                )
            });
            order.obeyed = true;
            order.overtaken = match piece {
                _ if died => Some(Status::WORKER_DIED),
                Work::Tick => None,
                Work::Abort(status) => Some(status),
            };
            self.held[place].order = Some(order);
        }
    }

    fn enqueue(&mut self, at: usize) {
        self.places[at].appended += 1;
        let exec = ExecId(self.places[at].appended);
        match self.pair.enqueue(self.places[at].context, None, exec) {
            Ok((tickets, bell)) => {
                for (kind, ticket) in tickets {
                    let spare = &mut self.places[at].spare[at_kind(kind)];
                    let armed = *spare > 0;
                    *spare = spare.saturating_sub(1);
                    let held = Held::new(ticket);
                    self.held.push(Held { armed, ..held });
                }
                self.bell(format!("push, {}", heard(bell)));
            }
            // Refused before it came to a push.
            Err(EnqueueError::FiredBeforeArm(_) | EnqueueError::UnknownContext) => {}
            Err(error) => self.bell(format!("push refused, {error}")),
        }
    }

    fn fire(&mut self, at: usize, kind: TaskKind, stream: u8) {
        let value = match self.small.specs[at].polarity {
            Polarity::Specification => 7,
            Polarity::Header => u32::MAX,
        };
        self.pair.fire(self.places[at].context, kind, stream, value);
    }

    /// A consumer looks. What it has been told once it is not told again.
    fn poll(&mut self, place: usize) {
        let held = self.held[place];
        let found = self.pair.poll(held.ticket);
        let what = || format!("{held:?} polls as {found:?}");
        match (held.told, found) {
            (None, Ok(Poll::Done(status))) => {
                self.held[place].told = Some(status);
                let right = held.allows(status);
                self.must(Law::OrdersEnd, right, what);
            }
            (None, found) => {
                let concluded = held.order.is_some_and(|order| order.verdict);
                self.must(Law::OrdersEnd, !concluded, what);
                self.must(Law::NoneLost, found.is_ok(), what);
            }
            (Some(_), found) => {
                let once = found == Err(PollError::AlreadyConsumed);
                self.must(Law::NoneTwice, once, what);
            }
        }
    }

    /// The first order that is accepted stands.
    fn order(&mut self, place: usize, cause: Cause) {
        let held = &mut self.held[place];
        if self.pair.order(held.ticket, cause).is_ok() && held.order.is_none() {
            held.order = Some(Order::new(cause));
        }
    }

    /// As the shell does it: an order for each task of the context.
    fn order_context(&mut self, at: usize) {
        let context = self.places[at].context;
        let of_context = self
            .pair
            .queue
            .tasks()
            .filter(|task| task.context == context);
        let tickets: Vec<Ticket> = of_context.map(|task| task.ticket).collect();
        for place in 0..self.held.len() {
            if tickets.contains(&self.held[place].ticket) {
                self.order(place, Cause::Aborted);
            }
        }
    }

    fn conclude(&mut self, place: usize) {
        let held = self.held[place];
        let given = self.pair.conclude(held.ticket);
        let open = held.order.filter(|order| !order.obeyed);
        self.must(
            Law::OrdersEnd,
            given == open.is_some_and(|order| !order.verdict),
            || format!("{held:?}: the verdict is given: {given}"),
        );
        if let (true, Some(order)) = (given, &mut self.held[place].order) {
            order.verdict = true;
        }
    }

    /// A context goes, or is given fresh words, exactly if nothing of it is unfinished.
    fn at_rest(&mut self, at: usize, what: &str, found: Result<(), ContextError>) {
        let place = self.places[at];
        let open = self.pair.laws.unfinished_of(place.context);
        let right = found.is_ok() == (open == 0);
        self.must(Law::RetiresAtRest, right, || {
            let context = place.context;
            format!("{context} with {open} unfinished tasks is {what}: {found:?}")
        });
    }

    fn retire(&mut self, at: usize) {
        let found = self.pair.retire(self.places[at].context);
        self.at_rest(at, "retired", found);
        self.places[at].is_retired = found.is_ok();
    }

    fn reset(&mut self, at: usize) {
        let found = self.pair.reset(self.places[at].context);
        self.at_rest(at, "reset", found);
        if found.is_ok() {
            self.places[at].spare = [0; 2];
        }
    }

    fn register(&mut self, at: usize) {
        let place = &mut self.places[at];
        let found = self.pair.register(self.small.specs[at]);
        place.lives -= 1;
        if let Ok(context) = found {
            (place.context, place.is_retired) = (context, false);
            (place.arms, place.spare) = (0, [0; 2]);
        }
        self.must(Law::NoneLost, found.is_ok(), || {
            format!("a context is registered anew: {found:?}")
        });
    }

    fn must(&mut self, law: Law, holds: bool, what: impl FnOnce() -> String) {
        self.pair.laws.must(law, holds, what);
    }

    /// Everybody does what they should from here on: every task ends.
    pub(super) fn rest(&mut self) {
        self.is_fair = true;
        for _ in 0..TICKS_TO_REST {
            if self.pair.laws.unfinished() == 0 {
                break;
            }
            for at in 0..self.places.len() {
                self.fire_all(at);
            }
            if !self.is_dead {
                self.work(Work::Tick);
            }
        }
        self.all_end(Law::NoneLost, "everybody does what they should, and");
    }

    /// An abort ends everything at once.
    pub(super) fn abort(&mut self) {
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
        for place in 0..self.held.len() {
            self.poll(place);
            let held = self.held[place];
            self.must(law, held.told.is_some(), || {
                format!("{when} {} has not ended", held.ticket)
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
    let counts = [network, spec.barrier_triggers];
    [(KINDS[0], counts[0]), (KINDS[1], counts[1])]
}

impl Host for Run<'_> {
    fn pair(&mut self, _: usize) -> &mut Pair {
        &mut self.pair
    }

    fn answer(&mut self, _: usize, call: Call) -> Option<Answer> {
        if self.small.dies && !self.is_fair && self.choices.once_in(2) {
            return None;
        }
        let options = match self.is_fair {
            true => FAIR,
            false => options(self.small.answers, call),
        };
        Some(self.choices.pick(options))
    }

    fn touch(&mut self, _: usize) {}

    fn stepped(&mut self, _: usize, piece: Work, step: Stepped, calls: &[(Call, Answer)]) {
        self.edges.insert(Edge::of_step(piece, step, calls));
    }
}
