//! The global communicator's setup and free: every step that fails undoes those before it, and says which it was.
//!
//! One test, as it counts the threads and groups of its process.
//!
//! Requirements: H38.

use std::sync::Mutex;
use std::time::Duration;

use proxy_checks::bus::{self, AMPLE};
use proxy_checks::messages;
use proxy_core::phone::barrier::RankSet;
use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Status};
use proxy_os::affinity::Placement;
use proxy_os::bananaphone::Options;
use proxy_os::bananaphone::bootstrap::{BootstrapError, DIGEST, Link, UNIQUE_ID};
use proxy_os::bananaphone::leaders::Stopped;
use proxy_os::global_comm::{BarrierError, Exchange, GlobalComm, Setup, SetupError};
use proxy_os::sys::fault::{self, Call};
use proxy_os::{Group, HostBarrier, Release, Released, Settings};

/// A link to nobody.
#[derive(Debug)]
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

fn settings(seconds: &str) -> Settings {
    let lookup = |name: &str| (name == "NEURON_RT_PROXY_BUS_TIMEOUT").then(|| seconds.into());
    Settings::from_lookup(lookup).unwrap()
}

fn options(job: &str, rank: u16, world: u16, settings: &Settings) -> Options {
    Options {
        deadline: settings.bus_within(),
        ..Options::new(job, rank, world)
    }
}

const ID: [u8; UNIQUE_ID] = [42; UNIQUE_ID];

fn set_up(
    options: Options,
    settings: &Settings,
    digest: u8,
    id: Option<[u8; UNIQUE_ID]>,
) -> Result<GlobalComm, Box<SetupError>> {
    let device = options.rank.into();
    GlobalComm::setup(Setup {
        bus: options,
        device,
        settings,
        exchange: Some(Exchange {
            digest: [digest; DIGEST],
            make_id: &mut || id,
        }),
    })
    .map_err(Box::new)
}

/// Runs `body` as both ranks of a bus.
fn both<T: Send>(body: impl Fn(u16) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let body = &body;
        let threads = [0, 1].map(|rank| scope.spawn(move || body(rank)));
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    })
}

/// Threads of the bus, of leaders and of workers in this process.
fn our_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    tasks
        .filter_map(name)
        .filter(|name| name.starts_with("bp-") || name.starts_with("proxy-"))
        .filter(|name| {
            name.trim()
                .rsplit('-')
                .next()
                .is_some_and(|tid| tid.parse::<u32>().is_ok())
        })
        .collect()
}

fn nothing_is_left() {
    assert_eq!(our_threads(), Vec::<String>::new());
    assert_eq!(Group::count(), 0);
}

#[test]
fn h38_h71_every_step_that_fails_undoes_those_before_it() {
    let ample = settings("30");
    let job = bus::job();
    nothing_is_left();

    // Join: there is no memory for the bus.
    fault::inject(Call::Reserve, 1, libc::ENOSPC);
    let error = set_up(options(&job, 0, 2, &ample), &ample, 1, Some(ID)).unwrap_err();
    assert!(matches!(*error, SetupError::Join(_)), "{error}");
    assert!(
        error.to_string().contains("joining the bus: no room"),
        "{error}"
    );
    nothing_is_left();

    // Connect: rank 1 does not come. The error names phase, rank, world, who is missing, and the knob.
    let short = settings("1");
    let error = set_up(options(&job, 0, 2, &short), &short, 1, Some(ID)).unwrap_err();
    assert!(matches!(*error, SetupError::Connect(_)), "{error}");
    let text = error.to_string();
    for part in [
        "meeting all ranks on the bus: rank 0 of 2: connect: timed out",
        "missing {1}",
        "deadline 1.000 s, set by NEURON_RT_PROXY_BUS_TIMEOUT",
    ] {
        assert!(text.contains(part), "{text}");
    }
    nothing_is_left();

    exchange_group_and_leaders(&job, &ample);
    whole_life(&job, &ample);
}

/// The steps that fail on all ranks.
fn exchange_group_and_leaders(job: &str, ample: &Settings) {
    // Exchange: other collectives, and no unique id.
    for (digests, id) in [([1, 2], Some(ID)), ([1, 1], None)] {
        let errors = both(|rank| {
            let digest = digests[usize::from(rank)];
            set_up(options(job, rank, 2, ample), ample, digest, id).unwrap_err()
        });
        for error in errors {
            let SetupError::Exchange(error) = *error else {
                panic!("{error}");
            };
            let told = [BootstrapError::Mismatch, BootstrapError::NoUniqueId];
            assert!(told.contains(&error), "{error}");
        }
        nothing_is_left();
    }

    // Group: the worker has no CPU that is allowed.
    let nowhere = Settings::builder()
        .low_latency_cpus(Placement::Mask {
            list: [1023].into_iter().collect(),
            strict: true,
        })
        .from_lookup(|_| None)
        .unwrap();
    let errors =
        both(|rank| set_up(options(job, rank, 2, ample), &nowhere, 1, Some(ID)).unwrap_err());
    for error in errors {
        assert!(matches!(*error, SetupError::Group(_)), "{error}");
        assert!(
            error.to_string().contains("sharing the group's worker"),
            "{error}"
        );
    }
    nothing_is_left();

    // Leaders: this machine is not among the machines.
    let errors = both(|rank| {
        let comm = set_up(options(job, rank, 2, ample), ample, 1, Some(ID)).unwrap();
        comm.between_machines(Nobody, &[0, 2], 2).unwrap_err()
    });
    for error in errors {
        assert!(matches!(error, SetupError::Leaders(_)), "{error}");
        assert!(error.to_string().contains("machine 2 of 2"), "{error}");
    }
    nothing_is_left();
}

/// After all these failures under the same job id the whole works: barrier tasks pass, and free leaves nothing.
fn whole_life(job: &str, settings: &Settings) {
    let shared = Settings::builder()
        .ranks_per_network_proxy(2)
        .from_lookup(|_| None)
        .unwrap();
    let order = Mutex::new(Vec::new());
    messages::collect();
    both(|rank| {
        let comm = set_up(options(job, rank, 2, settings), &shared, 1, Some(ID)).unwrap();
        assert_eq!(comm.unique_id(), Some(&ID));
        let comm = if rank == 0 {
            comm.between_machines(Nobody, &[0], 0).unwrap()
        } else {
            comm
        };
        let task = comm
            .task_barrier(3, RankSet::below(2), vec![], AMPLE)
            .unwrap();
        if rank == 0 {
            let again = comm.task_barrier(3, RankSet::below(2), vec![], AMPLE);
            assert!(matches!(again.unwrap_err(), BarrierError::Seat(_)));
        }
        let missing = comm.task_barrier(8, RankSet::below(2), vec![], AMPLE);
        assert!(matches!(missing.unwrap_err(), BarrierError::Bus(_)));
        for exec in (1..=20).map(ExecId) {
            until_ready(|| task.arrive(exec));
            assert_eq!(task.signal(exec), Status::SUCCESS);
            until_ready(|| task.release(exec));
        }
        drop(task);
        // Both have their share when the first gives up its own.
        let mut comm = comm;
        comm.bus().all_gather(&[], AMPLE).unwrap();
        let freed = comm.free(Release::Drain, AMPLE).unwrap();
        assert_eq!(freed.leaders, (rank == 0).then_some(Stopped::Ended));
        order.lock().unwrap().push(freed.group);
    });
    let order = order.into_inner().unwrap();
    assert!(
        order.contains(&Released::Ended) && order.contains(&Released::Kept(1)),
        "{order:?}"
    );
    for rank in [0, 1] {
        let told = messages::with(&format!(
            "enc_setup_global_comm_bananaphones: bus {job}, rank {rank} of 2, gid 0"
        ));
        assert_eq!(told.len(), 1, "{told:?}");
    }
    nothing_is_left();
}

fn until_ready(mut step: impl FnMut() -> BarrierPoll) {
    let start = std::time::Instant::now();
    loop {
        match step() {
            BarrierPoll::Ready => return,
            BarrierPoll::Pending => std::thread::sleep(Duration::from_micros(50)),
            BarrierPoll::Failed(status) => panic!("{status}"),
        }
        assert!(start.elapsed() < AMPLE);
    }
}
