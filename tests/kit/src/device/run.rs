//! The device's thread: fires the start words and steps the lanes of all streams until each is through.

#![allow(unsafe_code, reason = "copies and reductions touch lent memory")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use proxy_core::limits;

use super::error::DeviceError;
use super::program::Program;
use super::words::ALL_ONES;
use super::{Fault, Launch, Shared};
use crate::dtype::reduce;
use crate::plan::{Direction, Semaphore, Span, Step};

type Bases = [[u32; Semaphore::COUNT]; limits::STREAMS];

/// Serves launches until the device is aborted. A failed execution aborts it: its semaphores cannot be trusted any more.
pub(super) fn serve(shared: &Shared) {
    let mut bases = Bases::default();
    while let Some(launch) = shared.next() {
        shared.positions.begin(launch.exec_id, &bases);
        let result = execute(shared, &launch, &mut bases);
        if result.is_ok() {
            launch.program.give_back();
        } else {
            shared.abort();
        }
        launch.done.set(result);
    }
}

/// Runs one execution, and brings `bases` to what the semaphores hold after it.
fn execute(shared: &Shared, launch: &Launch, bases: &mut Bases) -> Result<(), DeviceError> {
    let mut ladder = Ladder::default();
    // A word that is fired again before the host has seen it would tell of one execution where there were two.
    while launch.fault.is_none() && launch.start.is_any_fired() {
        if shared.is_aborted() {
            return Err(DeviceError::Aborted);
        }
        ladder.after_pass(false, shared);
    }
    fire(launch);
    let program = &*launch.program;
    let mut streams: Vec<_> = (0..program.plan().spec().streams)
        .map(|stream| Stream {
            program,
            stream,
            base: bases[stream],
            block: 0,
            at: [0, 0],
        })
        .collect();
    loop {
        if shared.is_aborted() {
            return Err(DeviceError::Aborted);
        }
        let (mut moved, mut active) = (false, false);
        for stream in &mut streams {
            moved |= stream.pass(shared)?;
            active |= stream.current().is_some();
        }
        if !active {
            break;
        }
        ladder.after_pass(moved, shared);
    }
    for stream in &streams {
        bases[stream.stream] = stream.settle()?;
    }
    if let Some(Fault::FiresTwice { stream }) = launch.fault {
        launch
            .start
            .store(stream, launch.start.polarity().fired(launch.exec_id));
    }
    Ok(())
}

/// Fires the start word of every stream, but for a fault.
fn fire(launch: &Launch) {
    let right = launch.start.polarity().fired(launch.exec_id);
    for stream in 0..launch.start.len() {
        match launch.fault {
            Some(Fault::NeverFires { stream: s } | Fault::FiresEarly { stream: s })
                if s == stream => {}
            Some(Fault::Garbage { stream: s, value }) if s == stream => {
                launch.start.store(stream, value)
            }
            _ => launch.start.store(stream, right),
        }
    }
}

/// Spin, then yield, then nap, by the number of passes in which nothing moved.
#[derive(Default)]
struct Ladder {
    still: u32,
}

impl Ladder {
    const SPINS: u32 = 64;
    const YIELDS: u32 = 512;
    /// The words cannot wake a sleeper, so this bounds how late a raise is seen.
    const NAP: Duration = Duration::from_micros(50);

    fn after_pass(&mut self, moved: bool, shared: &Shared) {
        if moved {
            self.still = 0;
            return;
        }
        self.still = self.still.saturating_add(1);
        match self.still {
            still if still <= Self::SPINS => std::hint::spin_loop(),
            still if still <= Self::YIELDS => std::thread::yield_now(),
            _ => shared.nap(Self::NAP),
        }
    }
}

/// One stream of one execution.
struct Stream<'a> {
    program: &'a Program,
    stream: usize,
    /// Values of the semaphores when the execution began.
    base: [u32; Semaphore::COUNT],
    block: usize,
    /// Next step of each lane.
    at: [usize; 2],
}

impl Stream<'_> {
    /// The lanes of the current block; `None` after the last.
    fn current(&self) -> Option<&[Vec<Step>; 2]> {
        let block = self.program.plan().blocks(self.stream).get(self.block)?;
        Some(&block.lanes)
    }

    /// Tries one step of each lane, so that a long row of reductions does not hold up the sends. Says if one moved.
    fn pass(&mut self, shared: &Shared) -> Result<bool, DeviceError> {
        let mut moved = false;
        for lane in Direction::BOTH {
            let at = self.at[lane as usize];
            let step = self
                .current()
                .and_then(|lanes| lanes[lane as usize].get(at))
                .copied();
            if let Some(step) = step
                && self.step(lane, step)?
            {
                self.at[lane as usize] += 1;
                moved = true;
            }
        }
        let [receive, send] = self.at;
        if self
            .current()
            .is_some_and(|[r, s]| receive == r.len() && send == s.len())
        {
            self.block += 1;
            self.at = [0, 0];
            moved = true;
        }
        if moved {
            shared.positions.set(self.stream, self.block, self.at);
        }
        Ok(moved)
    }

    /// Does one step if it can be done now.
    fn step(&self, lane: Direction, step: Step) -> Result<bool, DeviceError> {
        let index = self.program.words().index(self.stream, lane);
        match step {
            Step::Ready => {
                // Acquire: pairs with the library's release store of 0 at the end of the block before.
                let found = index.load(Ordering::Acquire);
                if found != 0 {
                    let (stream, block) = (self.stream, self.block);
                    return Err(DeviceError::IndexWord {
                        stream,
                        block,
                        direction: lane,
                        found,
                    });
                }
                // Release: the library's acquire load sees a device that has left the block before.
                index.store(ALL_ONES, Ordering::Release);
            }
            // Release: the library's acquire load of the index sees the bytes of every posted buffer.
            Step::Post { total } => {
                index.store(total % limits::NET_INDEX_LOOP_SIZE, Ordering::Release)
            }
            // The totals wrap; the distance is far below 2^31, so its sign tells before from after.
            Step::Wait { semaphore, total } => {
                return Ok(self.raised(semaphore).wrapping_sub(total).cast_signed() >= 0);
            }
            Step::Follow { steps } => return Ok(self.at[Direction::Receive as usize] >= steps),
            Step::Copy { src, dst } => self.combine(src, dst, |to, from| to.copy_from_slice(from)),
            Step::Reduce { src, dst } => {
                let dtype = self.program.plan().spec().dtype;
                self.combine(src, dst, |to, from| reduce(dtype, to, from));
            }
        }
        Ok(true)
    }

    /// By how much a semaphore was raised in this execution.
    fn raised(&self, semaphore: Semaphore) -> u32 {
        let word = self.program.words().semaphore(self.stream, semaphore);
        // Acquire: pairs with the release add of `nec_inc_semaphore`; the bytes of completed receives are visible, and
        // the library is done with the bytes of completed sends.
        word.load(Ordering::Acquire)
            .wrapping_sub(self.base[semaphore as usize])
    }

    fn combine(&self, src: Span, dst: Span, apply: impl FnOnce(&mut [u8], &[u8])) {
        let (from, to) = (
            self.program.buffer(src.region),
            self.program.buffer(dst.region),
        );
        // SAFETY: nobody writes `src` now. Input is written by the host only when nothing is in flight. A span of the
        // stage is written by the library only while its receive entry is open, and the lane waited for the completion
        // before this step (acquire in `raised`); every span is received into at most once per execution.
        let src = unsafe { from.bytes(src.offset, src.len) };
        // SAFETY: nobody else touches `dst` now, and it does not overlap `src`, which lies in another region. A span of
        // the stage that is reduced into is no longer open for receiving (see above), and is posted for sending only
        // after this step (`Follow`, then the release in `Post`). A span of the output that is copied into has no
        // receive entry; it is posted for sending, if at all, after this step. Its sends of the execution before are
        // completed, because a block ends with a wait for all of them. The host reads it only when nothing is in flight.
        let dst = unsafe { to.bytes_mut(dst.offset, dst.len) };
        apply(dst, src);
    }

    /// After the last step: checks that each semaphore was raised exactly as planned; the bases of the next execution.
    fn settle(&self) -> Result<[u32; Semaphore::COUNT], DeviceError> {
        let planned = self.program.plan().totals(self.stream);
        let mut next = self.base;
        for semaphore in [Semaphore::Handshake, Semaphore::Receive, Semaphore::Send] {
            let (raised, awaited) = (self.raised(semaphore), planned[semaphore as usize]);
            if raised != awaited {
                return Err(DeviceError::Overrun {
                    stream: self.stream,
                    semaphore,
                    raised,
                    awaited,
                });
            }
            let base = &mut next[semaphore as usize];
            *base = base.wrapping_add(awaited);
        }
        Ok(next)
    }
}
