//! Every order of votes leads to the same verdicts on every machine, and what cannot pass fails.
//!
//! Requirements: H20.

use super::*;

/// Machines that hear each other at once: `desks[0]` decides.
struct World {
    root: Root,
    leaves: Vec<Leaf>,
    desks: Vec<Desk>,
}

impl World {
    fn new(machines: u16, channels: u16) -> Self {
        Self {
            root: Root::new(machines, channels),
            leaves: (1..machines)
                .map(|machine| Leaf::new(machine, channels))
                .collect(),
            desks: (0..machines)
                .map(|_| Desk::new(channels).unwrap())
                .collect(),
        }
    }

    /// Polls until nobody has news.
    fn exchange(&mut self) {
        loop {
            let mut news = self.root.settle(&self.desks[0]);
            let entries = self.root.next_entries();
            for (machine, leaf) in (1..).zip(&mut self.leaves) {
                if self.root.is_gone(machine) {
                    continue;
                }
                let desk = &self.desks[usize::from(machine)];
                leaf.hear(desk, &entries);
                for entry in leaf.news(desk) {
                    news |= self.root.hear(machine, &entry);
                }
            }
            if !news && !self.root.has_news() {
                return;
            }
        }
    }

    fn cast(&self, machine: usize, generation: u32, vote: Vote) {
        self.desks[machine].channels[0].cast(generation, vote);
    }

    fn outcomes(&self, generation: u32) -> Vec<Option<Outcome>> {
        let outcome = |desk: &Desk| desk.channels[0].outcome(generation);
        self.desks.iter().map(outcome).collect()
    }
}

#[test]
fn a_generation_passes_when_all_machines_have_arrived_in_any_order() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let mut world = World::new(3, 1);
        for generation in 1..=5 {
            for machine in order {
                assert_eq!(world.outcomes(generation), [None; 3]);
                world.cast(machine, generation, Vote::Arrived(9));
                world.exchange();
            }
            assert_eq!(world.outcomes(generation), [Some(Ok(())); 3]);
        }
    }
}

#[test]
fn every_failure_of_every_machine_fails_all_alike() {
    for odd in 0..3 {
        let votes = Elsewhere::ALL
            .into_iter()
            .filter(|why| *why != Elsewhere::Missing)
            .map(|why| (Vote::Failed(why), why))
            .chain([(Vote::Arrived(8), Elsewhere::OtherExecution)]);
        for (vote, why) in votes {
            let mut world = World::new(3, 1);
            for machine in 0..3 {
                let vote = if machine == odd {
                    vote
                } else {
                    Vote::Arrived(7)
                };
                world.cast(machine, 1, vote);
                world.exchange();
            }
            // Of two executions the machine that is named is the later in number.
            let named = match (vote, odd) {
                (Vote::Arrived(_), 0) => 1,
                _ => odd as u8,
            };
            assert_eq!(world.outcomes(1), [Some(Err((named, why))); 3]);
            // The next one is not harmed.
            (0..3).for_each(|machine| world.cast(machine, 2, Vote::Arrived(9)));
            world.exchange();
            assert_eq!(world.outcomes(2), [Some(Ok(())); 3]);
        }
    }
}

#[test]
fn h20_a_machine_that_waited_too_long_is_not_blamed_for_one_that_never_came() {
    let mut world = World::new(3, 1);
    for machine in [0, 1] {
        world.cast(machine, 1, Vote::Arrived(7));
        world.exchange();
    }
    let waited = Vote::Failed(Elsewhere::Missing);
    world.cast(1, 1, waited);
    world.exchange();
    let silent = Some(Err((2, Elsewhere::Missing)));
    assert_eq!(world.outcomes(1), [silent; 3]);
    // Where all have come meanwhile, it is.
    world.cast(2, 1, Vote::Arrived(7));
    world.exchange();
    for (machine, vote) in [(0, Vote::Arrived(8)), (2, Vote::Arrived(8)), (1, waited)] {
        world.cast(machine, 2, vote);
        world.exchange();
    }
    let late = Some(Err((1, Elsewhere::TimedOut)));
    assert_eq!(world.outcomes(2), [late; 3]);
}

#[test]
fn why_a_machine_failed_is_told_also_when_it_went_on_before_it_was_heard() {
    let mut world = World::new(3, 1);
    for machine in [0, 2] {
        world.cast(machine, 1, Vote::Arrived(1));
        world.exchange();
    }
    world.cast(1, 1, Vote::Failed(Elsewhere::TimedOut));
    world.cast(1, 2, Vote::Arrived(2));
    world.exchange();
    let late = Some(Err((1, Elsewhere::TimedOut)));
    assert_eq!(world.outcomes(1), [late; 3]);
}

#[test]
fn a_machine_that_went_on_or_is_gone_fails_what_is_open() {
    let mut world = World::new(3, 1);
    world.cast(1, 1, Vote::Arrived(1));
    world.exchange();
    world.cast(1, 2, Vote::Arrived(2));
    world.exchange();
    let went_on = Some(Err((1, Elsewhere::Cancelled)));
    assert_eq!(world.outcomes(1), [went_on; 3]);
    assert_eq!(
        world.outcomes(2),
        [None; 3],
        "not before all have voted on the first"
    );
    for machine in [0, 2] {
        world.cast(machine, 1, Vote::Arrived(1));
        world.exchange();
        world.cast(machine, 2, Vote::Arrived(2));
        world.exchange();
    }
    assert_eq!(world.outcomes(2), [Some(Ok(())); 3]);
    world.root.bury(2);
    world.exchange();
    assert_eq!(world.outcomes(3), [None; 3], "nobody waits");
    world.cast(1, 3, Vote::Arrived(3));
    world.exchange();
    let gone = Some(Err((2, Elsewhere::Gone)));
    assert_eq!(world.outcomes(3), [gone, gone, None]);
}

#[test]
fn channels_do_not_wait_for_each_other_and_more_of_them_than_fit_a_frame_are_served() {
    let channels = 64;
    let mut world = World::new(2, channels);
    let cast = |world: &World, machine: usize, channel: u16| {
        let channel = &world.desks[machine].channels[usize::from(channel)];
        channel.cast(1, Vote::Arrived(1));
    };
    for channel in 0..channels {
        cast(&world, 0, channel);
        cast(&world, 1, channels - 1 - channel);
        world.exchange();
    }
    for desk in &world.desks {
        assert!(
            desk.channels
                .iter()
                .all(|channel| channel.outcome(1) == Some(Ok(())))
        );
    }
}

#[test]
fn generations_wrap() {
    let mut world = World::new(2, 1);
    let last = u32::MAX - 2;
    world.root.ledgers[0].decided = last;
    let before = Ballot {
        generation: last,
        ..Ballot::NONE
    };
    world.root.ledgers[0].votes = vec![before; 2];
    for generation in [u32::MAX - 1, u32::MAX, 0, 1] {
        (0..2).for_each(|machine| world.cast(machine, generation, Vote::Arrived(5)));
        world.exchange();
        assert_eq!(
            world.outcomes(generation),
            [Some(Ok(())); 2],
            "{generation}"
        );
    }
}

#[test]
fn who_waits_knows_for_which_machine() {
    let mut world = World::new(3, 1);
    world.cast(0, 1, Vote::Arrived(1));
    world.exchange();
    assert_eq!(world.desks[0].channels[0].awaited(), Some(1));
    assert_eq!(world.desks[1].channels[0].awaited(), Some(2));
    world.cast(1, 1, Vote::Arrived(1));
    world.exchange();
    assert_eq!(world.desks[0].channels[0].awaited(), Some(2));
    assert_eq!(world.desks[1].channels[0].awaited(), Some(2));
}
