//! The list of everything that threads share by atomics: which models go through it, or why none is needed.
//!
//! Found in the sources, so that a new one cannot be forgotten: a file with an atomic's ordering in it has to be listed.
//!
//! Requirements: H81.

use std::fs;
use std::path::Path;

/// Models that go through a file, or the reason for none.
enum Looked {
    At(&'static [&'static str]),
    /// Every word is a message by itself: nothing else is read because of what is in it, so there is no order to get wrong.
    Alone,
    Argued(&'static str),
}
use Looked::{Alone, Argued, At};

const ONE_FLAG: Looked = Argued(
    "one flag that is set once by a release and read by an acquire, by a thread that is rung or looks again by the clock",
);

const SHARED: &[(&str, Looked)] = &[
    (
        "proxy-core/src/board.rs",
        At(&["status", "slab", "look-up"]),
    ),
    (
        "proxy-core/src/board/order.rs",
        At(&["abort", "abort verdict", "abort left"]),
    ),
    (
        "proxy-core/src/context.rs",
        At(&[
            "context publication",
            "context last access",
            "context retire",
            "look-up of the next",
        ]),
    ),
    (
        "proxy-core/src/hint.rs",
        At(&["look-up", "look-up order", "look-up of the next"]),
    ),
    (
        "proxy-core/src/inbox.rs",
        At(&["inbox", "doorbell", "abort"]),
    ),
    (
        "proxy-core/src/phone/barrier.rs",
        At(&["phone barrier", "phone barrier, three", "phone verdict"]),
    ),
    (
        "proxy-core/src/phone/barrier/claim.rs",
        At(&["phone verdict", "phone barrier, forgone"]),
    ),
    (
        "proxy-core/src/phone/barrier/meeting.rs",
        At(&[
            "phone meeting",
            "phone meeting, missed",
            "phone meeting, gone on",
            "phone meeting, overtaken",
        ]),
    ),
    (
        "proxy-core/src/phone/layout.rs",
        At(&["phone ring", "phone barrier", "phone sleep"]),
    ),
    (
        "proxy-core/src/phone/member.rs",
        At(&["phone sleep", "phone leave and die", "phone hang-up"]),
    ),
    (
        "proxy-core/src/phone/ring/cell.rs",
        At(&[
            "phone ring",
            "phone ring, long",
            "phone ring, stale",
            "phone cursor",
        ]),
    ),
    (
        "proxy-core/src/phone/signal.rs",
        At(&["phone sleep", "phone ring, waits", "phone death"]),
    ),
    (
        "proxy-core/src/queue/append.rs",
        At(&["doorbell", "inbox order"]),
    ),
    (
        "proxy-core/src/queue/ranks.rs",
        At(&["rank places", "rank handover"]),
    ),
    ("proxy-core/src/recorder.rs", At(&["recorder"])),
    (
        "proxy-core/src/trigger.rs",
        At(&["trigger arm and gate", "trigger payload"]),
    ),
    ("proxy-os/src/bananaphone/counters.rs", Alone),
    ("proxy-os/src/bananaphone/hub.rs", ONE_FLAG),
    ("proxy-os/src/bananaphone/kill.rs", Alone),
    ("proxy-os/src/bananaphone/leaders.rs", ONE_FLAG),
    (
        "proxy-os/src/bananaphone/leaders/channel.rs",
        At(&["leaders' votes", "leaders' verdicts", "leaders' seat"]),
    ),
    (
        "proxy-os/src/bananaphone/leaders/desk.rs",
        Argued(
            "one word behind the verdicts of the channel, whose models have the same release and acquire; the others are for messages",
        ),
    ),
    ("proxy-os/src/bananaphone/leaders/service.rs", ONE_FLAG),
    ("proxy-os/src/bananaphone/sight.rs", Alone),
    ("proxy-os/src/bananaphone/watch.rs", ONE_FLAG),
    (
        "proxy-os/src/completion.rs",
        At(&["completion", "completion of two ranks"]),
    ),
    ("proxy-os/src/context/note.rs", Alone),
    ("proxy-os/src/dedicated.rs", Alone),
    (
        "proxy-os/src/device.rs",
        Argued(
            "the device's words; the core's rules for them are the models of the trigger, over words with the same orderings",
        ),
    ),
    ("proxy-os/src/diagnosis/serve.rs", ONE_FLAG),
    ("proxy-os/src/latency/buckets.rs", Alone),
    ("proxy-os/src/latency/output.rs", Alone),
    ("proxy-os/src/leave.rs", Alone),
    ("proxy-os/src/left.rs", Alone),
    ("proxy-os/src/log.rs", Alone),
    ("proxy-os/src/nccom/proxy_comm.rs", Alone),
    ("proxy-os/src/nccom/shared.rs", Alone),
    ("proxy-os/src/pass.rs", ONE_FLAG),
    ("proxy-os/src/queue.rs", ONE_FLAG),
    (
        "proxy-os/src/sys/fork.rs",
        Argued("a pointer to a page, published once and never taken back"),
    ),
    (
        "proxy-os/src/sys/signal.rs",
        Argued("the former handler, published once before the new one is in place"),
    ),
    ("proxy-os/src/sys/fault.rs", Alone),
    ("proxy-os/src/sys/stdout.rs", Alone),
    ("proxy-os/src/sys/thread.rs", Alone),
    (
        "proxy-os/src/trace/mod.rs",
        Argued(
            "one writer; each event has a cell of the standard library, which publishes it; the counter is alone",
        ),
    ),
    ("proxy-os/src/watch.rs", Alone),
];

/// The workspace.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Files below a folder whose code names an ordering of atomics, but for tests and the core's file of atomics themselves.
fn naming(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.strip_prefix(root()).expect("below the workspace");
        let name = name.display().to_string();
        if path.is_dir() {
            naming(&path, found);
        } else if !name.ends_with("tests.rs")
            && !name.contains("/tests/")
            && !name.ends_with("core/src/sync.rs")
        {
            let text = fs::read_to_string(&path).expect("a source");
            let code = text.split("\nmod tests {").next().unwrap_or_default();
            let orders = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];
            if orders
                .iter()
                .any(|order| code.contains(&format!("Ordering::{order}")))
            {
                found.push(name);
            }
        }
    }
}

#[test]
fn h81_every_file_with_atomics_has_its_models_or_an_argument() {
    let mut found = Vec::new();
    for part in ["proxy-core/src", "proxy-os/src"] {
        naming(&root().join(part), &mut found);
    }
    let listed = |name: &String| SHARED.iter().any(|(file, _)| file == name);
    let unlisted: Vec<_> = found.iter().filter(|name| !listed(name)).collect();
    assert!(
        unlisted.is_empty(),
        "shared by threads, but not in this list: {unlisted:?}"
    );
    let gone = |(file, _): &&(&str, Looked)| !found.iter().any(|name| name == file);
    let gone: Vec<_> = SHARED.iter().filter(gone).map(|(file, _)| file).collect();
    assert!(gone.is_empty(), "listed, but without atomics: {gone:?}");
}

#[test]
fn h81_every_model_that_is_named_is_there() {
    let mut sources = String::new();
    for entry in fs::read_dir(root().join("tests/loom/tests/models")).expect("the models") {
        sources += &fs::read_to_string(entry.expect("an entry").path()).expect("a model");
    }
    for (file, looked) in SHARED {
        match looked {
            At(models) => {
                assert!(!models.is_empty(), "{file}");
                for model in *models {
                    let begins =
                        ["model", "large_model"].map(|call| format!("rt::{call}(\"{model}\", "));
                    let is_there = begins.iter().any(|begin| sources.contains(begin));
                    assert!(is_there, "{file}: there is no model {model}");
                }
            }
            Argued(why) => assert!(!why.is_empty(), "{file}"),
            Alone => {
                let text = fs::read_to_string(root().join(file)).expect("the file");
                let code = text.split("\nmod tests {").next().unwrap_or_default();
                for order in ["Acquire", "Release", "AcqRel", "SeqCst"] {
                    assert!(
                        !code.contains(&format!("Ordering::{order}")),
                        "{file} is not alone: {order}"
                    );
                }
            }
        }
    }
}
