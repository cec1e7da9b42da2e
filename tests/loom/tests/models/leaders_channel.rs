//! The channel between a worker and the leaders' thread, compiled from the shell's file with this engine's atomics.

use rt::{Arc, Ordering};

use proxy_core::phone::barrier::Elsewhere;
use proxy_loom::rt;

use channel::{Ballot, Channel, Outcome, Vote};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
#[cfg(loom)]
use words::{AtomicBool, AtomicU32, AtomicU64};

#[allow(dead_code, reason = "the words for messages have no part in a model")]
#[path = "../../../../proxy-os/src/bananaphone/leaders/channel.rs"]
mod channel;

/// Loom's words, whose orderings a twin can take away.
#[cfg(loom)]
mod words {
    use std::cell::Cell;
    use std::sync::atomic::Ordering;

    std::thread_local! {
        // Loom runs all threads of a model on the thread that called it.
        pub(super) static WEAK: Cell<bool> = const { Cell::new(false) };
    }

    fn given(order: Ordering) -> Ordering {
        if WEAK.get() {
            // Relaxed: pairs with nothing, which the model must notice.
            Ordering::Relaxed
        } else {
            order
        }
    }

    macro_rules! word {
        ($name:ident, $value:ty) => {
            #[derive(Debug, Default)]
            pub(super) struct $name(loom::sync::atomic::$name);

            impl $name {
                pub(super) fn load(&self, order: Ordering) -> $value {
                    // The caller's ordering, which names its partner there.
                    self.0.load(given(order))
                }

                pub(super) fn store(&self, value: $value, order: Ordering) {
                    // Likewise.
                    self.0.store(value, given(order));
                }
            }
        };
    }

    word!(AtomicU32, u32);
    word!(AtomicU64, u64);

    #[derive(Debug, Default)]
    pub(super) struct AtomicBool(loom::sync::atomic::AtomicBool);

    impl AtomicBool {
        pub(super) fn store(&self, value: bool, order: Ordering) {
            // The caller's ordering, which names its partner there.
            self.0.store(value, given(order));
        }

        pub(super) fn swap(&self, value: bool, order: Ordering) -> bool {
            // Likewise.
            self.0.swap(value, given(order))
        }
    }
}

/// What the worker says of each of three generations. It waits for no verdict, as when it gives several up.
fn cast(generation: u32) -> Vote {
    match generation {
        2 => Vote::Failed(Elsewhere::Cancelled),
        other => Vote::Arrived(u64::from(other) * 11),
    }
}

/// Votes that replace each other while they are read: each comes with its own execution, and none after a later one.
fn votes() {
    let channel = Arc::new(Channel::default());
    let worker = {
        let channel = Arc::clone(&channel);
        rt::spawn(move || (1..=3).for_each(|generation| channel.cast(generation, cast(generation))))
    };
    let thread = {
        let channel = Arc::clone(&channel);
        rt::spawn(move || {
            let mut last = 0;
            for _ in 0..2 {
                let Ballot {
                    generation,
                    vote,
                    before,
                } = channel.vote();
                assert!(generation >= last, "{generation} after {last}");
                assert_eq!(vote, cast(generation));
                assert_eq!(before, (generation == 3).then_some(Elsewhere::Cancelled));
                last = generation;
            }
        })
    };
    rt::join(worker);
    rt::join(thread);
    assert_eq!(channel.vote().vote, cast(3));
}

#[test]
fn a_vote_is_read_with_its_own_execution() {
    rt::model("leaders' votes", 2500, votes);
}

/// How each of two generations ends.
fn outcome(generation: u32) -> Outcome {
    match generation {
        1 => Ok(()),
        _ => Err((7, Elsewhere::Gone)),
    }
}

/// Two generations to and fro: what one side did before its word, the other sees behind it.
fn rounds() {
    let shared = Arc::new((
        Channel::default(),
        AtomicU32::default(),
        AtomicU32::default(),
    ));
    let worker = {
        let shared = Arc::clone(&shared);
        rt::spawn(move || {
            let (channel, here, there) = &*shared;
            for generation in 1..=2 {
                // Relaxed: what the channel's words are to publish.
                here.store(generation, Ordering::Relaxed);
                channel.cast(generation, Vote::Arrived(9));
                let ended = loop {
                    if let Some(ended) = channel.outcome(generation) {
                        break ended;
                    }
                    rt::yield_now();
                };
                assert_eq!(ended, outcome(generation));
                // Relaxed: as above.
                assert_eq!(there.load(Ordering::Relaxed), generation);
            }
        })
    };
    let thread = {
        let shared = Arc::clone(&shared);
        rt::spawn(move || {
            let (channel, here, there) = &*shared;
            for generation in 1..=2 {
                while channel.vote().generation != generation {
                    rt::yield_now();
                }
                // Relaxed: as above.
                assert_eq!(here.load(Ordering::Relaxed), generation);
                // Relaxed: as above.
                there.store(generation, Ordering::Relaxed);
                channel.decide(generation, outcome(generation));
            }
        })
    };
    rt::join(worker);
    rt::join(thread);
}

#[test]
fn a_verdict_is_read_with_what_was_done_before_it() {
    rt::model("leaders' verdicts", 400, rounds);
}

/// A worker leaves its seat while another asks for it, and goes on where the first stopped.
fn seat() {
    let channel = Arc::new(Channel::default());
    assert!(channel.take());
    let first = {
        let channel = Arc::clone(&channel);
        rt::spawn(move || {
            channel.cast(1, cast(1));
            channel.leave();
        })
    };
    let second = {
        let channel = Arc::clone(&channel);
        rt::spawn(move || {
            if channel.take() {
                assert_eq!(channel.generation(), 1);
            }
        })
    };
    rt::join(first);
    rt::join(second);
}

#[test]
fn a_seat_is_taken_over_with_its_generation() {
    rt::model("leaders' seat", 2, seat);
}

#[cfg(loom)]
#[test]
fn twins() {
    for (name, body) in [
        ("leaders' votes", votes as fn()),
        ("leaders' verdicts", rounds),
        ("leaders' seat", seat),
    ] {
        rt::must_fail(&format!("{name}, relaxed"), || {
            words::WEAK.set(true);
            loom::model(body);
        });
        words::WEAK.set(false);
    }
}
