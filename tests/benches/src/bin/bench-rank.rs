//! One rank of a bus: `bench-rank KEY JOB RANK RANKS BYTES`, KEY round_trip.*, barrier.*, gather.*, join or victim. Started by the benches.
//!
//! A program of its own, as those of the peers are, so that the start of a rank is not that of the benches. Prints `figure KEY P50 P99` on
//! rank 0.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use proxy_benches::clock;
use proxy_benches::machine;
use proxy_os::bananaphone::{Bus, Options};

/// Longer than any wait here.
const AMPLE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, job, me, ranks, bytes] = words.as_slice() else {
        return refuse();
    };
    let (Ok(me), Ok(ranks), Ok(bytes)) = (me.parse(), ranks.parse(), bytes.parse()) else {
        return refuse();
    };
    rank(what, job, me, ranks, bytes);
    ExitCode::SUCCESS
}

fn refuse() -> ExitCode {
    eprintln!("bench-rank: not for users; accepted: a key, a job, rank, ranks, bytes");
    ExitCode::from(2)
}

fn rank(what: &str, job: &str, rank: u16, ranks: u16, bytes: usize) {
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
