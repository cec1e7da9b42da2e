//! Every state and event of the drawing, and what holds along every path.

use core::cell::Cell;
use std::string::String;
use std::vec::Vec;

use super::BarrierTask;
use crate::context::Spec;
use crate::id::Rank;
use crate::port::BarrierPoll::{Failed, Pending, Ready};
use crate::status::RunState::{Done, Idle, Init, Progressing, WaitingDeviceTrigger as Waiting};
use crate::status::{Status, TaskKind};
use crate::task::tests::{Fake, Row, gate, task};
use crate::task::{Step, Task};
use crate::trigger::Arms;

const BAD: Status = Status(77);

/// What may happen to a task in one tick. From `Fires` on the word has fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// Nothing fired, nobody else arrived.
    Quiet,
    /// The word has fired.
    Fires,
    /// All have arrived.
    Arrives,
    /// All have arrived, and this rank is released.
    Releases,
    /// The arrival fails.
    ArriveFails,
    /// The semaphores cannot be raised.
    SignalFails,
    /// The release fails.
    ReleaseFails,
    /// The owner gives up.
    Abort,
}
use Event::{Abort, ArriveFails, Arrives, Fires, Quiet, ReleaseFails, Releases, SignalFails};

const EVENTS: [Event; 8] = [
    Quiet,
    Fires,
    Arrives,
    Releases,
    ArriveFails,
    SignalFails,
    ReleaseFails,
    Abort,
];

struct Bench {
    machine: BarrierTask,
    task: Task,
    arms: Arms,
    pass: u32,
}

/// Where a task stands: run state and phase together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Init,
    Waiting,
    Arrive,
    Release,
    Done,
}

const PLACES: [Place; 5] = [
    Place::Init,
    Place::Waiting,
    Place::Arrive,
    Place::Release,
    Place::Done,
];

impl Bench {
    fn at(place: Place) -> Self {
        let spec = Spec {
            barrier: true,
            barrier_triggers: 1,
            ..Spec::new(Rank(0))
        };
        let mut bench = Self {
            machine: BarrierTask::new(),
            task: task(TaskKind::Barrier, spec),
            arms: Arms::new(),
            pass: 0,
        };
        let way = match place {
            Place::Init => None,
            Place::Waiting => Some(Quiet),
            Place::Arrive => Some(Fires),
            Place::Release => Some(Arrives),
            Place::Done => Some(Releases),
        };
        if let Some(event) = way {
            bench.run(event);
        }
        bench
    }

    fn run(&mut self, event: Event) -> (Step, String) {
        let mut ports = Fake {
            fired: event != Quiet,
            arrive: match event {
                Quiet | Fires | Abort => Pending,
                ArriveFails => Failed(BAD),
                _ => Ready,
            },
            signal: if event == SignalFails {
                BAD
            } else {
                Status::SUCCESS
            },
            release: match event {
                Releases => Ready,
                ReleaseFails => Failed(BAD),
                _ => Pending,
            },
            ..Fake::quiet()
        };
        self.pass = self.pass.wrapping_add(1);
        let (arms, pass) = (&self.arms, self.pass);
        let gate = || gate(arms, TaskKind::Barrier, pass);
        let before = self.machine.state();
        let disarmed = Cell::new(0_u32);
        let disarm = || disarmed.set(disarmed.get().wrapping_add(1));
        let step = if event == Abort {
            (self.machine).abort(&self.task, &disarm, Status::ABORTED, &mut ports)
        } else {
            self.machine.step(&self.task, &gate, &mut ports)
        };
        let gives_up = matches!(before, Init | Waiting) && event == Abort;
        assert_eq!(disarmed.get(), u32::from(gives_up), "{before:?} {event:?}");
        assert_eq!(
            self.machine.state(),
            step.to,
            "the machine is where it says"
        );
        (step, ports.take_record())
    }
}

/// Rows in the order of [`EVENTS`]; the comment names the edges.
fn row(place: Place) -> [Row; 8] {
    const OK: Status = Status::SUCCESS;
    let aborted = (Done, true, Status::ABORTED, "C"); // 9
    match place {
        Place::Init | Place::Waiting => [
            (Waiting, false, OK, ""),          // 1
            (Progressing, true, OK, "!A"),     // 2 3
            (Progressing, true, OK, "!A G R"), // 2 4 5
            (Done, true, OK, "!A G R"),        // 2 4 7
            (Done, true, BAD, "!A C"),         // 2 8
            (Done, true, BAD, "!A G C"),       // 2 4 8
            (Done, true, BAD, "!A G R C"),     // 2 4 8
            aborted,
        ],
        Place::Arrive => [
            (Idle, false, OK, "A"),           // 3
            (Idle, false, OK, "A"),           // 3
            (Progressing, true, OK, "A G R"), // 4 5
            (Done, true, OK, "A G R"),        // 4 7
            (Done, true, BAD, "A C"),         // 8
            (Done, true, BAD, "A G C"),       // 4 8
            (Done, true, BAD, "A G R C"),     // 4 8
            aborted,
        ],
        Place::Release => [
            (Idle, false, OK, "R"),   // 6
            (Idle, false, OK, "R"),   // 6
            (Idle, false, OK, "R"),   // 6
            (Done, true, OK, "R"),    // 7
            (Idle, false, OK, "R"),   // 6
            (Idle, false, OK, "R"),   // 6
            (Done, true, BAD, "R C"), // 8
            aborted,
        ],
        Place::Done => {
            let over = (Done, false, OK, "");
            [over, over, over, over, over, over, over, aborted]
        }
    }
}

#[test]
fn table_of_states_and_events() {
    for place in PLACES {
        for (event, expected) in EVENTS.into_iter().zip(row(place)) {
            if (place, event) == (Place::Done, Abort) {
                // The driver drops a done task, so nothing can abort it.
                continue;
            }
            let (step, record) = Bench::at(place).run(event);
            let found = (step.to, step.moved, step.status, record.as_str());
            assert_eq!(found, expected, "{event:?} at {place:?}");
        }
    }
}

/// All paths of five events: one signal at most, one arrival that succeeds, no call after DONE, and a cancel exactly where the task
/// ends without its release.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there, on one thread")]
fn invariants_hold_along_every_path() {
    for path in 0..8_usize.pow(5) {
        let events = (0..5).map(|at| EVENTS[path / 8_usize.pow(at) % 8]);
        let events: Vec<Event> = events.collect();
        let mut bench = Bench::at(Place::Init);
        let mut calls = String::new();
        for event in &events {
            if bench.machine.state() == Done && *event == Abort {
                break;
            }
            let over = bench.machine.state() == Done;
            let (step, record) = bench.run(*event);
            assert!(!over || record.is_empty(), "{events:?}: a call after DONE");
            calls.push_str(&record);
            if step.to == Done && !over {
                let cancelled = calls.contains('C');
                assert_eq!(cancelled, !step.status.is_success(), "{events:?}");
            }
        }
        assert!(calls.matches('G').count() <= 1, "{events:?}: {calls}");
        assert!(calls.matches('!').count() <= 1, "{events:?}: {calls}");
        let after_signal = calls.rsplit('G').next().unwrap_or("");
        assert!(
            !calls.contains('G') || !after_signal.contains('A'),
            "{events:?}"
        );
    }
}
