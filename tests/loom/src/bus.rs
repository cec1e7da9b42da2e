//! A bus in plain memory, and a futex in small.

use std::fmt;
use std::mem::ManuallyDrop;

use proxy_core::phone::layout::{Geometry, Segment};
use proxy_core::phone::{Signal, Sleeping, Wake, Word};

use crate::rt::{Arc, Condvar, Mutex, Ordering};

/// Words of a bus and the kernel's side of a sleep on them.
pub struct Bus {
    words: Vec<Word>,
    geometry: Geometry,
    bucket: Mutex<()>,
    woken: Condvar,
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus")
            .field("geometry", &self.geometry)
            .finish_non_exhaustive()
    }
}

impl Bus {
    /// A fresh bus of these sizes, with rings of two cells.
    #[must_use]
    pub fn new(world: u16, barriers: u16) -> Arc<Self> {
        Self::of(Geometry::new(world, barriers, 2).unwrap())
    }

    /// A fresh bus of these sizes.
    #[must_use]
    pub fn of(geometry: Geometry) -> Arc<Self> {
        Arc::new(Self {
            words: (0..geometry.words()).map(|_| Word::new(0)).collect(),
            geometry,
            bucket: Mutex::new(()),
            woken: Condvar::new(),
        })
    }

    /// Its segment. The header is not read, which keeps the models small.
    #[must_use]
    pub fn segment(&self) -> Segment<'_> {
        Segment::again(&self.words, self.geometry).unwrap()
    }

    /// Wakes whom a change asks to wake.
    pub fn obey(&self, wake: Wake) {
        if let Wake::Word(_) = wake {
            // As in the kernel: who compared before this is asleep by now, who compares after it sees the call.
            drop(self.bucket.lock().unwrap());
            self.woken.notify_all();
        }
    }

    /// Waits as the shell does: look, be counted, look again, sleep. `look` names the signal to sleep on.
    pub fn wait<'a, T>(&'a self, mut look: impl FnMut() -> Result<T, Signal<'a>>) -> T {
        loop {
            let signal = match look() {
                Ok(found) => return found,
                Err(signal) => signal,
            };
            // Not taken back by a panic: loom is not there any more when it unwinds a failed execution.
            let sleeping = ManuallyDrop::new(signal.sleep());
            match look() {
                Ok(found) => {
                    drop(ManuallyDrop::into_inner(sleeping));
                    return found;
                }
                // Only a sleep on the signal that was counted is sure to be ended.
                Err(same) if same.index() == signal.index() => self.sleep(&sleeping),
                Err(_) => {}
            }
            drop(ManuallyDrop::into_inner(sleeping));
        }
    }

    /// Compares and sleeps in one step, once; wake-ups of other words end it too.
    fn sleep(&self, sleeping: &Sleeping<'_>) {
        let bucket = self.bucket.lock().unwrap();
        // Relaxed: ordered by the bucket's lock.
        let now = self.words[sleeping.index()].load(Ordering::Relaxed);
        if now == sleeping.seen() {
            drop(self.woken.wait(bucket).unwrap());
        }
    }
}
