//! How the ranks of a node meet without the library: on a host bus of their own, from the first moment to the last, which the driver's global
//! communicator joins and leaves. With several nodes the first rank of each, its leader, meets the other leaders over the library's
//! bootstrap network.
//!
//! They exchange signature and unique id on it before the library joins them, and meet on it between executions. What is
//! waited for on the bus has a deadline, and a rank that dies is noticed within milliseconds; the library's own bootstrap
//! blocks until a socket says something.

use std::fmt::Display;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use proxy_core::phone::barrier::RankSet;
use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Status};
use proxy_os::bananaphone::bootstrap::{
    BootstrapError, BusLink, DIGEST, Link, UNIQUE_ID, bootstrap,
};
use proxy_os::bananaphone::leaders::Stopped;
use proxy_os::bananaphone::task::TaskBarrier;
use proxy_os::bananaphone::{Barrier, Bus, JoinError, Options, Share, Within};
use proxy_os::global_comm::{GlobalComm, Setup, SetupError};
use proxy_os::{DeviceWord, HostBarrier, ProxyQueue, Release, Settings};

use crate::job::Start;
use crate::wire::Failure;

/// Sets the deadlines, for messages.
const KNOB: &str = "--timeout or NEURON_RT_EXEC_TIMEOUT";
/// Barrier between executions.
const BETWEEN: u16 = 0;
/// Barrier of the executions themselves.
const EXECUTIONS: u16 = 1;
/// Barrier of the leaders between executions, which each has for itself on its bus.
const LEADERS: u16 = 2;
/// Barriers of the bus, and channels between leaders.
const BARRIERS: u16 = 3;
/// Between two looks of a leader at the other nodes, between executions.
const LOOK: Duration = Duration::from_micros(50);
/// How much longer the others wait than their leader, which knows more.
const LATER: Duration = Duration::from_secs(1);
/// Tag of the bootstrap's messages.
const BOOTSTRAP: u32 = 1;

/// Joins the bus of this rank's node, and shares or starts the worker of its group. Returns when all ranks of the node are there.
///
/// Dropped, what it returns stays as it is until the process ends: what a rank that fails said last shall still be heard, which that of a rank
/// that has left is not, and its worker may be stuck.
pub(super) fn set_up(
    start: &Start,
    settings: &Settings,
    rank: u32,
) -> Result<ManuallyDrop<GlobalComm>, Failure> {
    let layout = start.job.layout;
    let node = layout.node_of(rank);
    let first = layout.ranks_of(&(node..node + 1)).start;
    let short = |number: u32| u16::try_from(number).map_err(Failure::own);
    let (place, world) = (rank - first, short(layout.per_node())?);
    let share = Share {
        machine: short(node)?,
        first: short(first)?,
    };
    let bus = Options {
        barriers: BARRIERS,
        deadline: Within::new(start.job.deadline(), KNOB),
        share: (layout.nodes > 1).then_some(share),
        ..Options::new(start.bus(node), short(place)?, world)
    };
    let comm = GlobalComm::setup(Setup {
        bus,
        // Devices are numbered on each machine.
        device: place,
        settings,
        // Later, as the library makes the id once it has been started, and with several nodes carries the exchange.
        exchange: None,
    });
    comm.map(ManuallyDrop::new).map_err(|error| match error {
        SetupError::Join(error) | SetupError::Connect(error) => not_joined(error, first),
        error => Failure::own(error),
    })
}

/// One rank's place among all others, with all that they meet by. Used by the rank's main thread.
#[derive(Debug)]
pub(super) struct Meeting {
    between: Barrier,
    /// The leader's way to the other nodes.
    leg: Option<TaskBarrier>,
    /// There are other nodes.
    spans: bool,
    comm: ManuallyDrop<GlobalComm>,
    deadline: Duration,
    /// How often the ranks have met, which must be the same on all.
    met: u64,
}

impl Meeting {
    /// Among the ranks that `comm` has brought together, on a leader with its exchange with the other nodes. `work` = what ranks may compute
    /// before they meet.
    pub(super) fn new(
        mut comm: ManuallyDrop<GlobalComm>,
        start: &Start,
        work: Duration,
    ) -> Result<Self, Failure> {
        let (spans, deadline) = (start.job.layout.nodes > 1, start.job.deadline());
        let between = barrier(comm.bus(), BETWEEN)?;
        let me = comm.bus().rank();
        let leg = (spans && me == 0).then(|| {
            let alone = RankSet::default().with(me);
            let within = Within::new(deadline.saturating_add(work), KNOB);
            let leg = comm.task_barrier(LEADERS, alone, Vec::new(), within);
            leg.map_err(Failure::own)
        });
        Ok(Self {
            between,
            leg: leg.transpose()?,
            spans,
            comm,
            deadline,
            met: 0,
        })
    }

    /// The queue of this rank's worker.
    pub(super) fn queue(&self) -> &Arc<ProxyQueue> {
        self.comm.queue()
    }

    /// Whether this rank is the leader of its node.
    pub(super) fn leads(&mut self) -> bool {
        self.comm.bus().rank() == 0
    }

    /// The barrier of the executions, for the driver's worker; it raises `done` on the leader. `spans` = it is one of all nodes.
    pub(super) fn executions(
        &mut self,
        done: Vec<DeviceWord>,
        spans: bool,
    ) -> Result<TaskBarrier, Failure> {
        let within = Within::new(self.deadline, KNOB);
        if spans {
            let all = RankSet::below(self.comm.bus().world());
            let task = self.comm.task_barrier(EXECUTIONS, all, done, within);
            return task.map_err(Failure::own);
        }
        let barrier = barrier(self.comm.bus(), EXECUTIONS)?;
        TaskBarrier::new(barrier, done, within).map_err(Failure::own)
    }

    /// Leaves, when all ranks are through and every context is retired: gives the share of the worker up, ends the exchange of the leaders, leaves
    /// the bus. False = a call of the exchange on the library has not returned, so that its communicator must stay.
    pub(super) fn leave(self) -> Result<bool, Failure> {
        let comm = ManuallyDrop::into_inner(self.comm);
        let freed = comm.free(Release::Drain, self.deadline);
        let freed = freed.map_err(|error| {
            let text = error.to_string();
            // Its end would wait for a worker that may be stuck.
            std::mem::forget(error);
            Failure::own(text)
        })?;
        Ok(freed.leaders != Some(Stopped::Detached))
    }

    /// Returns when every rank of every node has called it as often as this one. `work` = what the slowest of them may have to compute
    /// before, on top of the deadline.
    pub(super) fn meet(&mut self, work: Duration) -> Result<(), Failure> {
        self.met += 1;
        let time = self.deadline.saturating_add(work);
        self.wait(2 * self.met, time)?;
        if !self.spans {
            return Ok(());
        }
        // All ranks of this node are there; they wait for their leader, and the leader for the other nodes.
        if let Some(leg) = &self.leg {
            let exec = ExecId(self.met);
            let passed = look(|| leg.arrive(exec)).and_then(|()| look(|| leg.release(exec)));
            passed.map_err(|status| {
                let why = leg
                    .last_failure()
                    .map_or_else(|| status.to_string(), |why| why.to_string());
                between_executions(why)
            })?;
        }
        self.wait(2 * self.met + 1, time.saturating_add(LATER))
    }

    fn wait(&mut self, id: u64, time: Duration) -> Result<(), Failure> {
        let met = self.between.wait(id, Within::new(time, KNOB));
        met.map_err(between_executions)
    }
}

fn between_executions(why: impl Display) -> Failure {
    Failure::by_peer(format!("between two executions: {why}"))
}

/// Looks until a barrier is ready, which has a deadline of its own.
fn look(mut step: impl FnMut() -> BarrierPoll) -> Result<(), Status> {
    loop {
        match step() {
            BarrierPoll::Ready => return Ok(()),
            BarrierPoll::Failed(status) => return Err(status),
            BarrierPoll::Pending => std::thread::sleep(LOOK),
        }
    }
}

/// The bus as a way to exchange with all ranks of the job, if it has no others.
pub(super) fn link(comm: &mut GlobalComm, deadline: Duration) -> BusLink<'_> {
    BusLink::new(comm.bus(), BOOTSTRAP, Within::new(deadline, KNOB))
}

/// Makes sure that all `ranks` have the same collectives, described by `signature`, and gives them the unique id that rank 0 makes.
pub(super) fn exchange<L: Link>(
    link: &mut L,
    ranks: u32,
    rank: u32,
    signature: &str,
    make_id: impl FnOnce() -> Result<[u8; UNIQUE_ID], Failure>,
) -> Result<[u8; UNIQUE_ID], Failure> {
    let participants: Vec<u32> = (0..ranks).collect();
    let mut refused = None;
    let make_id = || make_id().map_err(|failure| refused = Some(failure)).ok();
    let exchanged = bootstrap(
        link,
        &participants,
        rank as usize,
        &digest(signature),
        make_id,
    );
    exchanged.map_err(|error| refused.unwrap_or_else(|| not_exchanged(&error, signature)))
}

fn barrier(bus: &Bus, slot: u16) -> Result<Barrier, Failure> {
    bus.barrier(slot, RankSet::below(bus.world()))
        .map_err(Failure::own)
}

/// Most of what keeps a rank from the bus is another rank. `first` = the number of the bus's rank 0.
fn not_joined(error: JoinError, first: u32) -> Failure {
    let by_peer = matches!(
        error,
        JoinError::Late(_) | JoinError::Wait(_) | JoinError::Peer { .. }
    );
    let why = match error {
        JoinError::Peer {
            rank: Some(rank),
            cause,
        } => format!("rank {} could not join: {cause}", first + u32::from(rank)),
        error => error.to_string(),
    };
    let text = format!("cannot meet the other ranks: {why}");
    Failure { text, by_peer }
}

/// Says what rank 0 knows, and on the others what they can know: that the exchange failed.
fn not_exchanged<E: Display>(error: &BootstrapError<E>, signature: &str) -> Failure {
    match error {
        BootstrapError::Mismatch => Failure::own(format!("{error}; this rank has {signature}")),
        BootstrapError::NoUniqueId => Failure::by_peer(format!(
            "{error}: rank 0 has none, or the ranks have different collectives"
        )),
        _ => Failure::by_peer(error),
    }
}

/// FNV-1a with 128 bits, by bytes: the public constants.
fn digest(text: &str) -> [u8; DIGEST] {
    const BASIS: u128 = 0x6C62_272E_07BB_0142_62B8_2175_6295_C58D;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013B;
    let hash = text.bytes().fold(BASIS, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(PRIME)
    });
    hash.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_fnv1a() {
        assert_eq!(
            u128::from_be_bytes(digest("a")),
            0xD228_CB69_6F1A_8CAF_7891_2B70_4E4A_8964
        );
        assert_ne!(digest("allr fp32"), digest("allr bf16"));
    }

    #[test]
    fn a_mismatch_outranks_its_consequences() {
        let mismatch = not_exchanged::<String>(&BootstrapError::Mismatch, "allr of fp32");
        assert!(!mismatch.by_peer && mismatch.text.ends_with("this rank has allr of fp32"));
        assert!(not_exchanged::<String>(&BootstrapError::NoUniqueId, "").by_peer);
    }
}
