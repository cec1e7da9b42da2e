//! The black box: a fixed ring of state changes that can be read while the worker is stuck inside the library.
//!
//! One writer, the worker; any number of readers. Each record carries its own sequence number, odd while it is being written,
//! so a reader takes a record whole or not at all. Writing is wait-free; reading one record is wait-free, too.

use crate::id::{ContextId, ExecId, Rank};
use crate::limits::{index, narrow};
use crate::port::Change;
use crate::status::{RunState, Status, TaskKind};
use crate::sync::{AtomicU32, Edge, Ordering, WideCell, edge, shared_array, shared_fn};

/// A state change and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Record {
    /// Position among all records ever written, from 0; wraps at 2^32.
    pub number: u32,
    /// Time of the change, in the writer's unit (the shell: nanoseconds of the monotonic clock).
    pub time: u64,
    /// Ticks that the worker had made before the one of the change.
    pub tick: u64,
    /// The change.
    pub change: Change,
}

#[derive(Debug)]
#[repr(align(64))]
struct Place {
    /// [`WRITING`] or [`COMPLETE`] below the number of the record, without its two highest bits; 0 = nothing was written yet.
    stamp: AtomicU32,
    time: WideCell,
    tick: WideCell,
    exec: WideCell,
    rank: AtomicU32,
    context: AtomicU32,
    generation: AtomicU32,
    slot: AtomicU32,
    states: AtomicU32,
    status: AtomicU32,
}

impl Place {
    shared_fn! {
        fn new() -> Self {
            Self {
                stamp: AtomicU32::new(0),
                time: WideCell::new(),
                tick: WideCell::new(),
                exec: WideCell::new(),
                rank: AtomicU32::new(0),
                context: AtomicU32::new(0),
                generation: AtomicU32::new(0),
                slot: AtomicU32::new(0),
                states: AtomicU32::new(0),
                status: AtomicU32::new(0),
            }
        }
    }
}

/// The stamp of a record that is being written has this in its two low bits.
const WRITING: u32 = 1;
/// The stamp of a record that is complete has this in its two low bits.
const COMPLETE: u32 = 2;

/// The stamp of a record. One that is 2^30 records older has the same; a reader would have to be as slow as that.
const fn stamp(number: u32, state: u32) -> u32 {
    number << 2 | state
}

/// A ring of the last `N` changes. All-zero is a valid empty ring.
///
/// `N` is a power of two, so that the record after number 2^32 - 1 follows it in the ring as well.
#[derive(Debug)]
pub struct Recorder<const N: usize> {
    written: AtomicU32,
    places: [Place; N],
}

impl<const N: usize> Recorder<N> {
    const IS_POWER_OF_TWO: () =
        assert!(N.is_power_of_two(), "the ring has a power of two of places");

    shared_fn! {
        /// An empty ring.
        pub fn new() -> Self {
            Self { written: AtomicU32::new(0), places: shared_array!(Place::new()) }
        }
    }

    /// Writes one record over the oldest: a change, its time, and the ticks before it. Only one thread may write at a time: the worker.
    #[inline]
    pub fn record(&self, time: u64, tick: u64, change: &Change) {
        // Relaxed: this thread is the only writer.
        let number = self.written.load(Ordering::Relaxed);
        let Some(place) = self.place(number) else {
            return;
        };
        // Relaxed: the release of each field below keeps this store before it.
        place.stamp.store(stamp(number, WRITING), Ordering::Relaxed);
        // Release pairs with the acquire in `read`: a reader that sees a new field sees the odd stamp, too.
        let order = edge(Edge::Record, Ordering::Release);
        place.time.store(time, order); // as above
        place.tick.store(tick, order); // as above
        place.exec.store(change.exec.0, order); // as above
        place.rank.store(change.rank.0, order); // as above
        place.context.store(change.context.index, order); // as above
        place.generation.store(change.context.generation, order); // as above
        place.slot.store(change.slot, order); // as above
        place.states.store(pack(change), order); // as above
        place.status.store(change.status.to_bits(), order); // as above
        // Release pairs with the acquire in `read`: a complete stamp makes every field visible.
        place.stamp.store(stamp(number, COMPLETE), order);
        // Release, so that who reads the count finds the record complete.
        self.written.store(number.wrapping_add(1), order);
    }

    /// How many records have been written, modulo 2^32.
    pub fn written(&self) -> u32 {
        // Acquire pairs with the release in `record`.
        self.written.load(edge(Edge::RecordRead, Ordering::Acquire))
    }

    /// The last records, oldest first; those that are overwritten while being read are left out.
    pub fn iter(&self) -> impl Iterator<Item = Record> + '_ {
        let kept = narrow(N);
        let first = self.written().wrapping_sub(kept);
        // In a ring that is not full yet, places that nothing was written to answer to no number.
        (0..kept).filter_map(move |offset| self.read(first.wrapping_add(offset)))
    }

    /// One record by number, if it is still there and complete.
    pub fn read(&self, number: u32) -> Option<Record> {
        let place = self.place(number)?;
        let complete = stamp(number, COMPLETE);
        // Acquire pairs with the release in `record`, on every load below.
        let order = edge(Edge::RecordRead, Ordering::Acquire);
        if place.stamp.load(order) != complete {
            return None;
        }
        let (kind, from, to) = unpack(place.states.load(order))?;
        let record = Record {
            number,
            time: place.time.load(order), // as above
            tick: place.tick.load(order), // as above
            change: Change {
                rank: Rank(place.rank.load(order)), // as above
                context: ContextId {
                    index: place.context.load(order),         // as above
                    generation: place.generation.load(order), // as above
                },
                kind,
                exec: ExecId(place.exec.load(order)), // as above
                slot: place.slot.load(order),         // as above
                from,
                to,
                status: Status::from_bits(place.status.load(order)), // as above
            },
        };
        // Relaxed: a newer field above would have made the odd stamp visible by its acquire.
        (place.stamp.load(Ordering::Relaxed) == complete).then_some(record)
    }

    fn place(&self, number: u32) -> Option<&Place> {
        let () = Self::IS_POWER_OF_TWO;
        self.places.get(index(number).checked_rem(N)?)
    }
}

impl<const N: usize> Default for Recorder<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(clippy::as_conversions, reason = "fieldless enums of one byte")]
fn pack(change: &Change) -> u32 {
    change.kind as u32 | (change.from as u32) << 8 | (change.to as u32) << 16
}

fn unpack(states: u32) -> Option<(TaskKind, RunState, RunState)> {
    let state = |shift: u32| RunState::ALL.get(index(states >> shift & 0xFF)).copied();
    Some((TaskKind::from_number(states & 0xFF)?, state(8)?, state(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(exec: u64) -> Change {
        Change {
            rank: Rank(3),
            context: ContextId {
                index: 1,
                generation: 7,
            },
            kind: TaskKind::Barrier,
            exec: ExecId(exec),
            slot: 12,
            from: RunState::Idle,
            to: RunState::Done,
            status: Status(-7),
        }
    }

    #[test]
    fn the_last_records_come_back_whole_and_in_order() {
        let recorder = Recorder::<4>::new();
        assert_eq!(recorder.iter().count(), 0);
        for exec in 0..10 {
            recorder.record(exec * 100, exec << 33, &change(exec));
        }
        let records: std::vec::Vec<Record> = recorder.iter().collect();
        let numbers: std::vec::Vec<u32> = records.iter().map(|record| record.number).collect();
        assert_eq!(numbers, [6, 7, 8, 9]);
        for record in records {
            assert_eq!(record.time, u64::from(record.number) * 100);
            assert_eq!(record.tick, u64::from(record.number) << 33);
            assert_eq!(record.change, change(record.number.into()));
        }
        assert_eq!(recorder.read(5), None, "overwritten");
        assert_eq!(recorder.read(10), None, "not written yet");
    }

    #[test]
    fn the_last_records_come_back_also_when_the_count_has_wrapped() {
        for written in [u32::MAX - 2, (1 << 31) - 2, (1 << 30) - 2] {
            let recorder = Recorder::<4>::new();
            // Relaxed: this thread is the only one.
            recorder.written.store(written, Ordering::Relaxed);
            assert_eq!(recorder.iter().count(), 0, "nothing was written yet");
            for exec in 0..6 {
                recorder.record(exec, 0, &change(exec));
                let execs: std::vec::Vec<u64> =
                    recorder.iter().map(|record| record.change.exec.0).collect();
                let expected: std::vec::Vec<u64> = (exec.saturating_sub(3)..=exec).collect();
                assert_eq!(execs, expected, "{written} + {exec}");
            }
            assert_eq!(recorder.written(), written.wrapping_add(6));
        }
    }
}
