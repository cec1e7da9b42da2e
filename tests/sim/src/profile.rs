//! What a world has in it and what goes wrong there: drawn first, so that a shrunk failure has few of it.

use proxy_core::{Arming, Polarity, Rank, Spec, StopAt};

use crate::choice::Choices;

/// Rates are "once in so many"; 0 is never.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Profile {
    /// Groups, each with a queue and a worker.
    pub(crate) groups: u32,
    /// Members: users of a rank, each with a context of its own.
    pub(crate) members: u32,
    /// Executions of a member.
    pub(crate) executions: u32,
    /// Others act in the middle of a call.
    pub(crate) cut: u32,
    /// The library or the barrier fails.
    pub(crate) fails: u32,
    /// A call takes its time.
    pub(crate) blocks: u32,
    /// The library goes quiet for a while.
    pub(crate) quiet: u32,
    /// The library calls back into the embedder, who appends.
    pub(crate) calls_back: u32,
    /// The worker dies in a call.
    pub(crate) dies: u32,
    /// The device: never fires, fires twice, early, or writes garbage.
    pub(crate) device: u32,
    /// The worker's clock jumps.
    pub(crate) jumps: u32,
    /// The bell rings for nothing.
    pub(crate) spurious: u32,
    /// A context is given up and registered anew.
    pub(crate) churn: u32,
    /// A consumer has its task end early.
    pub(crate) orders: u32,
}

impl Profile {
    /// Draws a world.
    pub(crate) fn draw(choices: &mut Choices) -> Self {
        let groups = 1 + choices.below(2);
        Self {
            groups,
            members: groups + choices.below(4),
            executions: 1 + choices.below(7),
            cut: choices.pick(&[0, 12, 4]),
            fails: choices.pick(&[0, 0, 40, 12]),
            blocks: choices.pick(&[0, 0, 40]),
            quiet: choices.pick(&[0, 0, 20]),
            calls_back: choices.pick(&[0, 0, 0, 15]),
            dies: choices.pick(&[0, 0, 0, 0, 0, 60]),
            device: choices.pick(&[0, 0, 8, 3]),
            jumps: choices.pick(&[0, 0, 10]),
            spurious: choices.pick(&[0, 0, 4]),
            churn: choices.pick(&[0, 0, 6]),
            orders: choices.pick(&[0, 0, 20, 5]),
        }
    }

    /// Draws the description of a member's context; its barrier is settled by whoever has the bus.
    pub(crate) fn spec(choices: &mut Choices, barrier: bool) -> Spec {
        Spec {
            rank: choices.pick(&[Rank(5), Rank(2)]),
            streams: choices.pick(&[1, 2, 4, 3, 0]),
            blocks: choices.pick(&[1, 2, 3]),
            skip: choices.once_in(10),
            device_wait: choices.once_in(2),
            barrier,
            barrier_triggers: choices.pick(&[0, 0, 1, 2]),
            polarity: choices.pick(&[Polarity::Specification, Polarity::Header]),
            arming: choices.pick(&[
                Arming::OnEnqueue,
                Arming::OnEnqueue,
                Arming::Explicit,
                Arming::ByDevice,
            ]),
            stop_at: choices.pick(&[StopAt::End, StopAt::End, StopAt::Switch]),
        }
    }
}
