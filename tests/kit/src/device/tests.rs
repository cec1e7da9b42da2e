//! The device against a host and a library that do nothing, or the wrong thing.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::*;
use crate::dtype::Dtype;
use crate::op::Op;
use crate::plan::{Direction, PlanSpec, Semaphore, Step};

const SPEC: PlanSpec = PlanSpec {
    op: Op::AllReduce,
    dtype: Dtype::Uint8,
    ranks: 1,
    rank: 0,
    count: 16,
    streams: 2,
    blocks: 1,
    chunk_bytes: 1 << 10,
};

fn device() -> Device {
    Device::new(0, Topology::Ring, &[Connectors::default(); 2]).expect("a device")
}

/// One rank alone, whose program needs no library; and one of two, whose program needs it.
fn program(device: &Device, ranks: u32) -> Arc<Program> {
    let plan = Plan::new(&PlanSpec { ranks, ..SPEC }).expect("a plan");
    device.load(plan).expect("a program")
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn values(start: &StartWords) -> Vec<u32> {
    let words = (0..start.len()).filter_map(|stream| start.word(stream));
    words.map(|word| word.load(Ordering::Acquire)).collect()
}

/// Values of the start words after one execution with `fault`.
fn fired_with(fault: Fault, polarity: Polarity) -> Vec<u32> {
    let device = device();
    let start = StartWords::new(2, polarity);
    device.inject(fault);
    let execution = device
        .launch(9, &program(&device, 1), &start)
        .expect("a launch");
    assert_eq!(execution.wait(soon()), Ok(()));
    values(&start)
}

#[test]
fn alone_copies_and_fires() {
    let device = device();
    let program = program(&device, 1);
    let start = StartWords::new(2, Polarity::Header);
    let input: Vec<u8> = (0..16).collect();
    program.write_input(&input).expect("an input");
    let execution = device.launch(1, &program, &start).expect("a launch");
    assert_eq!(execution.wait(soon()), Ok(()));
    assert!(execution.is_done());
    assert_eq!(program.read_output(), Ok(input));
    assert_eq!(values(&start), [u32::MAX; 2]);
}

#[test]
fn never_fires() {
    assert_eq!(
        fired_with(Fault::NeverFires { stream: 1 }, Polarity::AsSpecified),
        [10, u32::MAX]
    );
    assert_eq!(
        fired_with(Fault::NeverFires { stream: 0 }, Polarity::Header),
        [0, u32::MAX]
    );
}

#[test]
fn fires_garbage() {
    let fault = Fault::Garbage {
        stream: 0,
        value: 0,
    };
    assert_eq!(fired_with(fault, Polarity::AsSpecified), [0, 10]);
}

#[test]
fn fault_lasts_for_one_execution() {
    let device = device();
    let (program, start) = (
        program(&device, 1),
        StartWords::new(2, Polarity::AsSpecified),
    );
    device.inject(Fault::NeverFires { stream: 0 });
    for exec_id in [1, 2] {
        let execution = device.launch(exec_id, &program, &start).expect("a launch");
        assert_eq!(execution.wait(soon()), Ok(()));
        assert_eq!(values(&start)[1], exec_id as u32 + 1);
        if exec_id == 1 {
            // As the host consumes it: what is fired is not fired again.
            let word = start.word(1).expect("stream 1");
            word.store(0, Ordering::Release);
        }
    }
    assert_eq!(values(&start), [3, 3]);
}

/// The word of the early one is fired when `launch` returns, even though the device is busy with another execution.
#[test]
fn fires_early() {
    let device = device();
    let busy = device
        .launch(1, &program(&device, 2), &StartWords::none())
        .expect("a launch");
    let start = StartWords::new(2, Polarity::AsSpecified);
    device.inject(Fault::FiresEarly { stream: 1 });
    let early = device
        .launch(2, &program(&device, 1), &start)
        .expect("a launch");
    assert_eq!(values(&start), [u32::MAX, 3]);
    assert!(!busy.is_done() && !early.is_done());
}

#[test]
fn fires_twice() {
    // The host consumes between the two: the first firing is awaited, the second follows the last step.
    let device = device();
    let program = program(&device, 2);
    let start = StartWords::new(2, Polarity::AsSpecified);
    device.inject(Fault::FiresTwice { stream: 0 });
    let execution = device.launch(4, &program, &start).expect("a launch");
    let word = start.word(0).expect("stream 0");
    let deadline = soon();
    while word
        .compare_exchange(5, 0, Ordering::Acquire, Ordering::Acquire)
        .is_err()
    {
        assert!(Instant::now() < deadline, "not fired");
        std::thread::yield_now();
    }
    serve_without_moving(&device, deadline);
    assert_eq!(execution.wait(deadline), Ok(()));
    assert_eq!(word.load(Ordering::Acquire), 5);
}

/// Plays the library of a ring of two for one block per stream with two entries each way, without moving bytes.
fn serve_without_moving(device: &Device, deadline: Instant) {
    for (stream, direction, semaphore, credits) in [
        (0, Direction::Receive, Semaphore::Receive, 1),
        (0, Direction::Send, Semaphore::Send, 128),
        (1, Direction::Receive, Semaphore::Receive, 1),
        (1, Direction::Send, Semaphore::Send, 128),
    ] {
        let index = device.words.index(stream, direction);
        while index
            .compare_exchange(u32::MAX, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            assert!(Instant::now() < deadline, "never ready");
            std::thread::yield_now();
        }
        let semaphore = device.words.semaphore(stream, semaphore);
        semaphore.fetch_add(credits, Ordering::Release);
        while index.load(Ordering::Acquire) != 2 {
            assert!(Instant::now() < deadline, "never posted");
            std::thread::yield_now();
        }
        index.store(0, Ordering::Release);
        semaphore.fetch_add(2, Ordering::Release);
    }
}

/// Waits until the device has marked all four index words ready.
fn until_ready(device: &Device) {
    let deadline = soon();
    let ready = |stream, direction| {
        device
            .words
            .index(stream, direction)
            .load(Ordering::Acquire)
            == u32::MAX
    };
    while !(0..2).all(|stream| {
        Direction::BOTH
            .iter()
            .all(|direction| ready(stream, *direction))
    }) {
        assert!(Instant::now() < deadline, "never ready");
        std::thread::yield_now();
    }
}

#[test]
fn timeout_says_where() {
    let device = device();
    let program = program(&device, 2);
    let first = device
        .launch(1, &program, &StartWords::none())
        .expect("a launch");
    let second = device
        .launch(2, &program, &StartWords::none())
        .expect("a launch");
    until_ready(&device);
    // The positions are published after the words: wait for the message, not for a time.
    let deadline = soon();
    let stuck = loop {
        match first.wait(Instant::now()) {
            Err(DeviceError::Timeout { exec_id: 1, stuck })
                if stuck.iter().all(|s| s.index == 1) && stuck.len() == 4 =>
            {
                break stuck;
            }
            other => assert!(Instant::now() < deadline, "{other:?}"),
        }
    };
    let wait = Step::Wait {
        semaphore: Semaphore::Send,
        total: 128,
    };
    let (stream, lane) = (1, Direction::Send);
    assert_eq!(
        stuck[3],
        Stuck {
            stream,
            block: 0,
            lane,
            index: 1,
            step: wait,
            raised: 0
        }
    );
    assert_eq!(
        stuck[3].to_string(),
        "stream 1 block 0 Send lane step 1: Send semaphore was raised by 0, awaited 128"
    );
    assert_eq!(
        second.wait(Instant::now()),
        Err(DeviceError::Timeout {
            exec_id: 2,
            stuck: Vec::new()
        })
    );
}

#[test]
fn abort_ends_all_and_keeps_the_buffers_lent() {
    let device = device();
    let program = program(&device, 2);
    let executions = [1, 2].map(|id| {
        device
            .launch(id, &program, &StartWords::none())
            .expect("a launch")
    });
    device.abort();
    for execution in &executions {
        assert_eq!(execution.wait(soon()), Err(DeviceError::Aborted));
    }
    let again = device.launch(3, &program, &StartWords::none());
    assert_eq!(again.err(), Some(DeviceError::Aborted));
    assert_eq!(
        program.read_output(),
        Err(DeviceError::InFlight { executions: 2 })
    );
    assert_eq!(
        program.write_input(&[0; 16]),
        Err(DeviceError::InFlight { executions: 2 })
    );
}

#[test]
fn drop_ends_what_runs() {
    let device = device();
    let execution = device
        .launch(1, &program(&device, 2), &StartWords::none())
        .expect("a launch");
    drop(device);
    assert_eq!(execution.wait(soon()), Err(DeviceError::Aborted));
}

#[test]
fn dirty_index_word_is_an_error() {
    let device = device();
    device
        .words
        .index(1, Direction::Send)
        .store(7, Ordering::Release);
    let execution = device
        .launch(1, &program(&device, 2), &StartWords::none())
        .expect("a launch");
    let error = execution.wait(soon()).expect_err("an error");
    let direction = Direction::Send;
    assert_eq!(
        error,
        DeviceError::IndexWord {
            stream: 1,
            block: 0,
            direction,
            found: 7
        }
    );
}

#[test]
fn raise_beyond_the_plan_is_an_error() {
    let device = device();
    device
        .words
        .semaphore(0, Semaphore::Send)
        .fetch_add(1, Ordering::Release);
    let execution = device
        .launch(1, &program(&device, 1), &StartWords::none())
        .expect("a launch");
    let (semaphore, raised, awaited) = (Semaphore::Send, 1, 0);
    let error = DeviceError::Overrun {
        stream: 0,
        semaphore,
        raised,
        awaited,
    };
    assert_eq!(execution.wait(soon()), Err(error));
}

#[test]
fn wrong_uses_are_named() {
    let (device, other) = (device(), device());
    let none = Device::new(0, Topology::Ring, &[]).err();
    assert_eq!(
        none,
        Some(DeviceError::Streams {
            found: 0,
            accepted: 4
        })
    );
    let load = |spec: PlanSpec| device.load(Plan::new(&spec).expect("a plan")).err();
    let wide = load(PlanSpec { streams: 3, ..SPEC });
    assert_eq!(
        wide,
        Some(DeviceError::Streams {
            found: 3,
            accepted: 2
        })
    );
    let mesh = load(PlanSpec {
        op: Op::Permute,
        ..SPEC
    });
    let (found, accepted) = (Topology::Mesh, Topology::Ring);
    assert_eq!(mesh, Some(DeviceError::Topology { found, accepted }));
    let foreign = other
        .launch(1, &program(&device, 1), &StartWords::none())
        .err();
    assert_eq!(foreign, Some(DeviceError::ForeignProgram));
    let short = program(&device, 1).write_input(&[0; 15]);
    assert_eq!(
        short,
        Err(DeviceError::InputLength {
            found: 15,
            accepted: 16
        })
    );
}

/// The thread bears the rank's name; without a launch it sleeps on the bell.
#[test]
fn idle_thread_sleeps() {
    let device = Device::new(77, Topology::Ring, &[Connectors::default()]).expect("a device");
    let sleeps = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("the threads of this process");
        let mut stats = tasks
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        stats.any(|stat| stat.contains("(device-77) S"))
    };
    let deadline = soon();
    while !sleeps() {
        assert!(Instant::now() < deadline, "no thread device-77 sleeps");
        std::thread::yield_now();
    }
    drop(device);
}
