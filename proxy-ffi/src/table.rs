//! The objects behind handles: one table per kind, whose places are used again under another generation.
//!
//! A call pins its object, so that a destroy beside it cannot free what it uses: the object ends with the last pin. No lock: a call
//! costs two atomic read-modify-writes, and a thread that stands still inside one delays nobody.
//!
//! ```text
//!   FREE --reserve--> CLAIMED --fill--> LIVE --close--> CLOSING --last unpin--> FREE
//!                     or dropped: FREE  pin, unpin        unpin
//!
//!   word of a place:  63 .. 24 generation | 23 poisoned | 22, 21 state | 20 .. 0 pins
//! ```
#![allow(
    unsafe_code,
    reason = "the object of a place is reached past the borrow checker, guarded by the place's word"
)]

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::handle::{BadHandle, Handle, Kind, LAST_GENERATION, MAX_PLACES};

const PINS: u64 = (1 << 21) - 1;
const STATE: u64 = 3 << 21;
const FREE: u64 = 0 << 21;
const CLAIMED: u64 = 1 << 21;
const LIVE: u64 = 2 << 21;
const CLOSING: u64 = 3 << 21;
const POISONED: u64 = 1 << 23;
const GENERATION_SHIFT: u32 = 24;

const fn generation(word: u64) -> u64 {
    word >> GENERATION_SHIFT
}

/// One object, initialised in the states LIVE and CLOSING.
#[derive(Debug)]
struct Place<T> {
    word: AtomicU64,
    object: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: an object is sent to the thread that closes it (`T: Send`) and shared by the threads that pin it (`T: Sync`); writing the cell
// is exclusive: in CLAIMED, entered by one compare-and-swap, and after the last unpin of CLOSING, which one decrement observes.
unsafe impl<T: Send + Sync> Sync for Place<T> {}

impl<T> Place<T> {
    const fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            object: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

/// The objects of one kind, at most `N` at a time.
#[derive(Debug)]
pub(crate) struct Table<T: 'static, const N: usize> {
    kind: Kind,
    /// Where the next search for a free place begins.
    hint: AtomicUsize,
    places: [Place<T>; N],
}

/// Every place is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoPlace {
    pub(crate) kind: Kind,
    pub(crate) limit: usize,
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kind.type_name();
        write!(
            f,
            "{} objects of type {name} are alive, the limit",
            self.limit
        )
    }
}

impl<T: Send + Sync, const N: usize> Table<T, N> {
    const LIMIT: () = assert!(
        N > 0 && N <= MAX_PLACES,
        "a handle names so many places at most"
    );

    pub(crate) const fn new(kind: Kind) -> Self {
        let () = Self::LIMIT;
        Self {
            kind,
            hint: AtomicUsize::new(0),
            places: [const { Place::new() }; N],
        }
    }

    /// Takes a place for an object that is yet to be made. Lock-free; O(places) when the table is nearly full.
    pub(crate) fn reserve(&self) -> Result<Reserved<'_, T>, NoPlace> {
        // Relaxed: where a search begins orders nothing.
        let first = self.hint.fetch_add(1, Ordering::Relaxed) % N;
        let order = (first..N).chain(0..first);
        for (index, place) in order.map(|index| (index, &self.places[index])) {
            if let Some(free) = claim(place) {
                return Ok(Reserved {
                    place,
                    free,
                    handle: Handle {
                        kind: self.kind,
                        generation: generation(free) + 1,
                        place: index,
                    },
                });
            }
        }
        Err(NoPlace {
            kind: self.kind,
            limit: N,
        })
    }

    /// Takes an object in and returns its handle.
    #[cfg(test)]
    pub(crate) fn insert(&self, object: T) -> Result<u64, NoPlace> {
        Ok(self.reserve()?.fill(object))
    }

    /// The object of a handle, which stays until the pin is dropped. Lock-free.
    pub(crate) fn pin(&self, bits: u64) -> Result<Pin<'_, T>, BadHandle> {
        self.enter(bits, |word| match word & POISONED {
            0 => Ok(word + 1),
            _ => Err(BadHandle::Poisoned),
        })
    }

    /// As [`Self::pin`], also when the object is poisoned: for what comes before a destroy.
    pub(crate) fn pin_poisoned(&self, bits: u64) -> Result<Pin<'_, T>, BadHandle> {
        self.enter(bits, |word| Ok(word + 1))
    }

    /// Ends a handle. From here on it is refused; its object ends with the last pin, the returned one included.
    pub(crate) fn close(&self, bits: u64) -> Result<Pin<'_, T>, BadHandle> {
        self.enter(bits, |word| Ok((word + 1) & !STATE | CLOSING))
    }

    /// Moves the place of a live handle to the word that `next` says, which has one pin more.
    fn enter(
        &self,
        bits: u64,
        next: impl Fn(u64) -> Result<u64, BadHandle>,
    ) -> Result<Pin<'_, T>, BadHandle> {
        let handle = Handle::parse(bits, self.kind)?;
        let foreign = BadHandle::Foreign(bits);
        let place = self.places.get(handle.place).ok_or(foreign)?;
        // Relaxed: a guess; the compare-and-swap decides.
        let mut word = place.word.load(Ordering::Relaxed);
        loop {
            let is_live = word & STATE == LIVE && generation(word) == handle.generation;
            if !is_live {
                let was = handle.generation != 0 && handle.generation <= generation(word);
                return Err(if was { BadHandle::Freed } else { foreign });
            }
            if word & PINS == PINS {
                return Err(BadHandle::Crowded);
            }
            // Acquire pairs with the release in `insert`. Relaxed on failure: as above.
            match place.word.compare_exchange_weak(
                word,
                next(word)?,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    let panicking = std::thread::panicking();
                    return Ok(Pin { place, panicking });
                }
                Err(now) => word = now,
            }
        }
    }
}

/// Takes a free place; returns its word before that. Places that have used up their generations are never free.
fn claim<T>(place: &Place<T>) -> Option<u64> {
    // Relaxed: a guess; the compare-and-swap decides.
    let word = place.word.load(Ordering::Relaxed);
    if word & STATE != FREE || generation(word) == LAST_GENERATION {
        return None;
    }
    // Acquire pairs with the release in `Pin::drop` that freed the place: the object before is gone. Relaxed: not ours.
    place
        .word
        .compare_exchange(word, word | CLAIMED, Ordering::Acquire, Ordering::Relaxed)
        .ok()
}

/// A place that is kept for an object; free again when it is dropped without one.
#[derive(Debug)]
pub(crate) struct Reserved<'a, T> {
    place: &'a Place<T>,
    /// Its word when it was free.
    free: u64,
    /// The handle that its object will have.
    handle: Handle,
}

impl<T: Send + Sync> Reserved<'_, T> {
    /// Takes the object in and returns its handle.
    pub(crate) fn fill(self, object: T) -> u64 {
        let reserved = ManuallyDrop::new(self);
        // SAFETY: CLAIMED is ours alone until the store below, and nobody reaches the cell in it.
        unsafe { reserved.place.object.get().write(MaybeUninit::new(object)) };
        let live = reserved.handle.generation << GENERATION_SHIFT | LIVE;
        // Release pairs with the acquire in `pin`: who sees LIVE sees the object.
        reserved.place.word.store(live, Ordering::Release);
        reserved.handle.bits()
    }
}

impl<T> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        // Release pairs with the acquire in `claim`.
        self.place.word.store(self.free, Ordering::Release);
    }
}

/// An object in use. A panic that unwinds through it poisons the object.
#[derive(Debug)]
pub(crate) struct Pin<'a, T> {
    place: &'a Place<T>,
    /// The thread was unwinding already when this was made.
    panicking: bool,
}

impl<T> Deref for Pin<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: while a pin exists nobody writes the cell, so a shared reference is sound.
        let object = unsafe { &*self.place.object.get() };
        // SAFETY: a pin is made in LIVE and keeps the place from leaving CLOSING: the object is there.
        unsafe { object.assume_init_ref() }
    }
}

impl<T> Drop for Pin<'_, T> {
    fn drop(&mut self) {
        let word = &self.place.word;
        if std::thread::panicking() && !self.panicking {
            // Relaxed: the flag guards no data; the release below orders it before the place's next use.
            word.fetch_or(POISONED, Ordering::Relaxed);
        }
        // Release: what this call did with the object comes before its end. Acquire: if this is the last pin, so does what others did.
        let before = word.fetch_sub(1, Ordering::AcqRel);
        if before & STATE != CLOSING || before & PINS != 1 {
            return;
        }
        // SAFETY: CLOSING refuses new pins and this was the last one, which only one decrement sees: the cell is ours.
        let object = unsafe { self.place.object.get().read() };
        // SAFETY: the object was written before the first pin, and is read out once, as the place becomes FREE.
        let object = unsafe { object.assume_init() };
        // Release pairs with the acquire in `claim`.
        word.store(
            generation(before) << GENERATION_SHIFT | FREE,
            Ordering::Release,
        );
        // Outside of the place, as the end of an object may take its time.
        drop(object);
    }
}

#[cfg(test)]
mod tests;
