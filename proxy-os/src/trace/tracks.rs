//! From events to spans on tracks: what overlaps on one track is put side by side, on lanes of it.

use std::collections::HashMap;

use proxy_core::port::Change;
use proxy_core::{ContextId, ExecId, Rank, RunState, Status, TaskKind};

use super::{Event, Lane, What};

/// A track of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Track {
    /// Tasks of one kind: spans are run states.
    Tasks(TaskKind),
    /// One stream: spans are blocks in the library.
    Stream(u8),
    /// The worker: spans are sleeps.
    Worker,
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Drawn {
    /// From `since` to `until`.
    Span {
        since: u64,
        until: u64,
        name: String,
        task: Option<(ContextId, ExecId)>,
    },
    /// At one moment.
    Instant { time: u64, name: String },
}

/// Something drawn, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placed {
    /// `None`: the worker's own.
    pub(super) rank: Option<Rank>,
    pub(super) track: Track,
    /// Below the track's other lanes; from 0.
    pub(super) lane: usize,
    pub(super) drawn: Drawn,
}

/// Who has a span open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    Task(u32),
    Stream(Lane),
    Worker,
}

#[derive(Debug)]
struct Open {
    at: (Option<Rank>, Track),
    lane: usize,
    since: u64,
    name: String,
    task: Option<(ContextId, ExecId)>,
}

/// Spans that are open, and lanes that are taken.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    open: HashMap<Owner, Open>,
    taken: HashMap<(Option<Rank>, Track), Vec<bool>>,
    placed: Vec<Placed>,
}

/// The drawing of a trace. Spans that are open at its end last until its last event.
pub(super) fn place<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<Placed> {
    let mut tracks = Tracks::default();
    let mut last = 0;
    for event in events {
        last = event.time;
        tracks.take_in(event);
    }
    let owners: Vec<Owner> = tracks.open.keys().copied().collect();
    for owner in owners {
        tracks.end(owner, last);
    }
    tracks.placed
}

impl Tracks {
    fn take_in(&mut self, event: &Event) {
        let time = event.time;
        match event.what {
            What::Change(change) => self.change(time, &change),
            What::Started(lane, block) => {
                self.instant(
                    time,
                    Some(lane.rank),
                    stream(lane),
                    format!("start block {block}"),
                );
            }
            What::Selected(lane, block) => {
                let at = (Some(lane.rank), stream(lane));
                self.begin(
                    Owner::Stream(lane),
                    at,
                    time,
                    format!("block {block}"),
                    None,
                );
            }
            What::Drained(lane, _) => self.end(Owner::Stream(lane), time),
            What::Stopped(lane) => {
                self.end(Owner::Stream(lane), time);
                self.instant(time, Some(lane.rank), stream(lane), "stop".to_owned());
            }
            What::Semaphore { of, address, by } => {
                let rank = of.map(|(rank, _)| rank);
                let track = of.map_or(Track::Worker, |(_, kind)| Track::Tasks(kind));
                self.instant(time, rank, track, format!("semaphore {address:#x} +{by}"));
            }
            What::Sleep => {
                self.begin(
                    Owner::Worker,
                    (None, Track::Worker),
                    time,
                    "asleep".to_owned(),
                    None,
                );
            }
            What::Wake => {
                self.end(Owner::Worker, time);
                self.instant(time, None, Track::Worker, "wake".to_owned());
            }
        }
    }

    fn change(&mut self, time: u64, change: &Change) {
        let owner = Owner::Task(change.slot);
        let at = (Some(change.rank), Track::Tasks(change.kind));
        self.end(owner, time);
        if change.from == RunState::WaitingDeviceTrigger && change.to != RunState::Done {
            self.instant(time, at.0, at.1, "device trigger".to_owned());
        }
        if change.to != RunState::Done {
            let task = Some((change.context, change.exec));
            self.begin(owner, at, time, change.to.to_string(), task);
        } else if change.status != Status::SUCCESS {
            self.instant(time, at.0, at.1, format!("failed: {}", change.status));
        }
    }

    fn begin(
        &mut self,
        owner: Owner,
        at: (Option<Rank>, Track),
        since: u64,
        name: String,
        task: Option<(ContextId, ExecId)>,
    ) {
        self.end(owner, since);
        let lanes = self.taken.entry(at).or_default();
        let lane = lanes.iter().position(|taken| !taken).unwrap_or(lanes.len());
        match lanes.get_mut(lane) {
            Some(taken) => *taken = true,
            None => lanes.push(true),
        }
        let open = Open {
            at,
            lane,
            since,
            name,
            task,
        };
        self.open.insert(owner, open);
    }

    fn end(&mut self, owner: Owner, until: u64) {
        let Some(open) = self.open.remove(&owner) else {
            return;
        };
        if let Some(taken) = self
            .taken
            .get_mut(&open.at)
            .and_then(|lanes| lanes.get_mut(open.lane))
        {
            *taken = false;
        }
        self.placed.push(Placed {
            rank: open.at.0,
            track: open.at.1,
            lane: open.lane,
            drawn: Drawn::Span {
                since: open.since,
                until,
                name: open.name,
                task: open.task,
            },
        });
    }

    fn instant(&mut self, time: u64, rank: Option<Rank>, track: Track, name: String) {
        let drawn = Drawn::Instant { time, name };
        self.placed.push(Placed {
            rank,
            track,
            lane: 0,
            drawn,
        });
    }
}

fn stream(lane: Lane) -> Track {
    Track::Stream(lane.stream.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use RunState::{Done, Init, Progressing, WaitingDeviceTrigger};

    fn change(time: u64, slot: u32, from: RunState, to: RunState) -> Event {
        let what = What::Change(Change {
            rank: Rank(1),
            context: ContextId::from_parts(0, 1),
            kind: TaskKind::Network,
            exec: ExecId(slot.into()),
            slot,
            from,
            to,
            status: Status::SUCCESS,
        });
        Event { time, what }
    }

    /// Lane, start, end and name of each span, and `None` with time and name of each instant.
    fn drawing(events: &[Event]) -> Vec<(Option<usize>, u64, u64, String)> {
        let draw = |placed: Placed| match placed.drawn {
            Drawn::Span {
                since, until, name, ..
            } => (Some(placed.lane), since, until, name),
            Drawn::Instant { time, name } => (None, time, time, name),
        };
        place(events.iter()).into_iter().map(draw).collect()
    }

    #[test]
    fn a_task_is_a_row_of_states_and_overlapping_tasks_have_lanes() {
        let events = [
            change(10, 5, Init, WaitingDeviceTrigger),
            change(20, 6, Init, Progressing),
            change(30, 5, WaitingDeviceTrigger, Progressing),
            change(40, 6, Progressing, Done),
            change(50, 5, Progressing, Done),
        ];
        let expected = [
            (Some(0), 10, 30, "WAITING_DEVICE_TRIGGER"),
            (None, 30, 30, "device trigger"),
            (Some(1), 20, 40, "PROGRESSING"),
            (Some(0), 30, 50, "PROGRESSING"),
        ];
        let expected =
            expected.map(|(lane, since, until, name)| (lane, since, until, name.to_owned()));
        assert_eq!(drawing(&events), expected);
    }

    #[test]
    fn a_block_lasts_from_its_selection_to_its_drain_or_the_stop() {
        let lane = Lane {
            rank: Rank(0),
            context: ContextId::from_parts(0, 1),
            stream: proxy_core::Stream(2),
        };
        let event = |time, what| Event { time, what };
        let events = [
            event(1, What::Started(lane, 7)),
            event(2, What::Selected(lane, 7)),
            event(5, What::Drained(lane, 7)),
            event(6, What::Selected(lane, 8)),
            event(9, What::Stopped(lane)),
            event(11, What::Sleep),
        ];
        let expected = [
            (None, 1, 1, "start block 7"),
            (Some(0), 2, 5, "block 7"),
            (Some(0), 6, 9, "block 8"),
            (None, 9, 9, "stop"),
            (Some(0), 11, 11, "asleep"),
        ];
        let expected =
            expected.map(|(lane, since, until, name)| (lane, since, until, name.to_owned()));
        assert_eq!(drawing(&events), expected);
    }
}
