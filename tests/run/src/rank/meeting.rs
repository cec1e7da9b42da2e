//! How the ranks of a job meet without the library: on a host bus of their own, from the first moment to the last.
//!
//! They exchange signature and unique id on it before the library joins them, and meet on it between executions. What is
//! waited for on the bus has a deadline, and a rank that dies is noticed within milliseconds; the library's own bootstrap
//! blocks until a socket says something.

use std::time::Duration;

use proxy_core::phone::barrier::RankSet;
use proxy_os::bananaphone::bootstrap::{
    BootstrapError, BusLink, DIGEST, Link, UNIQUE_ID, bootstrap,
};
use proxy_os::bananaphone::{Barrier, Bus, JoinError, Options, Within};

use crate::job::Start;
use crate::wire::Failure;

/// Sets the deadlines, for messages.
pub(super) const KNOB: &str = "--timeout or NEURON_RT_EXEC_TIMEOUT";
/// Barrier between executions.
const BETWEEN: u16 = 0;
/// Barrier of the executions themselves.
const EXECUTIONS: u16 = 1;
/// Barriers of the bus.
const BARRIERS: u16 = 2;
/// Tag of the bootstrap's messages.
const BOOTSTRAP: u32 = 1;

/// One rank's place on the bus of its job. Used by the rank's main thread.
#[derive(Debug)]
pub(super) struct Meeting {
    between: Barrier,
    bus: Bus,
    deadline: Duration,
    /// How often the ranks have met, which must be the same on all.
    met: u64,
}

impl Meeting {
    /// Joins the bus. Returns when all ranks are there.
    pub(super) fn join(start: &Start, rank: u32) -> Result<Self, Failure> {
        let deadline = start.job.deadline();
        let within = Within::new(deadline, KNOB);
        let layout = start.job.layout;
        let node = layout.node_of(rank);
        let first = layout.ranks_of(&(node..node + 1)).start;
        let world = u16::try_from(layout.per_node()).map_err(Failure::own)?;
        let rank = u16::try_from(rank - first).map_err(Failure::own)?;
        let options = Options {
            barriers: BARRIERS,
            deadline: within,
            ..Options::new(start.bus(node), rank, world)
        };
        let bus = Bus::create(&options).map_err(not_joined)?;
        bus.connect(within).map_err(not_joined)?;
        let between = barrier(&bus, BETWEEN)?;
        Ok(Self {
            between,
            bus,
            deadline,
            met: 0,
        })
    }

    /// The bus as a way to exchange with all ranks of the job, if it has no others.
    pub(super) fn link(&mut self) -> BusLink<'_> {
        let within = Within::new(self.deadline, KNOB);
        BusLink::new(&mut self.bus, BOOTSTRAP, within)
    }

    /// Whether this rank is the leader of its node.
    pub(super) const fn leads(&self) -> bool {
        self.bus.rank() == 0
    }

    /// The barrier of the executions of one context, for the driver's worker.
    pub(super) fn executions(&self) -> Result<Barrier, Failure> {
        barrier(&self.bus, EXECUTIONS)
    }

    /// Returns when every rank has called it as often as this one. `work` = what the slowest of them may have to compute before,
    /// on top of the deadline.
    pub(super) fn meet(&mut self, work: Duration) -> Result<(), Failure> {
        self.met += 1;
        let within = Within::new(self.deadline.saturating_add(work), KNOB);
        let met = self.between.wait(self.met, within);
        met.map_err(|error| Failure::by_peer(format!("between two executions: {error}")))
    }
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

/// Most of what keeps a rank from the bus is another rank.
fn not_joined(error: JoinError) -> Failure {
    let text = format!("cannot meet the other ranks: {error}");
    match error {
        JoinError::Wait(_) | JoinError::Peer { .. } => Failure::by_peer(text),
        _ => Failure::own(text),
    }
}

/// Says what rank 0 knows, and on the others what they can know: that the exchange failed.
fn not_exchanged<E: std::fmt::Display>(error: &BootstrapError<E>, signature: &str) -> Failure {
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
