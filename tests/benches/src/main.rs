//! `cargo xtask bench`: what the product costs, beside the specification's own design, its peers and the machine's floor.
//!
//! Every figure is a ratio between programs that ran alternately in one run: this kind of machine drifts, so a time alone
//! means little. `bench --help` shows the options; `bench group NAME` and `bench-rank` are the children.

mod cli;
mod judge;
mod measure;
mod peers;
mod plan;
mod plot;
mod report;
mod rows;
mod run;
mod simulate;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Role};
use proxy_kit::command::{end_unparsed, end_when_output_fails};
use run::Programs;

/// What runs where.
const PINNED: &str = "producer and consumer CPU 0, worker CPU 1; rank r of a bus, and of its peers, CPU r modulo 2; joining ranks free";

#[global_allocator]
static ALLOCATOR: proxy_benches::counting::Counting = proxy_benches::counting::Counting;

fn main() -> ExitCode {
    end_when_output_fails("bench");
    let cli = Cli::try_parse().unwrap_or_else(|said| {
        end_unparsed("bench", said.print(), !said.use_stderr(), said.exit_code())
    });
    match &cli.role {
        Some(Role::Group { name }) => match measure::GROUPS.iter().find(|group| group.0 == name) {
            Some((_, group)) => group(),
            None => {
                let all: Vec<&str> = measure::GROUPS.iter().map(|group| group.0).collect();
                return refuse(&format!("no group {name:?}; accepted: {}", all.join(", ")));
            }
        },
        Some(Role::Simulate) => simulate::print(),
        None => return bench(&cli),
    }
    ExitCode::SUCCESS
}

/// Refuses a command line, with the parser's own exit code for that.
fn refuse(what: &str) -> ExitCode {
    eprintln!("bench: {what}");
    ExitCode::from(2)
}

/// What could not be written at the end.
fn unwritten(what: &str) -> ExitCode {
    eprintln!("bench: {what}");
    ExitCode::FAILURE
}

/// Whether the files can be written that are so only at the end, which may be an hour from now. What they hold stays.
fn check_outputs(cli: &Cli) -> Result<(), String> {
    if let Some(path) = &cli.json {
        let mut options = std::fs::OpenOptions::new();
        let opened = options.write(true).create(true).truncate(false).open(path);
        opened.map_err(|error| {
            format!(
                "--json {}: {error}; accepted: a file that can be written",
                path.display()
            )
        })?;
    }
    if let Some(path) = &cli.plots {
        std::fs::create_dir_all(path).map_err(|error| {
            format!(
                "--plots {}: {error}; accepted: a folder that can be written",
                path.display()
            )
        })?;
    }
    Ok(())
}

fn bench(cli: &Cli) -> ExitCode {
    let rows = match check_outputs(cli).and_then(|()| rows::chosen(&cli.rows)) {
        Ok(rows) => rows,
        Err(what) => return refuse(&what),
    };
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("SKIPPED: a second CPU not available");
        return ExitCode::SUCCESS;
    }
    println!("pinned: {PINNED}");
    let programs = Programs::build();
    let (mut judged, mut conditions) = (Vec::new(), Vec::new());
    let mut groups: Vec<&str> = rows.iter().map(|row| row.group).collect();
    groups.dedup();
    for group in groups {
        let rounds = run::rounds(group, if cli.quick { 2 } else { 5 }, &programs);
        conditions.extend(rounds.told.iter().cloned());
        let of_group = rows.iter().filter(|row| row.group == group);
        let of_group: Vec<_> = of_group.map(|row| judge::judge(*row, &rounds)).collect();
        // At once, as the whole takes long and may be ended before.
        println!("\n{}", report::table(&of_group));
        judged.extend(of_group);
    }
    finish(cli, &judged, &conditions)
}

fn finish(cli: &Cli, judged: &[judge::Judged], conditions: &[String]) -> ExitCode {
    println!("\n{}\n{}", report::table(judged), report::summary(judged));
    let json = report::json(judged, conditions, PINNED);
    if let Some(path) = &cli.json
        && let Err(error) = std::fs::write(path, format!("{json:#}\n"))
    {
        return unwritten(&format!("--json {}: {error}", path.display()));
    }
    if let Some(folder) = &cli.plots
        && let Err(error) = plot::all(folder, judged)
    {
        return unwritten(&format!("--plots {}: {error}", folder.display()));
    }
    let bad = judged.iter().any(|row| row.verdict.is_bad());
    ExitCode::from(u8::from(bad))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_written_are_refused_before_anything_is_measured() {
        for (args, told) in [
            (
                ["--json", "/nonexistent/x"],
                "--json /nonexistent/x: No such file",
            ),
            (
                ["--plots", "/dev/null/x"],
                "--plots /dev/null/x: Not a directory",
            ),
        ] {
            let cli = Cli::try_parse_from(["bench"].into_iter().chain(args)).unwrap();
            let refused = check_outputs(&cli).unwrap_err();
            assert!(
                refused.starts_with(told) && refused.contains("; accepted: "),
                "{refused}"
            );
        }
    }
}
