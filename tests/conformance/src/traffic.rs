//! Traffic between two threads of control: one enqueues, plays the device and consumes, the other is the worker.
//!
//! Every execution waits for its start word, so each crosses three times: inbox and bell to the worker, word to its gate,
//! status back. Both sides add up what they saw; a task that is lost, run twice or let through early changes a sum,
//! and a lost wake-up stops the traffic. Whoever runs it gives it a limit in time.

use proxy_core::phone::Word;
use proxy_core::port::{Barrier, BarrierPoll, Blocks, Change, DeviceWords, Flags, Observer, Seam};
use proxy_core::trigger::SENTINEL;
use proxy_core::{
    Bell, BlockIndex, ContextId, Driver, EnqueueError, ExecId, Next, Poll, Queue, Rank, RunState,
    Shut, Spec, Status, Stream, TaskKind, Ticket,
};

use core::sync::atomic::Ordering;

/// Executions that are on their way at once.
const PLACES: usize = 8;

/// Executions between two rests.
const BURST: u32 = 32;

/// Times that the producer relaxes in a rest.
const REST: u32 = 4;

/// What both sides share. All-zero is its start, so it can stand in a static.
#[derive(Debug)]
pub struct Traffic {
    queue: Queue<1, PLACES, 1>,
    word: Word,
    /// Set by the producer when the bell has to ring.
    rung: Word,
}

/// What the producer saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Produced {
    /// Executions consumed.
    pub consumed: u64,
    /// Sum of the numbers of executions whose end was consumed as a success.
    pub sum: u64,
    /// Times that the worker was asleep and had to be woken.
    pub rings: u64,
}

/// What the worker saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Worked {
    /// Sum of the numbers of executions that it ended.
    pub ended: u64,
    /// Gates that it went through.
    pub gates: u64,
    /// Progress calls.
    pub progressed: u64,
    /// Times that it slept.
    pub sleeps: u64,
}

/// The sum that both sides must have seen after executions 1 to `count`.
#[must_use]
pub const fn expected(count: u32) -> u64 {
    let count = count as u64;
    count * (count + 1) / 2
}

impl Traffic {
    /// No traffic yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            queue: Queue::new(),
            word: Word::new(0),
            rung: Word::new(0),
        }
    }

    /// Sends executions 1 to `count` and consumes them in order, then closes the queue. `relax` is called where nothing can
    /// be done for the moment. `None` if the core refuses what it must not refuse, or an execution ends before the device has
    /// started it. For one thread of control, once.
    pub fn produce(&self, count: u32, mut relax: impl FnMut()) -> Option<Produced> {
        let spec = Spec {
            device_wait: true,
            ..Spec::new(Rank(0))
        };
        let context = self.queue.register(&spec).ok()?;
        let mut produced = Produced::default();
        let mut tickets = [None; PLACES];
        let (mut sent, mut fired) = (0, 0);
        while produced.consumed < u64::from(count) {
            let mut moved = false;
            // Between bursts everything comes to rest, so that the worker may fall asleep and has to be woken.
            let rests = sent % BURST == 0;
            if rests && produced.consumed == u64::from(sent) {
                (0..REST).for_each(|_| relax());
            }
            if sent < count && (!rests || produced.consumed == u64::from(sent)) {
                match self
                    .queue
                    .enqueue(context, ExecId(u64::from(sent) + 1), self)
                {
                    Ok(appended) => {
                        moved = true;
                        *place(&mut tickets, u64::from(sent))? = appended.network;
                        sent += 1;
                        produced.rings += u64::from(self.ring(appended.bell));
                    }
                    Err(EnqueueError::Full { .. }) => {}
                    Err(_) => return None,
                }
            }
            if fired < sent && self.fire(context, fired + 1) {
                moved = true;
                fired += 1;
            }
            moved |= self.consume(&mut tickets, &mut produced)?;
            if produced.consumed > u64::from(fired) {
                return None;
            }
            if !moved {
                relax();
            }
        }
        self.ring(self.queue.shut(Shut::Closed));
        Some(produced)
    }

    /// Rings the bell if it has to.
    fn ring(&self, bell: Bell) -> bool {
        let ring = bell == Bell::Ring;
        if ring {
            // Release pairs with the worker's swap: what was appended is there when it wakes.
            self.rung.store(1, Ordering::Release);
        }
        ring
    }

    /// The device starts one execution, once the word is armed and no fire is on its way.
    fn fire(&self, context: ContextId, value: u32) -> bool {
        self.compare_exchange(context, TaskKind::Network, Stream(0), SENTINEL, value)
    }

    /// Consumes the oldest execution if it is done.
    fn consume(
        &self,
        tickets: &mut [Option<Ticket>; PLACES],
        produced: &mut Produced,
    ) -> Option<bool> {
        let oldest = place(tickets, produced.consumed)?;
        let Some(ticket) = *oldest else {
            return Some(false);
        };
        match self.queue.poll(ticket).ok()? {
            Poll::Pending(_) => Some(false),
            Poll::Done(status) => {
                *oldest = None;
                produced.consumed += 1;
                produced.sum += u64::from(status.is_success()) * produced.consumed;
                Some(true)
            }
        }
    }
}

impl Default for Traffic {
    fn default() -> Self {
        Self::new()
    }
}

fn place(tickets: &mut [Option<Ticket>; PLACES], number: u64) -> Option<&mut Option<Ticket>> {
    let place = usize::try_from(number).ok()?.checked_rem(PLACES)?;
    tickets.get_mut(place)
}

impl DeviceWords for Traffic {
    fn load(&self, _: ContextId, _: TaskKind, _: Stream) -> u32 {
        // Acquire pairs with the other side's exchange.
        self.word.load(Ordering::Acquire)
    }

    fn compare_exchange(&self, _: ContextId, _: TaskKind, _: Stream, seen: u32, new: u32) -> bool {
        // Acquire-release pairs with the other side's exchange and load; relaxed on failure: nothing is taken from it.
        self.word
            .compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// The worker's side: a driver and its ports.
#[derive(Debug)]
pub struct Worker {
    driver: Driver<1, PLACES>,
    /// The bell is armed; nothing is done before it rings.
    asleep: bool,
    seen: Worked,
}

impl Worker {
    /// A worker that has seen nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            driver: Driver::new(),
            asleep: false,
            seen: Worked {
                ended: 0,
                gates: 0,
                progressed: 0,
                sleeps: 0,
            },
        }
    }

    /// One turn of the worker's loop; never waits. `false`: nothing to do for the moment.
    pub fn turn(&mut self, traffic: &Traffic) -> bool {
        // Acquire pairs with the release in `ring`.
        if self.asleep && traffic.rung.swap(0, Ordering::Acquire) == 0 {
            return false;
        }
        self.asleep = false;
        let mut ports = Ports {
            traffic,
            seen: &mut self.seen,
        };
        let tick = self.driver.tick(&traffic.queue, &mut ports);
        self.asleep = tick.next == Next::Sleep && traffic.queue.arm_bell();
        self.seen.sleeps += u64::from(self.asleep);
        tick.next == Next::Again
    }

    /// What it saw, once the queue is closed and all is done.
    #[must_use]
    pub fn finished(&self, traffic: &Traffic) -> Option<Worked> {
        let over = traffic.queue.shut_by().is_some()
            && self.driver.active() == 0
            && traffic.queue.is_inbox_empty();
        over.then_some(self.seen)
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self::new()
    }
}

/// The library moves each execution twice before it ends it.
struct Ports<'a> {
    traffic: &'a Traffic,
    seen: &'a mut Worked,
}

impl Seam for Ports<'_> {
    fn start(&mut self, _: ContextId, _: u32, _: Stream, _: BlockIndex) -> Status {
        Status::SUCCESS
    }

    fn progress(
        &mut self,
        _: ContextId,
        _: u32,
        _: Stream,
        _: BlockIndex,
        flags: &mut Flags,
    ) -> Status {
        self.seen.progressed += 1;
        flags.idle = false;
        flags.done &= self.seen.progressed.is_multiple_of(2);
        Status::SUCCESS
    }

    fn stop(&mut self, _: ContextId, _: u32, _: Stream) -> Status {
        Status::SUCCESS
    }
}

impl DeviceWords for Ports<'_> {
    fn load(&self, context: ContextId, kind: TaskKind, stream: Stream) -> u32 {
        self.traffic.load(context, kind, stream)
    }

    fn compare_exchange(
        &self,
        context: ContextId,
        kind: TaskKind,
        stream: Stream,
        seen: u32,
        new: u32,
    ) -> bool {
        self.traffic
            .compare_exchange(context, kind, stream, seen, new)
    }
}

impl Barrier for Ports<'_> {
    fn arrive(&mut self, _: ContextId, _: ExecId) -> BarrierPoll {
        BarrierPoll::Ready
    }

    fn signal(&mut self, _: ContextId, _: ExecId) -> Status {
        Status::SUCCESS
    }

    fn release(&mut self, _: ContextId, _: ExecId) -> BarrierPoll {
        BarrierPoll::Ready
    }

    fn cancel(&mut self, _: ContextId, _: ExecId) {}
}

impl Blocks for Ports<'_> {}

impl Observer for Ports<'_> {
    fn changed(&mut self, change: &Change) {
        if change.to == RunState::Done {
            self.seen.ended += change.exec.0;
        }
        if change.from == RunState::WaitingDeviceTrigger {
            self.seen.gates += 1;
        }
    }
}
