//! The iterations of one rank: enqueue, doorbell, wait for the driver, wait for the device.
#![allow(unsafe_code, reason = "hands the communicator to the driver")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proxy_core::ExecId;
use proxy_kit::device::{self, Device, Fault};
use proxy_kit::golden::golden;
use proxy_kit::verify::verify;
use proxy_os::nccom::ProxyComm;
use proxy_os::{Context, Execution};

use super::barrier::ExecutionBarrier;
use super::connection::Connection;
use super::meeting::Meeting;
use super::plan::Loaded;
use super::process::Process;
use super::unheard;
use super::wait::Wait;
use crate::job::{Check, FaultKind, Job};
use crate::sys;
use crate::wire::{Failure, Message, SizeResult, Speaker};

/// What an output holds before a checked execution, so that an old result cannot pass for a new one.
const POISON: u8 = 0xA5;
/// Between two progress messages of rank 0 at least.
const PROGRESS: Duration = Duration::from_millis(50);
/// Between two of any other rank, whose only use is that they come.
const SIGN_OF_LIFE: Duration = Duration::from_millis(250);
/// Checked executions of one size at most: the first, one in the middle and the last.
const CHECKS: u64 = 3;

/// A rank that is ready to run. What it has is used by worker and library as long as a context is not retired.
#[derive(Debug)]
pub(super) struct Runner<'a> {
    comm: Arc<ProxyComm>,
    /// The size that runs. Kept here so that it outlives its context also on the way out of an error.
    loaded: Option<Loaded>,
    device: Device,
    /// None where executions have no barrier.
    barrier: Option<ExecutionBarrier>,
    job: &'a Job,
    connection: &'a Connection,
    meeting: &'a mut Meeting,
    early_completion: bool,
    /// Executions under way at most: further ones are enqueued before the first of them has ended.
    in_flight: usize,
    executions: u64,
    told: Instant,
}

impl<'a> Runner<'a> {
    /// Starts the device, beside the worker that the meeting has.
    pub(super) fn new(
        process: &Process<'a>,
        connection: &'a Connection,
        meeting: &'a mut Meeting,
    ) -> Result<Self, Failure> {
        let (job, settings) = (&process.start.job, &process.settings);
        let spans = *settings.internode_execution_barrier();
        let barrier = job.barrier.then(|| ExecutionBarrier::new(meeting, spans));
        let topology = job.op.topology();
        let connectors = (0..job.streams).map(|stream| connection.connectors(topology, stream));
        let connectors = connectors.collect::<Result<Vec<_>, _>>()?;
        let device = Device::new(connection.rank(), topology, &connectors).map_err(Failure::own)?;
        // SAFETY: only this queue's worker makes proxy calls. Every context of the communicator is retired, after which the worker
        // makes no call for it, also if it goes on for other ranks, before `Connection::leave` frees the communicator; after a
        // failure nothing is freed. The addresses in the FIFO arrays are those of `device` and `loaded`, which end after
        // the context.
        let comm = unsafe {
            ProxyComm::new(
                Arc::clone(connection.library()),
                connection.comm(),
                connection.ranks(),
            )
        };
        Ok(Self {
            comm,
            loaded: None,
            device,
            barrier: barrier.transpose()?,
            job,
            connection,
            meeting,
            early_completion: *settings.early_completion(),
            in_flight: (*settings.async_exec_max_inflight()).max(1) as usize,
            executions: 0,
            told: Instant::now(),
        })
    }

    /// Runs all iterations of one size, the `index`th.
    pub(super) fn size(
        &mut self,
        index: u64,
        bytes: u64,
        speaker: &Speaker,
    ) -> Result<SizeResult, Failure> {
        let rank = self.connection.rank();
        let loaded = Loaded::new(self.job, rank, bytes, &self.device)?;
        self.loaded = Some(loaded.clone());
        let mut builder = loaded.context(
            self.job,
            rank,
            Arc::clone(&self.comm),
            self.early_completion,
        );
        if let Some(barrier) = &self.barrier {
            // The barrier task has no start words: it is at the barrier from the enqueue on.
            builder = builder.barrier(barrier.host(), Vec::new());
        }
        let context = self
            .meeting
            .queue()
            .context(builder)
            .map_err(Failure::own)?;
        let mut size = Size {
            runner: self,
            context,
            loaded,
            result: empty(bytes),
            index,
            checks: 0,
            due: None,
            flights: VecDeque::new(),
            ended: Instant::now(),
        };
        if let Err(failure) = size.run(speaker) {
            // The context has an unfinished task; it stays with the queue, which the process does not end.
            std::mem::forget(size);
            return Err(failure);
        }
        let Size {
            context, result, ..
        } = size;
        context.retire().map_err(|(_, error)| Failure::own(error))?;
        self.loaded = None;
        Ok(result)
    }

    /// The fault of this rank, if it is the one that is to misbehave.
    fn fault(&self) -> Option<FaultKind> {
        self.job
            .fault
            .filter(|fault| fault.rank == self.connection.rank())
            .map(|fault| fault.kind)
    }

    /// Says where this rank is, unless it has done so a moment ago. Called before whatever may take long.
    fn tell_progress(&mut self, iteration: u32, speaker: &Speaker) -> Result<(), Failure> {
        let (due, pause) = match self.connection.rank() {
            0 => (iteration == 0, PROGRESS),
            _ => (false, SIGN_OF_LIFE),
        };
        if !due && self.told.elapsed() < pause {
            return Ok(());
        }
        self.told = Instant::now();
        speaker
            .say(Message::Iteration(iteration + 1))
            .map_err(unheard)
    }
}

fn empty(bytes: u64) -> SizeResult {
    SizeResult {
        bytes,
        nanos: Vec::new(),
        wrong: None,
        digest: None,
    }
}

/// The iterations of one size.
struct Size<'a, 'b> {
    runner: &'a mut Runner<'b>,
    context: Context,
    loaded: Loaded,
    result: SizeResult,
    index: u64,
    /// Checked executions so far.
    checks: u64,
    /// A check whose execution has begun: what it and those after it leave is compared once all have ended.
    due: Option<(Check, u32)>,
    /// Executions under way, oldest first.
    flights: VecDeque<Flight>,
    /// When the last execution ended.
    ended: Instant,
}

/// An execution under way.
#[derive(Debug)]
struct Flight {
    iteration: u32,
    tickets: Execution,
    running: device::Execution,
    began: Instant,
}

impl Size<'_, '_> {
    fn run(&mut self, speaker: &Speaker) -> Result<(), Failure> {
        let (warmup, all) = (self.runner.job.warmup, self.runner.job.all_iterations());
        let checked = [0, warmup + self.runner.job.iters / 2, all - 1];
        let mut together = false;
        for iteration in 0..all {
            let check = self
                .runner
                .job
                .check
                .filter(|_| checked.contains(&iteration));
            if let Some(check) = check {
                self.runner.tell_progress(iteration, speaker)?;
                self.settle(warmup)?;
                self.prepare(check)?;
                self.due = Some((check, iteration));
                together = false;
            }
            if !together {
                self.runner.tell_progress(iteration, speaker)?;
                let checking = self.runner.job.checking(self.result.bytes);
                self.runner.meeting.meet(checking)?;
                together = true;
            }
            self.runner.tell_progress(iteration, speaker)?;
            self.begin(iteration)?;
            let most = self.runner.in_flight - 1;
            self.end_all_but(most, warmup)?;
            if most == 0 || iteration + 1 == all {
                self.runner.tell_progress(iteration, speaker)?;
                together &= !self.settle(warmup)?;
            }
        }
        Ok(())
    }

    /// Waits for all ends, and compares the output if that is due; whether it was.
    fn settle(&mut self, warmup: u32) -> Result<bool, Failure> {
        self.end_all_but(0, warmup)?;
        let Some((check, iteration)) = self.due.take() else {
            return Ok(false);
        };
        self.verify(check, iteration)?;
        Ok(true)
    }

    /// Begins one execution: the enqueue, and the doorbell of the device.
    fn begin(&mut self, iteration: u32) -> Result<(), Failure> {
        let last = iteration + 1 == self.runner.job.all_iterations();
        match self.runner.fault() {
            Some(FaultKind::Hang) if last => {
                self.runner.device.inject(Fault::NeverFires { stream: 0 })
            }
            Some(FaultKind::Exit) if last => sys::exit_now(3),
            Some(FaultKind::Execution) if last => self.runner.executions += 1,
            _ => {}
        }
        self.runner.executions += 1;
        let id = self.runner.executions;
        let began = Instant::now();
        let tickets = self
            .context
            .enqueue(ExecId(id))
            .map_err(|error| Failure::own(format!("{}: enqueue: {error}", self.name(iteration))))?;
        let (program, start) = (&self.loaded.program, &self.loaded.start);
        let running = (self.runner.device)
            .launch(id, program, start)
            .map_err(Failure::own)?;
        self.flights.push_back(Flight {
            iteration,
            tickets,
            running,
            began,
        });
        Ok(())
    }

    /// Waits for the ends of the oldest executions until so many are left.
    fn end_all_but(&mut self, left: usize, warmup: u32) -> Result<(), Failure> {
        while self.flights.len() > left
            && let Some(flight) = self.flights.pop_front()
        {
            if let Err(failure) = self.end(&flight) {
                let text = format!("{}: {}", self.name(flight.iteration), failure.text);
                // As the others, it may be used by worker and library.
                self.flights.push_front(flight);
                return Err(Failure { text, ..failure });
            }
            // One that had to wait for the one before has begun when that ended.
            let now = Instant::now();
            let time = now - flight.began.max(self.ended);
            self.ended = now;
            if flight.iteration >= warmup {
                let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                self.result.nanos.push(nanos);
            }
        }
        match &self.runner.barrier {
            Some(barrier) if self.flights.is_empty() => {
                barrier.check(self.runner.meeting.leads(), self.runner.executions)
            }
            _ => Ok(()),
        }
    }

    fn end(&self, flight: &Flight) -> Result<(), Failure> {
        // As its time, its deadline begins with its turn.
        let wait = Wait {
            context: &self.context,
            running: &flight.running,
            deadline: flight.began.max(self.ended) + self.runner.job.deadline(),
        };
        wait.for_driver(&flight.tickets)?;
        wait.for_device()
    }

    /// The name of an execution in messages.
    fn name(&self, iteration: u32) -> String {
        let (bytes, all) = (self.result.bytes, self.runner.job.all_iterations());
        format!("{bytes} bytes, iteration {} of {all}", iteration + 1)
    }

    /// Fills the input of a checked execution and spoils the output.
    fn prepare(&mut self, check: Check) -> Result<(), Failure> {
        let (job, rank) = (self.runner.job, self.runner.connection.rank());
        self.checks += 1;
        let pattern = check.pattern(job.seed, self.salt());
        let program = &self.loaded.program;
        let mut input = vec![0; program.plan().input_len()];
        pattern.fill(job.dtype, rank, 0, &mut input);
        program.write_input(&input).map_err(Failure::own)?;
        program.fill_output(POISON).map_err(Failure::own)
    }

    /// Tells the inputs of all checked executions apart.
    const fn salt(&self) -> u64 {
        self.index * CHECKS + self.checks
    }

    /// Compares the output with the expected one; the first difference of a size is kept.
    fn verify(&mut self, check: Check, iteration: u32) -> Result<(), Failure> {
        let (job, rank) = (self.runner.job, self.runner.connection.rank());
        let pattern = check.pattern(job.seed, self.salt());
        let mut got = self.loaded.program.read_output().map_err(Failure::own)?;
        if let (Some(FaultKind::Wrong), Some(byte)) = (self.runner.fault(), got.last_mut()) {
            *byte ^= 1;
        }
        self.result.digest = Some(digest(&got));
        let want = golden(
            job.op,
            job.dtype,
            pattern,
            job.layout.ranks,
            rank,
            self.loaded.program.plan().spec().count,
        );
        if let Err(mismatch) = verify(job.dtype, job.op.summands(job.layout.ranks), &got, &want) {
            let wrong = || format!("iteration {}: {mismatch}", iteration + 1);
            self.result.wrong.get_or_insert_with(wrong);
        }
        Ok(())
    }
}

/// FNV-1a with 64 bits, by bytes: the public constants.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_fnv1a() {
        assert_eq!(digest(b""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(digest(b"a"), 0xAF63_DC4C_8601_EC8C);
    }
}
