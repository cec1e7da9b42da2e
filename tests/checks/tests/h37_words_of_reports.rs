//! Whoever has retired a context may unmap its start words and destroy its communicator: no report that is being made in that moment reads the words or
//! keeps the communicator, nor does the list of words that have not fired.
//!
//! Requirements: H37.
#![allow(unsafe_code, reason = "words of the device are named by address")]

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proxy_checks::pace::until;
use proxy_checks::script::{Script, sets, word};
use proxy_core::port::BarrierPoll;
use proxy_core::trigger::CONSUMED;
use proxy_core::{ExecId, Gid, Polarity, Poll, RunState, Status, TaskKind, Ticket};
use proxy_os::context::Attendance;
use proxy_os::diagnosis::Report;
use proxy_os::log;
use proxy_os::{Context, ContextBuilder, DeviceWord, HostBarrier, Patience, ProxyQueue, Settings};

const PATIENCE: Duration = Duration::from_secs(20);
/// What stands where a start word has been.
const OTHERS: u32 = 0xBAD0_BAD0;

fn start(gid: u32) -> Arc<ProxyQueue> {
    ProxyQueue::start(Gid(gid), &Settings::default()).expect("a worker")
}

/// A context whose network task waits for the word. With the other polarity, so that [`OTHERS`] would pass for one that has not fired.
fn waiting(script: &Script, word: &'static AtomicU32) -> ContextBuilder {
    // SAFETY: the word is never freed.
    let word = unsafe { DeviceWord::new(word.as_ptr()) };
    let builder = script.context(1).block(1, sets(1, 1));
    builder.polarity(Polarity::Header).device_wait(vec![word])
}

fn until_it_is(queue: &ProxyQueue, ticket: Ticket, state: RunState) {
    until("the task is in its state", || {
        queue.poll(ticket) == Ok(Poll::Pending(state))
    });
}

/// Ends the task, retires its context, and uses the word for something else, as its owner may from here on.
fn take_back(context: &Context, ticket: Ticket, word: &AtomicU32) {
    let queue = context.queue();
    assert_eq!(queue.abort(ticket, PATIENCE), Ok(()));
    let code = queue.consume(ticket, Patience::until(PATIENCE));
    assert_eq!(code, Ok(Status::ABORTED));
    assert_eq!(context.try_retire(), Ok(()));
    // Release: a reader that finds it finds it after the retire.
    word.store(OTHERS, Ordering::Release);
}

type Deed = Box<dyn FnOnce() + Send>;

/// A barrier that nobody else comes to. Something may be done when a report asks it who is there: in the middle of the report. Says when it is
/// freed, which its context is with it.
#[derive(Clone, Default)]
struct Alone {
    deed: Arc<Mutex<Option<Deed>>>,
    freed: Arc<AtomicBool>,
}

impl fmt::Debug for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alone")
    }
}

/// As a context has it.
#[derive(Debug)]
struct OfContext(Alone);

impl HostBarrier for OfContext {
    fn arrive(&self, _: ExecId) -> BarrierPoll {
        BarrierPoll::Pending
    }

    fn signal(&self, _: ExecId) -> Status {
        Status::SUCCESS
    }

    fn release(&self, _: ExecId) -> BarrierPoll {
        BarrierPoll::Pending
    }

    fn cancel(&self, _: ExecId) {}

    fn attendance(&self) -> Option<Attendance> {
        let deed = self.0.deed.lock().unwrap().take();
        deed?();
        None
    }
}

impl Drop for OfContext {
    fn drop(&mut self) {
        // Release pairs with the acquire of the test.
        self.0.freed.store(true, Ordering::Release);
    }
}

#[test]
fn h37_a_report_keeps_no_context_that_is_retired_while_it_is_made_and_reads_none_of_its_words() {
    let queue = start(37);
    let script = Script::open();
    let [asked, kept] = [Alone::default(), Alone::default()];
    // The first rank of the queue, so that its tasks come first in a report.
    let builder = script.context(0).block(1, sets(1, 1));
    let builder = builder.barrier(Box::new(OfContext(asked.clone())), Vec::new());
    let meets = queue.context(builder).unwrap();
    let barrier = meets.append(TaskKind::Barrier, ExecId(1)).unwrap();
    until_it_is(&queue, barrier, RunState::Idle);
    let word = word();
    let builder = waiting(&script, word).barrier(Box::new(OfContext(kept.clone())), Vec::new());
    let context = queue.context(builder).unwrap();
    let id = context.id().to_string();
    let ticket = context.append(TaskKind::Network, ExecId(2)).unwrap();
    until_it_is(&queue, ticket, RunState::WaitingDeviceTrigger);

    *asked.deed.lock().unwrap() = Some(Box::new(move || {
        take_back(&context, ticket, word);
        drop(context);
        // Acquire pairs with the barrier's release.
        until("it is freed", || kept.freed.load(Ordering::Acquire));
    }));
    let report = Report::collect("a test");
    assert!(asked.deed.lock().unwrap().is_none(), "it was asked");
    let group = report.groups.iter().find(|group| group.gid == 37).unwrap();
    let task = group.tasks.iter().find(|task| task.context == id).unwrap();
    let words = (&task.unfired[..], &task.fired[..]);
    assert_eq!(words, (&[][..], &[][..]), "{OTHERS:#x} is no word of it");
}

#[test]
fn h37_no_list_of_unfired_words_has_one_of_a_context_that_is_retired() {
    // Each task that is aborted is an error.
    log::set_sink(|_, _| ());
    let queue = start(38);
    let script = Script::open();
    let word = word();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut found = 0;
            // Acquire pairs with the release below.
            while !over.load(Ordering::Acquire) {
                let unfired = queue.unfired();
                found += unfired
                    .iter()
                    .filter(|unfired| unfired.word == OTHERS)
                    .count();
            }
            found
        });
        for exec in 0..2000 {
            // Relaxed: no context has the word.
            word.store(CONSUMED, Ordering::Relaxed);
            let context = queue.context(waiting(&script, word)).unwrap();
            let ticket = context.enqueue(ExecId(exec)).unwrap().network;
            until_it_is(&queue, ticket, RunState::WaitingDeviceTrigger);
            take_back(&context, ticket, word);
        }
        over.store(true, Ordering::Release);
        assert_eq!(reader.join().unwrap(), 0);
    });
}
