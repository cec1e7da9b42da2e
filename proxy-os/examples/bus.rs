//! Latencies of the host bus alone, ranks as threads: round trip, barrier, all-gather.
//!
//! `cargo run --release -p proxy-os --example bus`

use std::process::ExitCode;
use std::time::{Duration, Instant};

use proxy_core::phone::barrier::RankSet;
use proxy_os::bananaphone::{Bus, BusError, JoinError, Options};

/// Operations measured, and before them some that are not.
const MEASURED: usize = 10_000;
const WARM_UP: usize = 500;
/// Longer than anything here takes.
const AMPLE: Duration = Duration::from_secs(60);

#[derive(Debug)]
enum Failed {
    Join(JoinError),
    Bus(BusError),
}

impl From<JoinError> for Failed {
    fn from(error: JoinError) -> Self {
        Self::Join(error)
    }
}

impl From<BusError> for Failed {
    fn from(error: BusError) -> Self {
        Self::Bus(error)
    }
}

/// Runs one operation many times on every rank of a bus of threads; returns rank 0's times in order.
fn measure<S>(
    world: u16,
    setup: impl Fn(&mut Bus) -> Result<S, Failed> + Sync,
    operation: impl Fn(&mut Bus, &mut S) -> Result<(), Failed> + Sync,
) -> Result<Vec<Duration>, Failed> {
    let job = format!("latency-{}-{world}", std::process::id());
    let rank = |rank| {
        let mut bus = Bus::create(&Options::new(&job, rank, world))?;
        bus.connect(AMPLE)?;
        let mut state = setup(&mut bus)?;
        let mut times = Vec::with_capacity(MEASURED);
        for round in 0..WARM_UP + MEASURED {
            let start = Instant::now();
            operation(&mut bus, &mut state)?;
            if round >= WARM_UP {
                times.push(start.elapsed());
            }
        }
        // Nobody leaves while others still need it.
        bus.all_gather(&[], AMPLE)?;
        times.sort_unstable();
        Ok(times)
    };
    let rank = &rank;
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..world)
            .map(|other| scope.spawn(move || rank(other)))
            .collect();
        let own: Result<_, Failed> = rank(0);
        for other in others {
            if let Ok(ended) = other.join() {
                ended?;
            }
        }
        own
    })
}

fn show(what: &str, times: &[Duration]) {
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_nanos() as f64 / 1000.0;
    println!(
        "{what:<28} {:>10.2} {:>10.2} {:>10.2}",
        at(50),
        at(99),
        at(100)
    );
}

fn round_trip(bus: &mut Bus, buffer: &mut [u8; 8]) -> Result<(), Failed> {
    let peer = 1 - bus.rank();
    if bus.rank() == 0 {
        bus.send(peer, 0, buffer, AMPLE)?;
    }
    bus.recv_into(peer, None, buffer, AMPLE)?;
    if bus.rank() == 1 {
        bus.send(peer, 0, buffer, AMPLE)?;
    }
    Ok(())
}

fn run() -> Result<(), Failed> {
    println!("{:<28} {:>10} {:>10} {:>10}", "us", "p50", "p99", "max");
    let times = measure(2, |_| Ok([0; 8]), round_trip)?;
    show("round trip, 8 B", &times);
    for world in [2, 4, 8] {
        let times = measure(
            world,
            |bus| Ok(bus.barrier(0, RankSet::below(world))?),
            |_, barrier| Ok(barrier.wait(0, AMPLE)?),
        )?;
        show(&format!("barrier, {world} ranks"), &times);
    }
    for world in [2, 4, 8] {
        for (bytes, label) in [(8, "8 B"), (4 << 10, "4 KiB"), (64 << 10, "64 KiB")] {
            let times = measure(
                world,
                |_| Ok(vec![0; bytes]),
                |bus, own| Ok(bus.all_gather(own, AMPLE).map(drop)?),
            )?;
            show(&format!("all-gather, {world} ranks, {label}"), &times);
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed::Join(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Err(Failed::Bus(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
