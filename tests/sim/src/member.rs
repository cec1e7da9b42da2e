//! Members: users of a rank. Each produces executions of a context of its own, has a device that fires for them, and consumes them.

use proxy_core::{
    Arming, Cause, ContextId, EnqueueError, ExecId, Polarity, Poll, PollError, Spec, TaskKind,
    Ticket,
};

use crate::bus::MEMBERS;
use crate::choice::Choices;
use crate::profile::Profile;
use crate::world::World;

/// How often a member tries to append an execution before it gives up.
const TRIES: u32 = 30;

/// A word that the device will write.
#[derive(Debug, Clone, Copy)]
struct Fire {
    at: u64,
    context: ContextId,
    kind: TaskKind,
    stream: u8,
    value: u32,
}

/// A task that its member has not consumed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outstanding {
    context: ContextId,
    kind: TaskKind,
    ticket: Ticket,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Member {
    /// Its place on the bus.
    pub(crate) number: u16,
    pub(crate) group: usize,
    pub(crate) spec: Spec,
    pub(crate) context: Option<ContextId>,
    /// The library is quiet about its context until then.
    pub(crate) quiet_until: u64,
    left: u32,
    tries: u32,
    exec: u64,
    pub(crate) has_produced: bool,
    pub(crate) tickets: Vec<Outstanding>,
    spent: Option<Ticket>,
    fires: Vec<Fire>,
}

impl Member {
    pub(crate) fn draw(choices: &mut Choices, number: u32, profile: &Profile) -> Self {
        let barrier = choices.once_in(2);
        let group = number % profile.groups;
        Self {
            number: u16::try_from(number).expect("few members").min(MEMBERS - 1),
            group: usize::try_from(group).expect("few groups"),
            spec: Profile::spec(choices, barrier),
            context: None,
            quiet_until: 0,
            left: profile.executions,
            tries: 0,
            exec: 0,
            has_produced: false,
            tickets: Vec::new(),
            spent: None,
            fires: Vec::new(),
        }
    }

    /// When the device fires next.
    pub(crate) fn next_fire(&self) -> Option<u64> {
        self.fires.iter().map(|fire| fire.at).min()
    }

    /// Start words of a kind.
    const fn words(&self, kind: TaskKind) -> u8 {
        match kind {
            TaskKind::Network if self.spec.device_wait && !self.spec.skip => self.spec.streams,
            TaskKind::Network => 0,
            TaskKind::Barrier => self.spec.barrier_triggers,
        }
    }
}

impl World {
    /// A producer's turn: registers, arms, appends, or gives its context up.
    pub(crate) fn produce(&mut self, at: usize) -> u64 {
        let group = self.members[at].group;
        let Some(context) = self.members[at].context else {
            let spec = self.members[at].spec;
            let found = self.groups[group].pair.register(spec);
            self.say(|| format!("member {at}: registers {spec:?}: {found:?}"));
            self.members[at].context = found.ok();
            self.members[at].has_produced |= found.is_err();
            return 0;
        };
        if self.members[at].left == 0 || self.members[at].tries > TRIES {
            self.members[at].has_produced = true;
            return 0;
        }
        if self.choices.once_in(self.profile.churn) {
            self.give_up_context(at, context);
            return u64::from(self.choices.below(50));
        }
        self.append(at, context);
        self.choices.pick(&[0, 40, 400])
    }

    fn give_up_context(&mut self, at: usize, context: ContextId) {
        let group = self.members[at].group;
        let found = self.groups[group].pair.retire(context);
        self.say(|| format!("member {at}: retires {context}: {found:?}"));
        if found.is_ok() {
            self.counts.retired += 1;
            let barrier = self.members[at].spec.barrier;
            self.members[at].spec = Profile::spec(&mut self.choices, barrier);
            self.members[at].context = None;
        }
    }

    fn append(&mut self, at: usize, context: ContextId) {
        let (group, spec) = (self.members[at].group, self.members[at].spec);
        let kind = match self.choices.below(8) {
            7 => Some(TaskKind::Network),
            6 if spec.barrier => Some(TaskKind::Barrier),
            _ => None,
        };
        self.before_append(at, context);
        let exec = ExecId(self.members[at].exec + 1);
        let found = self.groups[group].pair.enqueue(context, kind, exec);
        self.say(|| format!("member {at}: enqueues {kind:?} {exec}: {found:?}"));
        self.members[at].tries += 1;
        match found {
            Ok((tickets, bell)) => {
                self.owe(group, bell);
                let member = &mut self.members[at];
                (member.exec, member.tries) = (exec.0, 0);
                member.left -= 1;
                for (kind, ticket) in tickets {
                    self.counts.tasks += 1;
                    let outstanding = Outstanding {
                        context,
                        kind,
                        ticket,
                    };
                    self.members[at].tickets.push(outstanding);
                    self.plan_fires(at, context, kind);
                }
            }
            Err(EnqueueError::Full { .. }) => self.counts.full += 1,
            Err(EnqueueError::FiredBeforeArm(_)) => {
                self.counts.fired_before_arm += 1;
                self.reset_words(at, context);
            }
            Err(EnqueueError::Closed | EnqueueError::WorkerDied) => {
                self.members[at].has_produced = true;
            }
            Err(error) => self.fail(format!("member {at}: {error}")),
        }
    }

    /// Arms, if that is the member's task; the device may be too early.
    fn before_append(&mut self, at: usize, context: ContextId) {
        let group = self.members[at].group;
        let kinds = [TaskKind::Network, TaskKind::Barrier];
        if self.choices.once_in(self.profile.device) {
            self.counts.device_faults += 1;
            let kind = self.choices.pick(&kinds);
            self.fire(at, context, kind, 0, 7);
        }
        if self.members[at].spec.arming == Arming::Explicit {
            for kind in kinds {
                if self.choices.once_in(self.profile.device) {
                    continue;
                }
                let found = self.groups[group].pair.arm(context, kind);
                if found.is_err() {
                    self.reset_words(at, context);
                }
            }
        }
    }

    /// The device comes to rest, and its words are as a consume leaves them: by the driver's own reset, or, while a task of the context is
    /// unfinished, by the device's.
    fn reset_words(&mut self, at: usize, context: ContextId) {
        let group = self.members[at].group;
        let found = self.groups[group].pair.reset(context);
        self.say(|| format!("member {at}: resets the words of {context}: {found:?}"));
        if found.is_ok() {
            self.counts.resets += 1;
            return;
        }
        for kind in [TaskKind::Network, TaskKind::Barrier] {
            for stream in 0..self.members[at].words(kind) {
                self.fire(at, context, kind, stream, 0);
            }
        }
    }

    fn fire(&mut self, at: usize, context: ContextId, kind: TaskKind, stream: u8, value: u32) {
        let group = self.members[at].group;
        self.say(|| format!("member {at}: device writes {value:#x} to {kind} word {stream}"));
        self.groups[group].pair.fire(context, kind, stream, value);
    }

    /// What the device will do for a task; faults are planned here, too.
    fn plan_fires(&mut self, at: usize, context: ContextId, kind: TaskKind) {
        let fired = match self.members[at].spec.polarity {
            Polarity::Specification => 1 + u32::try_from(self.members[at].exec).unwrap_or(0),
            Polarity::Header => u32::MAX,
        };
        for stream in 0..self.members[at].words(kind) {
            let fault = self.choices.once_in(self.profile.device);
            let mut values = vec![fired];
            if fault {
                self.counts.device_faults += 1;
                values = match self.choices.below(4) {
                    0 => vec![],
                    1 => vec![fired, fired],
                    2 => vec![fired, fired ^ 0x100],
                    _ => vec![self.choices.pick(&[0, u32::MAX, 0xDEAD_BEEF]), fired],
                };
            }
            for value in values {
                let at_time = self.now + self.choices.pick(&[0, 60, 900]);
                self.members[at].fires.push(Fire {
                    at: at_time,
                    context,
                    kind,
                    stream,
                    value,
                });
            }
        }
        let next = self.members[at].next_fire().unwrap_or(0);
        self.device_waits_until(at, next);
    }

    /// A device's turn: the fire that is due.
    pub(crate) fn device(&mut self, at: usize) -> u64 {
        let fires = &mut self.members[at].fires;
        let due = (0..fires.len()).min_by_key(|place| fires[*place].at);
        let Some(due) = due else {
            return 0;
        };
        let fire = self.members[at].fires.remove(due);
        // A device that arms by itself does so before it fires.
        if self.members[at].spec.arming == Arming::ByDevice && self.choices.once_in(4) {
            let armed = match self.members[at].spec.polarity {
                Polarity::Specification => u32::MAX,
                Polarity::Header => 0,
            };
            self.fire(at, fire.context, fire.kind, fire.stream, armed);
        }
        self.fire(at, fire.context, fire.kind, fire.stream, fire.value);
        let next = self.members[at].next_fire().unwrap_or(self.now);
        next.saturating_sub(self.now)
    }

    /// A consumer that does not want to wait any longer, or whose deadline has passed; it may be so hasty that it gives the verdict itself.
    fn end_early(&mut self, at: usize, ticket: Ticket) {
        let group = self.members[at].group;
        let cause = self.choices.pick(&[Cause::Aborted, Cause::TimedOut]);
        let found = self.groups[group].pair.order(ticket, cause);
        self.say(|| format!("member {at}: orders the end of {ticket}, {cause:?}: {found:?}"));
        let Ok(bell) = found else { return };
        self.counts.orders += 1;
        self.owe(group, bell);
        if self.choices.once_in(3) {
            let given = self.groups[group].pair.conclude(ticket);
            self.counts.verdicts += u64::from(given);
        }
    }

    /// A consumer's turn: polls a ticket, or asks for the oldest task of a kind.
    pub(crate) fn consume(&mut self, at: usize) -> u64 {
        let group = self.members[at].group;
        let is_over = self.is_over(group);
        if let Some(spent) = self.members[at].spent
            && self.choices.once_in(6)
        {
            let found = self.groups[group].pair.poll(spent);
            if found != Err(PollError::AlreadyConsumed) {
                self.fail(format!("{spent} was consumed and polls as {found:?}"));
            }
            return 1;
        }
        let count = u32::try_from(self.members[at].tickets.len()).unwrap_or(1);
        let mut place = usize::try_from(self.choices.below(count)).unwrap_or(0);
        let mut task = self.members[at].tickets[place];
        if self.choices.once_in(self.profile.orders) {
            self.end_early(at, task.ticket);
        }
        let by_check = self.choices.once_in(3) && self.members[at].context == Some(task.context);
        let found = if by_check {
            // The oldest of its context and kind; tickets are kept in order of their appends.
            let alike =
                |other: &Outstanding| (other.context, other.kind) == (task.context, task.kind);
            place = self.members[at]
                .tickets
                .iter()
                .position(alike)
                .unwrap_or(place);
            task = self.members[at].tickets[place];
            self.groups[group].pair.check(task.context, task.kind)
        } else {
            self.groups[group].pair.poll(task.ticket)
        };
        match found {
            Ok(Poll::Done(status)) => {
                self.say(|| format!("member {at}: {:?} is done: {status:?}", task.ticket));
                self.members[at].tickets.remove(place);
                self.members[at].spent = Some(task.ticket);
                self.counts.failed += u64::from(!status.is_success());
            }
            Ok(Poll::Pending(state)) if is_over => {
                self.fail(format!("the worker is gone and a task is {state}"));
            }
            Ok(Poll::Pending(_)) => {}
            // The status of a retired context, whose room an append needed more.
            Err(PollError::AlreadyConsumed) if self.members[at].context != Some(task.context) => {
                self.members[at].tickets.remove(place);
                self.counts.given_up += 1;
            }
            Err(error) => self.fail(format!("{:?}: {error}", task.ticket)),
        }
        self.choices.pick(&[20, 200, 2_000])
    }
}
