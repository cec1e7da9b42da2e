//! What the core's errors and names say: the thing, its value, and what is accepted or to be done.

use proxy_core::fifo::{Array, FifoError};
use proxy_core::group::{GroupError, Groups, Registry};
use proxy_core::phone::Corrupt;
use proxy_core::phone::layout::LayoutError;
use proxy_core::phone::ring::{RecvError, SendError};
use proxy_core::recorder::Recorder;
use proxy_core::trigger::FiredBeforeArm;
use proxy_core::{
    ContextError, Driver, EnqueueError, FORKED, Gid, OrderError, PollError, Queue, Rank, RunState,
    Status, Stream, TaskKind,
};

/// Every text holds these words.
fn says(what: &dyn std::fmt::Display, words: &[&str]) {
    let text = what.to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
}

#[test]
fn refused_contexts_name_field_value_and_range() {
    let field = ContextError::OutOfRange {
        field: "streams",
        found: 9,
        accepted: "0 to 4",
    };
    says(&field, &["streams", "9", "0 to 4"]);
    says(
        &ContextError::TableFull { capacity: 3 },
        &["all 3", "in use"],
    );
    says(
        &ContextError::TooManyRanks { capacity: 2 },
        &["2 ranks", "limit"],
    );
    says(&ContextError::Contended, &["register again"]);
    says(&ContextError::Unknown, &["no such context"]);
    says(&ContextError::Forked, &[FORKED]);
    says(
        &ContextError::Busy { unfinished: 5 },
        &["5 tasks", "are unfinished"],
    );
    says(
        &ContextError::Busy { unfinished: 1 },
        &["1 task ", "is unfinished"],
    );
}

#[test]
fn refused_appends_and_polls_say_why() {
    let full = EnqueueError::Full {
        rank: Rank(7),
        capacity: 64,
    };
    says(&full, &["7", "64", "limit"]);
    says(&EnqueueError::Closed, &["released"]);
    says(&EnqueueError::WorkerDied, &["died"]);
    says(&EnqueueError::UnknownContext, &["no such context"]);
    says(&EnqueueError::Forked, &[FORKED]);
    says(
        &EnqueueError::NoSuchKind(TaskKind::Barrier),
        &["no barrier tasks"],
    );
    let fired = FiredBeforeArm {
        stream: Stream(3),
        word: 7,
    };
    says(
        &EnqueueError::FiredBeforeArm(fired),
        &["3", "0x00000007", "arm"],
    );
    says(&PollError::AlreadyConsumed, &["reported already"]);
    says(&PollError::Unknown, &["no such task"]);
    says(&PollError::Forked, &[FORKED]);
    says(&OrderError::Done, &["done"]);
    says(&OrderError::AlreadyConsumed, &["reported already"]);
    says(&OrderError::Unknown, &["no such task"]);
}

#[test]
fn errors_of_groups_records_and_bus_name_their_place() {
    says(&GroupError::TooMany { capacity: 8 }, &["all 8 groups"]);
    says(&GroupError::Invalid(Gid(5)), &["5", "not held"]);
    says(&GroupError::Contended, &["another thread"]);
    for (array, name) in [
        (Array::Ops, "net_ops_info"),
        (Array::Src, "net_src_addr"),
        (Array::Dest, "net_dest_addr"),
    ] {
        let error = FifoError {
            array,
            index: 4,
            field: "size",
            found: -1,
            accepted: "1 or more",
        };
        says(&error, &[&format!("{name}[4].size"), "-1", "1 or more"]);
    }
    let (ours, theirs) = (1, 2);
    says(
        &LayoutError::HashMismatch { ours, theirs },
        &["two builds of one version"],
    );
    let small = LayoutError::TooSmall {
        found: 10,
        wanted: 20,
    };
    says(&small, &["10 words", "20 or more"]);
    says(&SendError::NoSuchRank { rank: 9 }, &["rank 9"]);
    says(&RecvError::Empty, &["no message"]);
    let corrupt = Corrupt {
        field: "cursor",
        rank: 4,
        found: 77,
    };
    says(&SendError::Corrupt(corrupt), &["cursor", "4"]);
    says(&RecvError::Corrupt(corrupt), &["cursor", "4"]);
}

#[test]
fn states_kinds_and_codes_have_the_names_of_the_specification() {
    let states = [
        (RunState::Init, "INIT"),
        (RunState::WaitingDeviceTrigger, "WAITING_DEVICE_TRIGGER"),
        (RunState::Progressing, "PROGRESSING"),
        (RunState::Idle, "IDLE"),
        (RunState::Done, "DONE"),
    ];
    for (state, name) in states {
        assert_eq!(state.to_string(), name);
    }
    assert_eq!(TaskKind::Network.to_string(), "network");
    assert_eq!(TaskKind::Barrier.to_string(), "barrier");
    for number in [0, 3] {
        assert_eq!(TaskKind::from_number(number), None);
    }
    assert_eq!(format!("{:?}", Status::TIMEOUT), "TIMEOUT(5)");
    assert_eq!(format!("{:?}", Status(4711)), "Status(4711)");
    says(&Status(4711), &["unknown", "4711"]);
}

#[test]
fn what_is_made_by_default_is_empty() {
    assert_eq!(Queue::<1, 2, 1>::default().tasks().count(), 0);
    assert_eq!(Driver::<1, 2>::default().active(), 0);
    assert_eq!(Recorder::<1>::default().written(), 0);
    assert!(Groups::<1>::default().is_empty());
    let held = Registry::<1>::default().with(|groups| Ok(groups.len()));
    assert_eq!(held, Ok(0));
}
