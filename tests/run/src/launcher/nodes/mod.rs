//! Several launchers, each on a machine of its own, that start one job together.
//!
//! ```text
//!   node 0: the head                          node k
//!   listens at --root          <── Hello ───  what it was told on its command line
//!   takes it                   ── Seated ──>  waits for the others as long as node 0 does
//!   all have come and agree    ─── Start ──>  starts its ranks
//!   table, verdict             <── Report ──  what its ranks say, how they end
//!   over                       ─── End ────>  ends its ranks, with the same message and exit code
//! ```
//!
//! Messages are lines of JSON over one TCP connection for each node. A connection that closes stands for a launcher that has died, and
//! ends the job on all nodes. What the ranks say to each other goes through the library and not here.

mod door;
mod follower;
mod link;
mod terms;

use std::ops::Range;
use std::time::Duration;

use proxy_os::config::RootCommId;
use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::wire::Said;
pub(super) use door::{Door, Gathered};
pub(super) use follower::follow;
use terms::Terms;

/// Which program speaks. Launchers of different versions do not understand each other's ranks.
const PROGRAM: &str = concat!("proxy-run ", env!("CARGO_PKG_VERSION"));

/// `--root` and `--node-rank`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where the head listens.
    pub(crate) root: RootCommId,
    /// The node of this launcher.
    pub(crate) node: u32,
}

/// The first message to the head.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    program: String,
    node: u32,
    terms: Terms,
}

/// What the head says.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// You are not taken, because.
    Refused(String),
    /// You are taken, and will be told within that time whether the others have come, too.
    Seated { left: Duration },
    /// All have come: start your ranks with this job, whose library is your own, and where they meet.
    Start { job: Box<Job>, root: String },
    /// It is over, with this exit code and message; the last words of `speaker` may tell more.
    End {
        code: u8,
        message: Option<String>,
        speaker: Option<u32>,
    },
}

/// What happens to the ranks of a launcher, its own or those of another node.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// A rank has said something.
    Said(Said),
    /// A process has said something that is no message.
    Garbled {
        /// Its ranks.
        ranks: Range<u32>,
        /// What.
        what: String,
    },
    /// A process has ended before it was finished.
    Died {
        /// Its ranks.
        ranks: Range<u32>,
        /// How, as the kernel says it.
        status: i32,
    },
    /// A process was stopped by a signal, or goes on (`None`).
    Stopped {
        /// Its ranks.
        ranks: Range<u32>,
        /// By which.
        signal: Option<i32>,
    },
    /// All processes of the node have ended.
    Ended,
    /// The node's launcher ends early, because.
    Gone(String),
}
