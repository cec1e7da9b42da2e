//! The bus's rings: a producer against its readers, and against a reader whose cursor both of them move. Each reader gets its
//! messages whole, once and in order.
//!
//! Requirements: H72.

use proxy_core::phone::layout::Geometry;
use proxy_core::phone::ring::{Producer, Reader, RecvError, SendError, To};
use proxy_loom::bus::Bus;
use proxy_loom::rt::{self, Arc};

/// A message: for whom, and of how many bytes.
type Message = (To, usize);

/// The bytes of a message. Each word of it tells the message.
fn bytes(tag: u32, length: usize) -> Vec<u8> {
    vec![u8::try_from(tag + 1).unwrap(); length]
}

/// Takes what is there for a reader, `looks` times, and checks that it is whole.
fn take(bus: &Bus, me: u16, looks: usize, room: usize) -> Vec<u32> {
    let mut reader = Reader::new(bus.segment(), 0, me).unwrap();
    let mut buffer = vec![0; room];
    let mut tags = Vec::new();
    for _ in 0..looks {
        match reader.try_recv(&mut buffer) {
            Ok(received) => {
                let whole = bytes(received.tag, received.bytes);
                assert_eq!(buffer[..received.bytes], whole, "torn");
                tags.push(received.tag);
                bus.obey(received.wake);
            }
            Err(RecvError::Empty) => {}
            Err(error) => panic!("{error}"),
        }
    }
    tags
}

/// Sends each message if there is room for it, and returns those that were sent.
fn send(bus: &Bus, messages: &[Message]) -> Vec<u32> {
    let mut producer = Producer::new(bus.segment(), 0).unwrap();
    let mut sent = Vec::new();
    for (tag, (to, length)) in (0..).zip(messages) {
        match producer.try_send(*to, tag, &bytes(tag, *length)) {
            Ok(news) => {
                bus.obey(news);
                sent.push(tag);
            }
            Err(SendError::Full { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    sent
}

/// A producer and readers that take meanwhile what they find; the rest is taken in the end.
fn run(readers: u16, messages: &'static [Message], looks: usize, room: usize) {
    let bus = Bus::new(readers + 1, 0);
    let takers: Vec<_> = (1..=readers)
        .map(|me| {
            let bus = Arc::clone(&bus);
            rt::spawn(move || take(&bus, me, looks, room))
        })
        .collect();
    let producer = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || send(&bus, messages))
    };
    let sent = rt::join(producer);
    for (taker, me) in takers.into_iter().zip(1..) {
        let mut tags = rt::join(taker);
        tags.extend(take(&bus, me, messages.len(), room));
        let is_for = |tag: &u32| match messages[usize::try_from(*tag).unwrap()].0 {
            To::Everybody => true,
            To::Rank(rank) => rank == me,
        };
        assert!(
            tags.iter().eq(sent.iter().filter(|tag| is_for(tag))),
            "{tags:?} of {sent:?}"
        );
    }
}

/// More messages than cells, for two readers: the third only fits once both have read.
fn two_readers() {
    run(2, &[(To::Everybody, 4); 3], 2, 4);
}

/// A message of one cell, then one of two that begins in the ring's last cell.
fn long() {
    run(1, &[(To::Everybody, 4), (To::Everybody, 50)], 3, 50);
}

#[test]
fn h72_two_readers_get_all_in_order_and_whole() {
    rt::model("phone ring", 2500, two_readers);
}

#[test]
fn h72_a_message_of_two_cells_is_never_torn() {
    rt::model("phone ring, long", 70, long);
}

/// A message of two cells whose every word is the stamp that the message after the next one will have, then one of one cell: what stands behind
/// that is no message.
fn stale() {
    const STAMP: u32 = 3 | 1 << 31;
    let message = STAMP.to_ne_bytes().repeat(13);
    let bus = Bus::new(2, 0);
    let look = |bus: &Bus, tags: &mut Vec<u32>| {
        let mut reader = Reader::new(bus.segment(), 0, 1).unwrap();
        match reader.try_recv(&mut [0; 52]) {
            Ok(received) => {
                tags.push(received.tag);
                bus.obey(received.wake);
            }
            Err(error) => assert_eq!(error, RecvError::Empty),
        }
    };
    let reader = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut tags = Vec::new();
            (0..3).for_each(|_| look(&bus, &mut tags));
            tags
        })
    };
    let mut producer = Producer::new(bus.segment(), 0).unwrap();
    bus.obey(producer.try_send(To::Rank(1), 0, &message).unwrap());
    let next = producer.try_send(To::Rank(1), 1, &[]);
    let sent = match next {
        Ok(news) => {
            bus.obey(news);
            vec![0, 1]
        }
        Err(error) => {
            assert_eq!(error, SendError::Full { reader: 1 });
            vec![0]
        }
    };
    let mut tags = rt::join(reader);
    (0..2).for_each(|_| look(&bus, &mut tags));
    assert_eq!(tags, sent);
}

#[test]
fn h72_payload_of_an_older_lap_is_never_a_message() {
    rt::model("phone ring, stale", 40, stale);
}

/// Rank 1's messages go past rank 2, whose cursor the producer moves when it needs room, and rank 2 itself when it looks. The cell
/// in which rank 2's message comes held another's, which is longer than rank 2's buffer.
fn moved_cursor() {
    let bus = Bus::new(3, 0);
    let slow = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || take(&bus, 2, 2, 4))
    };
    let producer = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut producer = Producer::new(bus.segment(), 0).unwrap();
            let others = [(0, 8), (1, 8)];
            for (tag, length) in others {
                let sent = producer.try_send(To::Rank(1), tag, &bytes(tag, length));
                bus.obey(sent.unwrap());
                assert_eq!(take(&bus, 1, 1, 8), [tag]);
            }
            let sent = producer.try_send(To::Rank(2), 2, &bytes(2, 4));
            bus.obey(sent.unwrap());
        })
    };
    rt::join(producer);
    let mut tags = rt::join(slow);
    tags.extend(take(&bus, 2, 1, 4));
    assert_eq!(tags, [2]);
}

#[test]
fn a_cursor_that_both_sides_move_loses_nothing_and_repeats_nothing() {
    rt::model("phone cursor", 2000, moved_cursor);
}

/// The same, but the producer needs the whole ring and the reader waits: neither sleeps while the other only moves the cursor. A
/// producer that does not look again after such a move is caught from four cells and four preemptions on, the long form.
fn moved_cursor_and_waits() {
    let bus = Bus::of(Geometry::new(3, 0, 4).unwrap());
    let reader = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut reader = Reader::new(bus.segment(), 0, 2).unwrap();
            let bytes = bus.wait(|| match reader.try_recv(&mut []) {
                // Not read: each of its words would be a choice for loom while the cursor moves.
                Err(RecvError::TooSmall { bytes }) => Ok(bytes),
                Err(RecvError::Empty) => Err(reader.news()),
                other => panic!("{other:?}"),
            });
            assert_eq!(bytes, 161);
        })
    };
    let producer = rt::spawn(move || {
        let mut producer = Producer::new(bus.segment(), 0).unwrap();
        for tag in 0..3 {
            let sent = producer.try_send(To::Rank(1), tag, &[]);
            bus.obey(sent.unwrap());
            assert_eq!(take(&bus, 1, 1, 0), [tag]);
        }
        let news = bus.wait(|| match producer.try_send(To::Rank(2), 3, &bytes(3, 161)) {
            Ok(news) => Ok(news),
            Err(SendError::Full { reader }) => Err(producer.room(reader).unwrap()),
            Err(error) => panic!("{error}"),
        });
        bus.obey(news);
    });
    rt::join(producer);
    rt::join(reader);
}

#[test]
fn a_reader_that_skips_does_not_leave_a_waiting_producer_asleep() {
    rt::model("phone cursor, waits", 60_000, moved_cursor_and_waits);
}

/// A producer that waits for room is woken by the reader it waits for.
fn full() {
    let bus = Bus::new(2, 0);
    let reader = {
        let bus = Arc::clone(&bus);
        rt::spawn(move || {
            let mut reader = Reader::new(bus.segment(), 0, 1).unwrap();
            for tag in 0..3 {
                let received = bus.wait(|| match reader.try_recv(&mut [0; 4]) {
                    Ok(received) => Ok(received),
                    Err(RecvError::Empty) => Err(reader.news()),
                    Err(error) => panic!("{error}"),
                });
                assert_eq!(received.tag, tag);
                bus.obey(received.wake);
            }
        })
    };
    let producer = rt::spawn(move || {
        let mut producer = Producer::new(bus.segment(), 0).unwrap();
        for tag in 0..3 {
            let news = bus.wait(|| match producer.try_send(To::Rank(1), tag, &[1]) {
                Ok(news) => Ok(news),
                Err(SendError::Full { reader }) => Err(producer.room(reader).unwrap()),
                Err(error) => panic!("{error}"),
            });
            bus.obey(news);
        }
    });
    rt::join(producer);
    rt::join(reader);
}

#[test]
fn a_full_ring_and_an_empty_one_wake_each_other() {
    rt::model("phone ring, waits", 20_000, full);
}

#[cfg(loom)]
#[test]
fn twins() {
    use proxy_core::Edge;
    rt::must_fail_without(Edge::PhoneMessage, "phone ring", two_readers);
    rt::must_fail_without(Edge::PhoneMessage, "phone ring, long", long);
    rt::must_fail_without(Edge::PhoneSleep, "phone ring, waits", full);
}
