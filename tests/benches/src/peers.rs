//! The bus's peers, Open MPI and iceoryx2, in a round: each figure by processes of its own, as many as there are ranks.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::measure::JOINS;
use crate::plan::Side;
use crate::run::{Figures, Programs, Round, heard, told};
use proxy_benches::clock::Figure;

/// Keys, ranks and bytes of what the peers have, too.
const BUS: [(&str, usize, usize); 10] = [
    ("round_trip.8", 2, 8),
    ("barrier.2", 2, 0),
    ("barrier.4", 4, 0),
    ("barrier.8", 8, 0),
    ("gather.8.2", 2, 8),
    ("gather.8.8", 8, 8),
    ("gather.4096.2", 2, 4096),
    ("gather.4096.8", 8, 4096),
    ("gather.65536.2", 2, 65536),
    ("gather.65536.8", 8, 65536),
];
const JOIN: [(&str, usize, usize); 1] = [("join.8", 8, 8)];

/// Adds the figures of the peers that are there to a round.
pub(crate) fn run(group: &str, programs: &Programs, round: &mut Round) {
    let rows: &[_] = if group == "bus" { &BUS } else { &JOIN };
    for &(key, ranks, bytes) in rows {
        if let Some(program) = &programs.mpi {
            let once = || Some(told(&mut mpirun(program, key, ranks, bytes))?.figures);
            add(round, Side::Mpi, timed(key, once));
        }
        if let Some(program) = &programs.iceoryx2
            && !key.starts_with("barrier")
        {
            let once = || iceoryx2(program, key, ranks, bytes);
            add(round, Side::Iceoryx2, timed(key, once));
        }
    }
}

fn add(round: &mut Round, side: Side, figures: Option<Figures>) {
    let figures = figures.unwrap_or_default();
    round.sides.entry(side).or_default().extend(figures);
}

/// The figures of a program; of a start, how long all of it took. `None` if it failed.
fn timed(key: &str, once: impl Fn() -> Option<Figures>) -> Option<Figures> {
    if !key.starts_with("join") {
        return once();
    }
    let time = |_| {
        let begin = Instant::now();
        once().map(|_| begin.elapsed().as_secs_f64() * 1e9)
    };
    let times = (0..JOINS).map(time).collect::<Option<Vec<f64>>>()?;
    Some([(key.to_owned(), Figure::of_few(times))].into())
}

/// Pinned by itself, as ours is. Told that there are more ranks than CPUs where there are, as its manual says.
fn mpirun(program: &Path, key: &str, ranks: usize, bytes: usize) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["-np", &ranks.to_string(), "--bind-to", "none"]);
    if ranks > 2 {
        command.args(["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]);
    }
    command
        .arg(program)
        .args([key, &bytes.to_string()])
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

fn iceoryx2(program: &Path, key: &str, ranks: usize, bytes: usize) -> Option<Figures> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only uniqueness matters.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let job = format!("bench-{}-{number}", std::process::id());
    let start = |rank: usize| {
        let mut command = Command::new(program);
        command
            .args([key, &job])
            .args([rank, ranks, bytes].map(|number| number.to_string()));
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        piped
            .spawn()
            .expect("iceoryx2's program, just built, can be started")
    };
    let children: Vec<_> = (0..ranks).map(start).collect();
    // All are waited for, whatever became of one.
    let said: Vec<_> = children
        .into_iter()
        .map(|child| heard(key, &child.wait_with_output().ok()?))
        .collect();
    let mut figures = Figures::new();
    for said in said {
        figures.extend(said?.figures);
    }
    Some(figures)
}
