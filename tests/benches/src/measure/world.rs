//! A queue with its worker on CPU 1, and contexts on the library of the benches.
#![allow(unsafe_code, reason = "communicators are promises to the driver")]

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proxy_core::fifo::{EXEC_COMPLETE, NetDestAddr, NetOpsInfo, NetSrcAddr};
use proxy_core::{ExecId, Gid, Poll, Rank, Status, Ticket};
use proxy_os::affinity::Placement;
use proxy_os::nccom::{self, Comm, ProxyComm};
use proxy_os::queue::{Context, Execution};
use proxy_os::{ContextBuilder, Fifo, ProxyQueue, Release, Settings};

use proxy_benches::{clock, tools};

/// What a communicator's progress call does: see `cc/library.c`.
#[derive(Debug)]
pub(super) struct What(AtomicU64);

/// Never done.
pub(super) const IDLE: u64 = 0;
/// Done at once.
pub(super) const DONE: u64 = 1;

impl What {
    /// One that lives as long as the process, as a worker may use it to the end.
    pub(super) fn new(what: u64) -> &'static Self {
        Box::leak(Box::new(Self(AtomicU64::new(what))))
    }

    /// Busy for a microsecond in each call.
    pub(super) fn microsecond() -> &'static Self {
        Self::new((1000.0 / clock::ns(1)) as u64)
    }

    /// Changes it.
    pub(super) fn set(&self, what: u64) {
        // Relaxed: the library reads it some time.
        self.0.store(what, Ordering::Relaxed);
    }
}

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
        let path = tools::library().expect("a C compiler");
        let library = nccom::shared(path.as_os_str()).expect("the library loads");
        let address: *const What = what;
        let comm = Comm::new(address.cast_mut().cast::<c_void>()).expect("not null");
        // SAFETY: the communicator lives as long as the process, is used from this queue only, and its library follows no address.
        let comm = unsafe { ProxyComm::new(library, comm, 1 << 16) };
        let builder = ContextBuilder::new(comm, Rank(rank)).block(1, vec![fifo()]);
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

    /// Polls until it is done.
    pub(super) fn wait(&self, ticket: Ticket) {
        loop {
            match self.queue.poll(ticket).expect("a live ticket") {
                Poll::Done(status) => {
                    assert_eq!(status, Status::SUCCESS);
                    return;
                }
                Poll::Pending(_) => {}
            }
        }
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

fn fifo() -> Fifo {
    Fifo {
        ops: vec![NetOpsInfo {
            net_idx_loop_size: 512,
            initial_send_credits: 1,
            ending_recv_credits: 1,
            data_type_sz: 4,
            basic_block_id: 1,
            enc_channel: 8,
            ..NetOpsInfo::default()
        }],
        src: vec![NetSrcAddr {
            mark: EXEC_COMPLETE,
            ..NetSrcAddr::default()
        }],
        dest: vec![NetDestAddr {
            mark: EXEC_COMPLETE,
            ..NetDestAddr::default()
        }],
    }
}
