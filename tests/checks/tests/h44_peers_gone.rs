//! H44, H50: two of three ranks are killed; the third gives everything back in bounded time and is told whom it lost.

use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE, Role};
use proxy_checks::script::{Script, sets};
use proxy_core::phone::barrier::RankSet;
use proxy_core::{ExecId, Status};
use proxy_os::bananaphone::Options;
use proxy_os::bananaphone::bootstrap::{DIGEST, UNIQUE_ID};
use proxy_os::global_comm::{Exchange, GlobalComm, Setup};
use proxy_os::report::Cause;
use proxy_os::{Patience, Release, Released, Settings};

const TEST: &str = "h44_h50_a_rank_that_lost_its_peers_gives_everything_back_and_names_them";
/// How long the free may take at most.
const BOUND: Duration = Duration::from_secs(5);

fn set_up(role: &Role, settings: &Settings) -> GlobalComm {
    let options = Options {
        deadline: AMPLE.into(),
        ..Options::new(role.job.clone(), role.rank, role.world)
    };
    let setup = GlobalComm::setup(Setup {
        bus: options,
        device: role.rank.into(),
        settings,
        exchange: Some(Exchange {
            digest: [1; DIGEST],
            make_id: &mut || Some([2; UNIQUE_ID]),
        }),
    });
    setup.expect("all three come")
}

/// Descriptors, mappings of the bus, threads.
fn held() -> (usize, usize, usize) {
    let entries = |path: &str| std::fs::read_dir(path).expect("procfs").count();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    let shared = maps.lines().filter(|line| line.contains("bananaphone"));
    (
        entries("/proc/self/fd"),
        shared.count(),
        entries("/proc/self/task"),
    )
}

/// What every rank does; only the survivor comes to the end of it.
fn rank(role: &Role) {
    let settings = Settings::default();
    // What the process keeps for good comes with its first use.
    drop(Script::open());
    let before = held();
    let mut comm = set_up(role, &settings);
    let script = Script::with(&["progress * -> idle=1 done=0"]);
    let barrier = comm.task_barrier(0, RankSet::below(3), Vec::new(), AMPLE);
    let builder = script
        .context_among(role.rank.into(), 3)
        .block(1, sets(1, 1));
    let builder = builder.barrier(Box::new(barrier.expect("a barrier")), Vec::new());
    let context = comm.queue().context(builder).expect("a context");
    comm.bus().all_gather(&[], AMPLE).expect("all are there");
    // Nobody else comes to the barrier, so it can neither pass nor fail before the others are gone.
    let lives = role.what == role.rank.to_string();
    let tickets = lives.then(|| context.enqueue(ExecId(1)).expect("room"));
    println!("ready");
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .expect("the parent says when");
    // Both are gone for sure, but nothing here has waited to hear of it.
    let since = Instant::now();
    let tickets = tickets.expect("only the survivor is told to go on");
    let barrier = tickets.barrier.expect("a barrier task");
    let queue = std::sync::Arc::clone(comm.queue());
    // The last rank frees at once, before anything of its process had time to notice.
    if role.rank == 0 {
        let status = queue.consume(barrier, Patience::until(BOUND));
        assert_eq!(status, Ok(Status::PEER_DEAD));
    }
    drop(context);
    let freed = comm.free(Release::Abort, BOUND).expect("nothing is stuck");
    let took = since.elapsed();
    assert_eq!(freed.group, Released::Ended);
    let others: RankSet = (0..3).filter(|rank| *rank != role.rank).collect();
    assert_eq!(freed.dead, others);
    assert!(took < BOUND, "{took:?}");
    let status = queue.poll(tickets.network);
    assert_eq!(status, Ok(proxy_core::Poll::Done(Status::ABORTED)));
    if role.rank == 0 {
        let causes: Vec<_> = queue.reports().iter().map(|record| record.cause).collect();
        assert_eq!(causes, [Cause::PeerDied], "one record, with the cause");
    }
    drop(queue);
    let since = Instant::now();
    // The watchdog's thread is the process's own and ends a moment later.
    while held() != before && since.elapsed() < AMPLE {
        std::thread::yield_now();
    }
    assert_eq!(held(), before, "descriptors, mappings, threads");
    println!("freed in {took:?}");
}

#[test]
fn h44_h50_a_rank_that_lost_its_peers_gives_everything_back_and_names_them() {
    if let Some(role) = Role::of(TEST) {
        return rank(&role);
    }
    for survivor in [0, 2] {
        let job = bus::job();
        let start = |place| Role::new(&job, place, 3, &survivor.to_string()).start(TEST);
        let mut ranks: Vec<_> = (0..3).map(start).collect();
        for rank in &mut ranks {
            rank.await_line("ready");
        }
        let mut last = ranks.swap_remove(survivor);
        for victim in &mut ranks {
            victim.kill();
        }
        last.tell("go");
        println!("{}", last.succeed());
    }
}
