//! One op list: the entries of one direction of one basic block, and how far their current run has come.
//!
//! ```text
//!   Idle --(1)--> Armed --(2)--> Drained --(3)--> Idle
//!                 |  ^
//!                 +--+ (4)
//! ```
//! 1. `advance`: the device has stored READY in the index word; it is swapped to 0 and the handshake is raised.
//!    A list without transfers goes from Idle to Drained at once.
//! 2. `complete`: the last transfer is done; 0 is stored in the index word, then the last completion is raised.
//! 3. `rewind`: the end of the list (EXEC_COMPLETE) takes all cursors back for the next run.
//! 4. `advance` starts what the device has posted, `complete` raises what has been done, in order.
//!
//! The rules of the index word are those of `tests/PROTOCOL.md`.
#![allow(
    unsafe_code,
    reason = "reads arrays and the index word that the host lent between Start and Stop"
)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

use proxy_core::fifo::{EXEC_COMPLETE, NET_TRANSFER, NetDestAddr, NetOpsInfo, NetSrcAddr};
use proxy_core::limits::{NET_INDEX_LOOP_SIZE, REQUESTS};

use crate::abi::INDEX_READY;
use crate::error::{Error, Result};
use crate::host::raise;
use crate::lane::Job;
use crate::peers::{Direction, Peers};

/// An array that the host lends from Start until Stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lent<T> {
    address: usize,
    length: usize,
    record: std::marker::PhantomData<T>,
}

impl<T> Lent<T> {
    /// Notes an array.
    ///
    /// # Safety
    /// `pointer` is null with a `length` of 0, or that of `length` records that the host keeps unchanged until Stop;
    /// the value is not used after.
    pub(crate) unsafe fn new(pointer: *const T, length: usize) -> Self {
        Self {
            address: pointer.expose_provenance(),
            length,
            record: std::marker::PhantomData,
        }
    }

    /// The records. The lifetime is that of the borrow, which ends before Stop does.
    pub(crate) fn get(&self) -> &[T] {
        if self.length == 0 {
            return &[];
        }
        let pointer = std::ptr::with_exposed_provenance(self.address);
        // SAFETY: by the contract of `new` the records are alive and nobody writes to them.
        unsafe { std::slice::from_raw_parts(pointer, self.length) }
    }
}

/// The entries of either direction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entries {
    Source(Lent<NetSrcAddr>),
    Destination(Lent<NetDestAddr>),
}

/// What both kinds of entry have in common.
#[derive(Debug, Clone, Copy)]
struct Entry {
    op: usize,
    mark: u32,
    size: u32,
    complete: i32,
    address: u64,
    peer: i32,
}

impl Entries {
    fn get(&self, index: usize) -> Option<Entry> {
        let index_of = |op| usize::try_from(op).unwrap_or(usize::MAX);
        match self {
            Self::Source(lent) => lent.get().get(index).map(|e| Entry {
                op: index_of(e.net_op_idx),
                mark: e.mark,
                size: e.size,
                complete: e.complete,
                address: e.host_addr,
                peer: e.dst_rank,
            }),
            Self::Destination(lent) => lent.get().get(index).map(|e| Entry {
                op: index_of(e.net_op_idx),
                mark: e.mark,
                size: e.size,
                complete: e.complete,
                address: e.host_addr,
                peer: e.src_rank,
            }),
        }
    }

    /// Transfers in the whole list.
    pub(crate) fn transfers(&self) -> u64 {
        let count = match self {
            Self::Source(lent) => lent.get().iter().filter(|e| e.mark == NET_TRANSFER).count(),
            Self::Destination(lent) => lent.get().iter().filter(|e| e.mark == NET_TRANSFER).count(),
        };
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    const fn direction(&self) -> Direction {
        match self {
            Self::Source(_) => Direction::Send,
            Self::Destination(_) => Direction::Receive,
        }
    }
}

/// A transfer between its start and its completion.
#[derive(Debug, Clone, Copy)]
struct Request {
    op: usize,
    complete: i32,
    done: bool,
}

/// The op list.
#[derive(Debug)]
pub(crate) struct OpList {
    ops: Lent<NetOpsInfo>,
    entries: Entries,
    /// Transfers of one run.
    total: u64,
    /// Rank to send to or receive from where an op does not name one.
    neighbour: usize,
    /// Address of the host index word; 0 for a list without transfers.
    index_word: usize,
    /// The rest is the state of the current run.
    armed: bool,
    next: usize,
    posted: u64,
    started: u64,
    completed: u64,
    requests: VecDeque<Request>,
}

impl OpList {
    /// A list at the beginning of its first run.
    ///
    /// # Safety
    /// `ops` and `entries` have passed `proxy_core::fifo::validate`; if there are transfers, `index_word` is the
    /// address of a live, aligned word that the host keeps until Stop.
    pub(crate) unsafe fn new(
        ops: Lent<NetOpsInfo>,
        entries: Entries,
        neighbour: usize,
        index_word: u64,
    ) -> Self {
        Self {
            ops,
            entries,
            total: entries.transfers(),
            neighbour,
            index_word: usize::try_from(index_word).unwrap_or(0),
            armed: false,
            next: 0,
            posted: 0,
            started: 0,
            completed: 0,
            requests: VecDeque::with_capacity(REQUESTS),
        }
    }

    /// Arms the run and starts what the device has posted, as far as the 128 requests allow. Whether anything happened.
    pub(crate) fn advance(&mut self, peers: &mut Peers) -> Result<bool> {
        if self.total == 0 || (!self.armed && !self.arm()?) {
            return Ok(false);
        }
        self.read_posted()?;
        let before = self.started;
        while self.started < self.posted && self.requests.len() < REQUESTS {
            let Some(entry) = self.next_transfer() else {
                break;
            };
            self.start(&entry, peers);
        }
        Ok(self.started != before)
    }

    /// Notes that transfers have been moved.
    pub(crate) fn finish(&mut self, tickets: &[u64]) {
        for ticket in tickets {
            let place = ticket
                .checked_sub(self.completed)
                .and_then(|place| usize::try_from(place).ok());
            if let Some(request) = place.and_then(|place| self.requests.get_mut(place)) {
                request.done = true;
            }
        }
    }

    /// Raises the completions that are due, in order. Whether there were any.
    pub(crate) fn complete(&mut self) -> bool {
        let before = self.completed;
        while let Some(request) = self.requests.pop_front_if(|request| request.done) {
            self.completed += 1;
            if self.completed == self.total
                && let Some(word) = self.index_word()
            {
                // Release: pairs with the device's acquire load before it stores READY for the next run. It goes
                // before the raise, as the device may do so as soon as it sees the last completion.
                word.store(0, Ordering::Release);
            }
            let weight = u32::try_from(request.complete).unwrap_or(0);
            raise(self.semaphores(request.op).1, weight);
        }
        self.completed != before
    }

    /// Whether the run has reached EXEC_COMPLETE with nothing in flight.
    pub(crate) const fn is_drained(&self) -> bool {
        self.completed == self.total
    }

    /// Whether the device has begun a run that has not been taken back.
    pub(crate) const fn is_armed(&self) -> bool {
        self.armed
    }

    /// Takes all cursors back to the start of the list.
    pub(crate) fn rewind(&mut self) {
        self.armed = false;
        self.next = 0;
        self.posted = 0;
        self.started = 0;
        self.completed = 0;
        self.requests.clear();
    }

    fn index_word(&self) -> Option<&AtomicU32> {
        let word = std::ptr::with_exposed_provenance_mut(self.index_word);
        // SAFETY: 0, or by the contract of `new` a live aligned word; host and device reach it with atomics only.
        (self.index_word != 0).then(|| unsafe { AtomicU32::from_ptr(word) })
    }

    /// Takes the device's READY, if it stands, and raises the handshake of the first op of this direction.
    fn arm(&mut self) -> Result<bool> {
        let Some(word) = self.index_word() else {
            return Ok(false);
        };
        // AcqRel, Acquire: pairs with the device's release store of READY, and with its acquire load after the handshake.
        match word.compare_exchange(INDEX_READY, 0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {}
            Err(0) => return Ok(false),
            Err(found) => {
                return Err(Error::proxy(format!(
                    "host index is {found:#x} before the run is ready, accepted: 0, {INDEX_READY:#x}"
                )));
            }
        }
        self.armed = true;
        if let Some(entry) = self.peek_transfer() {
            let (handshake, _, amount) = self.semaphores(entry.op);
            raise(handshake, amount);
        }
        Ok(true)
    }

    /// Widens the index word, a count modulo 512, to the number of transfers posted in this run.
    fn read_posted(&mut self) -> Result<()> {
        let Some(word) = self.index_word() else {
            return Ok(());
        };
        // Acquire: pairs with the device's release store, which follows its writes to the posted buffers.
        let found = word.load(Ordering::Acquire);
        let modulus = u64::from(NET_INDEX_LOOP_SIZE);
        let ahead = (u64::from(found) + modulus - self.posted % modulus) % modulus;
        let posted = self.posted + ahead;
        if u64::from(found) >= modulus
            || posted > self.total
            || posted - self.completed > REQUESTS as u64
        {
            return Err(Error::proxy(format!(
                "host index is {found:#x} after {} completions of {}, accepted: at most {REQUESTS} more, modulo {modulus}",
                self.completed, self.total
            )));
        }
        self.posted = posted;
        Ok(())
    }

    /// The next transfer, past terminators; none at the end of the list.
    fn peek_transfer(&self) -> Option<Entry> {
        let entries = (self.next..).map_while(|index| self.entries.get(index));
        entries
            .take_while(|entry| entry.mark != EXEC_COMPLETE)
            .find(|entry| entry.mark == NET_TRANSFER)
    }

    fn next_transfer(&mut self) -> Option<Entry> {
        loop {
            let entry = self
                .entries
                .get(self.next)
                .filter(|entry| entry.mark != EXEC_COMPLETE)?;
            self.next += 1;
            if entry.mark == NET_TRANSFER {
                return Some(entry);
            }
        }
    }

    fn start(&mut self, entry: &Entry, peers: &mut Peers) {
        // An entry without bytes makes no message on either side.
        let done = entry.size == 0;
        if !done {
            let job = Job {
                address: entry.address,
                size: entry.size,
                ticket: self.started,
            };
            peers.post(self.entries.direction(), self.peer_of(entry), job);
        }
        self.requests.push_back(Request {
            op: entry.op,
            complete: entry.complete,
            done,
        });
        self.started += 1;
    }

    fn peer_of(&self, entry: &Entry) -> usize {
        let variable = self
            .ops
            .get()
            .get(entry.op)
            .is_some_and(|op| op.variable_peer == 1);
        let named = usize::try_from(entry.peer).ok().filter(|_| variable);
        named.unwrap_or(self.neighbour)
    }

    /// Handshake semaphore, completion semaphore and handshake amount of an op, for this direction.
    fn semaphores(&self, op: usize) -> (u64, u64, u32) {
        let Some(op) = self.ops.get().get(op) else {
            return (0, 0, 0);
        };
        match self.entries.direction() {
            Direction::Send => (
                op.inc_send_handshake,
                op.inc_send_complete,
                op.initial_send_credits,
            ),
            Direction::Receive => (op.inc_recv_handshake, op.inc_recv_complete, 1),
        }
    }
}
