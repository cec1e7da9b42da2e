//! The waits of one execution, which share a deadline: for the driver's two tasks, and for the device.

use std::time::{Duration, Instant};

use proxy_core::{Poll, RunState, Status, TaskKind, Ticket};
use proxy_kit::device;
use proxy_os::{ConsumeError, Context, Execution, Patience};

use super::stuck::explain;
use crate::wire::Failure;

/// How often device and barrier are asked, while the network task is waited for, whether they have failed.
const LOOK: Duration = Duration::from_millis(100);

/// One execution that is under way.
pub(super) struct Wait<'a> {
    pub(super) context: &'a Context,
    pub(super) running: &'a device::Execution,
    pub(super) deadline: Instant,
}

impl Wait<'_> {
    /// Consumes the status of the network task, and of the barrier task if there is one. A barrier or a device that fails meanwhile
    /// ends the wait: the network task may wait for what never comes.
    pub(super) fn for_driver(&self, tasks: &Execution) -> Result<(), Failure> {
        let mut barrier = tasks.barrier;
        self.consume(TaskKind::Network, tasks.network, || {
            let Some(ticket) = barrier else {
                return Ok(());
            };
            match self.context.queue().poll(ticket).map_err(Failure::own)? {
                Poll::Pending(_) => Ok(()),
                Poll::Done(status) => {
                    barrier = None;
                    ended(TaskKind::Barrier, status)
                }
            }
        })?;
        barrier.map_or(Ok(()), |ticket| {
            self.consume(TaskKind::Barrier, ticket, || Ok(()))
        })
    }

    /// Consumes the status of one task; `meanwhile` is called now and then, and may end the wait.
    fn consume(
        &self,
        kind: TaskKind,
        ticket: Ticket,
        mut meanwhile: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (queue, began) = (self.context.queue(), Instant::now());
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match queue.consume(ticket, Patience::until(left.min(LOOK))) {
                Ok(status) => return ended(kind, status),
                Err(ConsumeError::Timeout { state, .. }) => {
                    if let Some(failed) = self.device_failure() {
                        return Err(Failure::own(failed));
                    }
                    meanwhile()?;
                    if Instant::now() >= self.deadline {
                        let text = format!(
                            "the {kind} task is still {state} after {:.1?}",
                            began.elapsed()
                        );
                        return Err(self.late(&text, state != RunState::WaitingDeviceTrigger));
                    }
                }
                Err(error) => return Err(Failure::own(error)),
            }
        }
    }

    /// Waits for the end of the device's program.
    pub(super) fn for_device(&self) -> Result<(), Failure> {
        self.running.wait(self.deadline).map_err(|error| {
            let text = format!("the driver is done, the device is not: {error}");
            Failure::own(text + &explain(self.context, None))
        })
    }

    fn device_failure(&self) -> Option<String> {
        let failed = self
            .running
            .is_done()
            .then(|| self.running.wait(Instant::now()).err())
            .flatten();
        failed.map(|error| format!("the device failed: {error}"))
    }

    fn late(&self, text: &str, by_peer: bool) -> Failure {
        let device = match self.running.wait(Instant::now()) {
            Ok(()) => "the program is through".to_owned(),
            Err(error) => error.to_string(),
        };
        let text = text.to_owned() + &explain(self.context, Some(device));
        Failure { text, by_peer }
    }
}

/// The end of a task. Most failures are those of a peer.
fn ended(kind: TaskKind, status: Status) -> Result<(), Failure> {
    if status.is_success() {
        return Ok(());
    }
    Err(Failure::by_peer(format!(
        "the {kind} task ended with an error: {status}"
    )))
}
