//! The processes of a latency measurement: started, waited for, and ended together when one of them fails.

use std::io::{self, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::{RANK_VERB, Start};
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

/// Runs all ranks to their end; returns what each has said, in order. One that fails takes the others with it, as it may have
/// died before anybody on the bus has seen it.
pub(super) fn run(start: &Start) -> Result<Vec<Ended>, String> {
    let mut signals = Signals::take(&[libc::SIGCHLD])
        .map_err(|error| format!("cannot take over signals: {error}"))?;
    let mut ranks = Ranks(Vec::new());
    for rank in 0..start.ranks {
        let child = spawn(rank);
        ranks
            .0
            .push(child.map_err(|error| format!("cannot start rank {rank}: {error}"))?);
        let child = ranks.0.last_mut();
        child
            .map_or(Ok(()), |child| tell(child, start))
            .map_err(|error| format!("cannot start rank {rank}: {error}"))?;
    }
    ranks
        .wait(&mut signals)
        .and_then(|()| ranks.outputs())
        .map_err(|error| format!("cannot wait for the ranks: {error}"))
}

fn spawn(rank: u16) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(RANK_VERB).arg(rank.to_string());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
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
    /// Returns when all have ended, by themselves or by our hand. What they say fits into their pipes.
    fn wait(&mut self, signals: &mut Signals) -> io::Result<()> {
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
                return Ok(());
            }
            if failure {
                failed.get_or_insert_with(Instant::now);
            }
            let left = failed.map(|since| GRACE.saturating_sub(since.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(());
            }
            sys::poll(&mut [sys::readable(signals.fd())], left)?;
            while signals.next().is_some() {}
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
