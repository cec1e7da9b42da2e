//! The bus's barrier: generations that follow each other, opinions that differ, and a rank that is slow to read what was found.
//!
//! Requirements: H21.

use proxy_core::phone::barrier::{Gather, Meeting, Participant, RankSet, Verdict};
use proxy_loom::bus::Bus;
use proxy_loom::rt::{self, Arc};

fn participant(bus: &Bus, me: u16) -> Participant<'_> {
    let segment = bus.segment();
    let all = RankSet::below(segment.geometry().world());
    Participant::new(segment, 0, me, all).unwrap()
}

/// One generation, waited for to its end.
fn pass(bus: &Bus, rank: &mut Participant<'_>, exec: u64) -> Verdict {
    bus.obey(rank.arrive(exec));
    if !rank.is_leader() {
        return bus.wait(|| rank.verdict().unwrap().ok_or(rank.released()));
    }
    let opinion = bus.wait(|| match rank.gather(exec) {
        Gather::Complete => Ok(Verdict::Passed),
        Gather::OtherExecution(other) => Ok(Verdict::OtherExecution(other)),
        Gather::Pending(other) => Err(rank.arrival_of(other).unwrap()),
    });
    let (verdict, wake) = rank.decide(opinion).unwrap();
    bus.obey(wake);
    verdict
}

/// Two generations, back to back, each for an execution of its own. The second is waited for by the leader alone, which keeps the
/// model small; the others read it in the end.
fn back_to_back(world: u16) {
    let bus = Bus::new(world, 1);
    let members: Vec<_> = (0..world)
        .map(|me| {
            let bus = Arc::clone(&bus);
            rt::spawn(move || {
                let mut rank = participant(&bus, me);
                assert_eq!(pass(&bus, &mut rank, 1), Verdict::Passed);
                if rank.is_leader() {
                    assert_eq!(pass(&bus, &mut rank, 2), Verdict::Passed);
                } else {
                    bus.obey(rank.arrive(2));
                }
            })
        })
        .collect();
    members.into_iter().for_each(rt::join);
    for me in 0..world {
        let verdict = participant(&bus, me).verdict();
        assert_eq!(verdict, Ok(Some(Verdict::Passed)));
    }
}

fn two() {
    back_to_back(2);
}

fn three() {
    back_to_back(3);
}

#[test]
fn two_members_pass_back_to_back() {
    rt::model("phone barrier", 3000, two);
}

#[test]
fn three_members_pass_back_to_back() {
    rt::large_model("phone barrier, three", 20_000, three);
}

/// The leader finds all arrived while the other's deadline ends, which then fails the next generation at once. A third is slow to
/// read either, and sees the first end as the two others do.
fn opinions() {
    let bus = Bus::new(3, 1);
    let leader = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut rank = participant(&bus, 0);
            bus.obey(rank.arrive(1));
            let opinion = match rank.gather(1) {
                Gather::Complete => Verdict::Passed,
                _ => Verdict::TimedOut(0),
            };
            rank.decide(opinion).unwrap().0
        })
    };
    let hasty = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut rank = participant(&bus, 1);
            bus.obey(rank.arrive(1));
            let first = rank.decide(Verdict::TimedOut(1)).unwrap().0;
            bus.obey(rank.arrive(2));
            let second = rank.decide(Verdict::Cancelled(1)).unwrap().0;
            assert_eq!(second, Verdict::Cancelled(1));
            first
        })
    };
    let slow = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut rank = participant(&bus, 2);
            bus.obey(rank.arrive(1));
            rank.verdict().unwrap()
        })
    };
    let (leader, hasty) = (rt::join(leader), rt::join(hasty));
    // Whose own opinion on a generation came late may be told the failure of the next instead.
    let passes = [leader, hasty].map(|verdict| verdict == Verdict::Passed);
    assert_eq!(passes[0], passes[1], "{leader:?} {hasty:?}");
    let early = rt::join(slow);
    let again = participant(&bus, 2).verdict().unwrap();
    for verdict in [early, again].into_iter().flatten() {
        assert_eq!(verdict == Verdict::Passed, passes[0], "{verdict:?}");
    }
    assert!(again.is_some());
}

#[test]
fn h21_of_two_opinions_all_see_one_however_slow() {
    rt::model("phone verdict", 800, opinions);
}

/// One forgoes the first generation, perhaps while the leader waits at it: it never passes, and both meet at the second.
fn forgone() {
    let bus = Bus::new(2, 1);
    let leader = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut rank = participant(&bus, 0);
            bus.obey(rank.arrive(1));
            let first = bus.wait(|| match (rank.verdict().unwrap(), rank.gather(1)) {
                (Some(verdict), _) => Ok(verdict),
                (None, Gather::Pending(other)) => Err(rank.arrival_of(other).unwrap()),
                // What the leader does when all have arrived; the verdict must be there by then.
                (None, _) => Ok(rank.decide(Verdict::Passed).unwrap().0),
            });
            assert_eq!(first, Verdict::Cancelled(1));
            assert_eq!(pass(&bus, &mut rank, 2), Verdict::Passed);
        })
    };
    let other = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut rank = participant(&bus, 1);
            let (decided, wake) = rank.forgo(1);
            bus.obey(wake);
            let (verdict, wake) = decided.unwrap();
            bus.obey(wake);
            assert_eq!(verdict, Verdict::Cancelled(1));
            bus.obey(rank.arrive(2));
        })
    };
    rt::join(leader);
    rt::join(other);
    assert_eq!(participant(&bus, 1).verdict(), Ok(Some(Verdict::Passed)));
}

#[test]
fn h21_a_forgone_generation_passes_for_nobody() {
    rt::model("phone barrier, forgone", 5000, forgone);
}

/// What a rank that is ready has been told so far.
fn told(rank: &mut Participant<'_>, exec: u64) -> Option<Verdict> {
    match rank.meet(exec).unwrap() {
        Meeting::Over(verdict) => Some(verdict),
        Meeting::Missing(_) => None,
        Meeting::None => rank.verdict().unwrap(),
    }
}

/// Two that are ready, twice, back to back.
fn met() {
    let bus = Bus::new(2, 1);
    let members = [0, 1].map(|me| {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut rank = participant(&bus, me);
            bus.obey(rank.arrive_ready(1));
            let other = rank.arrival_of(1 - me).unwrap();
            let verdict = bus.wait(|| told(&mut rank, 1).ok_or(other));
            assert_eq!(verdict, Verdict::Passed);
            bus.obey(rank.arrive_ready(2));
        })
    });
    members.into_iter().for_each(rt::join);
    for me in 0..2 {
        let verdict = told(&mut participant(&bus, me), 2);
        assert_eq!(verdict, Some(Verdict::Passed));
    }
}

#[test]
fn two_that_are_ready_pass_back_to_back() {
    rt::model("phone meeting", 1000, met);
}

/// One that sees the other passes and goes on to the next generation, while the other gives up.
fn gone_on() {
    let bus = Bus::new(2, 1);
    let hasty = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut rank = participant(&bus, 0);
            bus.obey(rank.arrive_ready(1));
            let told = told(&mut rank, 1);
            told.unwrap_or_else(|| rank.decide(Verdict::TimedOut(0)).unwrap().0)
        })
    };
    let mut rank = participant(&bus, 1);
    bus.obey(rank.arrive_ready(1));
    let early = told(&mut rank, 1);
    if early == Some(Verdict::Passed) {
        bus.obey(rank.arrive_ready(2));
    }
    let hasty = rt::join(hasty);
    assert!(
        early.is_none_or(|verdict| verdict == hasty),
        "{early:?} {hasty:?}"
    );
}

#[test]
fn h21_who_goes_on_from_a_meeting_is_not_undone_by_who_gives_up() {
    rt::model("phone meeting, gone on", 40, gone_on);
}

/// Two are ready. One looks once: if it does not see the other its deadline has passed, else it goes on and fails the next generation. The
/// other is slow to see either.
fn missed() {
    let bus = Bus::new(2, 1);
    let hasty = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut rank = participant(&bus, 0);
            bus.obey(rank.arrive_ready(1));
            match told(&mut rank, 1) {
                Some(verdict) => {
                    let (failed, wake) = rank.forgo(2);
                    bus.obey(wake);
                    assert_eq!(failed.unwrap().0, Verdict::Cancelled(0));
                    verdict
                }
                None => rank.decide(Verdict::TimedOut(0)).unwrap().0,
            }
        })
    };
    let slow = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut rank = participant(&bus, 1);
            bus.obey(rank.arrive_ready(1));
            told(&mut rank, 1)
        })
    };
    let (hasty, early) = (rt::join(hasty), rt::join(slow));
    let again = told(&mut participant(&bus, 1), 1);
    assert_eq!(again, Some(hasty));
    assert!(
        early.is_none_or(|verdict| verdict == hasty),
        "{early:?} {hasty:?}"
    );
}

#[test]
fn h21_two_that_are_ready_end_alike_however_one_gives_up() {
    rt::model("phone meeting, missed", 60, missed);
}

/// One fails the generation in which the two differ, and is two generations further, at an execution that the other would have met it for,
/// while that one still looks at the first. Where the execution stood there stands the new one by then.
fn overtaken() {
    let bus = Bus::new(2, 1);
    let hasty = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut rank = participant(&bus, 0);
            bus.obey(rank.arrive_ready(1));
            let (first, wake) = rank.decide(Verdict::TimedOut(0)).unwrap();
            bus.obey(wake);
            assert_eq!(first, Verdict::TimedOut(0), "for two executions");
            let (second, wake) = rank.forgo(2);
            bus.obey(wake);
            assert_eq!(second.unwrap().0, Verdict::Cancelled(0));
            bus.obey(rank.arrive_ready(2));
        })
    };
    let mut rank = participant(&bus, 1);
    bus.obey(rank.arrive_ready(2));
    let early = told(&mut rank, 2);
    assert_ne!(early, Some(Verdict::Passed));
    rt::join(hasty);
    let again = told(&mut participant(&bus, 1), 2);
    assert!(again.is_some_and(|verdict| verdict != Verdict::Passed));
}

#[test]
fn h21_a_meeting_of_another_generation_is_none() {
    rt::model("phone meeting, overtaken", 500, overtaken);
}

#[cfg(loom)]
#[test]
fn twins() {
    use proxy_core::Edge;
    rt::must_fail_without(Edge::PhoneSleep, "phone meeting, missed", missed);
    rt::must_fail_without(Edge::PhoneSignal, "phone barrier", two);
}
