//! The table: generations, pins, poison, and threads that destroy what others use.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use super::*;

/// Rounds of the tests with threads; Miri is some thousand times slower.
const ROUNDS: u32 = if cfg!(miri) { 40 } else { 20_000 };

/// Counts how many of it have ended.
struct Ends(Arc<AtomicU32>);

impl Drop for Ends {
    fn drop(&mut self) {
        // Relaxed: read after joins only.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_handle_is_good_until_it_is_closed_and_never_again() {
    let table = Table::<u32, 1>::new(Kind::Group);
    let first = table.insert(7).unwrap();
    assert_eq!(*table.pin(first).unwrap(), 7);
    assert_eq!(
        table.insert(8),
        Err(NoPlace {
            kind: Kind::Group,
            limit: 1
        })
    );
    drop(table.close(first).unwrap());
    assert_eq!(table.pin(first).unwrap_err(), BadHandle::Freed);
    assert_eq!(table.close(first).unwrap_err(), BadHandle::Freed);
    let second = table.insert(9).unwrap();
    assert_ne!(first, second);
    assert_eq!(*table.pin(second).unwrap(), 9);
    assert_eq!(table.pin(first).unwrap_err(), BadHandle::Freed);
}

#[test]
fn a_place_that_is_kept_is_nobody_elses_and_is_free_again_without_an_object() {
    let table = Table::<u32, 1>::new(Kind::Group);
    let kept = table.reserve().unwrap();
    let handle = kept.handle.bits();
    assert_eq!(table.pin(handle).unwrap_err(), BadHandle::Foreign(handle));
    assert!(table.insert(7).is_err());
    drop(kept);
    assert_eq!(table.reserve().unwrap().fill(8), handle);
    assert_eq!(*table.pin(handle).unwrap(), 8);
    assert!(table.insert(9).is_err());
}

#[test]
fn numbers_that_were_never_given_out_are_foreign() {
    let table = Table::<u32, 2>::new(Kind::Group);
    let handle = table.insert(7).unwrap();
    // The place of the next generation, a place that has never been used, one beyond the table, and generation 0.
    for bits in [
        handle + (1 << 16),
        handle + 1,
        handle + 5,
        handle & !(1 << 16),
    ] {
        assert_eq!(table.pin(bits).unwrap_err(), BadHandle::Foreign(bits));
    }
}

#[test]
fn the_object_ends_with_the_last_pin() {
    let ended = Arc::new(AtomicU32::new(0));
    let count = || ended.load(Ordering::Relaxed); // one thread
    let table = Table::<Ends, 1>::new(Kind::Bus);
    let handle = table.insert(Ends(Arc::clone(&ended))).unwrap();
    let user = table.pin(handle).unwrap();
    drop(table.close(handle).unwrap());
    assert_eq!(count(), 0);
    drop(user);
    assert_eq!(count(), 1);
}

#[test]
fn a_panic_leaves_an_object_that_can_only_be_closed() {
    let table = Table::<u32, 1>::new(Kind::Context);
    let handle = table.insert(7).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _pin = table.pin(handle).unwrap();
        panic!("planted");
    }));
    assert!(panicked.is_err());
    assert_eq!(table.pin(handle).unwrap_err(), BadHandle::Poisoned);
    assert_eq!(*table.pin_poisoned(handle).unwrap(), 7);
    drop(table.close(handle).unwrap());
    assert_eq!(*table.pin(table.insert(8).unwrap()).unwrap(), 8);
}

#[test]
fn one_of_two_destroys_wins_and_uses_beside_them_stay_whole() {
    let ended = Arc::new(AtomicU32::new(0));
    let table = Table::<(u32, Ends), 2>::new(Kind::Group);
    let mut closed = 0;
    for round in 0..ROUNDS {
        let handle = table.insert((round, Ends(Arc::clone(&ended)))).unwrap();
        std::thread::scope(|scope| {
            let close = || table.close(handle).is_ok();
            let destroyers = [scope.spawn(close), scope.spawn(close)];
            if let Ok(pin) = table.pin(handle) {
                assert_eq!(pin.0, round);
            }
            let won = destroyers.map(|thread| thread.join().unwrap());
            closed += won.into_iter().map(u32::from).sum::<u32>();
        });
    }
    assert_eq!(closed, ROUNDS);
    assert_eq!(ended.load(Ordering::Relaxed), ROUNDS); // all threads joined
}
