//! `proxy-sim`: many worlds, or one seed told in full. What `cargo xtask sim` starts.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use proxy_kit::command::{end_unparsed, end_when_output_fails, within};
use proxy_sim::choice::Choices;
use proxy_sim::run;
use proxy_sim::world::World;

#[derive(Debug, Parser)]
#[command(
    allow_negative_numbers = true,
    about = "Simulated worlds of the proxy driver, each from a seed."
)]
struct Cli {
    /// Worlds to run.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = count)]
    schedules: u64,
    /// The first seed.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number)]
    from: u64,
    /// Threads.
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = threads)]
    threads: u32,
    /// Do not shrink a failure.
    #[arg(long)]
    brief: bool,
    /// Only this seed, with its events.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    seed: Option<u64>,
}

fn count(text: &str) -> Result<u64, String> {
    within(text, 1..=u64::MAX)
}

fn number(text: &str) -> Result<u64, String> {
    within(text, 0..=u64::MAX)
}

/// More than any machine has use for.
fn threads(text: &str) -> Result<u32, String> {
    within(text, 1..=1024)
}

fn main() -> ExitCode {
    end_when_output_fails("sim");
    let cli = Cli::try_parse().unwrap_or_else(|said| {
        end_unparsed("sim", said.print(), !said.use_stderr(), said.exit_code())
    });
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_refusal_has_option_value_and_what_is_accepted() {
        Cli::command().debug_assert();
        for (args, parts) in [
            ("--seed x", &["'x'", "--seed", "accepted: 0 to"][..]),
            ("--seed -1", &["'-1'", "--seed", "accepted: 0 to"]),
            ("--from x", &["'x'", "--from", "accepted: 0 to"]),
            ("--schedules 0", &["'0'", "--schedules", "accepted: 1 to"]),
            ("--threads 0", &["'0'", "--threads", "accepted: 1 to 1024"]),
            ("extra", &["'extra'"]),
        ] {
            let words = std::iter::once("sim").chain(args.split_whitespace());
            let error = Cli::try_parse_from(words).expect_err(args);
            let text = error.to_string();
            assert!(
                parts.iter().all(|part| text.contains(part)),
                "{args}: {text}"
            );
            assert_eq!(error.exit_code(), 2, "{args}");
        }
    }
}
