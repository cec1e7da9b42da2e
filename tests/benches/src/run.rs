//! Runs groups in rounds, A B A B: in each round the floor, ours and every counterpart, one after the other, each in processes of
//! its own. A round that was disturbed is thrown away, and said to be.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use proxy_benches::clock::Figure;
use proxy_benches::machine::Load;
use proxy_benches::tools;

/// Foreign load that makes a round worthless, in CPUs.
const NOISE: f64 = 0.1;
/// Between the round's begin and its end the cache-line round trip changed by more: the CPUs were taken away, or moved apart. From
/// round to round it may change, as a figure is compared with those of its own round alone.
const DRIFT: f64 = 1.6;

/// Whose figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Ours,
    Original,
    Mpi,
    Iceoryx2,
}

/// What one side said in one round.
pub(crate) type Figures = BTreeMap<String, Figure>;

/// One round of one group.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) sides: BTreeMap<Side, Figures>,
    /// CPUs that others used meanwhile.
    pub(crate) foreign: f64,
    /// The cache-line round trip at its end.
    trip_after: f64,
}

impl Round {
    /// A figure of a side.
    pub(crate) fn get(&self, side: Side, key: &str) -> Option<Figure> {
        self.sides.get(&side)?.get(key).copied()
    }

    /// The cache-line round trip at its begin and at its end, in nanoseconds.
    pub(crate) fn round_trips(&self) -> [f64; 2] {
        let before = self.sides.get(&Side::Ours).map_or(0.0, round_trip);
        [before, self.trip_after]
    }

    fn is_calm(&self) -> bool {
        let [before, after] = self.round_trips();
        self.foreign <= NOISE && before.max(after) <= before.min(after) * DRIFT
    }
}

/// The programs beside ours.
#[derive(Debug)]
pub(crate) struct Programs {
    original: Option<PathBuf>,
    mpi: Option<PathBuf>,
    iceoryx2: Option<PathBuf>,
}

impl Programs {
    /// Builds what can be built, and says what cannot.
    pub(crate) fn build() -> Self {
        let programs = Self {
            original: tools::original(),
            mpi: tools::mpi().filter(|_| Command::new("mpirun").arg("--version").output().is_ok()),
            iceoryx2: tools::iceoryx2(),
        };
        for (program, what) in [
            (&programs.original, "C++ compiler"),
            (&programs.mpi, "Open MPI"),
            (&programs.iceoryx2, "iceoryx2"),
        ] {
            if program.is_none() {
                println!("SKIPPED: {what} not available");
            }
        }
        programs
    }
}

/// Undisturbed rounds of a group, `wanted` of them if the machine lets us; the others are told of and left out. If all are
/// disturbed, they are all there is, and `false` says so.
pub(crate) fn rounds(group: &str, wanted: usize, programs: &Programs) -> (Vec<Round>, bool) {
    let (mut good, mut bad): (Vec<Round>, Vec<Round>) = (Vec::new(), Vec::new());
    while good.len() < wanted && bad.len() < wanted {
        let round = one(group, programs);
        let (calm, [before, after]) = (round.is_calm(), round.round_trips());
        println!(
            "{group}: round {}, foreign load {:.2} CPUs, cache-line round trip {before:.0} ns, at its end {after:.0}{}",
            good.len() + bad.len() + 1,
            round.foreign,
            if calm { "" } else { ": DISTURBED, thrown away" }
        );
        if calm {
            good.push(round)
        } else {
            bad.push(round)
        }
    }
    if good.is_empty() {
        (bad, false)
    } else {
        (good, true)
    }
}

fn one(group: &str, programs: &Programs) -> Round {
    let load = Load::begin();
    let mut round = Round::default();
    let mut ours = child(&["group", "floor"]);
    ours.extend(child(&["group", group]));
    round.sides.insert(Side::Ours, ours);
    if let Some(program) = &programs.original
        && ["append", "done", "tick", "look", "tasks"].contains(&group)
    {
        let mut command = Command::new(program);
        command.arg(group);
        round.sides.insert(Side::Original, told(&mut command));
    }
    if group == "bus" || group == "process" {
        peers(group, programs, &mut round);
    }
    round.trip_after = round_trip(&child(&["group", "floor"]));
    round.foreign = load.foreign();
    round
}

fn round_trip(figures: &Figures) -> f64 {
    figures.get("floor.rtt").map_or(0.0, |figure| figure.p50)
}

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

fn peers(group: &str, programs: &Programs, round: &mut Round) {
    let rows: &[_] = if group == "bus" {
        &BUS
    } else {
        &[("join.8", 8, 8)]
    };
    for &(key, ranks, bytes) in rows {
        if let Some(program) = &programs.mpi {
            let figures = timed(key, || told(&mut mpirun(program, key, ranks, bytes)));
            round.sides.entry(Side::Mpi).or_default().extend(figures);
        }
        if let Some(program) = &programs.iceoryx2
            && !key.starts_with("barrier")
        {
            let figures = timed(key, || iceoryx2(program, key, ranks, bytes));
            round
                .sides
                .entry(Side::Iceoryx2)
                .or_default()
                .extend(figures);
        }
    }
}

/// The figures of a program; of a start, how long all of it took.
fn timed(key: &str, run: impl Fn() -> Figures) -> Figures {
    if !key.starts_with("join") {
        return run();
    }
    let mut times: Vec<f64> = (0..5)
        .map(|_| {
            let begin = std::time::Instant::now();
            run();
            begin.elapsed().as_secs_f64() * 1e9
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let figure = Figure {
        p50: times[2],
        p99: times[4],
    };
    [(key.to_owned(), figure)].into()
}

fn mpirun(program: &PathBuf, key: &str, ranks: usize, bytes: usize) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["-np", &ranks.to_string()]);
    // As its manual says for more ranks than CPUs.
    if ranks > 2 {
        command.args([
            "--oversubscribe",
            "--bind-to",
            "none",
            "--mca",
            "mpi_yield_when_idle",
            "1",
        ]);
    } else {
        command.args(["--bind-to", "core"]);
    }
    command
        .arg(program)
        .args([key, &bytes.to_string()])
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

fn iceoryx2(program: &PathBuf, key: &str, ranks: usize, bytes: usize) -> Figures {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    // Relaxed: only uniqueness matters.
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let job = format!("bench-{}-{number}", std::process::id());
    let start = |rank: usize| {
        let mut command = Command::new(program);
        command
            .args([key, &job])
            .args([rank, ranks, bytes].map(|number| number.to_string()));
        command.stdout(std::process::Stdio::piped()).spawn()
    };
    let children: Vec<_> = (0..ranks).filter_map(|rank| start(rank).ok()).collect();
    let outputs = children
        .into_iter()
        .filter_map(|child| child.wait_with_output().ok());
    outputs
        .flat_map(|output| parse(&String::from_utf8_lossy(&output.stdout)))
        .collect()
}

/// This program as a child.
fn child(args: &[&str]) -> Figures {
    let program = std::env::current_exe().expect("the path of this program");
    told(Command::new(program).args(args))
}

/// Runs a program and takes its figures; what else it says goes on.
fn told(command: &mut Command) -> Figures {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("{:?}: {error}", command.get_program());
            return Figures::new();
        }
    };
    if !output.status.success() {
        println!("{command:?}: {}", output.status);
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .filter(|line| line.starts_with("SKIPPED"))
        .for_each(|line| println!("{line}"));
    parse(&text).into_iter().collect()
}

/// Lines `figure KEY P50 P99`.
fn parse(text: &str) -> Vec<(String, Figure)> {
    let figure = |line: &str| {
        let mut words = line.strip_prefix("figure ")?.split(' ');
        let key = words.next()?.to_owned();
        let mut number = || words.next()?.parse().ok();
        let (p50, p99) = (number()?, number()?);
        Some((key, Figure { p50, p99 }))
    };
    text.lines().filter_map(figure).collect()
}
