//! What holds by construction: nobody waits for a stopped producer, no lock spins for ever, no atomic is wider than a pointer.
//!
//! Requirements: H78, H79, H80.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use proxy_core::group::{Acquire, GroupError, Registry};
use proxy_core::port::DeviceWords;
use proxy_core::{
    ContextId, Driver, ExecId, Gid, Poll, Queue, Rank, Spec, Status, Stream, TaskKind,
};

use crate::desk::{Desk, ENDS};

/// Words whose reader is frozen inside the load until it is let go: a producer stopped in the middle of its append, after
/// it has claimed its slot and before it publishes.
struct Freezer {
    entered: Sender<()>,
    leave: Mutex<Receiver<()>>,
}

impl DeviceWords for Freezer {
    fn load(&self, _: ContextId, _: TaskKind, _: Stream) -> u32 {
        self.entered.send(()).unwrap();
        self.leave.lock().unwrap().recv().unwrap();
        0
    }

    fn compare_exchange(&self, _: ContextId, _: TaskKind, _: Stream, _: u32, _: u32) -> bool {
        true
    }
}

#[test]
fn h78_a_producer_frozen_in_mid_append_delays_nobody() {
    let queue = Arc::new(Queue::<1, 4, 2>::new());
    let gated = Spec {
        device_wait: true,
        ..Spec::new(Rank(0))
    };
    let gated = queue.register(&gated).unwrap();
    let plain = queue.register(&Spec::new(Rank(0))).unwrap();
    let (entered, has_entered) = channel();
    let (let_go, leave) = channel();
    let freezer = Freezer {
        entered,
        leave: Mutex::new(leave),
    };
    let frozen = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.enqueue(gated, ExecId(1), &freezer))
    };
    has_entered.recv().unwrap();
    let mut desk = Desk::new(|_| ENDS);
    let mut worker = Driver::<1, 4>::new();
    for exec in 10..110 {
        // The frozen append holds one place of four; the other three are as good as ever.
        for place in 0..3 {
            let appended = queue.enqueue(plain, ExecId(exec + place), &desk);
            assert!(appended.is_ok(), "another producer is refused");
        }
        while worker.tick(&queue, &mut desk).stepped > 0 {}
        for _ in 0..3 {
            let end = queue.check(plain, TaskKind::Network);
            assert_eq!(end, Ok(Poll::Done(Status::SUCCESS)));
        }
    }
    assert!(!frozen.is_finished());
    let_go.send(()).unwrap();
    assert!(frozen.join().unwrap().is_ok());
    assert_eq!(worker.tick(&queue, &mut desk).drained, 1);
}

/// A holder that never leaves: the other thread is told so instead of spinning on it.
#[test]
fn h79_a_registry_that_is_held_for_ever_is_contended_and_not_waited_for() {
    let registry = Arc::new(Registry::<1>::new());
    let (inside, is_inside) = channel();
    let (leave, may_leave) = channel::<()>();
    let holder = {
        let registry = Arc::clone(&registry);
        thread::spawn(move || {
            registry.with(|groups| {
                inside.send(()).unwrap();
                may_leave.recv().unwrap();
                groups.acquire(Gid(1))
            })
        })
    };
    is_inside.recv().unwrap();
    let answer = registry.with(|groups| groups.acquire(Gid(1)));
    assert_eq!(answer, Err(GroupError::Contended));
    leave.send(()).unwrap();
    assert_eq!(holder.join().unwrap(), Ok(Acquire::Create));
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Targets of 32 bits have no 64-bit atomics, so the core must not name any.
#[test]
fn h80_the_core_has_no_64_bit_atomic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proxy-core/src");
    let sources = sources(&folder);
    assert!(sources.len() > 15, "the sources are where they should be");
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        for name in ["AtomicU64", "AtomicI64", "AtomicU128", "AtomicI128"] {
            assert!(!text.contains(name), "{name} in {}", path.display());
        }
    }
}
