//! A world: groups with their workers, members with their devices, a library, an owner per group, and virtual time.
//!
//! One thread. Whose turn it is, how long everything takes and what goes wrong are [`Choices`]. A turn is one operation of one actor;
//! turns of others also fall into the middle of a worker's tick, at each of its calls, as they do where there are threads.
//!
//! The worker's loop and what an owner does at a release are the shell's, said again in virtual time: what is proved is that the
//! core's answers are enough for such a loop never to hang, not that the shell's own loop is this one.

use proxy_core::ladder::Wait;
use proxy_core::{Bell, Next, RunState, Shut, Status};
use proxy_kit::oracle::{Answer, Call, Stepped};

use crate::bus::Bus;
use crate::choice::Choices;
use crate::counts::Counts;
use crate::group::{Group, Owner, Worker};
use crate::member::Member;
use crate::pair::{Host, Pair, Work, Worked, work};
use crate::profile::Profile;

/// Turns after which a world that is not over hangs; a real one has a few hundred.
const TURNS: u32 = 6_000;

/// Loops of a worker between the order to abort and its end: this one, one that finds nothing, and one in between.
const LOOPS_TO_ABORT: u32 = 3;

/// Who takes a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Actor {
    Worker(usize),
    /// Rings that were promised and not yet made.
    Ringer(usize),
    Owner(usize),
    Producer(usize),
    Device(usize),
    Consumer(usize),
}

/// See the [module](self).
#[derive(Debug)]
pub struct World {
    pub(crate) choices: Choices,
    pub(crate) now: u64,
    pub(crate) groups: Vec<Group>,
    pub(crate) members: Vec<Member>,
    pub(crate) bus: Bus,
    pub(crate) profile: Profile,
    pub(crate) counts: Counts,
    /// When each actor can act next.
    turns: Vec<(Actor, u64)>,
    taken: u32,
    /// Turns inside turns.
    depth: u32,
    trace: Option<Vec<String>>,
    wrong: Option<String>,
}

impl World {
    /// Draws a world.
    #[must_use]
    pub fn new(mut choices: Choices, traced: bool) -> Self {
        let profile = Profile::draw(&mut choices);
        let groups: Vec<Group> = (0..profile.groups)
            .map(|_| Group::draw(&mut choices))
            .collect();
        let members: Vec<Member> = (0..profile.members)
            .map(|number| Member::draw(&mut choices, number, &profile))
            .collect();
        let with_barrier = members.iter().filter(|member| member.spec.barrier);
        let on_bus: Vec<u16> = with_barrier.map(|member| member.number).collect();
        let mut turns = Vec::new();
        for group in 0..groups.len() {
            turns.extend([(Actor::Worker(group), 0), (Actor::Ringer(group), 0)]);
            let release = choices.pick(&[30_000, 400, 4_000]) + u64::from(choices.below(1_000));
            turns.push((Actor::Owner(group), release));
        }
        for member in 0..members.len() {
            turns.push((Actor::Producer(member), 0));
            turns.extend([(Actor::Device(member), 0), (Actor::Consumer(member), 0)]);
        }
        Self {
            choices,
            now: 0,
            groups,
            members,
            bus: Bus::new(&on_bus),
            profile,
            counts: Counts::default(),
            turns,
            taken: 0,
            depth: 0,
            trace: traced.then(Vec::new),
            wrong: None,
        }
    }

    /// Runs it to its end; what was wrong, if anything was.
    pub fn run(&mut self) -> Result<(), String> {
        while self.breach().is_none() && self.turn() {
            if self.taken > TURNS {
                self.fail(format!("hang: not over after {TURNS} turns"));
            }
        }
        if self.breach().is_none() {
            self.rest();
        }
        self.counts.turns += u64::from(self.taken);
        self.counts.virtual_time += self.now;
        self.breach().map_or(Ok(()), Err)
    }

    /// What was traced.
    #[must_use]
    pub fn trace(&self) -> &[String] {
        self.trace.as_deref().unwrap_or(&[])
    }

    /// The choices that led here.
    #[must_use]
    pub fn script(&self) -> Vec<u32> {
        self.choices
            .taken()
            .iter()
            .map(|choice| choice.value)
            .collect()
    }

    /// What happened in it.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn fail(&mut self, what: impl Into<String>) {
        self.wrong.get_or_insert_with(|| what.into());
    }

    pub(crate) fn say(&mut self, what: impl FnOnce() -> String) {
        let (now, depth) = (self.now, usize::try_from(self.depth).unwrap_or(0));
        if let Some(trace) = &mut self.trace {
            trace.push(format!(
                "{now:>8} {:depth$}{}",
                "",
                what(),
                depth = 2 * depth
            ));
        }
    }

    fn breach(&self) -> Option<String> {
        let of_pair = |group: &Group| group.pair.wrong().map(str::to_owned);
        self.wrong
            .clone()
            .or_else(|| self.bus.wrong().map(str::to_owned))
            .or_else(|| self.groups.iter().find_map(of_pair))
    }

    /// One turn of one actor that can act; time goes on when nobody can. `false`: nobody ever can.
    fn turn(&mut self) -> bool {
        let can_act: Vec<(usize, u64)> = (0..self.turns.len())
            .filter(|turn| self.can_act(self.turns[*turn].0))
            .map(|turn| (turn, self.turns[turn].1))
            .collect();
        let Some(first) = can_act.iter().map(|(_, at)| *at).min() else {
            return false;
        };
        self.now = self.now.max(first) + 1;
        let mut ready: Vec<(usize, u64)> = can_act;
        ready.retain(|(_, at)| *at < self.now);
        // Who has waited longest comes first, so that the tamest world is a fair one.
        ready.sort_by_key(|(_, at)| *at);
        let ready: Vec<usize> = ready.into_iter().map(|(turn, _)| turn).collect();
        let turn = self.choices.pick(&ready);
        self.taken += 1;
        let pause = self.act(self.turns[turn].0);
        self.turns[turn].1 = self.now + pause;
        self.look_at_sleepers();
        true
    }

    fn can_act(&self, actor: Actor) -> bool {
        match actor {
            Actor::Worker(group) => {
                let group = &self.groups[group];
                group.worker == Worker::Awake && !group.pair.is_busy()
            }
            Actor::Ringer(group) => self.groups[group].owed > 0,
            Actor::Owner(group) => {
                let group = &self.groups[group];
                !matches!(group.worker, Worker::Dead | Worker::Ended)
                    && group.owner != Owner::Aborting
            }
            Actor::Producer(member) => !self.members[member].has_produced,
            Actor::Device(member) => self.members[member].next_fire().is_some(),
            Actor::Consumer(member) => !self.members[member].tickets.is_empty(),
        }
    }

    /// Does it; says for how long the actor then pauses.
    fn act(&mut self, actor: Actor) -> u64 {
        match actor {
            Actor::Worker(group) => self.serve(group),
            Actor::Ringer(group) => self.ring(group),
            Actor::Owner(group) => self.own(group),
            Actor::Producer(member) => self.produce(member),
            Actor::Device(member) => self.device(member),
            Actor::Consumer(member) => self.consume(member),
        }
    }

    /// The actor's next turn is not before `at`.
    pub(crate) fn device_waits_until(&mut self, member: usize, at: u64) {
        for (actor, next) in &mut self.turns {
            if *actor == Actor::Device(member) {
                *next = at;
            }
        }
    }

    /// Whoever was told to ring does so in a turn of its own.
    pub(crate) fn owe(&mut self, group: usize, bell: Bell) {
        if bell == Bell::Ring {
            self.groups[group].owed += 1;
        }
    }

    fn ring(&mut self, group: usize) -> u64 {
        self.say(|| format!("group {group}: rings"));
        let group = &mut self.groups[group];
        group.owed -= 1;
        group.rung = true;
        if group.worker == Worker::Asleep {
            group.worker = Worker::Awake;
            group.rung = false;
            group.ladder.woke();
        }
        0
    }

    /// One loop of a worker.
    fn serve(&mut self, at: usize) -> u64 {
        let Worked::Ticked(tick) = self.work(at, Work::Tick) else {
            return 0;
        };
        if tick.next == Next::Sleep && self.groups[at].pair.active() > 0 {
            self.fail("a tick says sleep although tasks are active");
        }
        if self.groups[at].abort {
            let Worked::Aborted(_) = self.work(at, Work::Abort(Status::ABORTED)) else {
                return 0;
            };
            if self.groups[at].pair.active() > 0 {
                self.fail("tasks are active after an abort");
            }
            self.groups[at].loops_since_abort += 1;
            if self.groups[at].loops_since_abort > LOOPS_TO_ABORT {
                self.fail("the worker does not end although it was told to abort");
            }
        }
        let queue = &self.groups[at].pair.queue;
        if tick.next == Next::Sleep && queue.shut_by().is_some() && queue.is_inbox_empty() {
            self.say(|| format!("group {at}: the worker ends"));
            self.groups[at].worker = Worker::Ended;
            return 0;
        }
        self.wait(at, tick.next)
    }

    /// What the ladder says after a tick.
    fn wait(&mut self, at: usize, next: Next) -> u64 {
        if self.choices.once_in(self.profile.jumps) {
            let jump = self.choices.pick(&[1_000_000, u64::MAX - 50, u64::MAX / 2]);
            self.groups[at].clock = self.groups[at].clock.wrapping_add(jump);
            self.counts.clock_jumps += 1;
        }
        let group = &mut self.groups[at];
        let clock = self.now.wrapping_add(group.clock);
        let wait = group.ladder.answer(next, || clock);
        match wait {
            Wait::Run => return self.choices.pick(&[0, 0, 30]),
            Wait::Pause => return self.choices.pick(&[1, 20, 300]),
            Wait::Yield => return self.choices.pick(&[10, 300, 3_000]),
            Wait::Sleep => {}
        }
        if next != Next::Sleep {
            self.fail(format!("the ladder sleeps on {next:?}"));
        }
        if self.groups[at].pair.arm_bell() {
            let group = &mut self.groups[at];
            if !std::mem::take(&mut group.rung) {
                group.worker = Worker::Asleep;
                self.counts.sleeps += 1;
                self.say(|| format!("group {at}: the worker sleeps"));
                return 0;
            }
            group.ladder.woke();
        }
        0
    }

    /// A piece of work, and the worker's end if it dies in it.
    fn work(&mut self, group: usize, piece: Work) -> Worked {
        self.depth += 1;
        let worked = work(self, group, piece);
        self.depth -= 1;
        match worked {
            Worked::Ticked(tick) if tick.stepped + tick.drained > 0 => {
                self.say(|| format!("group {group}: {tick:?}"));
            }
            Worked::Ticked(_) => {}
            Worked::Aborted(_) | Worked::Died { .. } => {
                self.say(|| format!("group {group}: {worked:?}"));
            }
        }
        if let Worked::Died { again, .. } = worked {
            self.groups[group].worker = Worker::Dead;
            self.counts.deaths += 1;
            self.counts.second_deaths += u64::from(again);
        }
        worked
    }

    /// The owner of a group: uses it for a while, then drains it until a deadline or aborts it.
    fn own(&mut self, at: usize) -> u64 {
        if self.choices.once_in(self.profile.spurious) && self.groups[at].owner == Owner::Using {
            self.groups[at].owed += 1;
            self.counts.spurious_rings += 1;
            return u64::from(self.choices.below(500));
        }
        let drain = self.groups[at].owner == Owner::Using && !self.choices.once_in(2);
        let group = &mut self.groups[at];
        if !drain {
            group.abort = true;
        }
        group.owner = if drain {
            Owner::Draining
        } else {
            Owner::Aborting
        };
        let bell = group.pair.shut(Shut::Closed);
        self.owe(at, bell);
        self.say(|| {
            format!(
                "group {at}: release, {}",
                if drain { "drain" } else { "abort" }
            )
        });
        self.names_unfinished(at);
        if drain {
            self.counts.drains += 1;
            self.choices.pick(&[3_000, 10, 100_000])
        } else {
            self.counts.aborts += 1;
            0
        }
    }

    /// What a release would list is what is unfinished.
    fn names_unfinished(&mut self, at: usize) {
        let pair = &self.groups[at].pair;
        let listed = pair
            .queue
            .tasks()
            .filter(|task| task.state != RunState::Done);
        let (listed, unfinished) = (listed.count(), pair.laws.unfinished());
        if u32::try_from(listed) != Ok(unfinished) {
            self.fail(format!("{listed} tasks listed, {unfinished} unfinished"));
        }
    }

    /// Nobody sleeps with work, or with a close, that no ring announces.
    fn look_at_sleepers(&mut self) {
        for at in 0..self.groups.len() {
            let group = &self.groups[at];
            if group.worker != Worker::Asleep || group.rung || group.owed > 0 {
                continue;
            }
            let queue = &group.pair.queue;
            let has_work = group.pair.active() > 0 || !queue.is_inbox_empty();
            if has_work || queue.shut_by().is_some() {
                self.fail(format!(
                    "the worker of group {at} sleeps and nobody will wake it"
                ));
            }
        }
    }

    /// What must hold when nobody can act any more.
    fn rest(&mut self) {
        for at in 0..self.groups.len() {
            let group = &self.groups[at];
            if matches!(group.worker, Worker::Awake | Worker::Asleep) {
                self.fail(format!(
                    "the worker of group {at} is left {:?}",
                    group.worker
                ));
                return;
            }
            let left = group.pair.queue.tasks().count();
            let unfinished = group.pair.laws.unfinished();
            if (left, unfinished, group.pair.active()) != (0, 0, 0) {
                self.fail(format!("{left} tasks unconsumed, {unfinished} unfinished"));
            }
        }
    }

    /// Whether a group's worker is gone, so that every task has its end.
    pub(crate) fn is_over(&self, group: usize) -> bool {
        matches!(self.groups[group].worker, Worker::Dead | Worker::Ended)
    }

    /// Others act while a worker is inside a call.
    fn others(&mut self) {
        if self.depth < 3 && self.choices.once_in(self.profile.cut) {
            let turns = 1 + self.choices.below(3);
            for _ in 0..turns {
                self.counts.cuts += 1;
                if !self.turn() {
                    break;
                }
            }
        }
    }

    /// A call that takes its time: others act until it is over.
    pub(crate) fn pass_time(&mut self, time: u64) {
        let until = self.now + time;
        for _ in 0..20 {
            if self.now >= until || self.depth >= 3 || !self.turn() {
                break;
            }
        }
        self.now = self.now.max(until);
    }
}

impl Host for World {
    fn pair(&mut self, group: usize) -> &mut Pair {
        &mut self.groups[group].pair
    }

    fn answer(&mut self, group: usize, call: Call) -> Option<Answer> {
        self.others();
        let answer = self.library(group, call);
        self.say(|| match answer {
            Some(answer) => format!("{call:?} -> {answer:?}"),
            None => format!("{call:?}: the worker dies"),
        });
        answer
    }

    fn touch(&mut self, _: usize) {
        self.others();
    }

    fn stepped(&mut self, _: usize, _: Work, step: Stepped, _: &[(Call, Answer)]) {
        self.counts.steps += 1;
        self.counts.ends += u64::from(step.to == RunState::Done);
    }
}
