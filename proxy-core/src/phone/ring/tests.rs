//! Messages keep their boundaries and their order, whoever reads how fast, and whatever dies or lies.
//!
//! Requirements: H56, H66, H72.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails"
)]

mod oracle;

use core::cell::Cell;
use std::string::ToString;
use std::vec::Vec;

use super::cell::{self, capacity};
use super::{Producer, Reader, Received, RecvError, SendError, To, put};
use crate::phone::layout::Segment;
use crate::phone::member::Members;
use crate::phone::tests::{Random, on_bus};
use crate::phone::{Corrupt, Wake};
use crate::sync::Ordering;

std::thread_local! {
    /// Stores that the producer of this thread still makes before it dies.
    static LIFE: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Counts a store of the producer; whether it comes after its death.
pub(super) fn is_dead_at_this_store() -> bool {
    let left = LIFE.get();
    LIFE.set(left.map(|left| left.saturating_sub(1)));
    left == Some(0)
}

/// The producer of rank 0 of a bus on which everything so far has brought all cursors to `position`.
fn producer_at(segment: Segment<'_>, position: u32) -> Producer<'_> {
    let geometry = segment.geometry();
    for reader in 0..geometry.world() {
        let cursor = segment.signal(geometry.cursor(0, reader)).unwrap();
        assert_eq!(cursor.store(position), Wake::Nobody);
    }
    Producer {
        tail: position,
        slowest: position,
        ..Producer::new(segment, 0).unwrap()
    }
}

/// Bytes that tell their message and their place.
fn bytes(length: usize, tag: u32) -> Vec<u8> {
    let mut random = Random::new(u64::from(tag) << 20 | u64::try_from(length).unwrap());
    (0..length)
        .map(|_| u8::try_from(random.below(256)).unwrap())
        .collect()
}

/// Sends `length` bytes that belong to `tag`.
fn send(producer: &mut Producer<'_>, to: To, tag: u32, length: usize) {
    let sent = producer.try_send(to, tag, &bytes(length, tag));
    assert_eq!(sent, Ok(Wake::Nobody), "message {tag} of {length} bytes");
}

/// Receives the message of `tag` and `length`, whole.
fn receive(reader: &mut Reader<'_>, tag: u32, length: usize) {
    let mut buffer = std::vec![0xEE; length + 1];
    let received = Received {
        bytes: length,
        tag,
        wake: Wake::Nobody,
    };
    assert_eq!(reader.try_recv(&mut buffer), Ok(received));
    assert_eq!(buffer[..length], bytes(length, tag));
    assert_eq!(buffer[length], 0xEE, "not a byte more");
}

fn assert_empty(reader: &mut Reader<'_>) {
    assert_eq!(reader.try_recv(&mut [0; 16]), Err(RecvError::Empty));
}

#[test]
fn h72_every_length_keeps_its_boundaries_at_every_position() {
    for cells in [2, 4, 8, 32] {
        on_bus(2, 0, cells, |segment| {
            // Ends of the ring and of the positions come by many times.
            let mut producer = producer_at(segment, u32::MAX - 1000);
            let mut reader = Reader::new(segment, 0, 1).unwrap();
            for length in 0..=capacity(cells) {
                let tag = u32::try_from(length).unwrap();
                send(&mut producer, To::Rank(1), tag, length);
                receive(&mut reader, tag, length);
                assert_empty(&mut reader);
            }
        });
    }
}

#[test]
fn a_message_takes_as_few_cells_as_hold_it() {
    for (bytes, cells) in [(0, 1), (1, 1), (48, 1), (49, 2), (112, 2), (113, 3)] {
        assert_eq!(cell::count(bytes), cells, "{bytes} bytes");
    }
    for cells in [2, 4, 1 << 16] {
        assert_eq!(cell::count(capacity(cells)), cells);
        assert_eq!(cell::count(capacity(cells) + 1), cells + 1);
    }
    assert_eq!(cell::count(usize::MAX), u32::MAX);
}

#[test]
fn a_message_that_cannot_be_sent_is_refused_by_name() {
    on_bus(3, 0, 2, |segment| {
        let mut producer = Producer::new(segment, 0).unwrap();
        let limit = capacity(2);
        let long = producer.try_send(To::Everybody, 0, &bytes(limit + 1, 0));
        let bytes = limit + 1;
        assert_eq!(long, Err(SendError::TooLong { bytes, limit }));
        let text = "a message of 113 bytes, accepted: up to 112 at once";
        assert_eq!(long.unwrap_err().to_string(), text);
        for rank in [0, 3, u16::MAX] {
            let unknown = producer.try_send(To::Rank(rank), 0, &[]);
            assert_eq!(unknown, Err(SendError::NoSuchRank { rank }));
        }
        assert_empty(&mut Reader::new(segment, 0, 1).unwrap());
        assert!(producer.room(3).is_none());
        assert!(Producer::new(segment, 3).is_none());
        for (from, to) in [(0, 0), (0, 3), (3, 0)] {
            assert!(Reader::new(segment, from, to).is_none());
        }
    });
}

#[test]
fn readers_go_at_their_own_speed_and_the_slowest_is_named_when_it_is_full() {
    on_bus(4, 0, 4, |segment| {
        let mut producer = producer_at(segment, u32::MAX - 2);
        let [mut fast, mut medium, mut slow] =
            [1, 2, 3].map(|rank| Reader::new(segment, 0, rank).unwrap());
        for tag in 0..4 {
            send(&mut producer, To::Everybody, tag, 40);
            receive(&mut fast, tag, 40);
        }
        receive(&mut medium, 0, 40);
        receive(&mut medium, 1, 40);
        receive(&mut slow, 0, 40);
        // One cell is free.
        let two = producer.try_send(To::Everybody, 4, &bytes(60, 4));
        assert_eq!(two, Err(SendError::Full { reader: 3 }));
        send(&mut producer, To::Everybody, 4, 48);
        let full = producer.try_send(To::Everybody, 5, &[]);
        assert_eq!(full, Err(SendError::Full { reader: 3 }));
        let text = "the ring is full of messages that rank 3 has not received";
        assert_eq!(full.unwrap_err().to_string(), text);
        for tag in 1..4 {
            receive(&mut slow, tag, 40);
        }
        let full = producer.try_send(To::Everybody, 5, &bytes(capacity(4), 5));
        assert_eq!(full, Err(SendError::Full { reader: 2 }));
        receive(&mut fast, 4, 48);
        assert_empty(&mut fast);
    });
}

#[test]
fn a_waiting_producer_is_called_by_the_reader_it_waits_for() {
    on_bus(2, 0, 2, |segment| {
        let mut producer = Producer::new(segment, 0).unwrap();
        let mut reader = Reader::new(segment, 0, 1).unwrap();
        let news = reader.news().sleep();
        let sent = producer.try_send(To::Rank(1), 1, &bytes(100, 1));
        assert_eq!(sent, Ok(Wake::Word(news.index())));
        let room = producer.room(1).unwrap().sleep();
        let received = reader.try_recv(&mut [0; 100]).unwrap();
        assert_eq!(received.wake, Wake::Word(room.index()));
    });
}

#[test]
fn a_message_for_one_is_not_seen_by_others() {
    on_bus(3, 0, 8, |segment| {
        let mut producer = Producer::new(segment, 0).unwrap();
        let [mut one, mut two] = [1, 2].map(|rank| Reader::new(segment, 0, rank).unwrap());
        for (tag, to) in [To::Rank(1), To::Rank(2), To::Everybody, To::Rank(1)]
            .into_iter()
            .enumerate()
        {
            send(&mut producer, to, u32::try_from(tag).unwrap(), 50 * tag);
        }
        receive(&mut one, 0, 0);
        receive(&mut one, 2, 100);
        receive(&mut one, 3, 150);
        assert_empty(&mut one);
        receive(&mut two, 1, 50);
        receive(&mut two, 2, 100);
        assert_empty(&mut two);
    });
}

#[test]
fn a_rank_that_never_receives_blocks_only_what_is_for_it() {
    on_bus(3, 0, 4, |segment| {
        let mut producer = producer_at(segment, u32::MAX - 500);
        let mut reader = Reader::new(segment, 0, 1).unwrap();
        for tag in 0..1000 {
            send(&mut producer, To::Rank(1), tag, 60);
            receive(&mut reader, tag, 60);
        }
        send(&mut producer, To::Rank(2), 1000, 0);
        for tag in 1001..1004 {
            send(&mut producer, To::Rank(1), tag, 8);
            receive(&mut reader, tag, 8);
        }
        let full = producer.try_send(To::Rank(1), 1004, &[]);
        assert_eq!(full, Err(SendError::Full { reader: 2 }));
        receive(&mut Reader::new(segment, 0, 2).unwrap(), 1000, 0);
        send(&mut producer, To::Rank(1), 1004, capacity(4));
        receive(&mut reader, 1004, capacity(4));
    });
}

#[test]
fn a_rank_that_left_or_died_blocks_nobody() {
    for leaves in [true, false] {
        on_bus(3, 0, 2, |segment| {
            let members = Members::of(segment);
            let _ = members
                .join(2, 0, 0)
                .and_then(|_| members.ready(2))
                .unwrap();
            let mut producer = Producer::new(segment, 0).unwrap();
            let mut reader = Reader::new(segment, 0, 1).unwrap();
            for tag in 0..2 {
                send(&mut producer, To::Everybody, tag, 9);
                receive(&mut reader, tag, 9);
            }
            let full = producer.try_send(To::Everybody, 2, &[]);
            assert_eq!(full, Err(SendError::Full { reader: 2 }));
            if leaves {
                assert_eq!(members.leave(2), Ok(Wake::Nobody));
            } else {
                assert_eq!(members.die(2), Ok(Some(Wake::Nobody)));
            }
            for tag in 2..20 {
                send(&mut producer, To::Everybody, tag, 9);
                receive(&mut reader, tag, 9);
            }
        });
    }
}

#[test]
fn a_ring_without_readers_is_never_full() {
    on_bus(1, 0, 2, |segment| {
        let mut producer = producer_at(segment, u32::MAX - 50);
        for tag in 0..100 {
            send(&mut producer, To::Everybody, tag, 100);
        }
    });
}

#[test]
fn a_message_that_does_not_fit_the_buffer_stays() {
    on_bus(2, 0, 4, |segment| {
        let mut producer = Producer::new(segment, 0).unwrap();
        let mut reader = Reader::new(segment, 0, 1).unwrap();
        send(&mut producer, To::Rank(1), 1, 100);
        for room in [0, 48, 99] {
            let small = reader.try_recv(&mut std::vec![0; room]);
            assert_eq!(small, Err(RecvError::TooSmall { bytes: 100 }));
            let text = "the next message has 100 bytes, more than the buffer";
            assert_eq!(small.unwrap_err().to_string(), text);
        }
        receive(&mut reader, 1, 100);
    });
}

/// Writes after some laps of messages a last one, before which there is a short one, with so many stores left to live. Whether the
/// last one came, after the short one; and how many stores were left.
fn die_while_writing(laps: u32, stores: u32) -> (bool, u32) {
    const LENGTH: usize = 130;
    on_bus(2, 0, 8, |segment| {
        let mut producer = producer_at(segment, u32::MAX - 4);
        let mut reader = Reader::new(segment, 0, 1).unwrap();
        for tag in 0..laps {
            send(&mut producer, To::Rank(1), tag, LENGTH);
            receive(&mut reader, tag, LENGTH);
        }
        send(&mut producer, To::Rank(1), 77, 5);
        LIFE.set(Some(stores));
        send(&mut producer, To::Rank(1), 99, LENGTH);
        let left = LIFE.take().unwrap();
        receive(&mut reader, 77, 5);
        let mut buffer = [0; LENGTH];
        let came = match reader.try_recv(&mut buffer) {
            Ok(received) => {
                assert_eq!((received.tag, received.bytes), (99, LENGTH));
                assert_eq!(buffer[..], bytes(LENGTH, 99));
                true
            }
            Err(error) => {
                assert_eq!(error, RecvError::Empty);
                false
            }
        };
        assert_empty(&mut reader);
        (came, left)
    })
}

/// A producer is killed before each of its stores in turn: into fresh cells, and where the lap before left old messages.
#[test]
fn h56_h72_a_producer_that_dies_while_it_writes_leaves_nothing_to_read() {
    for laps in [0, 3] {
        let (came, left) = die_while_writing(laps, u32::MAX);
        assert!(came);
        let stores = u32::MAX - left;
        // Payload, the stamp behind it, header, stamp.
        assert_eq!(stores, 33 + 1 + 3 + 1);
        for life in 0..stores {
            assert_eq!(die_while_writing(laps, life), (false, 0), "{life} stores");
        }
    }
}

/// Sends a message of so many cells, each word of which is the stamp that the next lap's message will have in its place.
fn send_stamps(producer: &mut Producer<'_>, cells: u32) {
    let (start, all) = (producer.tail, producer.segment.geometry().cells());
    let places = (0..16 * cells).skip(4);
    let stamps = places.map(|word| start.wrapping_add(all).wrapping_add(word / 16) | 1 << 31);
    let message: Vec<u8> = stamps.flat_map(u32::to_ne_bytes).collect();
    let sent = producer.try_send(To::Rank(1), 7, &message);
    assert_eq!(sent, Ok(Wake::Nobody), "{cells} cells at {start}");
}

/// Payload may be anything, also what a stamp would be where the next one is looked for: every row of five lengths in small rings.
#[test]
fn h72_payload_of_an_older_lap_is_never_taken_for_a_message() {
    for (cells, keeps) in [(2, 0), (4, 0), (4, 1), (8, 0), (8, 2)] {
        let most: u32 = cells / (keeps + 1);
        let lengths = most.min(4);
        for row in 0..lengths.pow(5) {
            on_bus(2, 0, cells, |segment| {
                let mut producer = producer_at(segment, u32::MAX - 3);
                producer.dirty = producer.tail;
                let mut reader = Reader::new(segment, 0, 1).unwrap();
                let mut take = || reader.try_recv(&mut [0; 512]).map(|received| received.tag);
                // So many stay unread.
                (0..keeps).for_each(|_| send_stamps(&mut producer, 1));
                let mut rest = row;
                for _ in 0..5 {
                    send_stamps(&mut producer, rest % lengths + 1);
                    rest /= lengths;
                    assert_eq!(take(), Ok(7), "{row} in {cells}");
                }
                (0..keeps).for_each(|_| assert_eq!(take(), Ok(7), "{row} in {cells}"));
                assert_eq!(take(), Err(RecvError::Empty), "{row} in {cells}");
            });
        }
    }
}

/// A reader that looked late: what it has seen is of a message for others, and the cell has been used again.
#[test]
fn a_message_that_was_moved_on_does_not_stand() {
    on_bus(3, 0, 2, |segment| {
        let mut producer = Producer::new(segment, 0).unwrap();
        let [mut one, mut two] = [1, 2].map(|rank| Reader::new(segment, 0, rank).unwrap());
        send(&mut producer, To::Everybody, 1, 8);
        let seen = two.peek().unwrap();
        assert_eq!((seen.bytes, seen.tag, two.stands(&seen)), (8, 1, true));
        receive(&mut one, 1, 8);
        receive(&mut two, 1, 8);
        assert!(!two.stands(&seen));
        assert_eq!(two.take(&seen), None);
    });
}

/// What is reserved and not committed was not sent, and its payload is no message either.
#[test]
fn a_reservation_that_is_dropped_leaves_nothing() {
    on_bus(2, 0, 4, |segment| {
        let mut producer = Producer::new(segment, 0).unwrap();
        let mut reader = Reader::new(segment, 0, 1).unwrap();
        let reserved = producer.reserve(To::Rank(1), 1, 100).unwrap();
        let stamps = (1_u32 | 1 << 31).to_ne_bytes().repeat(25);
        put(reserved.payload(), &stamps);
        drop(reserved);
        assert_empty(&mut reader);
        send(&mut producer, To::Rank(1), 2, 8);
        receive(&mut reader, 2, 8);
        assert_empty(&mut reader);
    });
}

#[test]
fn h66_a_length_beyond_the_ring_is_corrupt() {
    on_bus(2, 0, 4, |segment| {
        let mut producer = Producer::new(segment, 0).unwrap();
        let mut reader = Reader::new(segment, 0, 1).unwrap();
        send(&mut producer, To::Rank(1), 1, 4);
        let line = segment.line(segment.geometry().cell(0, 0)).unwrap();
        for found in [u32::try_from(capacity(4)).unwrap() + 1, u32::MAX] {
            // Relaxed: one thread.
            line[1].store(found, Ordering::Relaxed);
            let corrupt = Corrupt {
                field: "message length",
                rank: 0,
                found,
            };
            let received = reader.try_recv(&mut [0; 4096]);
            assert_eq!(received, Err(RecvError::Corrupt(corrupt)));
        }
    });
}

#[test]
fn h66_a_cursor_that_cannot_be_is_told_with_its_reader() {
    on_bus(3, 0, 4, |segment| {
        let mut producer = producer_at(segment, 100);
        let cursor = segment.signal(segment.geometry().cursor(0, 2)).unwrap();
        for tag in 0..2 {
            send(&mut producer, To::Rank(1), tag, 60);
        }
        // Ahead of the tail, more than a lap behind, and in the middle of a message.
        for found in [105, 104 + 1_000_000, 99, 101, 104_u32.wrapping_sub(1 << 31)] {
            let _ = cursor.store(found);
            let corrupt = Corrupt {
                field: "cursor",
                rank: 2,
                found,
            };
            let sent = producer.try_send(To::Rank(1), 2, &[]);
            assert_eq!(sent, Err(SendError::Corrupt(corrupt)), "{found}");
        }
        let _ = cursor.store(102);
        let full = producer.try_send(To::Rank(1), 2, &[]);
        assert_eq!(full, Err(SendError::Full { reader: 1 }), "a beginning");
    });
}

#[test]
fn h66_a_state_that_cannot_be_is_told_when_the_ring_looks_for_room() {
    on_bus(2, 0, 2, |segment| {
        let mut producer = Producer::new(segment, 0).unwrap();
        send(&mut producer, To::Rank(1), 1, 100);
        let _ = segment.member_signal(1).unwrap().store(9);
        let corrupt = Corrupt {
            field: "state",
            rank: 1,
            found: 9,
        };
        let sent = producer.try_send(To::Rank(1), 2, &[]);
        assert_eq!(sent, Err(SendError::Corrupt(corrupt)));
    });
}

/// A producer and two readers on threads of their own; each message with its length, tag and content.
#[test]
fn h72_a_thousand_messages_of_random_length_arrive_one_by_one() {
    const MESSAGES: u32 = if cfg!(miri) { 30 } else { 1000 };
    let length = |tag: u32| match tag % 10 {
        0 => 0,
        _ => Random::new(tag.into()).below(4097),
    };
    on_bus(3, 0, 128, |segment| {
        let read = |rank| {
            let mut reader = Reader::new(segment, 0, rank).unwrap();
            let mut buffer = std::vec![0; 4096];
            for tag in (0..MESSAGES).filter(|tag| tag % 3 != u32::from(3 - rank)) {
                let received = loop {
                    match reader.try_recv(&mut buffer) {
                        Err(RecvError::Empty) => std::thread::yield_now(),
                        other => break other.unwrap(),
                    }
                };
                assert_eq!((received.tag, received.bytes), (tag, length(tag)));
                assert_eq!(buffer[..received.bytes], bytes(length(tag), tag));
            }
            assert_empty(&mut reader);
        };
        std::thread::scope(|scope| {
            scope.spawn(|| read(1));
            scope.spawn(|| read(2));
            let mut producer = producer_at(segment, 0);
            for tag in 0..MESSAGES {
                let to = match tag % 3 {
                    0 => To::Everybody,
                    rank => To::Rank(u16::try_from(rank).unwrap()),
                };
                let message = bytes(length(tag), tag);
                while let Err(error) = producer.try_send(to, tag, &message) {
                    assert!(matches!(error, SendError::Full { .. }), "{error}");
                    std::thread::yield_now();
                }
            }
        });
    });
}
