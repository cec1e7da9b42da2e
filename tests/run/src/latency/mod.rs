//! `proxy-run bus` and `proxy-run barrier`: what the host bus costs alone, without driver, library and device.
//!
//! The ranks are processes, as in the main job: this program starts itself N times, and rank 0 reports its times. Each
//! number is the time that rank 0 sees from the call to its return.

mod rank;
mod ranks;
mod table;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, Output};

use clap::{Args, Parser};
use serde::{Deserialize, Serialize};

use crate::cli;
use crate::launcher::{ending, screen};
use crate::layout::names;
use crate::refusal;

pub(crate) use rank::main as rank_main;
use ranks::{Ended, Over};

/// The first argument of a program that is to be a rank here. The second one is the number of the rank.
pub(crate) const RANK_VERB: &str = "latency-rank";
/// Exit code of a rank that says why it failed. Mostly it blames another.
const TOLD: u8 = 1;
/// The verbs.
pub(crate) const VERBS: [&str; 2] = ["bus", "barrier"];

#[derive(Debug, Parser)]
#[command(
    bin_name = "cargo xtask run",
    version,
    propagate_version = true,
    disable_help_subcommand = true
)]
enum Cli {
    /// Latencies of the host bus alone: round trips between ranks 0 and 1, all-gathers of all ranks
    Bus(Options),
    /// Latencies of the host bus's barrier alone, for 2, 4, 8 and so on up to all ranks
    Barrier(Options),
}

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
struct Options {
    /// Number of ranks, 2 to 64, each a process
    #[arg(short = 'r', long = "nworkers", value_name = "N", value_parser = cli::ranks)]
    ranks: u32,
    /// Measured operations of each row at most; large all-gathers of many ranks do fewer
    #[arg(short = 'n', long, value_name = "COUNT", default_value = "1000", value_parser = cli::iterations)]
    iters: u32,
    /// Operations before the measured ones at most
    #[arg(short = 'w', long, value_name = "COUNT", default_value = "100", value_parser = cli::warmup)]
    warmup_iters: u32,
    /// Deadline of each wait in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = cli::seconds)]
    timeout: u32,
    /// Taken as by the other verbs, and not used: the bus needs no library
    #[arg(long, value_name = "PATH", hide = true)]
    library: Option<std::path::PathBuf>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Subject {
    Bus,
    Barrier,
}

/// What a rank is started with, on its standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Start {
    subject: Subject,
    ranks: u16,
    iters: u32,
    warmup: u32,
    /// In seconds.
    timeout: u64,
    /// Process id of the launcher, which also names the bus.
    launcher: u32,
}

/// One line of the table, from rank 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    operation: String,
    ranks: u16,
    /// Bytes of a message or of a rank's contribution; none where nothing is moved.
    bytes: Option<usize>,
    /// In microseconds.
    p50: f64,
    /// In microseconds.
    p99: f64,
    /// Operations measured.
    n: usize,
}

/// Runs the verb that stands at this place of the command line, behind what options there are, to its end. All ranks have ended when it
/// returns.
pub(crate) fn main(verb: usize) -> ExitCode {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    // The parser of verbs takes what is behind the verb alone for its options.
    if let Some(before) = args.get_mut(1..=verb) {
        before.rotate_right(1);
    }
    let (subject, options) = match Cli::try_parse_from(args) {
        Ok(Cli::Bus(options)) => (Subject::Bus, options),
        Ok(Cli::Barrier(options)) => (Subject::Barrier, options),
        Err(error) => return refusal::exit(&error),
    };
    match measure(subject, &options) {
        Ok(code) => code,
        Err(message) => screen::failed(&message, screen::note),
    }
}

fn measure(subject: Subject, options: &Options) -> Result<ExitCode, String> {
    let start = Start {
        subject,
        ranks: u16::try_from(options.ranks).map_err(|error| error.to_string())?,
        iters: options.iters,
        warmup: options.warmup_iters,
        timeout: options.timeout.into(),
        launcher: std::process::id(),
    };
    let ended = match ranks::run(&start)? {
        Over::Ended(ended) => ended,
        Over::Signalled(signal) => return Ok(signalled(signal)),
    };
    if let Some(message) = failure(&ended) {
        return Err(message);
    }
    let rows: Vec<Row> =
        serde_json::from_slice(ended.first().map_or(&[], |rank| &rank.output.stdout))
            .map_err(|error| format!("rank 0 said something that is no table: {error}"))?;
    let text = table::text(&start, &rows);
    match text.lines().try_for_each(screen::line) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(unwritten) => screen::unwritten_or_signal(unwritten).map(signalled),
    }
}

fn signalled(signal: i32) -> ExitCode {
    ExitCode::from(screen::signalled(signal, "all ranks", screen::note))
}

/// The message of the rank whose failure is the cause: one that was killed, else one that ended otherwise without telling why, else the
/// first that tells.
fn failure(ended: &[Ended]) -> Option<String> {
    let order = |output: &Output| match (output.status.signal(), output.status.code()) {
        (Some(_), _) => 0,
        (None, code) => 1 + u8::from(code == Some(TOLD.into())),
    };
    let failed = || {
        let ranks = (0..).zip(ended);
        let failed = ranks.filter(|(_, rank)| rank.by_itself && !rank.output.status.success());
        failed.map(|(rank, ended)| (rank, &ended.output))
    };
    // `min_by_key` keeps the first of equals.
    let (rank, output): (u32, _) = failed().min_by_key(|(_, output)| order(output))?;
    let said = String::from_utf8_lossy(&output.stderr);
    Some(match said.trim() {
        said if !said.is_empty() && output.status.signal().is_none() => {
            format!("rank {rank}: {said}")
        }
        _ => {
            let alike = failed().filter(|(_, other)| other.status == output.status);
            let ranks: Vec<u32> = alike.map(|(rank, _)| rank).collect();
            let many = ranks.len() > 1;
            format!("{} {}", names(ranks), ending(output.status, many))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::process::ExitStatus;

    #[test]
    fn the_command_itself_is_sound() {
        Cli::command().debug_assert();
    }

    fn ended(by_itself: bool, status: i32, stderr: &str) -> Ended {
        let output = Output {
            status: ExitStatus::from_raw(status),
            stdout: Vec::new(),
            stderr: stderr.as_bytes().to_vec(),
        };
        Ended { by_itself, output }
    }

    #[test]
    fn a_killed_rank_outranks_what_others_say() {
        let ranks = [
            ended(true, 0, "a note"),
            ended(false, 9, ""),
            ended(true, 1 << 8, "late\n"),
            ended(true, 101 << 8, "panicked"),
            ended(true, 9, ""),
        ];
        assert_eq!(failure(&ranks[..2]), None);
        assert_eq!(failure(&ranks[..3]).as_deref(), Some("rank 2: late"));
        assert_eq!(failure(&ranks[..4]).as_deref(), Some("rank 3: panicked"));
        let killed = "rank 4 was killed by signal 9 (SIGKILL)";
        assert_eq!(failure(&ranks).as_deref(), Some(killed));
        let ranks = [
            ended(true, 9, ""),
            ended(true, 1 << 8, "late\n"),
            ended(true, 9, ""),
        ];
        let killed = "ranks 0 and 2 were killed by signal 9 (SIGKILL)";
        assert_eq!(failure(&ranks).as_deref(), Some(killed));
    }
}
