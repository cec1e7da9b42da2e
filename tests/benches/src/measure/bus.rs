//! The host bus: round trip, barrier, all-gather between processes, rank r on CPU r modulo 2.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use proxy_benches::clock;
use proxy_benches::machine;
use proxy_os::bananaphone::{Bus, Options};

use super::floor;

/// Longer than any wait here.
pub(super) const AMPLE: Duration = Duration::from_secs(60);

/// Ranks and bytes of the all-gathers.
const GATHERS: [(u16, usize); 6] = [(2, 8), (8, 8), (2, 4096), (8, 4096), (2, 65536), (8, 65536)];

/// Everything that is measured between processes.
pub(super) fn all() {
    // Beside what is compared with it, in a thread, so that this one stays free.
    let floor = std::thread::spawn(|| {
        machine::pin(0);
        floor::round_trip();
    });
    floor.join().expect("no panic");
    run("round_trip.8", 2, 8);
    for ranks in [2, 4, 8] {
        run(&format!("barrier.{ranks}"), ranks, 0);
    }
    for (ranks, bytes) in GATHERS {
        run(&format!("gather.{bytes}.{ranks}"), ranks, bytes);
    }
}

/// A job id that nobody else has.
pub(super) fn job(what: &str) -> String {
    format!("bench-{}-{what}", std::process::id())
}

/// Starts this program as one rank.
pub(super) fn start(what: &str, job: &str, rank: u16, ranks: u16, bytes: usize) -> Child {
    let program = std::env::current_exe().expect("the path of this program");
    let numbers = [u64::from(rank), u64::from(ranks), bytes as u64];
    Command::new(program)
        .args(["rank", what, job])
        .args(numbers.map(|number| number.to_string()))
        .stdin(Stdio::null())
        .spawn()
        .expect("this program can be started")
}

fn run(key: &str, ranks: u16, bytes: usize) {
    let job = job(key);
    let children: Vec<Child> = (0..ranks)
        .map(|rank| start(key, &job, rank, ranks, bytes))
        .collect();
    for mut child in children {
        assert!(
            child.wait().is_ok_and(|status| status.success()),
            "{key}: a rank failed"
        );
    }
}

/// What a child does that was started as a rank.
pub(crate) fn rank(what: &str, job: &str, rank: u16, ranks: u16, bytes: usize) {
    let kind = what.split('.').next().unwrap_or_default();
    if kind != "join" {
        machine::pin(usize::from(rank % 2));
    }
    let mut options = Options::new(job, rank, ranks);
    // Room for two contributions of the longest all-gather in one piece, as the peers' transports have.
    options.cells = if bytes > 4096 { 4096 } else { 256 };
    let mut bus = Bus::create(&options).expect("joined");
    bus.connect(AMPLE).expect("all are there");
    match kind {
        "round_trip" => round_trip(what, &mut bus),
        "barrier" => barrier(what, &bus),
        "gather" => gather(what, &mut bus, bytes),
        "join" => join(&bus),
        _ => wait_for_end(&mut bus),
    }
}

fn round_trip(key: &str, bus: &mut Bus) {
    const ROUNDS: usize = 20_000;
    let (me, mut buffer) = (bus.rank(), [0_u8; 8]);
    let mut trip = |round: usize| {
        let bytes = (round as u64).to_ne_bytes();
        if me == 0 {
            bus.send(1, 1, &bytes, AMPLE).expect("sent");
        }
        bus.recv_into(1 - me, Some(1), &mut buffer, AMPLE)
            .expect("received");
        if me == 1 {
            bus.send(0, 1, &buffer, AMPLE).expect("sent");
        }
        assert_eq!(buffer, bytes);
    };
    report(key, me, clock::events(ROUNDS, &mut trip));
}

fn barrier(key: &str, bus: &Bus) {
    let all = (0..bus.world()).collect();
    let mut barrier = bus.barrier(0, all).expect("a slot");
    let rounds = if bus.world() > 2 { 4000 } else { 20_000 };
    let figure = clock::events(rounds, |round| {
        barrier.wait(round as u64, AMPLE).expect("passed")
    });
    report(key, bus.rank(), figure);
}

fn gather(key: &str, bus: &mut Bus, bytes: usize) {
    let rounds = if bytes > 4096 { 500 } else { 4000 };
    let (me, mut own) = (bus.rank(), vec![0; bytes]);
    let mut all = vec![0; bytes * usize::from(bus.world())];
    let figure = clock::events(rounds, |round| {
        // Rewritten each time, so that nobody may keep a clean copy.
        own.fill(round as u8);
        bus.all_gather_into(&own, &mut all, AMPLE)
            .expect("gathered");
        assert!(all.first() == own.last() && all.last() == own.last());
    });
    report(key, me, figure);
}

fn join(bus: &Bus) {
    let all = (0..bus.world()).collect();
    let mut barrier = bus.barrier(0, all).expect("a slot");
    barrier.wait(0, AMPLE).expect("passed");
}

/// Waits for a message that never comes: the rank is killed, or learns that another was.
fn wait_for_end(bus: &mut Bus) {
    let start = Instant::now();
    while start.elapsed() < AMPLE && bus.recv(0, Some(1), AMPLE).is_ok() {}
}

fn report(key: &str, me: u16, figure: clock::Figure) {
    if me == 0 {
        figure.tell(key);
    }
}
