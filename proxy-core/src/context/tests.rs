//! Packing, limits, and reuse of places.
//!
//! Requirements: H17.

use super::*;
use crate::trigger::{Arming, Polarity};

#[test]
fn specs_survive_packing() {
    for (streams, blocks, arming, bits) in [
        (0, 1, Arming::OnEnqueue, 0_u8),
        (4, 1024, Arming::Explicit, 0b11111),
        (3, 700, Arming::ByDevice, 0b10101),
        (1, 2, Arming::OnEnqueue, 0b01010),
    ] {
        let spec = Spec {
            rank: Rank(u32::MAX),
            streams,
            blocks,
            skip: bits & 1 != 0,
            device_wait: bits & 2 != 0,
            barrier: bits & 4 != 0,
            barrier_triggers: 4 - streams,
            polarity: if bits & 8 != 0 {
                Polarity::Header
            } else {
                Polarity::Specification
            },
            arming,
            stop_at: if bits & 16 != 0 {
                StopAt::Switch
            } else {
                StopAt::End
            },
        };
        let (flags, rank) = spec.pack();
        assert_eq!(Spec::unpack(flags, rank), spec);
    }
}

#[test]
fn h17_more_than_four_streams_are_refused_by_name() {
    let spec = Spec {
        streams: 5,
        ..Spec::new(Rank(0))
    };
    let error = ContextError::OutOfRange {
        field: "streams",
        found: 5,
        accepted: "0 to 4",
    };
    assert_eq!(spec.validate(), Err(error));
    let spec = Spec {
        barrier_triggers: 9,
        ..Spec::new(Rank(0))
    };
    assert!(matches!(
        spec.validate(),
        Err(ContextError::OutOfRange {
            field: "barrier_triggers",
            found: 9,
            ..
        })
    ));
    let spec = Spec {
        blocks: 0,
        ..Spec::new(Rank(0))
    };
    assert!(matches!(
        spec.validate(),
        Err(ContextError::OutOfRange {
            field: "blocks",
            found: 0,
            ..
        })
    ));
}

#[test]
fn places_are_reused_under_a_new_generation() {
    let table = Contexts::<1>::new();
    let spec = Spec::new(Rank(5));
    let first = table.register(&spec, 0).unwrap();
    assert_eq!(
        table.register(&spec, 0),
        Err(ContextError::TableFull { capacity: 1 })
    );
    assert_eq!(table.get(first).unwrap().count_enqueue(first, 2), Some(0));
    assert_eq!(
        table.retire(first),
        Err(ContextError::Busy { unfinished: 2 })
    );
    table.get(first).unwrap().take_back(2);
    assert_eq!(table.retire(first), Ok(0));
    assert_eq!(table.retire(first), Err(ContextError::Unknown));
    let second = table.register(&spec, 0).unwrap();
    assert_ne!(first, second);
    assert!(table.get(first).unwrap().entry(first).is_none());
    assert_eq!(
        table.get(second).unwrap().entry(second).unwrap().spec(),
        spec
    );
}
