//! `cargo xtask bench`: what the product costs, beside the specification's own design, its peers and the machine's floor.
//!
//! Every figure is a ratio between programs that ran alternately in one run: this kind of machine drifts, so a time alone
//! means little. `bench --help` shows the options; `bench group NAME` and `bench rank ...` are the children.

mod judge;
mod measure;
mod plan;
mod plot;
mod report;
mod run;
mod simulate;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use plan::ROWS;
use run::Programs;

#[global_allocator]
static ALLOCATOR: proxy_benches::counting::Counting = proxy_benches::counting::Counting;

#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench", args_conflicts_with_subcommands = true)]
struct Cli {
    /// Two rounds instead of five.
    #[arg(long)]
    quick: bool,
    /// Writes all figures to this file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the plots to this folder.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
    /// Rows or groups of rows, by a part of their key; all if none is given.
    rows: Vec<String>,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Measure one group of our own figures (a child of this program).
    #[command(hide = true)]
    Group { name: String },
    /// Be one rank of a bus (a child of this program).
    #[command(hide = true)]
    Rank {
        what: String,
        job: String,
        rank: u16,
        ranks: u16,
        bytes: usize,
    },
    /// Simulate the barrier for 2 to 1024 ranks from measured line-transfer costs.
    Simulate,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match &cli.role {
        Some(Role::Group { name }) => match measure::GROUPS.iter().find(|group| group.0 == name) {
            Some((_, group)) => group(),
            None => return refuse(&format!("no group {name}")),
        },
        Some(Role::Rank {
            what,
            job,
            rank,
            ranks,
            bytes,
        }) => measure::rank(what, job, *rank, *ranks, *bytes),
        Some(Role::Simulate) => simulate::print(),
        None => return bench(&cli),
    }
    ExitCode::SUCCESS
}

fn refuse(what: &str) -> ExitCode {
    eprintln!("bench: {what}");
    ExitCode::FAILURE
}

fn bench(cli: &Cli) -> ExitCode {
    let wanted = |row: &&plan::Row| {
        let part = |part: &String| row.key.contains(part.as_str()) || row.group == part;
        cli.rows.is_empty() || cli.rows.iter().any(part)
    };
    let rows: Vec<plan::Row> = ROWS.iter().filter(wanted).copied().collect();
    if rows.is_empty() {
        return refuse(&format!("no row with {:?}", cli.rows));
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("SKIPPED: a second CPU not available");
        return ExitCode::SUCCESS;
    }
    println!(
        "pinned: producer and consumer CPU 0, worker CPU 1; rank r of a bus CPU r modulo 2; joining ranks free"
    );
    let programs = Programs::build();
    let (mut judged, mut conditions, mut calm) = (Vec::new(), Vec::new(), true);
    let mut groups: Vec<&str> = rows.iter().map(|row| row.group).collect();
    groups.dedup();
    for group in groups {
        let (rounds, undisturbed) = run::rounds(group, if cli.quick { 2 } else { 5 }, &programs);
        calm &= undisturbed;
        conditions.extend(rounds.iter().map(|round| {
            let (foreign, [trip, after]) = (round.foreign, round.round_trips());
            format!(
                "{group}: foreign load {foreign:.2} CPUs, cache-line round trip {trip:.0} ns, at its end {after:.0}"
            )
        }));
        let of_group = rows.iter().filter(|row| row.group == group);
        let of_group: Vec<_> = of_group.map(|row| judge::judge(*row, &rounds)).collect();
        // At once, as the whole takes long and may be ended before.
        println!("\n{}", report::table(&of_group));
        judged.extend(of_group);
    }
    finish(cli, &judged, &conditions, calm)
}

fn finish(cli: &Cli, judged: &[judge::Judged], conditions: &[String], calm: bool) -> ExitCode {
    println!("\n{}", report::table(judged));
    let met = judged.iter().filter(|row| row.met() == Some(true)).count();
    println!("{met} of {} rows met", judged.len());
    if !calm {
        println!("DISTURBED: in some groups no round was quiet; their figures are no measurement");
    }
    let json = report::json(judged, conditions);
    if let Some(path) = &cli.json
        && let Err(error) = std::fs::write(path, format!("{json:#}\n"))
    {
        return refuse(&format!("{}: {error}", path.display()));
    }
    if let Some(folder) = &cli.plots
        && let Err(error) = plot::all(folder, judged)
    {
        return refuse(&format!("{}: {error}", folder.display()));
    }
    let whole = calm && judged.iter().all(|row| row.met() != Some(false));
    ExitCode::from(u8::from(!whole))
}
