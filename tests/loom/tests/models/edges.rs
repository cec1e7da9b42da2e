//! The list of edges: which model fails when one of them is relaxed, or why none can.
//!
//! Requirements: H81.

use proxy_core::Edge;

/// How it is shown that an edge is needed.
enum Shown {
    /// The twin of this model fails without it.
    Twin(&'static str),
    /// No model can fail without it, for this reason.
    Argued(&'static str),
}
use Shown::{Argued, Twin};

/// Exhaustive on purpose: a new edge needs a new twin.
const fn shown(edge: Edge) -> Shown {
    match edge {
        Edge::InboxPush | Edge::InboxTake => Twin("inbox"),
        Edge::AbortOrder => Twin("abort"),
        Edge::Mark => Twin("abort left"),
        Edge::SlotFields => Twin("look-up"),
        Edge::StatusPublish | Edge::StatusRead => Twin("status"),
        Edge::SlotFree => Argued(
            "it keeps the consumer's load of the code before the next owner's stores; loom runs the loads of a thread in \
             program order (no load buffering), so there is nothing for it to find. The worker's own stores are \
             released to the next owner by its DONE, whose release sequence the consumer's swap continues.",
        ),
        Edge::SlotClaim => Twin("slab"),
        Edge::ContextPublish | Edge::ContextRead => Twin("context publication"),
        Edge::ContextFinish => Twin("context last access"),
        Edge::RankPlace => Twin("rank places"),
        Edge::Arm => Twin("trigger arm and gate"),
        Edge::Record | Edge::RecordRead => Twin("recorder"),
        Edge::PhoneSignal => Twin("phone barrier"),
        Edge::PhoneSleep | Edge::PhoneCall => Twin("phone sleep"),
        Edge::PhoneMessage => Twin("phone ring"),
    }
}

/// Every twin that is named above stands in the models' sources.
#[test]
fn h81_every_edge_has_a_twin_or_an_argument() {
    let sources = [
        include_str!("inbox.rs"),
        include_str!("abort.rs"),
        include_str!("lookup.rs"),
        include_str!("status.rs"),
        include_str!("slab.rs"),
        include_str!("context.rs"),
        include_str!("ranks.rs"),
        include_str!("trigger.rs"),
        include_str!("recorder.rs"),
        include_str!("phone_barrier.rs"),
        include_str!("phone_ring.rs"),
        include_str!("phone_sleep.rs"),
    ]
    .concat();
    let sources = sources.split_whitespace().collect::<Vec<_>>().join(" ");
    for edge in [
        Edge::InboxPush,
        Edge::InboxTake,
        Edge::AbortOrder,
        Edge::Mark,
        Edge::SlotFields,
        Edge::StatusPublish,
        Edge::StatusRead,
        Edge::SlotFree,
        Edge::SlotClaim,
        Edge::ContextPublish,
        Edge::ContextRead,
        Edge::ContextFinish,
        Edge::RankPlace,
        Edge::Arm,
        Edge::Record,
        Edge::RecordRead,
        Edge::PhoneSignal,
        Edge::PhoneSleep,
        Edge::PhoneCall,
        Edge::PhoneMessage,
    ] {
        match shown(edge) {
            Twin(model) => {
                let twin = format!("Edge::{edge:?}, \"{model}\"");
                assert!(sources.contains(&twin), "no twin {twin}");
            }
            Argued(why) => assert!(!why.is_empty(), "{edge:?}"),
        }
    }
}
