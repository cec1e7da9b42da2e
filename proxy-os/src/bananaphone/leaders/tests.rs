//! The exchange with its threads, over links of channels: whatever a machine does, the others learn it.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::*;

/// A link whose receives block for ever, as the library's.
#[derive(Debug)]
struct Wires {
    to: HashMap<u32, Sender<Vec<u8>>>,
    from: HashMap<u32, Receiver<Vec<u8>>>,
}

impl Link for Wires {
    type Error = &'static str;

    fn send(&mut self, peer: u32, message: &[u8]) -> Result<(), &'static str> {
        self.to[&peer]
            .send(message.to_vec())
            .map_err(|_| "no such wire")
    }

    fn recv(&mut self, peer: u32, message: &mut [u8]) -> Result<(), &'static str> {
        let came = self.from[&peer].recv().map_err(|_| "the wire is cut")?;
        message.copy_from_slice(&came);
        Ok(())
    }
}

/// Peers 0, 8, 16, ... and their links.
fn wires(machines: u32) -> (Vec<u32>, Vec<Wires>) {
    let peers: Vec<u32> = (0..machines).map(|machine| machine * 8).collect();
    let mut all: Vec<Wires> = peers
        .iter()
        .map(|_| Wires {
            to: HashMap::new(),
            from: HashMap::new(),
        })
        .collect();
    for from in 0..peers.len() {
        for to in 0..peers.len() {
            let (send, receive) = channel();
            all[from].to.insert(peers[to], send);
            all[to].from.insert(peers[from], receive);
        }
    }
    (peers, all)
}

fn started(machines: u32, channels: u16) -> Vec<Leaders> {
    let (peers, wires) = wires(machines);
    let start = |(machine, wires)| Leaders::start(wires, &peers, machine, channels).unwrap();
    wires.into_iter().enumerate().map(start).collect()
}

fn outcome(seat: &Seat) -> Outcome {
    let start = Instant::now();
    loop {
        if let Some(outcome) = seat.outcome() {
            return outcome;
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{}",
            seat.account()
        );
        std::thread::yield_now();
    }
}

#[test]
fn machines_pass_together_generation_after_generation() {
    let all = started(3, 1);
    let mut seats: Vec<Seat> = all.iter().map(|leaders| leaders.seat(0).unwrap()).collect();
    for exec in 0..200 {
        let late = exec as usize % 3;
        for seat in &mut seats {
            seat.begin();
        }
        for (machine, seat) in seats.iter().enumerate() {
            if machine != late {
                seat.arrive(exec);
            }
        }
        assert!(
            seats.iter().all(|seat| seat.outcome().is_none()),
            "one is late"
        );
        seats[late].arrive(exec);
        assert!(seats.iter().all(|seat| outcome(seat) == Ok(())));
    }
    drop(seats);
    for leaders in all {
        assert_eq!(leaders.stop(Duration::from_secs(20)), Stopped::Ended);
    }
}

#[test]
fn two_channels_in_opposite_order_do_not_wait_for_each_other() {
    let all = started(2, 2);
    let seat = |machine: usize, channel| {
        let mut seat = all[machine].seat(channel).unwrap();
        seat.begin();
        seat
    };
    let (first, second) = (seat(0, 0), seat(1, 1));
    first.arrive(1);
    second.arrive(1);
    // Both threads have heard of what the other waits for by now, or hear of it later: it makes no difference.
    let (third, fourth) = (seat(0, 1), seat(1, 0));
    third.arrive(1);
    assert_eq!(outcome(&second), Ok(()));
    assert_eq!(outcome(&third), Ok(()));
    fourth.arrive(1);
    assert_eq!(outcome(&first), Ok(()));
    assert_eq!(outcome(&fourth), Ok(()));
}

#[test]
fn a_machine_that_stops_or_whose_wires_are_cut_fails_the_others_at_once() {
    for odd in 0..3 {
        for stops in [true, false] {
            let mut all = started(3, 1);
            let mut seats: Vec<Seat> = all.iter().map(|all| all.seat(0).unwrap()).collect();
            for seat in &mut seats {
                seat.begin();
                seat.arrive(1);
            }
            assert!(seats.iter().all(|seat| outcome(seat) == Ok(())));
            let leaders = all.remove(odd);
            if stops {
                assert_eq!(leaders.stop(Duration::from_secs(20)), Stopped::Ended);
            } else {
                // As if its process had died: the thread ends, and its wires with it.
                drop(leaders);
            }
            for (machine, seat) in seats.iter_mut().enumerate().filter(|(at, _)| *at != odd) {
                seat.begin();
                seat.arrive(2);
                let (gone, why) = outcome(seat).unwrap_err();
                assert_eq!(
                    (usize::from(gone), why),
                    (odd, Elsewhere::Gone),
                    "{machine}"
                );
            }
        }
    }
}

#[test]
fn a_silent_machine_is_named_and_its_thread_is_left_behind() {
    let (peers, mut wires) = wires(3);
    // Machine 2 holds its end of the wires and says nothing.
    let silent = wires.pop().unwrap();
    let mut wires = wires.into_iter();
    let mut start = |machine| Leaders::start(wires.next().unwrap(), &peers, machine, 1).unwrap();
    let all = [start(0), start(1)];
    let mut seats = all.each_ref().map(|leaders| leaders.seat(0).unwrap());
    for seat in &mut seats {
        seat.begin();
        seat.arrive(1);
    }
    let begun = Instant::now();
    while seats[0].awaited() != Some(2) || begun.elapsed() < SILENT {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{}",
            seats[0].account()
        );
        std::thread::yield_now();
    }
    let text = seats[0].account();
    assert!(text.contains("machine 0 (rank 0) of 3"), "{text}");
    assert!(text.contains("machine 2 (rank 16)"), "{text}");
    assert!([Some(0), Some(2)].contains(&seats[1].awaited()));
    assert!(seats.iter().all(|seat| seat.outcome().is_none()));
    let before = Leaders::detached();
    let [zero, one] = all;
    let stop = Instant::now();
    assert_eq!(zero.stop(Duration::from_millis(50)), Stopped::Detached);
    assert!(stop.elapsed() < Duration::from_secs(5));
    assert!(Leaders::detached() > before);
    // The threads end when their calls do; the memory they use has stayed.
    drop(silent);
    assert_eq!(one.stop(Duration::from_secs(20)), Stopped::Ended);
}

#[test]
fn bad_numbers_are_named() {
    let start = |machines: usize, machine, channels| {
        let (_, mut wires) = wires(1);
        let peers = vec![0; machines];
        let started = Leaders::start(wires.remove(0), &peers, machine, channels);
        started.map(drop).map_err(|error| error.to_string())
    };
    assert!(start(0, 0, 1).unwrap_err().contains("machine 0 of 0"));
    assert!(start(2, 2, 1).unwrap_err().contains("machine 2 of 2"));
    assert!(start(129, 0, 1).unwrap_err().contains("of 129"));
    assert!(start(1, 0, 0).unwrap_err().contains("0 channels"));
    assert!(start(1, 0, 65).unwrap_err().contains("65 channels"));
    let alone = started(1, 2).remove(0);
    assert!(alone.seat(2).unwrap_err().to_string().contains("below 2"));
    let mut seat = alone.seat(1).unwrap();
    assert!(alone.seat(1).unwrap_err().to_string().contains("taken"));
    seat.begin();
    seat.arrive(3);
    assert_eq!(outcome(&seat), Ok(()), "one machine passes alone");
}

/// A link whose machine is stopped as soon as it has heard of another.
#[derive(Debug)]
struct StopsWhenHeard(Wires, Arc<Desk>);

impl Link for StopsWhenHeard {
    type Error = &'static str;

    fn send(&mut self, peer: u32, message: &[u8]) -> Result<(), &'static str> {
        self.0.send(peer, message)
    }

    fn recv(&mut self, peer: u32, message: &mut [u8]) -> Result<(), &'static str> {
        let received = self.0.recv(peer, message);
        // Release pairs with the acquire in `Service::must_stop`.
        self.1.stop.store(true, Ordering::Release);
        received
    }
}

#[test]
fn a_machine_that_stops_with_the_last_verdict_has_told_it_before() {
    let (peers, wires) = wires(2);
    let [zero, one]: [Wires; 2] = wires.try_into().unwrap();
    let follower = Leaders::start(one, &peers, 1, 1).unwrap();
    let mut seat = follower.seat(0).unwrap();
    seat.begin();
    seat.arrive(1);
    let desk = Arc::new(Desk::new(1).unwrap());
    desk.channels[0].cast(1, Vote::Arrived(1));
    // Both votes are known when it is to stop, and that the generation has passed when it looks.
    Service {
        desk: Arc::clone(&desk),
        link: StopsWhenHeard(zero, Arc::clone(&desk)),
        peers: peers.into(),
        machine: 0,
        channels: 1,
    }
    .run();
    assert_eq!(desk.channels[0].outcome(1), Some(Ok(())));
    assert_eq!(outcome(&seat), Ok(()));
    // Then it is gone.
    seat.begin();
    seat.arrive(2);
    assert_eq!(outcome(&seat), Err((0, Elsewhere::Gone)));
}
