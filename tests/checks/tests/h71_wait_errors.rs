//! H71, H20: what the error of every wait of the bus says: phase, own rank, world size, who is missing, dead and gone, time and knob.
//!
//! The wait of the leaders of several machines is in `h20_leaders`.

use std::time::Duration;

use proxy_checks::bus::{self, AMPLE, Role};
use proxy_checks::os;
use proxy_core::phone::barrier::{RankSet, Verdict};
use proxy_os::bananaphone::{
    Bus, BusError, JoinError, LastTry, Late, Phase, WaitError, Why, Within,
};

/// How long the waits may take that nobody ends, and what sets it.
const SHORT: Within = Within::new(Duration::from_millis(60), "KNOB");

fn set(ranks: &[u16]) -> RankSet {
    ranks.iter().copied().collect()
}

fn of_bus<T: std::fmt::Debug>(result: Result<T, BusError>) -> WaitError {
    match result {
        Err(BusError::Wait(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn of_join<T: std::fmt::Debug>(result: Result<T, JoinError>) -> WaitError {
    match result {
        Err(JoinError::Wait(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn late<T: std::fmt::Debug>(result: Result<T, JoinError>) -> Late {
    match result {
        Err(JoinError::Late(late)) => *late,
        other => panic!("{other:?}"),
    }
}

/// One row: what a wait's error must say. The rank is 0 and the deadline is [`SHORT`].
struct Row<'a> {
    error: WaitError,
    phase: Phase,
    world: u16,
    why: Why,
    missing: &'a [u16],
    dead: &'a [u16],
    text: &'a str,
}

impl Row<'_> {
    fn check(&self) {
        let (error, text) = (&self.error, self.error.to_string());
        assert_eq!(error.phase, self.phase, "{text}");
        assert_eq!(error.why, self.why, "{text}");
        assert_eq!((error.rank, error.world), (0, self.world), "{text}");
        assert_eq!(error.missing, set(self.missing), "{text}");
        assert_eq!(
            (error.dead, error.left),
            (set(self.dead), set(&[])),
            "{text}"
        );
        assert_eq!(error.within, SHORT, "{text}");
        assert!(
            error.elapsed < SHORT.time + Duration::from_secs(5),
            "{text}"
        );
        if matches!(self.why, Why::Deadline | Why::Verdict(Verdict::TimedOut(_))) {
            assert!(error.elapsed >= SHORT.time, "{text}");
        }
        let begin = format!("rank 0 of {}: {}", self.world, self.text);
        assert!(text.starts_with(&begin), "{text}");
        for part in [
            "(deadline 0.060 s, set by KNOB)".to_owned(),
            format!(
                "missing {}, dead {}, left {{}}",
                set(self.missing),
                set(self.dead)
            ),
        ] {
            assert!(text.contains(&part), "{text}");
        }
    }
}

/// Waits of rank 0 while rank 1 is there and silent, and rank 2 is `dead` or silent, too.
fn waits(bus: &mut Bus, slot: u16, dead: bool) {
    let gone: &[u16] = if dead { &[2] } else { &[] };
    let ends = |why| if dead { Why::PeerDead(2) } else { why };
    let row = |error, phase, why, missing, text| Row {
        error,
        phase,
        world: 3,
        why,
        missing,
        dead: gone,
        text,
    };
    let late = Why::Deadline;
    let recv = of_bus(bus.recv(1, None, SHORT));
    row(recv, Phase::Receive, late, &[1], "receive: timed out after").check();
    let all = of_bus(bus.all_gather(b"mine", SHORT));
    let text = if dead {
        "all-gather: rank 2 is dead after"
    } else {
        "all-gather: timed out after"
    };
    row(all, Phase::AllGather, ends(late), &[1, 2], text).check();
    let mut barrier = bus.barrier(slot, RankSet::below(3)).unwrap();
    let error = of_bus(barrier.wait(1, SHORT));
    let verdict = if dead {
        Verdict::Gone(2)
    } else {
        Verdict::TimedOut(0)
    };
    let phase = Phase::Barrier {
        slot,
        generation: 1,
    };
    let text = format!("barrier {slot} #1: {verdict} after");
    row(error, phase, Why::Verdict(verdict), &[1, 2], &text).check();
    // Sends go on until the ring is full of what rank 1 does not take.
    let long = vec![0; 3 * bus.capacity()];
    let send = of_bus(bus.send(1, 1, &long, SHORT));
    row(send, Phase::Send, late, &[1], "send: timed out after").check();
    let all = of_bus(bus.broadcast(1, &long, SHORT));
    let (text, missing): (_, &[u16]) = if dead {
        ("send: rank 2 is dead after", &[2])
    } else {
        ("send: timed out after", &[1])
    };
    row(all, Phase::Send, ends(late), missing, text).check();
}

/// A rank that is on the bus and does nothing until it is killed.
#[test]
fn child_that_is_silent() {
    let Some(role) = Role::of("child_that_is_silent") else {
        return;
    };
    let mut bus = role.connected();
    bus.send(0, 7, b"here", AMPLE).unwrap();
    // Its stdin ends with who started it.
    let _ = std::io::stdin().read_line(&mut String::new());
}

fn on_a_bus(dead: bool) {
    let job = bus::job();
    let mut peers = [1, 2].map(|rank| Role::new(&job, rank, 3, "").start("child_that_is_silent"));
    let mut bus = bus::connected(&job, 0, 3);
    for rank in [1, 2] {
        bus.recv(rank, Some(7), AMPLE).unwrap();
    }
    if dead {
        peers[1].kill();
        let told = of_bus(bus.recv(2, None, AMPLE));
        assert_eq!((told.why, told.dead), (Why::PeerDead(2), set(&[2])));
    }
    waits(&mut bus, 0, dead);
}

#[test]
fn h71_every_wait_says_who_where_and_how_long_when_ranks_are_silent() {
    on_a_bus(false);
}

#[test]
fn h71_every_wait_says_who_where_and_how_long_when_a_rank_is_dead() {
    on_a_bus(true);
}

#[test]
fn h71_waits_for_a_bus_that_is_not_complete_say_so() {
    let job = bus::job();
    let mut options = bus::options(&job, 0, 3);
    options.deadline = SHORT;
    // Alone: there is a bus, and nobody else.
    let alone = Bus::create(&options).unwrap();
    Row {
        error: of_join(alone.connect(SHORT)),
        phase: Phase::Connect,
        world: 3,
        why: Why::Deadline,
        missing: &[1, 2],
        dead: &[],
        text: "connect: timed out after",
    }
    .check();
    drop(alone);
    // A hub that is stopped answers nobody, and its rank is not known.
    let job = bus::job();
    let hub = Role::new(&job, 1, 3, "").start("child_that_is_silent");
    while !std::fs::read_to_string("/proc/net/unix")
        .unwrap()
        .contains(&format!("@bananaphone/{job}"))
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    os::signal(hub.id(), libc::SIGSTOP);
    while !os::is_stopped(hub.id()) {
        std::thread::yield_now();
    }
    let mut options = bus::options(&job, 0, 3);
    options.deadline = SHORT;
    let late = late(Bus::create(&options));
    let text = late.to_string();
    assert!(
        text.ends_with("; 1 try, the last one: the rank that opened the bus has not answered"),
        "{text}"
    );
    assert_eq!((late.tries, late.last), (1, LastTry::Unanswered), "{text}");
    let error = late.wait;
    Row {
        error,
        phase: Phase::Join,
        world: 3,
        why: Why::Deadline,
        missing: &[],
        dead: &[],
        text: "join: timed out after",
    }
    .check();
}

/// Somebody has the bus's name and does not listen at it: the error says so, and how often it was tried.
#[test]
fn h71_a_join_that_timed_out_says_how_often_it_was_tried_and_what_came_of_it() {
    let job = bus::job();
    let _squatter = os::squatter(&job);
    let mut options = bus::options(&job, 0, 3);
    options.deadline = SHORT;
    let late = late(Bus::create(&options));
    let text = late.to_string();
    assert_eq!(late.last, LastTry::Unheard, "{text}");
    assert!(late.tries > 1, "{text}");
    let end = format!(
        "; {} tries, the last one: the rank that opened the bus does not listen",
        late.tries
    );
    assert!(text.ends_with(&end), "{text}");
}
