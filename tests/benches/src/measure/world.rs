//! A queue with its worker on CPU 1, and contexts on the library of the benches.

use std::sync::Arc;
use std::time::Duration;

use proxy_core::{ExecId, Gid, Status, Ticket};
use proxy_os::affinity::Placement;
use proxy_os::queue::{Context, Execution};
use proxy_os::{Patience, ProxyQueue, Release, Settings};

use proxy_benches::{clock, contexts};

pub(super) use proxy_benches::contexts::{DONE, IDLE, What};

/// A queue.
#[derive(Debug)]
pub(super) struct World {
    pub(super) queue: Arc<ProxyQueue>,
    idle: Vec<&'static What>,
}

impl World {
    /// With a worker that spins for `spin` before it sleeps; it has a core of its own.
    pub(super) fn new(spin: Duration) -> Self {
        let mask = Placement::Mask {
            list: [1].into_iter().collect(),
            strict: true,
        };
        let settings = Settings::builder()
            .one_thread_per_core(true)
            .spin_before_sleep(spin)
            .low_latency_cpus(mask);
        let settings = settings.from_lookup(|_| None).expect("good settings");
        let queue = ProxyQueue::start(Gid(0), &settings).expect("a worker");
        Self {
            queue,
            idle: Vec::new(),
        }
    }

    /// A context of a rank.
    pub(super) fn context(&self, rank: u32, what: &'static What) -> Context {
        let builder = contexts::builder(rank, what);
        self.queue.context(builder).expect("a context")
    }

    /// Appends so many tasks that are never done, over so many ranks from rank 0 on.
    pub(super) fn keep_active(&mut self, tasks: u32, ranks: u32, what: &'static What) {
        let contexts: Vec<Context> = (0..ranks).map(|rank| self.context(rank, what)).collect();
        for task in 0..tasks {
            let context = &contexts[(task % ranks) as usize];
            let _ = context.enqueue(ExecId(task.into())).expect("room");
        }
        self.idle.push(what);
        std::mem::forget(contexts);
        clock::spin(Duration::from_millis(2));
    }

    /// Waits until it is done, as consumers do.
    pub(super) fn wait(&self, ticket: Ticket) {
        let status = self.queue.consume(ticket, Patience::default());
        assert_eq!(status, Ok(Status::SUCCESS));
    }

    /// One execution from append to done.
    pub(super) fn run(&self, context: &Context, exec: u64) {
        let Execution { network, .. } = context.enqueue(ExecId(exec)).expect("room");
        self.wait(network);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.idle.iter().for_each(|what| what.set(DONE));
        let released = self.queue.release(Release::Abort, Duration::from_secs(10));
        released.expect("the worker ends");
    }
}
