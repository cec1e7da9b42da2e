//! `proxytop`: looks into running processes from outside: their groups, workers, tasks and what is wrong, live or once.
//!
//! A process answers when it serves reports (`NEURON_RT_PROXY_REPORT=1`, or the API); same user only. Nothing is asked of a
//! worker, so a stuck one is seen as well as a running one.

#[path = "../sys/stdout.rs"]
mod stdout;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use proxy_os::diagnosis::record::Group;
use proxy_os::diagnosis::{Report, fetch_all, merge, prometheus, served};
use proxy_os::sys::terminal::{self, Screen, Woken};

#[derive(Debug, Parser)]
#[command(
    allow_negative_numbers = true,
    about = "Shows groups, workers and tasks of running proxy drivers, and the reason of a hang."
)]
struct Cli {
    /// Processes to look at; all that serve reports if none is given.
    #[arg(value_name = "PID", value_parser = pid)]
    pids: Vec<u32>,
    /// Print once and end; without a terminal that is what happens anyway.
    #[arg(long, group = "how")]
    once: bool,
    /// Print JSON: the reports, one array, or with --merge one object.
    #[arg(long, requires = "how")]
    json: bool,
    /// Print everything that the reports say.
    #[arg(long, requires = "once", conflicts_with = "json")]
    full: bool,
    /// Print counters and latencies in the text format of Prometheus.
    #[arg(long, requires = "once", conflicts_with_all = ["json", "full"])]
    prometheus: bool,
    /// Read reports from files instead: what `NEURON_RT_PROXY_REPORT_DIR` collects.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "pids", group = "how")]
    merge: Vec<PathBuf>,
    /// Ranks of the job, so that those without a report are named.
    #[arg(long, value_name = "RANKS", value_parser = world)]
    world: Option<u32>,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    every: f64,
}

/// Exit code for what was typed, as the parser's own.
const USAGE: u8 = 2;

/// Columns and rows of a terminal that does not know its own.
const SIZE: (usize, usize) = (80, 24);

/// What would change that there is nothing to see.
const NOTHING: &str = "no process of this user serves reports; one does from its start on with NEURON_RT_PROXY_REPORT=1, or when it asks for it \
(Service::start, enc_proxy_report_service_start)";

fn interval(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok();
    seconds
        .filter(|seconds| (0.05..=3600.0).contains(seconds))
        .ok_or_else(|| "accepted: 0.05 to 3600 seconds".to_owned())
}

/// A process, by a number that the kernel can have given it.
fn pid(text: &str) -> Result<u32, String> {
    let most = i32::MAX.unsigned_abs();
    whole(text, most).ok_or_else(|| format!("accepted: the number of a process, 1 to {most}"))
}

/// Ranks of a job, whose numbers have 16 bits.
fn world(text: &str) -> Result<u32, String> {
    let most = u16::MAX.into();
    whole(text, most).ok_or_else(|| format!("accepted: 1 to {most}"))
}

/// A whole number above zero, in digits alone.
fn whole(text: &str, most: u32) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.filter(|number| (1..=most).contains(number))
}

fn main() -> ExitCode {
    stdout::refuse_large_files_by_error();
    if stdout::was_closed() {
        return unwritten(&"it is closed");
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help is one, too.
        Err(error) => match error.print() {
            Err(full) if !error.use_stderr() => return unwritten(&full),
            _ => return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE)),
        },
    };
    match run(&cli) {
        Ok(code) => code,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            eprintln!("proxytop: {error}");
            ExitCode::from(USAGE)
        }
        // A reader that has seen enough is no error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => unwritten(&error),
    }
}

/// Says why what was found could not be shown.
fn unwritten(why: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("proxytop: cannot write standard output: {why}");
    ExitCode::FAILURE
}

fn run(cli: &Cli) -> io::Result<ExitCode> {
    let mut out = io::stdout();
    if !cli.merge.is_empty() {
        let reports = cli
            .merge
            .iter()
            .map(read)
            .collect::<io::Result<Vec<Report>>>()?;
        let merged = merge(&reports, cli.world);
        if cli.json {
            writeln!(out, "{}", merged.to_json()?)?;
        } else {
            writeln!(out, "{merged}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if cli.once || !out.is_terminal() {
        return once(cli, &mut out);
    }
    live(cli, &mut out)
}

/// Draws again and again until `q` or Ctrl-C; the terminal is as before then.
fn live(cli: &Cli, out: &mut io::Stdout) -> io::Result<ExitCode> {
    let terminal = Screen::enter(io::stdin().as_fd(), out.as_fd())?;
    let mut before = BTreeMap::new();
    loop {
        let (reports, errors) = look(cli);
        let next = Instant::now() + Duration::from_secs_f64(cli.every);
        loop {
            let size = terminal::size(out).unwrap_or(SIZE);
            let lines = fitted(screen(cli, &reports, &errors, &before), size);
            // Home, and clear what is below: less flicker than clearing first.
            write!(out, "\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"))?;
            out.flush()?;
            match terminal.wait(next.saturating_duration_since(Instant::now()))? {
                Woken::Time => break,
                Woken::Key(b'q') | Woken::End => return Ok(ExitCode::SUCCESS),
                Woken::Key(_) | Woken::Resized => {}
            }
        }
        before = ended(&reports);
    }
}

fn read(path: &PathBuf) -> io::Result<Report> {
    let bad = |error: &dyn std::fmt::Display| {
        let what = format!(
            "--merge {}: {error}; accepted: a report in JSON, as NEURON_RT_PROXY_REPORT_DIR collects them",
            path.display()
        );
        io::Error::new(io::ErrorKind::InvalidInput, what)
    };
    let text = fs::read_to_string(path).map_err(|error| bad(&error))?;
    Report::from_json(&text).map_err(|error| bad(&error))
}

/// The reports of the processes asked for, and why there is none of the others.
fn look(cli: &Cli) -> (Vec<Report>, Vec<String>) {
    let pids = if cli.pids.is_empty() {
        served()
    } else {
        cli.pids.clone()
    };
    let (mut reports, mut errors) = (Vec::new(), Vec::new());
    for answer in fetch_all(&pids) {
        match answer {
            Ok(report) => reports.push(report),
            Err(error) => errors.push(error.to_string()),
        }
    }
    (reports, errors)
}

fn once(cli: &Cli, out: &mut impl Write) -> io::Result<ExitCode> {
    let (reports, errors) = look(cli);
    if cli.json {
        serde_json::to_writer_pretty(&mut *out, &reports)?;
        writeln!(out)?;
    } else if cli.prometheus {
        write!(out, "{}", prometheus(&reports))?;
    } else if cli.full {
        reports
            .iter()
            .try_for_each(|report| writeln!(out, "{report}"))?;
    } else {
        let lines = screen(cli, &reports, &[], &BTreeMap::new());
        lines
            .iter()
            .try_for_each(|line| writeln!(out, "{}", line.text))?;
    }
    errors
        .iter()
        .for_each(|error| eprintln!("proxytop: {error}"));
    if reports.is_empty() && errors.is_empty() {
        eprintln!("proxytop: {NOTHING}");
    }
    let found = errors.is_empty() && !reports.is_empty();
    Ok(if found {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Tasks that each group had ended, and when, by process and group.
type Ended = BTreeMap<(u32, u32), (u64, u64)>;

fn ended(reports: &[Report]) -> Ended {
    let of = |report: &Report| {
        let (pid, now) = (report.process.pid, report.process.monotonic_ns);
        report
            .groups
            .iter()
            .map(|group| ((pid, group.gid), (group.ended, now)))
            .collect::<Vec<_>>()
    };
    reports.iter().flat_map(of).collect()
}

/// A line, and what becomes of what does not fit into the terminal.
struct Line {
    text: String,
    /// It goes on in the next line, instead of being cut.
    folds: bool,
}

impl Line {
    const fn row(text: String) -> Self {
        Self { text, folds: false }
    }

    const fn sentence(text: String) -> Self {
        Self { text, folds: true }
    }
}

/// The lines as a terminal of this size shows them, the first ones if not all fit.
fn fitted(lines: Vec<Line>, (columns, rows): (usize, usize)) -> Vec<String> {
    let parts = |line: Line| {
        let letters: Vec<char> = line.text.chars().collect();
        let most = if line.folds { usize::MAX } else { 1 };
        let cut = !line.folds && letters.len() > columns;
        let parts = letters.chunks(columns.max(1)).take(most);
        let mut parts: Vec<String> = parts.map(|part| part.iter().collect()).collect();
        if let Some(part) = parts.first_mut().filter(|_| cut) {
            part.pop();
            part.push('…');
        }
        if parts.is_empty() {
            vec![String::new()]
        } else {
            parts
        }
    };
    let mut all: Vec<String> = lines.into_iter().flat_map(parts).collect();
    let hidden = all.len().saturating_sub(rows);
    if hidden > 0 {
        all.truncate(rows.saturating_sub(1));
        all.push(format!("... {} more lines", hidden + 1));
    }
    all
}

/// What is shown: the sentence of all, a row per group, and the sentence of each process that is stuck.
fn screen(cli: &Cli, reports: &[Report], errors: &[String], before: &Ended) -> Vec<Line> {
    let all = Line::sentence(merge(reports, cli.world).sentence);
    let mut lines = vec![all, Line::row(String::new())];
    let head = format!(
        "{:>7} {:<15} {:>5} {:<9} {:>5} {:>6} {:>6} {:>9} {:>9}  {:<18} {}",
        "PID",
        "PROGRAM",
        "GROUP",
        "HEALTH",
        "RANKS",
        "ACTIVE",
        "DONE",
        "ENDED",
        "ENDED/S",
        "WORKER",
        "OLDEST WAIT"
    );
    lines.push(Line::row(head));
    for report in reports {
        let rows = report.groups.iter().map(|group| row(report, group, before));
        lines.extend(rows.map(Line::row));
    }
    for report in reports.iter().filter(|report| report.stall.is_some()) {
        let text = format!("{:>7} {}", report.process.pid, report.verdict);
        lines.push(Line::sentence(text));
    }
    lines.extend(errors.iter().cloned().map(Line::sentence));
    if reports.is_empty() && errors.is_empty() {
        lines.push(Line::sentence(NOTHING.to_owned()));
    }
    lines
}

fn row(report: &Report, group: &Group, before: &Ended) -> String {
    let mut ranks: Vec<u32> = group.tasks.iter().map(|task| task.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let done = group
        .tasks
        .iter()
        .filter(|task| task.state == "DONE")
        .count();
    let pid = report.process.pid;
    let rate = before.get(&(pid, group.gid)).and_then(|(ended, when)| {
        let seconds = report.process.monotonic_ns.checked_sub(*when)? as f64 / 1e9;
        Some(format!(
            "{:.0}",
            group.ended.saturating_sub(*ended) as f64 / seconds
        ))
    });
    let waiting = group.tasks.iter().filter(|task| task.state != "DONE");
    let oldest = waiting
        .filter_map(|task| Some((task.age?, task)))
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let oldest = oldest.map_or_else(String::new, |(age, task)| {
        format!(
            "{age:.1} s: rank {} {} exec {} {}",
            task.rank, task.kind, task.exec, task.state
        )
    });
    format!(
        "{pid:>7} {:<15} {:>5} {:<9} {:>5} {:>6} {done:>6} {:>9} {:>9}  {:<18} {oldest}",
        report.process.program,
        group.gid,
        group.health,
        ranks.len(),
        group.tasks.len() - done,
        group.ended,
        rate.unwrap_or_else(|| "-".to_owned()),
        group.worker.activity,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_refusal_has_option_value_and_what_is_accepted() {
        Cli::command().debug_assert();
        for (args, parts) in [
            (
                "extra",
                &["'extra'", "[PID]", "accepted: the number of a process"][..],
            ),
            (
                "0",
                &["'0'", "[PID]", "accepted: the number of a process, 1 to"],
            ),
            ("--world x", &["'x'", "--world", "accepted: 1 to 65535"]),
            ("--world 0", &["'0'", "--world", "accepted: 1 to 65535"]),
            ("--world -1", &["'-1'", "--world", "accepted: 1 to 65535"]),
            (
                "--world 65536",
                &["'65536'", "--world", "accepted: 1 to 65535"],
            ),
            ("--every x", &["'x'", "--every", "accepted: 0.05 to 3600"]),
            (
                "--every nan",
                &["'nan'", "--every", "accepted: 0.05 to 3600"],
            ),
            ("--json", &["--once"]),
            ("--once --json --full", &["--full", "--json"]),
            ("--merge", &["--merge <FILE>"]),
        ] {
            let words = std::iter::once("proxytop").chain(args.split_whitespace());
            let error = Cli::try_parse_from(words).expect_err(args);
            let text = error.to_string();
            assert!(
                parts.iter().all(|part| text.contains(part)),
                "{args}: {text}"
            );
            assert_eq!(error.exit_code(), i32::from(USAGE), "{args}");
        }
    }

    #[test]
    fn a_file_that_is_no_report_is_named_with_what_is() {
        for path in ["/nonexistent/report", "/proc/self/status", "/"] {
            let error = read(&path.into()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            let text = error.to_string();
            assert!(text.starts_with(&format!("--merge {path}: ")), "{text}");
            assert!(text.contains("; accepted: a report in JSON"), "{text}");
        }
    }

    #[test]
    fn f03_of_nothing_json_is_an_empty_array_and_the_table_says_what_would_be_in_it() {
        // No process has this number.
        let cli = Cli::parse_from(["proxytop", "--once", "--json", "2147483647"]);
        let mut out = Vec::new();
        once(&cli, &mut out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json, serde_json::json!([]));
        let lines = screen(&cli, &[], &[], &BTreeMap::new());
        let last = lines.last().map(|line| line.text.as_str());
        assert!(last.is_some_and(|text| text.contains("NEURON_RT_PROXY_REPORT=1")));
    }

    #[test]
    fn rows_are_cut_sentences_go_on_and_the_first_lines_stay_on_the_screen() {
        let lines = || {
            vec![
                Line::sentence("abcdefg".to_owned()),
                Line::row(String::new()),
                Line::row("0123456789".to_owned()),
                Line::sentence("xyz".to_owned()),
            ]
        };
        let all = ["abcd", "efg", "", "012…", "xyz"];
        assert_eq!(fitted(lines(), (4, 5)), all);
        assert_eq!(fitted(lines(), (4, 3)), ["abcd", "efg", "... 3 more lines"]);
    }
}
