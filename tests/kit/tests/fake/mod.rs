//! A library for the kit's own tests: the FIFO arrays of all ranks, executed in one thread as `tests/PROTOCOL.md` says.
//!
//! It plays the driver too (blocks in order) and is as strict as the protocol allows: a source buffer is read only at
//! the moment of its completion, the window and every count are asserted, and completions come at random passes.

#![allow(unsafe_code, reason = "like the real library it works on addresses")]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proxy_core::fifo::{NET_TRANSFER, NetDestAddr, NetOpsInfo, NetSrcAddr, validate};
use proxy_kit::abi::{EncChannel, EncNetConnector};
use proxy_kit::device::Program;

/// Requests in flight per direction.
const REQUESTS: u32 = 128;
/// Modulus of the index word.
const LOOP: u32 = 512;

fn word(address: u64) -> &'static AtomicU32 {
    let pointer = std::ptr::with_exposed_provenance_mut::<AtomicU32>(address as usize);
    // SAFETY: the addresses come from arrays and records of a program that the caller keeps alive, and are words.
    unsafe { &*pointer }
}

fn record<T: Copy>(address: u64) -> T {
    let pointer = std::ptr::with_exposed_provenance::<T>(address as usize);
    // SAFETY: as in `word`; the records never change.
    unsafe { pointer.read() }
}

/// `nec_inc_semaphore`.
fn raise(address: u64, by: u32) {
    // Release: pairs with the device's acquire load of its semaphore.
    word(address).fetch_add(by, Ordering::Release);
}

/// One entry with what its op says about it.
struct Entry {
    address: u64,
    size: usize,
    peer: u32,
    weight: u32,
    semaphore: u64,
}

/// One direction of one block run.
struct Side {
    entries: Vec<Entry>,
    index: u64,
    handshake: Option<(u64, u32)>,
    posted: u32,
    completed: u32,
}

impl Side {
    fn new(entries: Vec<Entry>, connector: u64, handshake: Option<(u64, u32)>) -> Self {
        let index = record::<EncNetConnector>(connector).va;
        Self {
            entries,
            index,
            handshake,
            posted: 0,
            completed: 0,
        }
    }

    /// Takes part in the handshake and reads the index. Says how many entries are posted and not completed.
    fn open(&mut self) -> u32 {
        if self.entries.is_empty() {
            return 0;
        }
        let index = word(self.index);
        if let Some((semaphore, by)) = self.handshake {
            // Acquire and release: the device stored the sentinel, and stores its first index after this.
            if index
                .compare_exchange(u32::MAX, 0, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                return 0;
            }
            raise(semaphore, by);
            self.handshake = None;
        }
        if (self.completed as usize) < self.entries.len() {
            // Acquire: pairs with the device's release store; the posted bytes are visible.
            let value = index.load(Ordering::Acquire);
            assert!(value < LOOP, "index word {value}");
            self.posted += value.wrapping_sub(self.posted % LOOP) % LOOP;
        }
        assert!(
            self.posted as usize <= self.entries.len(),
            "posted past the last entry"
        );
        assert!(
            self.posted - self.completed <= REQUESTS,
            "posted beyond the window"
        );
        self.posted - self.completed
    }

    fn oldest(&self) -> &Entry {
        &self.entries[self.completed as usize]
    }

    fn complete(&mut self) {
        let (weight, semaphore) = (self.oldest().weight, self.oldest().semaphore);
        self.completed += 1;
        if self.is_done() {
            // Release: pairs with the device's acquire load before its next sentinel; ordered before the raise.
            word(self.index).store(0, Ordering::Release);
        }
        raise(semaphore, weight);
    }

    fn is_done(&self) -> bool {
        self.completed as usize == self.entries.len()
    }
}

/// One stream of one rank.
struct Seat {
    ranks: u32,
    rank: u32,
    stream: usize,
    program: Arc<Program>,
    block: usize,
    send: Side,
    receive: Side,
}

impl Seat {
    fn load(
        ranks: u32,
        rank: u32,
        stream: usize,
        program: &Arc<Program>,
        block: usize,
    ) -> Option<Self> {
        let (ops, src, dest) = program.fifo(stream, block)?;
        validate(block as u32, ranks, ops, src, dest).expect("valid arrays");
        let channel: EncChannel = record(ops[0].enc_channel);
        Some(Self {
            ranks,
            rank,
            stream,
            program: Arc::clone(program),
            block,
            send: sends(ops, src, channel.net_send, (rank + 1) % ranks),
            receive: receives(ops, dest, channel.net_recv, (rank + ranks - 1) % ranks),
        })
    }
}

fn sends(ops: &[NetOpsInfo], src: &[NetSrcAddr], connector: u64, neighbour: u32) -> Side {
    let transfers = || src.iter().filter(|entry| entry.mark == NET_TRANSFER);
    let op = |entry: &NetSrcAddr| &ops[entry.net_op_idx as usize];
    let entry = |entry: &NetSrcAddr| Entry {
        address: entry.host_addr,
        size: entry.size as usize,
        peer: peer(op(entry), entry.dst_rank, neighbour),
        weight: entry.complete as u32,
        semaphore: op(entry).inc_send_complete,
    };
    let first = transfers().next().map(op);
    let handshake = first.map(|op| (op.inc_send_handshake, op.initial_send_credits));
    Side::new(transfers().map(entry).collect(), connector, handshake)
}

fn receives(ops: &[NetOpsInfo], dest: &[NetDestAddr], connector: u64, neighbour: u32) -> Side {
    let transfers = || dest.iter().filter(|entry| entry.mark == NET_TRANSFER);
    let op = |entry: &NetDestAddr| &ops[entry.net_op_idx as usize];
    let entry = |entry: &NetDestAddr| Entry {
        address: entry.host_addr,
        size: entry.size as usize,
        peer: peer(op(entry), entry.src_rank, neighbour),
        weight: entry.complete as u32,
        semaphore: op(entry).inc_recv_complete,
    };
    let handshake = transfers()
        .next()
        .map(|entry| (op(entry).inc_recv_handshake, 1));
    Side::new(transfers().map(entry).collect(), connector, handshake)
}

fn peer(op: &NetOpsInfo, rank: i32, neighbour: u32) -> u32 {
    if op.variable_peer == 1 {
        u32::try_from(rank).expect("a peer per entry")
    } else {
        neighbour
    }
}

/// Links of all ranks: messages sent and not received, by stream, sender and receiver.
#[derive(Default)]
struct Links(HashMap<(usize, u32, u32), VecDeque<Vec<u8>>>);

/// The library of all ranks for one execution.
pub(crate) struct FakeLibrary {
    seats: Vec<Seat>,
    links: Links,
    random: u64,
}

impl FakeLibrary {
    /// Starts every stream's first block.
    pub(crate) fn start(programs: &[Arc<Program>], seed: u64) -> Self {
        let ranks = programs.len() as u32;
        let seats = (0..).zip(programs).flat_map(|(rank, program)| {
            let streams = 0..program.plan().spec().streams;
            streams.filter_map(move |stream| Seat::load(ranks, rank, stream, program, 0))
        });
        Self {
            seats: seats.collect(),
            links: Links::default(),
            random: seed | 1,
        }
    }

    /// One pass over every rank and stream. Says if anything moved.
    pub(crate) fn pass(&mut self) -> bool {
        let mut moved = false;
        for seat in &mut self.seats {
            moved |= send(seat, &mut self.links, &mut self.random);
            moved |= receive(seat, &mut self.links, &mut self.random);
        }
        for index in (0..self.seats.len()).rev() {
            let seat = &self.seats[index];
            if seat.send.is_done() && seat.receive.is_done() {
                match Seat::load(
                    seat.ranks,
                    seat.rank,
                    seat.stream,
                    &seat.program,
                    seat.block + 1,
                ) {
                    Some(next) => self.seats[index] = next,
                    None => drop(self.seats.swap_remove(index)),
                }
                moved = true;
            }
        }
        moved
    }

    /// Whether every block of every stream ran; then no message may be left.
    pub(crate) fn is_done(&self) -> bool {
        let done = self.seats.is_empty();
        assert!(
            !done || self.links.0.values().all(VecDeque::is_empty),
            "messages left"
        );
        done
    }
}

/// How many completions a pass may make: 0 to 7, at random (xorshift).
fn burst(random: &mut u64) -> u32 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    (*random >> 61) as u32
}

fn send(seat: &mut Seat, links: &mut Links, random: &mut u64) -> bool {
    let count = seat.send.open().min(burst(random));
    for _ in 0..count {
        let entry = seat.send.oldest();
        if entry.size > 0 {
            let start = std::ptr::with_exposed_provenance::<u8>(entry.address as usize);
            // SAFETY: the entry is posted and not completed: its bytes are valid and nobody writes them.
            let bytes = unsafe { std::slice::from_raw_parts(start, entry.size) };
            let link = links
                .0
                .entry((seat.stream, seat.rank, entry.peer))
                .or_default();
            link.push_back(bytes.to_vec());
        }
        seat.send.complete();
    }
    count > 0
}

fn receive(seat: &mut Seat, links: &mut Links, random: &mut u64) -> bool {
    let count = seat.receive.open().min(burst(random));
    for done in 0..count {
        let entry = seat.receive.oldest();
        if entry.size > 0 {
            let link = links
                .0
                .entry((seat.stream, entry.peer, seat.rank))
                .or_default();
            let Some(message) = link.pop_front() else {
                return done > 0;
            };
            assert_eq!(
                message.len(),
                entry.size,
                "both sides of a transfer have one size"
            );
            let start = std::ptr::with_exposed_provenance_mut::<u8>(entry.address as usize);
            // SAFETY: the entry is posted and not completed: its bytes are valid and nobody else touches them.
            unsafe { start.copy_from_nonoverlapping(message.as_ptr(), entry.size) };
        }
        seat.receive.complete();
    }
    count > 0
}
