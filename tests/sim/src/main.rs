//! `proxy-sim`: many worlds, or one seed told in full. What `cargo xtask sim` starts.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use proxy_sim::choice::Choices;
use proxy_sim::run;
use proxy_sim::world::World;

#[derive(Debug, Parser)]
#[command(about = "Simulated worlds of the proxy driver, each from a seed.")]
struct Cli {
    /// Worlds to run.
    #[arg(long, default_value_t = 100_000)]
    schedules: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// Do not shrink a failure.
    #[arg(long)]
    brief: bool,
    /// Only this seed, with its events.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(seed) = cli.seed {
        let mut world = World::new(Choices::random(seed), true);
        let outcome = world.run();
        for line in world.trace() {
            println!("{line}");
        }
        if outcome.is_ok() {
            println!("seed {seed}: nothing is wrong");
            return ExitCode::SUCCESS;
        }
    }
    let (from, count) = cli.seed.map_or((cli.from, cli.schedules), |seed| (seed, 1));
    let start = Instant::now();
    let outcome = run::many(from, count, cli.threads, !cli.brief);
    println!("{}", outcome.counts);
    let seconds = start.elapsed().as_secs_f64();
    println!("sim: {} worlds in {seconds:.1} s", outcome.worlds);
    match outcome.failure {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            println!("FAILED after {} worlds: {failure}", outcome.worlds);
            ExitCode::FAILURE
        }
    }
}
