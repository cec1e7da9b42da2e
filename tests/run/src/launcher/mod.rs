//! The launcher: from a checked job to a table and an exit code. It never touches the library itself.

mod memory;
mod process;
mod root;
mod run;
pub(crate) mod screen;
mod verdict;

use std::process::ExitCode;

use proxy_os::Settings;
use proxy_os::config::Origin;

use crate::cli::Output;
use crate::job::{Check, Job, Start};
use crate::report::{JsonFile, Row};
use crate::sys::Signals;
pub(crate) use process::ending;
use root::Root;
use run::{End, Run};
use screen::Screen;

/// Exit code for a command line that is not accepted, as for those that the parser refuses.
const USAGE: u8 = 2;

/// Runs a job to its end. All ranks have ended when it returns.
pub(crate) fn main(job: Job, output: Output) -> ExitCode {
    let mut screen = Screen::new(output.non_interactive);
    let json = match output.json.as_deref().map(JsonFile::open).transpose() {
        Ok(json) => json,
        Err(message) => {
            screen.note(&format!("error: {message}"));
            return ExitCode::from(USAGE);
        }
    };
    match run(job, &output, json, &mut screen) {
        Ok(code) => code,
        Err(message) => screen::failed(&message, |text| screen.note(text)),
    }
}

fn run(
    mut job: Job,
    output: &Output,
    json: Option<JsonFile>,
    screen: &mut Screen,
) -> Result<ExitCode, String> {
    let settings = Settings::from_env().map_err(|error| error.to_string())?;
    if !output.timeout_given
        && let Some(seconds) = timeout_of(&settings)
    {
        job.timeout = seconds;
    }
    memory::check(&job)?;
    job.barrier &= !*settings.disable_execution_barrier();
    job.progress = screen.is_interactive();
    let wanted = [libc::SIGINT, libc::SIGTERM, libc::SIGCHLD];
    let mut signals =
        Signals::take(&wanted).map_err(|error| format!("cannot take over signals: {error}"))?;
    let root = Root::choose(&settings)?;
    let start = Start {
        job,
        root: root.address.clone(),
        launcher: std::process::id(),
    };
    screen
        .line(&describe(&start.job))
        .map_err(screen::unwritten)?;

    let mut run = Run::new(&start, output, &mut signals, screen);
    let end = run.drive();
    let rows = std::mem::take(&mut run.rows);
    drop(run);
    match end {
        End::Done => conclude(&start.job, output, json, &rows, screen),
        End::Failed(message) => Err(message),
        End::Signalled(signal) => {
            screen.note(&format!("ended by signal {signal}; all ranks are ended"));
            Ok(ExitCode::from(
                u8::try_from(128 + signal).unwrap_or(u8::MAX),
            ))
        }
    }
}

/// Footer, JSON file and verdict of a run that went through.
fn conclude(
    job: &Job,
    output: &Output,
    json: Option<JsonFile>,
    rows: &[Row],
    screen: &mut Screen,
) -> Result<ExitCode, String> {
    let average = rows.iter().map(|row| row.busbw).sum::<f64>() / rows.len().max(1) as f64;
    let footer = screen.line(&format!("Avg bus bandwidth: {average:.4}GB/s"));
    footer.map_err(screen::unwritten)?;
    json.map_or(Ok(()), |json| json.write(job, &output.stats, rows))?;
    let wrong = rows.iter().filter(|row| !row.wrong.is_empty()).count();
    match wrong {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(format!(
            "{wrong} of {} sizes have wrong results - test failed",
            rows.len()
        )),
    }
}

/// The deadline that the environment asks for, in seconds.
fn timeout_of(settings: &Settings) -> Option<u64> {
    let origin = settings
        .effective()
        .into_iter()
        .find(|one| one.name == "NEURON_RT_EXEC_TIMEOUT")?
        .origin;
    (origin == Origin::Environment).then(|| settings.exec_timeout().as_secs().max(1))
}

/// The line above the table: what is run, and the units.
fn describe(job: &Job) -> String {
    let plural =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let check = match job.check {
        Some(Check::Random) => format!(", checked on all ranks (random inputs, seed {})", job.seed),
        Some(Check::AllOnes) => ", checked on all ranks (inputs of ones)".to_owned(),
        None => String::new(),
    };
    let barrier = if job.barrier {
        ""
    } else {
        ", no execution barrier"
    };
    format!(
        "{}: {} ranks, {}, {}{barrier}{check}\n\
         GB/s = 10^9 bytes per second; the time of an iteration is that of its slowest rank",
        job.op.long_name(),
        job.layout.ranks,
        plural(job.streams, "stream"),
        plural(job.blocks, "block"),
    )
}
