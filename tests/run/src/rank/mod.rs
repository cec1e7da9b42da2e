//! One rank: a process that joins the others, runs every size and tells the launcher what came out.
//!
//! It has three threads: this one, which enqueues and waits, the driver's worker, and the simulated device. Whatever
//! fails, the rank says so, in one message, and ends at once: nothing is torn down while library or device may be stuck.

mod barrier;
mod connection;
mod meeting;
mod plan;
mod runner;
mod stuck;
mod wait;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use proxy_os::nccom::Library;
use proxy_os::{Settings, log};

use crate::job::{Job, Start};
use crate::sys;
use crate::wire::{Failure, Message, Speaker};
use connection::Connection;
use meeting::Meeting;
use runner::Runner;

/// Runs as the rank that `argument` names, with the job that standard input gives.
pub(crate) fn main(argument: Option<OsString>) -> ExitCode {
    let rank = argument
        .as_deref()
        .and_then(|text| text.to_str()?.parse().ok());
    let start = serde_json::from_reader::<_, Start>(io::stdin());
    let (Some(rank), Ok(start)) = (rank, start) else {
        eprintln!("error: a rank is started by the launcher alone; run `proxy-run --help`");
        return ExitCode::from(2);
    };
    let pipe = sys::die_with_parent(start.launcher).and_then(|alive| {
        if alive {
            sys::take_stdout().map(Some)
        } else {
            Ok(None)
        }
    });
    let mut speaker = match pipe {
        Ok(Some(pipe)) => Speaker::new(pipe),
        // Nobody is left who would listen.
        Ok(None) => return ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot reach the launcher: {error}");
            return ExitCode::FAILURE;
        }
    };
    let last = match run(rank, &start, &mut speaker) {
        Ok(()) => Message::Finished,
        Err(failure) => Message::Failed(failure),
    };
    let told = speaker.say(&last).is_ok();
    sys::exit_now(u8::from(!told || last != Message::Finished))
}

fn run(rank: u32, start: &Start, speaker: &mut Speaker) -> Result<(), Failure> {
    let job = &start.job;
    let settings = settings(job)?;
    let library = proxy_os::nccom::shared(job.library.as_os_str()).map_err(Failure::own)?;
    speaker.say(&Message::Ready).map_err(unheard)?;
    let mut meeting = Meeting::join(start, rank)?;
    let done = together(rank, start, &settings, library, &mut meeting, speaker);
    if done.is_err() {
        // What this rank said last on the bus shall still be heard: that of a rank that has left is not.
        std::mem::forget(meeting);
    }
    done
}

/// From the library's bootstrap to the end, with all others there.
fn together(
    rank: u32,
    start: &Start,
    settings: &Settings,
    library: Arc<Library>,
    meeting: &mut Meeting,
    speaker: &mut Speaker,
) -> Result<(), Failure> {
    let job = &start.job;
    let connection = Connection::join(library, rank, start, meeting)?;
    speaker.say(&Message::Joined).map_err(unheard)?;
    let mut runner = Runner::new(job, settings, &connection, meeting)?;
    let done = sizes(&mut runner, job, speaker).and_then(|()| runner.release());
    if done.is_err() {
        // Its end would wait for a worker that may be stuck.
        std::mem::forget(runner);
        return done;
    }
    drop(runner);
    // Who leaves early looks like a rank that died to those who are not through.
    meeting.meet(job.checking(job.sizes.max()))?;
    connection.leave()
}

fn sizes(runner: &mut Runner<'_>, job: &Job, speaker: &mut Speaker) -> Result<(), Failure> {
    for (index, bytes) in (0..).zip(job.sizes.iter()) {
        let result = runner.size(index, bytes, speaker)?;
        speaker.say(&Message::Size(result)).map_err(unheard)?;
    }
    Ok(())
}

fn settings(job: &Job) -> Result<Settings, Failure> {
    let mut builder = Settings::builder();
    if let Some(early) = job.early_completion {
        builder = builder.early_completion(early);
    }
    let settings = builder.from_env().map_err(Failure::own)?;
    log::set_level(*settings.log_level());
    log::info(format_args!("settings:\n{settings}"));
    Ok(settings)
}

fn unheard(error: io::Error) -> Failure {
    Failure::own(format!("the launcher does not listen: {error}"))
}
