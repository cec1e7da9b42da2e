//! One rank: it joins the others, runs every size and tells the launcher what came out.
//!
//! It has two threads, this one, which enqueues and waits, and the simulated device; and the driver's worker, which it may share with
//! other ranks of its [process]. Whatever fails, the rank says so, in one message, and nothing is torn down while
//! library or device may be stuck.

mod barrier;
mod connection;
mod meeting;
mod plan;
mod process;
mod runner;
mod stuck;
mod trace;
mod wait;

use std::io;
use std::sync::Arc;

use crate::job::Job;
use crate::wire::{Failure, Message, Speaker};
use connection::Connection;
use meeting::Meeting;
use process::Process;
pub(crate) use process::main;
use runner::Runner;

/// Runs rank `rank` to its end. What a rank that fails has joined stays until its process ends, as its peers and its worker may be in
/// the middle of it.
fn run(rank: u32, process: &Process<'_>, speaker: &Speaker) -> Result<(), Failure> {
    let start = process.start;
    let job = &start.job;
    let host = meeting::set_up(start, &process.settings, rank)?;
    process.traces.start(host.queue());
    let library = Arc::clone(&process.library);
    let (connection, host) = Connection::join(library, rank, start, host)?;
    let mut meeting = Meeting::new(host, start, job.checking(job.sizes.max()))?;
    let done = connected(&connection, process, &mut meeting, speaker);
    if done.is_err() {
        std::mem::forget(meeting);
        return done;
    }
    connection.leave(meeting)
}

/// All sizes, with a connection to all others; returns when they are through, too.
fn connected(
    connection: &Connection,
    process: &Process<'_>,
    meeting: &mut Meeting,
    speaker: &Speaker,
) -> Result<(), Failure> {
    let job = &process.start.job;
    speaker.say(Message::Joined).map_err(unheard)?;
    let mut runner = Runner::new(process, connection, meeting)?;
    let done = sizes(&mut runner, job, speaker);
    if done.is_err() {
        // The worker may be using what it has.
        std::mem::forget(runner);
        return done;
    }
    drop(runner);
    // Who leaves early looks like a rank that died to those who are not through.
    meeting.meet(job.checking(job.sizes.max()))
}

fn sizes(runner: &mut Runner<'_>, job: &Job, speaker: &Speaker) -> Result<(), Failure> {
    for (index, bytes) in (0..).zip(job.sizes.iter()) {
        let result = runner.size(index, bytes, speaker)?;
        speaker.say(Message::Size(result)).map_err(unheard)?;
    }
    Ok(())
}

fn unheard(error: io::Error) -> Failure {
    Failure::own(format!("the launcher does not listen: {error}"))
}
