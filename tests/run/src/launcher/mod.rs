//! The launcher: from a checked job to a table and an exit code. It never touches the library itself.

mod crew;
mod memory;
mod nodes;
mod process;
mod roll;
mod root;
mod run;
pub(crate) mod screen;
mod trace;
mod verdict;

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::process::ExitCode;

use proxy_os::Settings;
use proxy_os::config::{BadSetting, Origin};

use crate::cli::{Output, SECONDS};
use crate::job::{Job, Start};
use crate::report::{JsonFile, Row};
use crate::sys::{self, Signals};
pub(crate) use nodes::Place;
use nodes::{Door, Gathered, follow};
pub(crate) use process::ending;
use root::Root;
use run::{End, Run};
use screen::{Screen, USAGE};
use trace::TraceFile;

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
    let trace = output
        .trace
        .as_deref()
        .map(|path| TraceFile::open(path, job.layout.ranks));
    let trace = match trace.transpose() {
        Ok(trace) => trace,
        Err(message) => {
            screen.note(&format!("error: {message}"));
            return ExitCode::from(USAGE);
        }
    };
    let (layout, nodes) = (job.layout, nodes_of(&job, &output));
    let ended = run(job, &output, json, trace.as_ref(), &mut screen);
    let merged = trace.map_or(Ok(None), |trace| trace.merge(layout, nodes));
    match (&ended, &merged) {
        // Of a run that failed its own reason is the last word.
        (_, Ok(Some(text))) | (Err(_), Err(text)) => screen.note(text),
        _ => {}
    }
    match ended.and_then(|code| merged.map(|_| code)) {
        Ok(code) => code,
        Err(message) => screen::failed(&message, |text| screen.note(text)),
    }
}

/// The nodes whose ranks this launcher starts.
fn nodes_of(job: &Job, output: &Output) -> Range<u32> {
    let place = output.place.as_ref();
    place.map_or(0..job.layout.nodes, |place| place.node..place.node + 1)
}

fn run(
    mut job: Job,
    output: &Output,
    json: Option<JsonFile>,
    trace: Option<&TraceFile>,
    screen: &mut Screen,
) -> Result<ExitCode, String> {
    // The ranks say what is to be said of a value that is accepted.
    let settings = Settings::from_lookup(|name| std::env::var_os(name));
    let settings = settings.map_err(|error| error.to_string())?;
    if !output.timeout_given
        && let Some(seconds) = timeout_of(&settings)?
    {
        job.timeout = seconds;
    }
    let place = output.place.as_ref();
    memory::check(&job, &nodes_of(&job, output))?;
    job.barrier &= !*settings.disable_execution_barrier();
    let mut signals = Signals::take(&sys::wanted_signals())
        .map_err(|error| format!("cannot take over signals: {error}"))?;
    let mut door = match place {
        None => None,
        Some(place) if place.node == 0 => Some(Door::open(&place.root, &job, output.seed_given)?),
        Some(place) => return follow(job, place, output, trace, &mut signals, screen),
    };
    let ended = lead(
        job,
        output,
        (json, trace),
        &settings,
        (&mut signals, screen, door.as_mut()),
    );
    if let Some(mut door) = door {
        match &ended {
            Ok((0, _)) => door.end(0, None),
            Ok((code, message)) => door.end(1.min(*code), Some(message)),
            // Nobody reads the table any more, which node 0 itself says nothing about.
            Err(message) if message.is_empty() => door.end(1, Some("node 0's table is not read")),
            Err(message) => door.end(1, Some(message)),
        }
    }
    ended.map(|(code, _)| ExitCode::from(code))
}

/// Runs a job whose table this launcher prints; returns the exit code, and what happened if that is not 0.
fn lead(
    job: Job,
    output: &Output,
    (json, trace): (Option<JsonFile>, Option<&TraceFile>),
    settings: &Settings,
    (signals, screen, mut door): (&mut Signals, &mut Screen, Option<&mut Door>),
) -> Result<(u8, String), String> {
    if let Some(door) = &mut door
        && let Gathered::Signalled(signal) = door.gather(job.deadline(), signals)?
    {
        return Ok(signalled(signal, screen));
    }
    let own = door.as_ref().map(|door| door.ip());
    let own = own.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let root = Root::choose(settings, own)?;
    let start = Start {
        job,
        root: root.address.clone(),
        launcher: std::process::id(),
        trace: trace.map(TraceFile::parts),
    };
    if let Some(door) = &mut door {
        door.start(&start.job, &start.root);
    }
    let mut run = Run::new(&start, output, signals, screen, door);
    let end = run.drive();
    let rows = std::mem::take(&mut run.rows);
    drop(run);
    match end {
        End::Done => conclude(&start.job, output, json, &rows, screen),
        End::Failed(message) => Err(message),
        End::Signalled(signal) => Ok(signalled(signal, screen)),
    }
}

/// Exit code and message of a run that a signal has ended.
fn signalled(signal: i32, screen: &mut Screen) -> (u8, String) {
    let code = screen::signalled(signal, "all ranks", |text| screen.note(text));
    (code, format!("node 0 was ended by signal {signal}"))
}

/// Footer, JSON file and verdict of a run that went through.
fn conclude(
    job: &Job,
    output: &Output,
    json: Option<JsonFile>,
    rows: &[Row],
    screen: &mut Screen,
) -> Result<(u8, String), String> {
    let average = rows.iter().map(|row| row.busbw).sum::<f64>() / rows.len().max(1) as f64;
    let footer = screen.line(&format!("Avg bus bandwidth: {average:.4}GB/s"));
    if let Err(unwritten) = footer {
        let signal = screen::unwritten_or_signal(unwritten)?;
        return Ok(signalled(signal, screen));
    }
    json.map_or(Ok(()), |json| json.write(job, &output.stats, rows))?;
    let wrong = rows.iter().filter(|row| !row.wrong.is_empty()).count();
    match wrong {
        0 => Ok((0, String::new())),
        _ => Err(format!(
            "{wrong} of {} sizes have wrong results - test failed",
            rows.len()
        )),
    }
}

/// The deadline that the environment asks for, in seconds. One of nothing at all is none that a run could keep.
fn timeout_of(settings: &Settings) -> Result<Option<u64>, String> {
    const NAME: &str = "NEURON_RT_EXEC_TIMEOUT";
    let all = settings.effective();
    let given = all.iter().find(|one| one.name == NAME);
    let seconds = settings.exec_timeout().as_secs();
    match given.map(|given| given.origin) {
        Some(origin @ Origin::Environment) if seconds == 0 => Err(BadSetting {
            name: NAME,
            value: seconds.to_string(),
            token: None,
            accepted: format!(
                "a whole number of seconds, {}..{}",
                SECONDS.start(),
                SECONDS.end()
            ),
            origin,
        }
        .to_string()),
        Some(Origin::Environment) => Ok(Some(seconds)),
        _ => Ok(None),
    }
}
