//! Every state and event of the drawing, and what holds along every path.
//!
//! Requirements: H04.

use core::cell::Cell;
use std::format;
use std::string::String;
use std::vec::Vec;

use super::NetworkTask;
use crate::context::{Spec, StopAt};
use crate::id::{BlockIndex, Rank};
use crate::port::NextBlock;
use crate::status::RunState::{Done, Idle, Init, Progressing, WaitingDeviceTrigger as Waiting};
use crate::status::{RunState, Status, TaskKind};
use crate::task::tests::{Fake, Row, gate, task};
use crate::task::{Step, Task};
use crate::trigger::Arms;

const BAD: Status = Status(77);

/// What may happen to a task in one tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// Nothing fired, nothing moves.
    Quiet,
    /// The word has fired; the library moves.
    Moves,
    /// The word has fired; the library has drained the block, and says idle with it.
    Drains,
    /// The same, and no block follows.
    DrainsLast,
    /// The same, and a block follows that does not exist.
    DrainsThenBad,
    /// The third start fails, which is the first of stream 1.
    StartFails,
    /// The word has fired; the progress of stream 1 fails.
    ProgressFails,
    /// The context skips its network stage.
    Skips,
    /// The owner gives up.
    Abort,
}
use Event::{
    Abort, Drains, DrainsLast, DrainsThenBad, Moves, ProgressFails, Quiet, Skips, StartFails,
};

const EVENTS: [Event; 9] = [
    Quiet,
    Moves,
    Drains,
    DrainsLast,
    DrainsThenBad,
    StartFails,
    ProgressFails,
    Skips,
    Abort,
];

/// A task of two streams and two blocks, with its ports.
struct Bench {
    machine: NetworkTask,
    task: Task,
    arms: Arms,
    pass: u32,
}

impl Bench {
    fn new(device_wait: bool, stop_at: StopAt) -> Self {
        let spec = Spec {
            streams: 2,
            blocks: 2,
            device_wait,
            stop_at,
            ..Spec::new(Rank(0))
        };
        Self {
            machine: NetworkTask::new(),
            task: task(TaskKind::Network, spec),
            arms: Arms::new(),
            pass: 0,
        }
    }

    /// A task in `state`, by the shortest way.
    fn in_state(state: RunState) -> Self {
        let mut bench = Self::new(true, StopAt::End);
        let way: &[Event] = match state {
            Init => &[],
            Waiting => &[Quiet],
            Progressing => &[Quiet, Moves],
            Idle => &[Quiet, Moves, Quiet],
            Done => &[Quiet, Moves, DrainsLast],
        };
        for event in way {
            bench.run(*event);
        }
        assert_eq!(bench.machine.state(), state);
        bench
    }

    fn run(&mut self, event: Event) -> (Step, String) {
        let fired = matches!(
            event,
            Moves | Drains | DrainsLast | DrainsThenBad | ProgressFails
        );
        let drains = matches!(event, Drains | DrainsLast | DrainsThenBad);
        let mut ports = Fake {
            fired,
            idle: event != Moves,
            done: drains,
            next: match event {
                DrainsLast => Some(NextBlock::End),
                DrainsThenBad => Some(NextBlock::Block(BlockIndex(2))),
                _ => None,
            },
            third_start: if event == StartFails {
                BAD
            } else {
                Status::SUCCESS
            },
            second_progress: if event == ProgressFails {
                BAD
            } else {
                Status::SUCCESS
            },
            ..Fake::quiet()
        };
        self.task.spec.skip = event == Skips;
        self.pass = self.pass.wrapping_add(1);
        let (arms, pass) = (&self.arms, self.pass);
        let gate = || gate(arms, TaskKind::Network, pass);
        let before = self.machine.state();
        let disarmed = Cell::new(0_u32);
        let disarm = || disarmed.set(disarmed.get().wrapping_add(1));
        let step = if event == Abort {
            (self.machine).abort(&self.task, &disarm, Status::ABORTED, &mut ports)
        } else {
            let run = self.machine.run(&self.task, &mut ports);
            (self.machine).finish(run, &self.task, (&gate, &disarm), &mut ports)
        };
        if before != Done {
            let gives_up = matches!(before, Init | Waiting) && step.to == Done && event != Skips;
            assert_eq!(disarmed.get(), u32::from(gives_up), "{before:?} {event:?}");
        }
        assert_eq!(
            self.machine.state(),
            step.to,
            "the machine is where it says"
        );
        (step, ports.take_record())
    }
}

/// Rows in the order of [`EVENTS`]; the comment names the edge.
fn row(state: RunState) -> [Row; 9] {
    const OK: Status = Status::SUCCESS;
    const STARTS: &str = "S00 S01 S10 S11";
    const STOPS: &str = "P00 P10 X0 X1";
    match state {
        Init => {
            let begun = (Waiting, true, OK, STARTS); // 3
            let failed = (Done, true, BAD, "S00 S01 S10 X0"); // 2
            let skipped = (Done, true, OK, ""); // 1
            let aborted = (Done, true, Status::ABORTED, ""); // 11
            [
                begun, begun, begun, begun, begun, failed, begun, skipped, aborted,
            ]
        }
        Waiting => {
            let closed = (Waiting, false, OK, ""); // 4
            let open = (Progressing, true, OK, "!"); // 5
            let aborted = (Done, true, Status::ABORTED, "X0 X1"); // 11
            [
                closed, open, open, open, open, closed, open, closed, aborted,
            ]
        }
        Progressing | Idle => {
            let idle = (Idle, false, OK, "P00 P10"); // 8
            let moved = (Progressing, true, OK, "P00 P10"); // 7
            let ended = (Done, true, OK, STOPS); // 9
            let beyond = (Done, true, Status::INVALID, STOPS); // 9, with an error
            let failed = (Done, true, BAD, STOPS); // 10
            let aborted = (Done, true, Status::ABORTED, "X0 X1"); // 11
            [
                idle, moved, moved, ended, beyond, idle, failed, idle, aborted,
            ]
        }
        Done => {
            let over = (Done, false, OK, "");
            let aborted = (Done, true, Status::ABORTED, "");
            [over, over, over, over, over, over, over, over, aborted]
        }
    }
}

#[test]
fn table_of_states_and_events() {
    for state in RunState::ALL {
        for (event, expected) in EVENTS.into_iter().zip(row(state)) {
            let (step, record) = Bench::in_state(state).run(event);
            let found = (step.to, step.moved, step.status, record.as_str());
            assert_eq!(found, expected, "{event:?} in {state}");
        }
    }
}

#[test]
fn without_device_wait_init_goes_to_progressing() {
    let mut bench = Bench::new(false, StopAt::End);
    let (step, record) = bench.run(Quiet);
    assert_eq!(
        (step, record.as_str()),
        (Step::moved(Progressing), "S00 S01 S10 S11")
    ); // 6
}

#[test]
fn a_switch_is_followed_by_a_stop_where_the_context_asks_for_it() {
    for (stop_at, second, last) in [
        (StopAt::End, "P01 P11", "P01 P11 X0 X1"),
        (StopAt::Switch, "P01 P11 X0 X1", "P01 P11"),
    ] {
        let mut bench = Bench::new(false, stop_at);
        bench.run(Quiet);
        assert_eq!(
            bench.run(Drains).1,
            "P00 P10",
            "the switch itself stops nothing"
        );
        assert_eq!(bench.run(Moves).1, second, "{stop_at:?}");
        assert_eq!(bench.run(DrainsLast).1, last, "{stop_at:?}");
    }
}

#[test]
fn h04_the_first_error_is_kept_and_a_stops_own_is_not_lost() {
    for (event, expected) in [(DrainsLast, Status(5)), (ProgressFails, BAD)] {
        let mut bench = Bench::in_state(Progressing);
        let mut ports = Fake {
            done: event == DrainsLast,
            next: Some(NextBlock::End),
            second_progress: if event == ProgressFails {
                BAD
            } else {
                Status::SUCCESS
            },
            stop: Status(5),
            ..Fake::quiet()
        };
        let arms = &bench.arms;
        let gate = || gate(arms, TaskKind::Network, 99);
        let run = bench.machine.run(&bench.task, &mut ports);
        let step = (bench.machine).finish(run, &bench.task, (&gate, &|| {}), &mut ports);
        assert_eq!(step, Step::done(expected));
        assert_eq!(
            ports.take_record(),
            "P00 P10 X0 X1",
            "both streams are stopped"
        );
    }
}

/// A stream that has drained the block waits for the others without being progressed again.
#[test]
fn a_drained_stream_is_not_progressed_before_the_next_block() {
    let mut bench = Bench::in_state(Progressing);
    bench.machine.left = bench.machine.left.without(crate::id::Stream(0));
    assert_eq!(bench.run(Moves).1, "P10");
    assert_eq!(bench.run(Drains).1, "P10");
    assert_eq!(bench.run(Moves).1, "P01 P11", "the next block is for both");
}

#[test]
fn the_letter_stops_every_stream_at_every_switch() {
    let mut bench = Bench::new(false, StopAt::Switch);
    bench.run(Quiet);
    // The ports of this bench name the blocks 0 and 1 in turn, for as long as they drain.
    let ticks: [String; 4] = core::array::from_fn(|_| bench.run(Drains).1);
    assert_eq!(
        ticks,
        ["P00 P10", "P01 P11 X0 X1", "P00 P10 X0 X1", "P01 P11 X0 X1"]
    );
    assert_eq!(
        bench.run(DrainsLast).1,
        "P00 P10 X0 X1",
        "no stop is left to make"
    );
}

/// All paths of five events: nothing is called after DONE, nothing is progressed before the gate, every started stream is stopped
/// by the end, and with the default exactly once.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there, on one thread")]
fn invariants_hold_along_every_path() {
    for stop_at in [StopAt::End, StopAt::Switch] {
        for path in 0..9_usize.pow(5) {
            let events = (0..5).map(|at| EVENTS[path / 9_usize.pow(at) % 9]);
            let events: Vec<Event> = events.collect();
            check_path(&events, stop_at);
        }
    }
}

fn check_path(events: &[Event], stop_at: StopAt) {
    let mut bench = Bench::new(true, stop_at);
    let mut calls = String::new();
    for event in events {
        let before = bench.machine.state();
        let (step, record) = bench.run(*event);
        if before == Done {
            assert_eq!(record, "", "{events:?}: a call after DONE");
        }
        if matches!(before, Init | Waiting) {
            assert!(
                !record.contains('P'),
                "{events:?}: progress before the gate"
            );
        }
        calls = format!("{calls}{record} ");
        if step.to == Done && before != Done {
            for stream in ["0", "1"] {
                // The failed start is a start that needs no stop.
                let failed = step.status == BAD && before == Init && stream == "1";
                let started = calls.contains(&format!("S{stream}")) && !failed;
                let stops = calls.matches(&format!("X{stream}")).count();
                // The specification's letter stops at every switch, whatever was stopped before.
                let once = stops == usize::from(started);
                let often = stop_at == StopAt::Switch && started && stops > 1;
                assert!(once || often, "{events:?}: {calls}");
            }
        }
    }
}
