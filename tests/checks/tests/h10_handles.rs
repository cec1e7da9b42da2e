//! H10: a consumer gives up what it holds the instant it reads that the task is done, while the worker may still be at its end.
//!
//! The handle that the requirement means is the object at which waiter and completer meet, which the waiter freed while the
//! completer was still inside. Here that is the task's slot, and the ticket stands for it: the poll that reads DONE frees the slot
//! by the same compare-and-swap, so every task here gives its handle up at that instant, while the producer fills freed slots anew all
//! the time. A context is memory of another kind, that its tasks
//! share: it goes with the last of every eight, so that the worker's accesses to it are raced as well. The sanitizers' verbs run
//! this, too: they would catch a worker that touches either after its last store.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use proxy_checks::script::{Script, sets};
use proxy_core::{ExecId, Gid, Poll, Status, Ticket};
use proxy_os::{Context, ProxyQueue, Settings};

/// Tasks where nobody asks for more: seconds, on a busy machine. The sanitizers' verbs ask for a million.
const ROUNDS: usize = 200_000;

/// Asks for another number of tasks, a multiple of [`EACH`].
const ROUNDS_WANTED: &str = "PROXY_H10_ROUNDS";

/// Tasks of one context. A context of each one's own would measure how contexts are made.
const EACH: usize = 8;

/// Contexts on their way to the consumer.
const AHEAD: usize = 4;

/// Far longer than any task here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is handed to the consumer: nobody else holds it.
type Handle = (Context, [Ticket; EACH]);

/// Polls every task and drops each handle with its last one; returns how many were done.
fn consume(handles: Receiver<Handle>) -> usize {
    let mut consumed = 0;
    for (context, tickets) in handles {
        let queue = context.queue().clone();
        let mut held = Some(context);
        for (place, ticket) in tickets.into_iter().enumerate() {
            let begin = Instant::now();
            let status = loop {
                match queue.poll(ticket).expect("not consumed yet") {
                    Poll::Done(status) => break status,
                    Poll::Pending(_) => thread::yield_now(),
                }
                assert!(begin.elapsed() < PATIENCE, "task {consumed} is not done");
            };
            if place + 1 == EACH {
                drop(held.take());
            }
            assert_eq!(status, Status::SUCCESS);
            consumed += 1;
        }
    }
    consumed
}

#[test]
fn h10_a_handle_is_dropped_the_instant_done_is_read() {
    let wanted = std::env::var(ROUNDS_WANTED);
    let rounds = wanted.map_or(ROUNDS, |text| text.parse().expect("a number of tasks"));
    let script = Script::open();
    let queue = ProxyQueue::start(Gid(10), &Settings::default()).expect("a queue");
    let (send, receive) = sync_channel(AHEAD);
    let since = Instant::now();
    thread::scope(|scope| {
        let consumer = scope.spawn(|| consume(receive));
        for first in (0..rounds).step_by(EACH) {
            let context = queue
                .context(script.context(0).block(1, sets(1, 1)))
                .expect("a place");
            let tickets = std::array::from_fn(|place| {
                let exec = ExecId((first + place) as u64);
                context.enqueue(exec).expect("room").network
            });
            send.send((context, tickets)).expect("the consumer waits");
        }
        drop(send);
        assert_eq!(consumer.join().expect("no panic"), rounds);
    });
    let done = rounds as u64;
    assert_eq!((script.count(0), script.count(2)), (done, done));
    println!("{rounds} tasks in {:?}", since.elapsed());
}
