//! The buses of this process for a report: who is on them, who is dead, and who is missing in which phase.

use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::layout;
use proxy_core::phone::member::State;

use super::ranges;
use super::record::{Bus, LastSeen, Peer};
use crate::bananaphone::{self, Death, Member, Seen};

/// Every membership of this process, in order of job and rank.
pub(super) fn buses(partial: &mut Vec<String>) -> Vec<Bus> {
    let Some(mut seen) = bananaphone::seen() else {
        partial.push("the list of buses".to_owned());
        return Vec::new();
    };
    seen.sort_by(|one, other| (&one.job, one.rank).cmp(&(&other.job, other.rank)));
    for seen in seen.iter().filter(|seen| seen.partial) {
        partial.push(format!(
            "the waits of rank {} of bus {}",
            seen.rank, seen.job
        ));
    }
    seen.into_iter().map(bus).collect()
}

fn bus(seen: Seen) -> Bus {
    let missing = seen.wait.map(|(.., missing)| missing).unwrap_or_default();
    let phase = (seen.wait).map_or_else(|| "idle".to_owned(), |(phase, ..)| phase.to_string());
    Bus {
        job: seen.job,
        rank: seen.rank.into(),
        world: seen.world.into(),
        layout: layout::VERSION,
        age: seen.wait.map(|(_, age, _)| age.as_secs_f64()),
        missing: ranges::ranges(missing.iter().map(u32::from)),
        peers: (0..)
            .zip(seen.members)
            .map(|(rank, member)| peer(rank, &member, missing, &phase))
            .collect(),
        phase,
        fallbacks: (seen.counts.into_iter())
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
    }
}

fn peer(rank: u16, member: &Member, missing: RankSet, phase: &str) -> Peer {
    let word = |says: &str| format!("its word on the bus says {says}");
    let (state, evidence) = match member.state {
        State::Free => ("absent", "its place on the bus is empty".to_owned()),
        State::Joining => ("joining", word("that it joins")),
        State::Joined if missing.has(rank) => (
            "late",
            format!("{}, and {phase} lacks it", word("that it is there")),
        ),
        State::Joined => ("joined", word("that it is there")),
        State::Left => ("left", word("farewell")),
        State::Dead => (
            "dead",
            member.death.map_or(Death::TOLD, Death::text).to_owned(),
        ),
    };
    Peer {
        rank: rank.into(),
        pid: member.pid,
        state: state.to_owned(),
        evidence,
        last_seen: member.last_seen.map(|arrived| LastSeen {
            slot: arrived.barrier.into(),
            generation: arrived.generation,
            exec: arrived.exec,
        }),
    }
}
