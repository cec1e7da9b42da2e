//! The worker's stopwatch: one per task that is active, read off at its state changes.

use proxy_core::port::Change;
use proxy_core::{RunState, TaskKind};

use super::{Chart, Latencies, Span};
use crate::memory::NoMemory;
use crate::queue::{RANKS, TASKS};
use crate::sys::zeroed::{self, Zeroed};

/// Times of one active task, in nanoseconds of the monotonic clock: of its append, or its drain where the producer read no clock; and of
/// its first step, and then its gate.
type Times = [u64; 2];

/// Times of all active tasks, by slot. The worker's own.
#[derive(Debug)]
pub(crate) struct Stopwatch(Zeroed<[Times; RANKS * TASKS]>);

impl Stopwatch {
    /// For every slot of a queue. Only the pages of slots that are used become resident.
    pub(crate) fn new() -> Result<Self, NoMemory> {
        zeroed::numbers("the worker's stopwatch").map(Self)
    }

    /// The times of a slot. First places of all ranks come first, as ranks fill theirs from the first on.
    fn of(&mut self, slot: u32) -> Option<&mut Times> {
        let slot = slot as usize;
        // No slot is beyond the last; the second remainder lets the compiler know, too.
        let (rank, place) = (slot / TASKS % RANKS, slot % TASKS);
        self.0.get_mut(place * RANKS + rank)
    }

    /// A task was drained; `appended` is the time of its append.
    pub(crate) fn drained(&mut self, slot: u32, appended: u64) {
        if let Some([time, _]) = self.of(slot) {
            *time = appended;
        }
    }

    /// A task changed its state at `now`.
    #[inline]
    pub(crate) fn changed(
        &mut self,
        change: &Change,
        now: u64,
        latencies: &Latencies,
        chart: Option<&Chart>,
    ) {
        let Some([appended, since]) = self.of(change.slot) else {
            return;
        };
        let failed = change.to == RunState::Done && !change.status.is_success();
        if failed {
            return;
        }
        match change.from {
            RunState::Init => {
                let waited = now.saturating_sub(*appended);
                latencies.count(change.kind, Span::Start, waited);
                *since = now;
            }
            RunState::WaitingDeviceTrigger => {
                let waited = now.saturating_sub(*since);
                latencies.count(change.kind, Span::Trigger, waited);
                *since = now;
            }
            RunState::Progressing | RunState::Idle | RunState::Done => {}
        }
        if change.to == RunState::Done {
            let ran = now.saturating_sub(*since);
            latencies.count(change.kind, Span::Run, ran);
            let total = now.saturating_sub(*appended);
            latencies.count(change.kind, Span::Total, total);
            if let Some(chart) = chart.filter(|_| change.kind == TaskKind::Network) {
                chart.count(change.context, ran);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proxy_core::{ContextId, ExecId, Rank, Status};

    use super::*;

    /// A change of slot 2.
    fn change(kind: TaskKind, from: RunState, to: RunState, status: Status) -> Change {
        Change {
            rank: Rank(0),
            context: ContextId::from_parts(0, 1),
            kind,
            exec: ExecId(1),
            slot: 2,
            from,
            to,
            status,
        }
    }

    /// Median of each span, `None` where nothing was counted.
    fn medians(latencies: &Latencies, kind: TaskKind) -> [Option<u64>; 4] {
        Span::ALL.map(|span| {
            let values = latencies.table(kind, span).read().unwrap();
            (!values.is_empty()).then(|| values.value_at_quantile(0.5))
        })
    }

    #[test]
    fn the_spans_of_a_life_are_told_apart() {
        use RunState::{Done, Idle, Init, Progressing, WaitingDeviceTrigger};
        let latencies = zeroed::latencies().unwrap();
        let mut watch = Stopwatch::new().unwrap();
        watch.drained(2, 10);
        let steps = [
            (Init, WaitingDeviceTrigger, 12),
            (WaitingDeviceTrigger, Progressing, 15),
            (Progressing, Idle, 20),
            (Idle, Progressing, 25),
            (Progressing, Done, 35),
        ];
        for (from, to, now) in steps {
            let change = change(TaskKind::Network, from, to, Status::SUCCESS);
            watch.changed(&change, now, &latencies, None);
        }
        let expected = [Some(2), Some(3), Some(20), Some(25)];
        assert_eq!(medians(&latencies, TaskKind::Network), expected);
        assert_eq!(medians(&latencies, TaskKind::Barrier), [None; 4]);
    }

    #[test]
    fn a_task_without_gate_has_no_trigger_wait_and_a_failed_one_ends_uncounted() {
        use RunState::{Done, Init, Progressing};
        let latencies = zeroed::latencies().unwrap();
        let mut watch = Stopwatch::new().unwrap();
        for (status, now) in [(Status::SUCCESS, 8), (Status::ABORTED, 30)] {
            watch.drained(2, 1);
            let first = change(TaskKind::Barrier, Init, Progressing, Status::SUCCESS);
            watch.changed(&first, 3, &latencies, None);
            let last = change(TaskKind::Barrier, Progressing, Done, status);
            watch.changed(&last, now, &latencies, None);
        }
        let expected = [Some(2), None, Some(5), Some(7)];
        assert_eq!(medians(&latencies, TaskKind::Barrier), expected);
        let run = latencies
            .table(TaskKind::Barrier, Span::Run)
            .read()
            .unwrap();
        assert_eq!(run.len(), 1, "the aborted one is not in it");
    }
}
