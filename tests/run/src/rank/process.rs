//! The process of one or several ranks: what they share is made here, then each has a thread of its own.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use proxy_os::nccom::Library;
use proxy_os::{Settings, log};

use super::trace::Traces;
use super::{run, unheard};
use crate::job::{Job, Start};
use crate::launcher::screen;
use crate::sys;
use crate::wire::{Failure, Message, Speaker};

/// Runs the ranks of the process that begins with the one that `argument` names, with the job that standard input gives.
pub(crate) fn main(argument: Option<OsString>) -> ExitCode {
    let first: Option<u32> = argument
        .as_deref()
        .and_then(|text| text.to_str()?.parse().ok());
    let start = serde_json::from_reader::<_, Start>(io::stdin());
    let started = start
        .ok()
        .and_then(|start| Some((start.job.layout.process(first?)?, start)));
    let Some((ranks, start)) = started else {
        return screen::not_for_users();
    };
    match pipe(&start) {
        Ok(Some(pipe)) => sys::exit_now(u8::from(!all(ranks, &start, pipe))),
        // Nobody is left who would listen.
        Ok(None) => ExitCode::FAILURE,
        Err(error) => {
            screen::note(&format!("cannot reach the launcher: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The way to the launcher; none if it has ended.
fn pipe(start: &Start) -> io::Result<Option<File>> {
    if sys::die_with_parent(start.launcher)? {
        sys::take_stdout().map(Some)
    } else {
        Ok(None)
    }
}

/// What the ranks of a process share.
#[derive(Debug)]
pub(super) struct Process<'a> {
    pub(super) start: &'a Start,
    pub(super) settings: Settings,
    pub(super) library: Arc<Library>,
    pub(super) traces: Traces,
}

/// Runs all ranks; true = each has finished, and said so. A rank that fails says so and leaves the others to find out: what they say
/// may be nearer to the cause.
fn all(ranks: Range<u32>, start: &Start, pipe: File) -> bool {
    let speaker = Speaker::new(ranks.start, pipe);
    let process = match prepare(ranks.start, start, &speaker) {
        Ok(process) => process,
        Err(failure) => return tell(&speaker, Err(failure)),
    };
    if speaker.say(Message::Ready).is_err() {
        return false;
    }
    let process = &process;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (ranks.start + 1..ranks.end)
            .map(|rank| {
                let own = speaker.of(rank);
                let builder = std::thread::Builder::new().name(format!("rank-{rank}"));
                builder.spawn_scoped(scope, move || process.rank(rank, &own))
            })
            .collect();
        let first = process.rank(ranks.start, &speaker);
        // Each has a result, whatever came out for those before it.
        let rest = threads
            .into_iter()
            .zip(ranks.start + 1..)
            .map(|(thread, rank)| {
                match thread {
                    // A panic was caught and told.
                    Ok(thread) => thread.join().unwrap_or(false),
                    Err(error) => tell(&speaker.of(rank), Err(no_thread(&error))),
                }
            });
        rest.fold(first, |all, one| all & one)
    })
    .then(|| process.traces.write())
    .is_some_and(|written| match written {
        Ok(()) => true,
        Err(failure) => tell(&speaker, Err(failure)),
    })
}

impl Process<'_> {
    /// Runs one rank on this thread; true = it has finished, and said so.
    fn rank(&self, rank: u32, speaker: &Speaker) -> bool {
        let body = || run(rank, self, speaker);
        // The panic itself has been printed; the others of this process go on until they find out.
        let done = catch_unwind(AssertUnwindSafe(body))
            .unwrap_or_else(|_| Err(Failure::own("panicked, which is a bug of the rank")));
        if done.is_err()
            && let Err(failure) = self.traces.write()
        {
            // What has failed before is what is to be told.
            log::warn(format_args!("{}", failure.text));
        }
        tell(speaker, done)
    }
}

/// Settings and library, which are the same for all ranks.
fn prepare<'a>(first: u32, start: &'a Start, speaker: &Speaker) -> Result<Process<'a>, Failure> {
    let settings = settings(&start.job)?;
    let named = &start.job.library;
    // What happens in there, a crash or a hang of its constructors say, is told together with the library.
    speaker.say(Message::Loading).map_err(unheard)?;
    let library = proxy_os::nccom::shared(named)
        .map_err(|error| Failure::own(format!("--library {}: {error}", named.display())))?;
    Ok(Process {
        start,
        settings,
        library,
        traces: Traces::new(start.trace.clone().map(PathBuf::from), first),
    })
}

fn settings(job: &Job) -> Result<Settings, Failure> {
    let mut builder = Settings::builder();
    if let Some(early) = job.early_completion {
        builder = builder.early_completion(early);
    }
    if let Some(share) = job.layout.per_proxy {
        builder = builder.ranks_per_network_proxy(share);
    }
    let settings = builder.from_env().map_err(Failure::own)?;
    log::set_level(*settings.log_level());
    log::info(format_args!("settings:\n{settings}"));
    Ok(settings)
}

/// Says how a rank has ended; true = well, and somebody has heard it.
fn tell(speaker: &Speaker, done: Result<(), Failure>) -> bool {
    let well = done.is_ok();
    let last = done.map_or_else(Message::Failed, |()| Message::Finished);
    speaker.say(last).map_err(unheard).is_ok() && well
}

fn no_thread(error: &io::Error) -> Failure {
    Failure::own(format!("cannot start the thread of this rank: {error}"))
}
