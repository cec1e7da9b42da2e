//! One rank's round, from the bus to the last free. Nothing of it is left in the process afterwards, whatever was done to its peers.
#![allow(
    unsafe_code,
    reason = "start words are named by address; the communicator is lent to the driver"
)]

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::member::State;
use proxy_core::{EnqueueError, ExecId, Poll, Rank, Status, Ticket};
use proxy_kit::device::{self, Device, Polarity, Program, StartWords};
use proxy_kit::golden::golden;
use proxy_kit::pattern::Pattern;
use proxy_kit::plan::{DEFAULT_CHUNK_BYTES, Plan, PlanSpec};
use proxy_kit::verify::verify;
use proxy_os::bananaphone::bootstrap::DIGEST;
use proxy_os::bananaphone::{Options, Within};
use proxy_os::global_comm::{Exchange, GlobalComm, Setup};
use proxy_os::nccom::Library;
use proxy_os::{
    ConsumeError, Context, ContextBuilder, DeviceWord, Execution, Fifo, Group, Patience, Release,
    Settings,
};

use crate::library::{Ends, World};
use crate::plan::{Fault, Kind, Round};
use crate::talk::{Assignment, End, Report};

/// What an output holds before an execution, so that an old result cannot pass for a new one.
const POISON: u8 = 0xA5;
/// How much later than by its deadline an execution may have ended, on a machine that has too much to run or stands still for a while.
const SLACK: Duration = Duration::from_secs(20);
/// How long an abort or a release may take.
const ORDER: Duration = Duration::from_secs(10);
/// How long ranks wait for each other at the start.
const START: Duration = Duration::from_secs(30);
/// Between two looks at the barrier's task, while the network's is waited for.
const LOOK: Duration = Duration::from_millis(20);

/// What must not be, in words; the round of this rank is over then.
type Done<T> = Result<T, String>;

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Runs one rank's part of a round. `reached` is called when the rank has begun the execution that the fault strikes.
pub(crate) fn run(
    assignment: &Assignment,
    rank: u32,
    library: &Arc<Library>,
    reached: impl Fn(),
) -> Report {
    let mut report = Report {
        rank,
        ..Report::default()
    };
    if let Err(wrong) = whole(assignment, rank, library, &reached, &mut report) {
        report.wrong.push(wrong);
    }
    report
}

fn whole(
    assignment: &Assignment,
    rank: u32,
    library: &Arc<Library>,
    reached: &dyn Fn(),
    report: &mut Report,
) -> Done<()> {
    let round = &assignment.round;
    let settings = Settings::builder()
        .ranks_per_network_proxy(round.per_worker)
        .task_deadline(round.deadline)
        .from_lookup(|_| None)
        .map_err(text)?;
    let world = World::join(library, rank, round.ranks(), &assignment.root)?;
    let comm = set_up(assignment, rank, &settings, &world)?;
    let id = *comm.unique_id().ok_or("no unique id")?;
    let ends = world.connect(id)?;
    let mut seat = Seat::new(round, rank, comm, &ends)?;
    seat.executions(reached, report);
    if let Some(fault) = round.fault.filter(|fault| fault.kind == Kind::Kill) {
        seat.await_death(fault.victim)?;
    }
    let Seat {
        comm,
        context,
        device,
        program,
        start,
        ..
    } = seat;
    context.retire().map_err(|(_, error)| text(error))?;
    let freed = comm.free(Release::Abort, ORDER).map_err(text)?;
    report.dead = freed.dead.iter().map(u32::from).collect();
    ends.free()?;
    // What the library was lent goes last.
    drop((device, program, start));
    Ok(())
}

fn set_up(
    assignment: &Assignment,
    rank: u32,
    settings: &Settings,
    world: &World,
) -> Done<GlobalComm> {
    let place = |number: u32| u16::try_from(number).map_err(text);
    let ranks = place(assignment.round.ranks())?;
    let mut digest = [0; DIGEST];
    digest[..8].copy_from_slice(&assignment.round.seed.to_le_bytes());
    GlobalComm::setup(Setup {
        bus: Options {
            deadline: Within::new(START, "the soak's start"),
            ..Options::new(assignment.job.clone(), place(rank)?, ranks)
        },
        device: rank,
        settings,
        exchange: Some(Exchange {
            digest,
            make_id: &mut || world.unique_id().ok(),
        }),
    })
    .map_err(text)
}

/// All that one rank has in a round.
struct Seat<'a> {
    round: &'a Round,
    rank: u32,
    comm: GlobalComm,
    context: Context,
    device: Device,
    program: Arc<Program>,
    start: StartWords,
}

impl<'a> Seat<'a> {
    fn new(round: &'a Round, rank: u32, comm: GlobalComm, ends: &Ends) -> Done<Self> {
        let topology = round.op().topology();
        let connectors = ends.connectors(topology, round.streams)?;
        let device = Device::new(rank, topology, &connectors).map_err(text)?;
        let plan = Plan::new(&PlanSpec {
            op: round.op(),
            dtype: round.dtype(),
            ranks: round.ranks(),
            rank,
            count: round.count,
            streams: round.streams,
            blocks: round.blocks,
            chunk_bytes: DEFAULT_CHUNK_BYTES,
        });
        let program = device.load(plan.map_err(text)?).map_err(text)?;
        let start = StartWords::new(round.streams, Polarity::AsSpecified);
        // SAFETY: `whole` retires the context and releases the queue before it frees `ends`, and drops device, program and words last.
        let proxy = unsafe { ends.proxy() };
        let words = (0..round.streams).map(|stream| word(&start, stream));
        let mut builder = ContextBuilder::new(proxy, Rank(rank)).device_wait(words.collect());
        for (block, id) in (0..round.blocks).zip(0..) {
            let sets = (0..round.streams).map(|stream| fifo(&program, stream, block, round.early));
            builder = builder.block(id, sets.collect());
        }
        let all = RankSet::below(u16::try_from(round.ranks()).map_err(text)?);
        let within = Within::new(round.deadline, "the round's deadline");
        let barrier = comm
            .task_barrier(0, all, Vec::new(), within)
            .map_err(text)?;
        let builder = builder.barrier(Box::new(barrier), Vec::new());
        let context = comm.queue().context(builder).map_err(text)?;
        Ok(Self {
            round,
            rank,
            comm,
            context,
            device,
            program,
            start,
        })
    }

    /// All executions, and a last meeting, as who leaves early looks like a rank that has given up; or those up to the first that fails.
    fn executions(&mut self, reached: &dyn Fn(), report: &mut Report) {
        for number in 1..=self.round.executions {
            match self.execution(number, reached) {
                Ok(None) => report.succeeded += 1,
                Ok(end) => {
                    report.end = end;
                    return;
                }
                Err(wrong) => {
                    report.wrong.push(format!("execution {number}: {wrong}"));
                    return;
                }
            }
        }
        if let Err(error) = self.comm.bus().all_gather(&[], START) {
            report.wrong.push(format!("at the end: {error}"));
        }
    }

    /// One execution; how it ended if it failed as it may.
    fn execution(&mut self, number: u64, reached: &dyn Fn()) -> Done<Option<End>> {
        let pattern = Pattern::Random {
            seed: self.round.seed,
            salt: number,
        };
        let (dtype, program) = (self.round.dtype(), Arc::clone(&self.program));
        let mut input = vec![0; program.plan().input_len()];
        pattern.fill(dtype, self.rank, 0, &mut input);
        program.write_input(&input).map_err(text)?;
        program.fill_output(POISON).map_err(text)?;
        let fault = self.round.strikes(self.rank, number);
        if fault.is_some_and(|fault| fault.kind.hurts()) {
            self.device.inject(device::Fault::NeverFires { stream: 0 });
        }
        let since = Instant::now();
        let tickets = match self.context.enqueue(ExecId(number)) {
            Ok(tickets) => tickets,
            // A rank that shares the worker has released it.
            Err(EnqueueError::Closed) => return Ok(Some(end(Status::CLOSED, since))),
            Err(error) => return Err(text(error)),
        };
        let running = self.device.launch(number, &program, &self.start);
        let running = running.map_err(text)?;
        if let Some(fault) = fault {
            reached();
            self.strike(&fault, &tickets)?;
        }
        if let Some(end) = self.wait(&tickets, since)? {
            return Ok(Some(end));
        }
        running.wait(since + self.round.deadline).map_err(text)?;
        let got = program.read_output().map_err(text)?;
        let (op, ranks) = (self.round.op(), self.round.ranks());
        let want = golden(op, dtype, pattern, ranks, self.rank, self.round.count);
        let right = verify(dtype, op.summands(ranks), &got, &want);
        right.map(|()| None).map_err(text)
    }

    /// What the victim does to itself.
    fn strike(&self, fault: &Fault, tickets: &Execution) -> Done<()> {
        if !fault.kind.is_own() {
            return Ok(());
        }
        std::thread::sleep(fault.delay);
        let queue = self.comm.queue();
        match fault.kind {
            Kind::Exit => std::process::exit(EXIT),
            Kind::AbortTask => tickets
                .barrier
                .into_iter()
                .chain([tickets.network])
                // One that is done needs no abort: the barrier's may have passed.
                .try_for_each(|ticket| match queue.abort(ticket, ORDER) {
                    Ok(()) | Err(proxy_os::AbortError::Task(_)) => Ok(()),
                    Err(error) => Err(text(error)),
                }),
            Kind::AbortContext => self.context.abort(ORDER).map(drop).map_err(text),
            Kind::AbortGroup => queue.abort_tasks(ORDER).map(drop).map_err(text),
            Kind::AbortAll => {
                let mut ended = Group::abort_all(ORDER).into_iter();
                ended.try_for_each(|(_, ended)| ended.map(drop).map_err(text))
            }
            Kind::Release => queue.release(Release::Abort, ORDER).map_err(text),
            _ => Ok(()),
        }
    }

    /// Waits for both tasks, which must end within the round's deadline: by a code, by the abort that follows the other's failure, or by
    /// that which follows a look at the bus. The library says nothing of a peer to which it has no connection yet.
    fn wait(&mut self, tickets: &Execution, since: Instant) -> Done<Option<End>> {
        let mut left: Vec<Ticket> = tickets.barrier.into_iter().collect();
        left.push(tickets.network);
        while let Some(ticket) = left.first().copied() {
            let status = match self.comm.queue().consume(ticket, Patience::until(LOOK)) {
                Ok(status) => status,
                Err(ConsumeError::Timeout { state, .. }) => {
                    let waited = since.elapsed();
                    if waited > self.round.deadline + SLACK {
                        return Err(format!("a task is still {state} after {waited:?}"));
                    }
                    if self.is_alone()? {
                        self.end(&left)?;
                        return Ok(Some(end(Status::PEER_DEAD, since)));
                    }
                    left.reverse();
                    continue;
                }
                Err(error) => return Err(text(error)),
            };
            left.remove(0);
            if !status.is_success() {
                let end = end(status, since);
                self.end(&left)?;
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Whether a peer is dead or has left.
    fn is_alone(&mut self) -> Done<bool> {
        let members = self.comm.bus().members().map_err(text)?;
        let gone = |(state, _): &(State, u32)| matches!(state, State::Left | State::Dead);
        Ok(members.iter().any(gone))
    }

    /// A process that is being killed closes its sockets, which the library notices, a moment before it is dead.
    fn await_death(&mut self, victim: u32) -> Done<()> {
        let victim = u16::try_from(victim).map_err(text)?;
        let since = Instant::now();
        while !self.comm.bus().dead(LOOK).map_err(text)?.has(victim) {
            if since.elapsed() > ORDER {
                return Err(format!(
                    "the bus does not know that rank {victim} was killed"
                ));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// After a failure: what is left ends within the time of an order, and its ticket has a code then.
    fn end(&self, left: &[Ticket]) -> Done<()> {
        self.context.abort(ORDER).map_err(text)?;
        let pending = left.iter().find(|ticket| {
            let state = self.comm.queue().poll(**ticket);
            !matches!(state, Ok(Poll::Done(_)))
        });
        pending.map_or(Ok(()), |ticket| {
            Err(format!("{ticket} has no code after an abort"))
        })
    }
}

/// What a victim that exits ends with.
pub(crate) const EXIT: i32 = 3;

fn end(status: Status, since: Instant) -> End {
    End {
        status: status.0,
        after: u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

/// The driver's name for a start word.
fn word(start: &StartWords, stream: usize) -> Option<DeviceWord> {
    let address = usize::try_from(start.address(stream)?).ok()?;
    // SAFETY: the words outlive the context (see `whole`); the device stores 32 bits at a time.
    unsafe { DeviceWord::new(std::ptr::with_exposed_provenance_mut(address)) }
}

/// The arrays of one stream's block. One that the program does not have is empty, which the context's builder refuses.
fn fifo(program: &Program, stream: usize, block: usize, early: bool) -> Fifo {
    let Some((ops, src, dest)) = program.fifo(stream, block) else {
        return Fifo::default();
    };
    let mut fifo = Fifo {
        ops: ops.to_vec(),
        src: src.to_vec(),
        dest: dest.to_vec(),
    };
    for op in &mut fifo.ops {
        op.early_send_completion = u8::from(early);
    }
    fifo
}
