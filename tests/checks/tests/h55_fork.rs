//! A forked child has a copy of its parent's bus; what the child does with it must not harm the parent.
//!
//! Requirements: H55.
#![allow(unsafe_code, reason = "fork, waitpid and _exit are C calls")]

use std::time::Instant;

use proxy_checks::bus::{self, AMPLE};
use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::member::State;
use proxy_os::bananaphone::bootstrap::Link;
use proxy_os::bananaphone::leaders::{Leaders, Stopped};
use proxy_os::bananaphone::{Barrier, Bus};

/// A link that is never used, as there is one machine.
struct Nobody;

impl Link for Nobody {
    type Error = &'static str;

    fn send(&mut self, _: u32, _: &[u8]) -> Result<(), &'static str> {
        Err("nobody there")
    }

    fn recv(&mut self, _: u32, _: &mut [u8]) -> Result<(), &'static str> {
        Err("nobody there")
    }
}

/// Waits for a child to end well.
fn collect(child: libc::pid_t) {
    let start = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: the status is a valid local; the child is ours.
        let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if ended == child {
            break;
        }
        if start.elapsed() > AMPLE {
            // SAFETY: the child is ours and not collected.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child does not end");
        }
        std::thread::yield_now();
    }
    assert_eq!(status, 0, "the child's exit");
}

#[test]
fn h55_a_copied_bus_that_a_forked_child_drops_harms_nobody() {
    let job = bus::job();
    let (zero, one) = std::thread::scope(|scope| {
        let other = scope.spawn(|| bus::connected(&job, 1, 2));
        (bus::connected(&job, 0, 2), other.join().unwrap())
    });
    let leaders = Leaders::start(Nobody, &[0], 0, 1).unwrap();
    let barrier = |bus: &Bus| bus.barrier(0, RankSet::below(2)).unwrap();
    let barriers = [barrier(&zero), barrier(&one)];
    // SAFETY: the child frees what it has a copy of, which takes no lock that another thread of this process could hold, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop((barriers, leaders, zero, one));
        // SAFETY: ends the child without its parent's exit hooks.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0, "{}", std::io::Error::last_os_error());
    collect(child);
    let (mut zero, mut one) = (zero, one);
    // Members, hub, watcher, sockets, memory and the leaders' thread are as they were.
    let states = zero.members().unwrap();
    assert!(
        states.iter().all(|(state, _)| *state == State::Joined),
        "{states:?}"
    );
    zero.send(1, 5, b"still there", AMPLE).unwrap();
    assert_eq!(
        one.recv(0, Some(5), AMPLE).unwrap(),
        (5, b"still there".to_vec())
    );
    let [mut first, mut second]: [Barrier; 2] = barriers;
    std::thread::scope(|scope| {
        scope.spawn(|| second.wait(1, AMPLE).unwrap());
        first.wait(1, AMPLE).unwrap();
    });
    assert_eq!(leaders.stop(AMPLE), Stopped::Ended);
}
