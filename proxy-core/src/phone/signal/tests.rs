//! Who is called, and what a sleeper is told.

use super::super::tests::zeroed;
use super::{Signal, WORDS, Wake};
use crate::phone::Word;
use crate::sync::Ordering;

fn values(words: &[Word]) -> std::vec::Vec<u32> {
    // Relaxed: one thread.
    words
        .iter()
        .map(|word| word.load(Ordering::Relaxed))
        .collect()
}

#[test]
fn a_change_without_sleepers_calls_nobody() {
    let words = zeroed(WORDS);
    let signal = Signal::new(&words, 0).unwrap();
    assert_eq!(signal.store(7), Wake::Nobody);
    assert_eq!(signal.exchange(7, 8), Ok(Wake::Nobody));
    assert_eq!(signal.nudge(), Wake::Nobody);
    assert_eq!(signal.load(), 8);
    assert_eq!(values(&words), [8, 0, 0]);
    assert_eq!(signal.index(), 2, "the word of its calls");
}

#[test]
fn a_sleeper_is_called_by_each_change_until_it_is_back() {
    let words = zeroed(WORDS);
    let signal = Signal::new(&words, 0).unwrap();
    let first = signal.sleep();
    let second = signal.sleep();
    assert_eq!((first.index(), first.seen()), (2, 0));
    assert_eq!(signal.store(1), Wake::Word(2));
    assert_eq!(signal.exchange(1, 2), Ok(Wake::Word(2)));
    drop(first);
    assert_eq!(signal.nudge(), Wake::Word(2), "the second still sleeps");
    assert_eq!(
        values(&words),
        [2, 1, 3],
        "each call makes the futex's word another"
    );
    drop(second);
    assert_eq!(signal.nudge(), Wake::Nobody);
    assert_eq!(signal.sleep().seen(), 3);
}

#[test]
fn a_failed_exchange_changes_nothing_and_calls_nobody() {
    let words = zeroed(WORDS);
    let signal = Signal::new(&words, 0).unwrap();
    let sleeper = signal.sleep();
    assert_eq!(signal.exchange(5, 6), Err(0));
    assert!(signal.is_still(0));
    assert!(!signal.is_still(5));
    assert_eq!(values(&words), [0, 1, 0]);
    drop(sleeper);
}

#[test]
fn calls_wrap() {
    let words = zeroed(WORDS);
    // Relaxed: one thread.
    words[2].store(u32::MAX, Ordering::Relaxed);
    let signal = Signal::new(&words, 0).unwrap();
    let sleeper = signal.sleep();
    assert_eq!(sleeper.seen(), u32::MAX);
    assert_eq!(signal.nudge(), Wake::Word(2));
    assert_eq!(signal.sleep().seen(), 0);
}

#[test]
fn a_signal_that_does_not_fit_is_none() {
    let words = zeroed(WORDS);
    assert!(Signal::new(&words, 1).is_none());
    assert!(Signal::new(&words, usize::MAX).is_none());
}
