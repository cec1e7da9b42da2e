//! The processes of a latency measurement: started, waited for, and ended together when one of them fails.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::{RANK_VERB, Start};
use crate::starter::Starter;
use crate::sys::{self, Signals};

/// How long the others are waited for after the first failure: they may know more about it, or be about to end.
const GRACE: Duration = Duration::from_millis(500);

/// How a rank ended, and what it said.
#[derive(Debug)]
pub(super) struct Ended {
    /// Before we ended it.
    pub(super) by_itself: bool,
    pub(super) output: Output,
}

/// All ranks. Dropped, it ends those that are left.
struct Ranks(Vec<Child>);

/// How a measurement ended.
#[derive(Debug)]
pub(super) enum Over {
    /// All ranks have ended, by themselves or by our hand, in order.
    Ended(Vec<Ended>),
    /// By a signal; all ranks have been ended.
    Signalled(i32),
}

/// Runs all ranks to their end. One that fails takes the others with it, as it may have died before anybody on the bus has seen it.
pub(super) fn run(start: &Start) -> Result<Over, String> {
    let mut signals = Signals::take(&sys::wanted_signals())
        .map_err(|error| format!("cannot take over signals: {error}"))?;
    // Behind the ranks in the order of ends: see `Starter`.
    let starter = Starter::new();
    let mut starter = starter.map_err(|error| format!("cannot start ranks: {error}"))?;
    let mut ranks = Ranks(Vec::new());
    for rank in 0..start.ranks {
        match begin(rank, start, &mut starter, &mut signals) {
            Ok(Ok(child)) => ranks.0.push(child),
            Ok(Err(signal)) => {
                starter.abandon();
                return Ok(Over::Signalled(signal));
            }
            Err(error) => {
                starter.abandon();
                return Err(format!("rank {rank} was not started: {error}"));
            }
        }
    }
    let cannot = |error| format!("cannot wait for the ranks: {error}");
    match ranks.wait(&mut signals).map_err(cannot)? {
        Some(signal) => Ok(Over::Signalled(signal)),
        None => ranks.outputs().map(Over::Ended).map_err(cannot),
    }
}

/// Starts a rank and gives it its job. The inner error is a signal.
fn begin(
    rank: u16,
    start: &Start,
    starter: &mut Starter,
    signals: &mut Signals,
) -> io::Result<Result<Child, i32>> {
    starter.start(command(rank)?)?;
    let limit = Duration::from_secs(start.timeout);
    loop {
        if let Some(child) = starter.next() {
            let mut child = child?;
            tell(&mut child, start)?;
            return Ok(Ok(child));
        }
        let left = limit.saturating_sub(starter.underway().unwrap_or_default());
        if left.is_zero() {
            return Err(io::Error::other(format!(
                "its process has been on its way between fork and exec for {} s, stopped by a signal, say",
                limit.as_secs()
            )));
        }
        let mut fds = [signals.fd(), starter.fd()].map(sys::readable);
        sys::poll(&mut fds, Some(left))?;
        if let Some(signal) = signals.ending() {
            return Ok(Err(signal));
        }
    }
}

/// What starts a rank, in a process group of its own, so that a Ctrl-C at the terminal reaches the launcher alone.
fn command(rank: u16) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(RANK_VERB).arg(rank.to_string());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    Ok(command)
}

fn tell(child: &mut Child, start: &Start) -> io::Result<()> {
    let text = serde_json::to_vec(start)?;
    match child
        .stdin
        .take()
        .map_or(Ok(()), |mut pipe| pipe.write_all(&text))
    {
        // One that has died already is found when it is reaped.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        told => told,
    }
}

impl Ranks {
    /// Returns when all have ended, when one has failed and the others have had their time, or with the signal that came. What they
    /// say fits into their pipes.
    fn wait(&mut self, signals: &mut Signals) -> io::Result<Option<i32>> {
        let mut failed: Option<Instant> = None;
        loop {
            let (mut running, mut failure) = (false, false);
            for child in &mut self.0 {
                match child.try_wait()? {
                    None => running = true,
                    Some(status) => failure |= !status.success(),
                }
            }
            if !running {
                return Ok(None);
            }
            if failure {
                failed.get_or_insert_with(Instant::now);
            }
            let left = failed.map(|since| GRACE.saturating_sub(since.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            sys::poll(&mut [sys::readable(signals.fd())], left)?;
            if let Some(signal) = signals.ending() {
                return Ok(Some(signal));
            }
        }
    }

    /// Ends what is left.
    fn outputs(mut self) -> io::Result<Vec<Ended>> {
        let mut outputs = Vec::new();
        for mut child in std::mem::take(&mut self.0) {
            let by_itself = child.try_wait()?.is_some();
            // It may have ended in this moment.
            let _ = child.kill();
            let output = child.wait_with_output()?;
            outputs.push(Ended { by_itself, output });
        }
        Ok(outputs)
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended in this moment.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
