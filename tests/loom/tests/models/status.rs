//! Status: the worker reports, two consumers poll. One of them gets the code, whole, and whoever gets it may let go of everything.
//!
//! Requirements: H10.

use proxy_core::{Driver, ExecId, Poll, PollError, Queue, Rank, RunState, Spec, Status};
use proxy_loom::host::{Call, Host, NoWords, Word};
use proxy_loom::rt::{self, Arc, AtomicU32, Ordering};

type Shared = Queue<1, 2, 1>;

/// What the task's memory holds after the library's last access, and after its owner let go of it.
const WRITTEN: u32 = 7;
const FREED: u32 = 0xDEAD;
/// The library's answer.
const CODE: Status = Status(4242);

fn body() {
    let queue = Arc::new(Shared::new());
    let memory = Arc::new(AtomicU32::new(0));
    let context = queue.register(&Spec::new(Rank(0))).unwrap();
    let appended = queue.enqueue(context, ExecId(1), &NoWords).unwrap();
    let ticket = appended.network.unwrap();
    let consumer = || {
        let (queue, memory) = (Arc::clone(&queue), Arc::clone(&memory));
        rt::spawn(move || {
            for _ in 0..2 {
                match queue.poll(ticket) {
                    Ok(Poll::Done(code)) => {
                        assert_eq!(code, CODE, "a torn pair of state and code");
                        let last = memory.swap(FREED, Ordering::Relaxed);
                        assert_eq!(last, WRITTEN, "the library's last access is over");
                        return true;
                    }
                    Ok(Poll::Pending(state)) => assert_eq!(state, RunState::Init),
                    Err(PollError::AlreadyConsumed) => return false,
                    Err(error) => panic!("{error}"),
                }
            }
            false
        })
    };
    let consumers = [consumer(), consumer()];
    let worker = rt::spawn(move || {
        let mut driver = Driver::<1, 2>::new();
        let library = |_: Call| {
            // Relaxed: published by the DONE that follows.
            let before = memory.swap(WRITTEN, Ordering::Relaxed);
            assert_ne!(before, FREED, "the library is called after DONE was seen");
            CODE
        };
        let mut host = Host::new(Word::new(0), library);
        let tick = driver.tick(&queue, &mut host);
        assert_eq!(tick.done, 1, "a failed start ends the task");
        let got = consumers.map(rt::join).into_iter().filter(|got| *got);
        let expected = match got.count() {
            0 => Ok(Poll::Done(CODE)),
            1 => Err(PollError::AlreadyConsumed),
            _ => panic!("two consumers got the code"),
        };
        assert_eq!(queue.poll(ticket), expected, "no end is lost");
    });
    rt::join(worker);
}

#[test]
fn h10_one_consumer_gets_the_whole_code_and_may_drop_at_once() {
    rt::model("status", 200, body);
}

/// The consumer uses the slot again the instant it has read DONE: the worker must not touch it any more.
fn reuse() {
    let queue = Arc::new(Shared::new());
    let context = queue.register(&Spec::new(Rank(0))).unwrap();
    let appended = queue.enqueue(context, ExecId(1), &NoWords).unwrap();
    let ticket = appended.network.unwrap();
    let other = queue.enqueue(context, ExecId(2), &NoWords).unwrap();
    let consumer = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || {
            if queue.poll(ticket) != Ok(Poll::Done(CODE)) {
                return;
            }
            let again = queue.enqueue(context, ExecId(3), &NoWords).unwrap();
            let again = again.network.unwrap();
            assert_eq!(again.slot(), ticket.slot());
            let state = queue.poll(again);
            assert_eq!(state, Ok(Poll::Pending(RunState::Init)));
        })
    };
    let worker = rt::spawn(move || {
        let mut host = Host::new(Word::new(0), |_| CODE);
        let _ = Driver::<1, 2>::new().tick(&queue, &mut host);
        rt::join(consumer);
        assert_eq!(queue.poll(other.network.unwrap()), Ok(Poll::Done(CODE)));
    });
    rt::join(worker);
}

#[test]
fn h10_done_is_the_workers_last_access_to_a_slot() {
    rt::model("status reuse", 5, reuse);
}

#[cfg(loom)]
#[test]
fn twins() {
    use proxy_core::Edge;
    rt::must_fail_without(Edge::StatusPublish, "status", body);
    rt::must_fail_without(Edge::StatusRead, "status", body);
}
