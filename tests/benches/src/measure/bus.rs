//! The host bus: round trip, barrier, all-gather between processes, rank r on CPU r modulo 2; each beside the same operation bare.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use proxy_benches::machine;

use super::{bare, floor};

/// Longer than any wait here.
pub(super) const AMPLE: Duration = Duration::from_secs(60);

/// Ranks and bytes of the all-gathers.
const GATHERS: [(u16, usize); 6] = [(2, 8), (8, 8), (2, 4096), (8, 4096), (2, 65536), (8, 65536)];

/// Everything that is measured between processes.
pub(super) fn all() {
    apart(|| {
        machine::pin(0);
        floor::round_trip();
    });
    run("round_trip.8", 2, 8);
    for ranks in [2, 4, 8] {
        let key = format!("barrier.{ranks}");
        apart(|| bare::barrier(ranks.into()).tell(&format!("floor.{key}")));
        run(&key, ranks, 0);
    }
    for (ranks, bytes) in GATHERS {
        let key = format!("gather.{bytes}.{ranks}");
        apart(|| bare::gather(ranks.into(), bytes).tell(&format!("floor.{key}")));
        run(&key, ranks, bytes);
    }
}

/// Measures in a thread, so that this one stays on all CPUs.
fn apart(measure: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(measure).join().expect("no panic"));
}

/// A job id that nobody else has.
pub(super) fn job(what: &str) -> String {
    format!("bench-{}-{what}", std::process::id())
}

/// Starts one rank: a program of its own, as the peers' are, which lies beside this one.
pub(super) fn start(what: &str, job: &str, rank: u16, ranks: u16, bytes: usize) -> Child {
    let program = std::env::current_exe().expect("the path of this program");
    let numbers = [u64::from(rank), u64::from(ranks), bytes as u64];
    Command::new(program.with_file_name("bench-rank"))
        .args([what, job])
        .args(numbers.map(|number| number.to_string()))
        .stdin(Stdio::null())
        .spawn()
        .expect("it was built with this program")
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
