//! The bus's signals: a sleeper against the changer of what it waits for. No wake-up is lost, also when the change is elsewhere.
//!
//! Requirements: H56.

use proxy_core::phone::member::{Members, State};
use proxy_core::phone::ring::{Producer, Reader, RecvError, To};
use proxy_loom::bus::Bus;
use proxy_loom::rt::{self, Arc};

/// Whether the changing side wakes whom it is told to; one that does not is the twin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waking {
    Faithful,
    #[cfg(loom)]
    Forgotten,
}

/// One waits for a member to be there, the member joins.
fn join(waking: Waking) {
    let bus = Bus::new(1, 0);
    let waiter = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let segment = bus.segment();
            let members = Members::of(segment);
            bus.wait(|| match members.state(0).unwrap() {
                State::Joined => Ok(()),
                _ => Err(segment.member_signal(0).unwrap()),
            });
        })
    };
    let member = rt::spawn(move || {
        let members = Members::of(bus.segment());
        let obey = |wake| {
            if waking == Waking::Faithful {
                bus.obey(wake);
            }
        };
        obey(members.join(0, 4711, 1).unwrap());
        obey(members.ready(0).unwrap());
    });
    rt::join(member);
    rt::join(waiter);
}

fn joined() {
    join(Waking::Faithful);
}

#[test]
fn who_waits_for_a_member_is_woken_when_it_is_there() {
    rt::model("phone sleep", 1200, joined);
}

/// One waits for a message; its sender sends it and dies, or dies at once, or hangs up.
#[derive(Clone, Copy)]
enum End {
    SendsAndDies,
    Dies,
    Leaves,
}

/// What ends the wait comes from elsewhere than the word that is slept on: the death is told by a third side.
fn end(how: End) {
    let bus = Bus::new(2, 0);
    let set_up = Members::of(bus.segment());
    let _ = set_up.join(0, 1, 1).and_then(|_| set_up.ready(0)).unwrap();
    let waiter = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let segment = bus.segment();
            let mut reader = Reader::new(segment, 0, 1).unwrap();
            let mut buffer = [0; 4];
            bus.wait(|| {
                let gone = Members::of(segment).state(0).unwrap().is_gone();
                // After the look at the state: what was sent before the end is still received.
                match reader.try_recv(&mut buffer) {
                    Ok(received) => Ok(Some(received.tag)),
                    Err(RecvError::Empty) if gone => Ok(None),
                    Err(RecvError::Empty) => Err(reader.news()),
                    Err(error) => panic!("{error}"),
                }
            })
        })
    };
    let peer = rt::spawn(move || {
        let segment = bus.segment();
        if matches!(how, End::SendsAndDies) {
            // Its wake-up is lost with it.
            let _ = Producer::new(segment, 0)
                .unwrap()
                .try_send(To::Rank(1), 7, &[1])
                .unwrap();
        }
        let members = Members::of(segment);
        match how {
            End::Leaves => bus.obey(members.leave(0).unwrap()),
            End::Dies | End::SendsAndDies => bus.obey(members.die(0).unwrap().unwrap()),
        }
        segment
            .signals_of(0)
            .for_each(|signal| bus.obey(signal.nudge()));
    });
    rt::join(peer);
    let wanted = matches!(how, End::SendsAndDies).then_some(7);
    assert_eq!(rt::join(waiter), wanted);
}

#[test]
fn who_waits_for_a_message_is_woken_by_the_senders_death() {
    rt::model("phone death", 150, || end(End::Dies));
}

#[test]
fn h56_who_waits_for_a_message_gets_the_last_one_of_the_dead() {
    rt::model("phone last message", 1000, || end(End::SendsAndDies));
}

#[test]
fn who_waits_for_a_message_is_woken_when_the_sender_hangs_up() {
    rt::model("phone hang-up", 150, || end(End::Leaves));
}

/// Two sides call a rank dead while it hangs up: one edge is taken.
fn one_end() {
    let bus = Bus::new(1, 0);
    let set_up = Members::of(bus.segment());
    let _ = set_up.join(0, 1, 1).and_then(|_| set_up.ready(0)).unwrap();
    let died = [0, 1].map(|_| {
        let bus = Arc::clone(&bus);
        rt::spawn(move || Members::of(bus.segment()).die(0).unwrap().is_some())
    });
    let left = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || Members::of(bus.segment()).leave(0).is_ok())
    };
    let outcome = (rt::join(left), died.map(rt::join));
    let wanted = match outcome {
        (true, [false, false]) => State::Left,
        (false, [true, false] | [false, true]) => State::Dead,
        _ => panic!("{outcome:?}"),
    };
    assert_eq!(Members::of(bus.segment()).state(0), Ok(wanted));
}

#[test]
fn of_leaving_and_dying_one_comes_first() {
    rt::model("phone leave and die", 1200, one_end);
}

#[cfg(loom)]
#[test]
fn twins() {
    use proxy_core::Edge;
    rt::must_fail("phone sleep, wake-up forgotten", || {
        rt::model("", 0, || join(Waking::Forgotten))
    });
    rt::must_fail_without(Edge::PhoneSleep, "phone sleep", joined);
    rt::must_fail_without(Edge::PhoneCall, "phone sleep", joined);
}
