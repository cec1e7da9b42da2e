//! Numbered places at which a process can be made to kill itself, for tests of what its peers do then.
//!
//! Compiled always, so that the tested code is the shipped code; unarmed, a point costs one relaxed load. Never armed
//! by anything but a test.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::signal;

/// A place, in the order of a rank's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Point {
    /// Has the name, but does not listen.
    Bound = 1,
    /// Listens, nobody served yet.
    Listening,
    /// Connected, has not said who it is.
    Connected,
    /// Has said who it is.
    Greeted,
    /// Has the answer and the segment's descriptor.
    Welcomed,
    /// Has the segment mapped and its ring reserved.
    Mapped,
    /// Is a member.
    Joined,
    /// Hub: a rank is let in, but not answered.
    LetIn,
    /// Hub: some know how to watch the others, some do not.
    Introducing,
    /// A message is written, but not stamped.
    Prepared,
    /// A message is there, but sleepers are not woken.
    Published,
    /// Between two parts of a long message.
    HalfSent,
    /// Before an arrival.
    Arriving,
    /// Has arrived, but sleepers are not woken.
    Arrived,
    /// Leader: all have arrived, nothing is decided.
    Gathered,
    /// A verdict stands, but sleepers are not woken.
    Decided,
    /// Before it leaves.
    Leaving,
    /// Has left, but sleepers are not woken.
    Left,
    /// Before it gives back memory and threads.
    CleaningUp,
}

impl Point {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Bound,
        Self::Listening,
        Self::Connected,
        Self::Greeted,
        Self::Welcomed,
        Self::Mapped,
        Self::Joined,
        Self::LetIn,
        Self::Introducing,
        Self::Prepared,
        Self::Published,
        Self::HalfSent,
        Self::Arriving,
        Self::Arrived,
        Self::Gathered,
        Self::Decided,
        Self::Leaving,
        Self::Left,
        Self::CleaningUp,
    ];
}

/// The armed point, and how; 0 = none. Relaxed on both sides: the process that arms it is the one that dies of it.
static ARMED: AtomicU32 = AtomicU32::new(0);

/// Added to an armed point: the process is stopped, not killed.
const STOP: u32 = 1 << 16;

/// Makes this process kill itself when it next comes to `point`.
pub fn arm(point: Point) {
    // Relaxed: see `ARMED`.
    ARMED.store(point as u32, Ordering::Relaxed);
}

/// Makes this process stop itself when it next comes to `point`, until somebody lets it go on.
pub fn arm_stop(point: Point) {
    // Relaxed: see `ARMED`.
    ARMED.store(point as u32 | STOP, Ordering::Relaxed);
}

/// Kills or stops the process if the point is armed.
#[inline]
pub(super) fn point(point: Point) {
    // Relaxed: see `ARMED`.
    let armed = ARMED.load(Ordering::Relaxed);
    if armed & !STOP == point as u32 {
        act(armed);
    }
}

#[cold]
fn act(armed: u32) {
    if armed & STOP == 0 {
        signal::kill_self();
    }
    // Relaxed: see `ARMED`. Once only.
    ARMED.store(0, Ordering::Relaxed);
    signal::stop_self();
}
