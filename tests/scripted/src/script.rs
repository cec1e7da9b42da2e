//! The script of one communicator: rules, counters, the record of calls, and the gate that `block` waits at.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::rule::{Answer, Call, Flags, Rule};

/// Calls kept per communicator; later ones are only counted, so a long run cannot eat the memory of its host.
pub const MAX_RECORDS: usize = 65536;

/// One recorded call, as the host reads it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CallRecord {
    /// Number of the call in the process, from 0, taken on entry: it orders calls across communicators.
    pub seq: u64,
    /// 0 start, 1 progress, 2 stop.
    pub call: u32,
    /// Stream argument.
    pub stream: u32,
    /// Basic block argument; 0 for stop, which has none.
    pub block: u32,
    /// Status returned.
    pub ret: i32,
    /// Length of the op array; 0 unless start.
    pub n_ops: i32,
    /// Length of the source array; 0 unless start.
    pub n_src: i32,
    /// Length of the destination array; 0 unless start.
    pub n_dst: i32,
    /// Kernel id of the calling thread.
    pub tid: u32,
    /// The caller's idle flag after the call; 0 unless progress.
    pub idle: u8,
    /// The caller's done flag after the call; 0 unless progress.
    pub done: u8,
}

/// A call that has entered and not yet left.
#[derive(Debug, Clone, Copy)]
pub struct Entered {
    /// What the script answers.
    pub answer: Answer,
    /// Number of the call in the process.
    pub seq: u64,
}

#[derive(Debug)]
struct State {
    rules: Vec<Rule>,
    counts: [u64; Call::COUNT],
    records: Vec<CallRecord>,
    recorded: u64,
}

/// The object behind a communicator handle of this library. All methods may be called from any thread.
#[derive(Debug)]
pub struct Script {
    state: Mutex<State>,
    released: Mutex<bool>,
    gate: Condvar,
}

/// Orders calls across communicators; a plain counter, nothing is published through it.
static NEXT_SEQ: AtomicU64 = AtomicU64::new(0);

impl Default for Script {
    fn default() -> Self {
        Self::new()
    }
}

impl Script {
    /// A script without rules: every call succeeds and progress finishes its block. Reserves the whole record, so
    /// that no call allocates.
    #[must_use]
    pub fn new() -> Self {
        let state = State {
            rules: Vec::new(),
            counts: [0; Call::COUNT],
            records: Vec::with_capacity(MAX_RECORDS),
            recorded: 0,
        };
        Self {
            state: Mutex::new(state),
            released: Mutex::new(false),
            gate: Condvar::new(),
        }
    }

    /// Adds a rule. Of the rules that match a call the one added last decides the whole answer.
    pub fn add_rule(&self, rule: Rule) {
        self.state().rules.push(rule);
    }

    /// Counts a call and looks up its answer. Does not allocate.
    pub fn enter(&self, call: Call, stream: u32, block: u32) -> Entered {
        // Relaxed: a counter, paired with nothing.
        let seq = NEXT_SEQ.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        state.counts[call.index()] += 1;
        let nth = state.counts[call.index()];
        let answer = state
            .rules
            .iter()
            .rev()
            .find_map(|rule| rule.answer_to(call, nth, stream, block));
        Entered {
            answer: answer.unwrap_or_default(),
            seq,
        }
    }

    /// Does what the answer asks for before the call may return: waits at the gate, sleeps, burns time, in that order.
    pub fn delay(&self, answer: &Answer) {
        if answer.block {
            let released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.gate.wait_while(released, |released| !*released));
        }
        if answer.sleep_us > 0 {
            std::thread::sleep(Duration::from_micros(answer.sleep_us));
        }
        if answer.spin_us > 0 {
            let end = Instant::now() + Duration::from_micros(answer.spin_us);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
        }
    }

    /// Records a call as it leaves. Does not allocate: past [`MAX_RECORDS`] it only counts.
    pub fn leave(&self, record: CallRecord) {
        let mut state = self.state();
        state.recorded += 1;
        if state.records.len() < MAX_RECORDS {
            state.records.push(record);
        }
    }

    /// Lets blocked and all later `block` calls go on.
    pub fn release(&self) {
        *self.released.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.gate.notify_all();
    }

    /// Copies the first recorded calls into `out` and returns how many calls have left in all. Records stand in the
    /// order in which calls left; [`CallRecord::seq`] gives the order in which they entered.
    pub fn copy_records(&self, out: &mut [CallRecord]) -> u64 {
        let state = self.state();
        let copied = out.len().min(state.records.len());
        out[..copied].copy_from_slice(&state.records[..copied]);
        state.recorded
    }

    /// Calls of one kind that have entered.
    pub fn count(&self, call: Call) -> u64 {
        self.state().counts[call.index()]
    }

    /// Forgets recorded calls and restarts counting; rules and the gate stay.
    pub fn clear(&self) {
        let mut state = self.state();
        state.records.clear();
        state.recorded = 0;
        state.counts = [0; Call::COUNT];
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// ANDs an answer into the caller's flags, unless it keeps them.
pub fn apply_flags(flags: Flags, idle: &mut bool, done: &mut bool) {
    if let Flags::And { idle: i, done: d } = flags {
        *idle &= i;
        *done &= d;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_matching_rules_the_later_decides_the_whole_answer() {
        let script = Script::new();
        script.add_rule("progress * -> ret=5 idle=1".parse().unwrap());
        script.add_rule("progress 2 -> done=0".parse().unwrap());
        let first = script.enter(Call::Progress, 0, 0).answer;
        let second = script.enter(Call::Progress, 0, 0).answer;
        assert_eq!(
            (first.ret, first.flags),
            (
                5,
                Flags::And {
                    idle: true,
                    done: true
                }
            )
        );
        assert_eq!(
            (second.ret, second.flags),
            (
                0,
                Flags::And {
                    idle: false,
                    done: false
                }
            )
        );
    }

    #[test]
    fn calls_are_counted_per_kind_and_clear_restarts_the_count() {
        let script = Script::new();
        script.add_rule("start 1 -> ret=9".parse().unwrap());
        script.enter(Call::Progress, 0, 0);
        assert_eq!(script.enter(Call::Start, 0, 0).answer.ret, 9);
        assert_eq!(script.enter(Call::Start, 0, 0).answer.ret, 0);
        assert_eq!(
            (script.count(Call::Start), script.count(Call::Progress)),
            (2, 1)
        );
        script.leave(CallRecord::default());
        script.clear();
        assert_eq!(script.count(Call::Start), 0);
        assert_eq!(script.copy_records(&mut []), 0);
        assert_eq!(script.enter(Call::Start, 0, 0).answer.ret, 9);
    }

    #[test]
    fn the_record_is_bounded_and_keeps_the_first_calls() {
        let script = Script::new();
        let room = script.state().records.capacity();
        for stream in 0..MAX_RECORDS as u32 + 10 {
            script.leave(CallRecord {
                stream,
                ..CallRecord::default()
            });
        }
        let mut out = vec![CallRecord::default(); MAX_RECORDS + 1];
        assert_eq!(script.copy_records(&mut out), MAX_RECORDS as u64 + 10);
        assert_eq!(out[MAX_RECORDS - 1].stream, MAX_RECORDS as u32 - 1);
        assert_eq!(
            script.state().records.capacity(),
            room,
            "the buffer never grows"
        );
    }

    #[test]
    fn a_blocked_call_goes_on_when_released_and_later_ones_do_not_wait() {
        let script = Script::new();
        script.add_rule("progress * -> block".parse().unwrap());
        std::thread::scope(|scope| {
            let caller = scope.spawn(|| {
                let entered = script.enter(Call::Progress, 0, 0);
                script.delay(&entered.answer);
            });
            while script.count(Call::Progress) == 0 {
                std::thread::yield_now();
            }
            assert!(!caller.is_finished());
            script.release();
            caller.join().unwrap();
            let later = script.enter(Call::Progress, 0, 0);
            script.delay(&later.answer);
        });
    }

    #[test]
    fn flags_are_anded_or_kept() {
        let run = |flags, mut idle, mut done| {
            apply_flags(flags, &mut idle, &mut done);
            (idle, done)
        };
        assert_eq!(
            run(
                Flags::And {
                    idle: true,
                    done: true
                },
                true,
                false
            ),
            (true, false)
        );
        assert_eq!(
            run(
                Flags::And {
                    idle: false,
                    done: true
                },
                true,
                true
            ),
            (false, true)
        );
        assert_eq!(run(Flags::Keep, true, false), (true, false));
    }
}
