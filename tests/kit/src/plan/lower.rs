//! From a block's work to the steps of its two lanes.
//!
//! The receive lane posts buffers up to the window, and works through completions in order; it never waits for a send.
//! The send lane follows it where a send needs what the receive lane made. So within a device no cycle of waits exists,
//! and between devices the oldest open transfer always has both sides posted.

use super::{After, BlockPlan, Semaphore, Step, Transfer, WINDOW, Work};
use crate::abi::Topology;

/// How one direction of one block uses its semaphores.
#[derive(Clone, Copy)]
struct Account {
    handshake: Step,
    semaphore: Semaphore,
    /// What the completion semaphore holds when the handshake is done and nothing is completed.
    base: u32,
}

impl Account {
    fn completed(self, entries: u32) -> Step {
        Step::Wait {
            semaphore: self.semaphore,
            total: self.base.wrapping_add(entries),
        }
    }
}

/// Makes the lanes of one block. `totals` is what the stream's semaphores hold when the block begins, relative to the
/// begin of the execution; it is brought to what they hold at the block's end.
pub(super) fn lower(
    work: Work,
    topology: Topology,
    totals: &mut [u32; Semaphore::COUNT],
) -> BlockPlan {
    let (receives, sends) = (count(&work.receives), count(&work.sends));
    let [receive, send] = accounts(topology, receives, sends, totals);
    let (receive_lane, marks) = receive_lane(&work, receives, receive);
    let send_lane = send_lane(&work.sends, sends, send, &marks);
    totals[Semaphore::Receive as usize] = receive.base.wrapping_add(receives);
    totals[Semaphore::Send as usize] = send.base.wrapping_add(sends);
    let only = |(transfer, _): (Transfer, After)| transfer;
    BlockPlan {
        ops: work.ops,
        transfers: [
            work.receives
                .into_iter()
                .map(|(transfer, _)| transfer)
                .collect(),
            work.sends.into_iter().map(only).collect(),
        ],
        lanes: [receive_lane, send_lane],
    }
}

/// Entries of one direction. A plan's count is bounded by memory far below 2^32 entries; saturation would be refused
/// by the semaphore check of the device.
fn count<T>(entries: &[T]) -> u32 {
    u32::try_from(entries.len()).unwrap_or(u32::MAX)
}

/// Receive and send account of a block; adds the handshakes of a mesh to `totals`.
fn accounts(
    topology: Topology,
    receives: u32,
    sends: u32,
    totals: &mut [u32; Semaphore::COUNT],
) -> [Account; 2] {
    let raised = [u32::from(receives > 0), if sends > 0 { WINDOW } else { 0 }];
    let shared = &mut totals[Semaphore::Handshake as usize];
    if topology == Topology::Mesh {
        *shared = shared.wrapping_add(raised[0] + raised[1]);
    }
    let both = Step::Wait {
        semaphore: Semaphore::Handshake,
        total: *shared,
    };
    let account = |semaphore: Semaphore, raised: u32| {
        let held = totals[semaphore as usize];
        match topology {
            Topology::Mesh => Account {
                handshake: both,
                semaphore,
                base: held,
            },
            Topology::Ring => {
                let base = held.wrapping_add(raised);
                Account {
                    handshake: Step::Wait {
                        semaphore,
                        total: base,
                    },
                    semaphore,
                    base,
                }
            }
        }
    };
    [
        account(Semaphore::Receive, raised[0]),
        account(Semaphore::Send, raised[1]),
    ]
}

/// Per dependency of a send: how many steps of the receive lane make it ready.
struct Marks {
    local: usize,
    receives: Vec<usize>,
}

fn receive_lane(work: &Work, entries: u32, account: Account) -> (Vec<Step>, Marks) {
    let mut steps = Vec::new();
    if entries > 0 {
        steps.push(Step::Ready);
    }
    steps.extend(&work.local);
    let mut marks = Marks {
        local: steps.len(),
        receives: Vec::with_capacity(work.receives.len()),
    };
    if entries > 0 {
        steps.push(account.handshake);
        steps.push(Step::Post {
            total: entries.min(WINDOW),
        });
    }
    for ((_, then), done) in work.receives.iter().zip(1_u32..) {
        steps.push(account.completed(done));
        if let Some(total) = done.checked_add(WINDOW).filter(|total| *total <= entries) {
            steps.push(Step::Post { total });
        }
        steps.extend(then);
        marks.receives.push(steps.len());
    }
    (steps, marks)
}

fn send_lane(
    sends: &[(Transfer, After)],
    entries: u32,
    account: Account,
    marks: &Marks,
) -> Vec<Step> {
    let mut steps = Vec::new();
    if entries == 0 {
        return steps;
    }
    steps.push(Step::Ready);
    steps.push(account.handshake);
    let mut followed = 0;
    for ((_, after), total) in sends.iter().zip(1_u32..) {
        let needed = match *after {
            After::Start => 0,
            After::Local => marks.local,
            After::Receive(index) => marks.receives[index],
        };
        if needed > followed {
            steps.push(Step::Follow { steps: needed });
            followed = needed;
        }
        if let Some(oldest) = total.checked_sub(WINDOW).filter(|oldest| *oldest > 0) {
            steps.push(account.completed(oldest));
        }
        steps.push(Step::Post { total });
    }
    steps.push(account.completed(entries));
    steps
}
