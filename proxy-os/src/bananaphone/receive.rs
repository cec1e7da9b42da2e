//! The receiving side of messages: frames put together, sorted by tag, copied from the ring to where they are wanted.
//!
//! A message in one frame is copied once, from the ring to its place. What a look at a ring has shown counts only once the frame is
//! taken, see [`proxy_core::phone::ring`]; until then the copy may be of anything.

use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::ring::{Arrived, RecvError};

use super::channel::{Ends, INTERNAL};
use super::counters::Counters;
use super::error::{BusError, Why};
use super::frame::{Aside, Kind, Partial, Place, begin, corrupt};
use super::wait::{self, Look, Stage, Waiting};
use crate::sys::copy;

/// What came from one rank and was not received yet.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    partial: Option<Partial>,
    aside: Aside,
    /// Tag of the bus's own message that came last, and how many frames of it, for lockstep.
    own: (u32, usize),
}

/// The next message of a ring.
enum Next {
    /// In one frame, which is still in the ring.
    Frame(u32, Arrived),
    /// Put together from frames.
    Whole(u32, Vec<u8>),
}

impl<'a> Ends<'a> {
    /// Takes what has come meanwhile, as far as there is a place for it. What is wrong with it is found by who asks for it.
    pub(super) fn make_room(&mut self) {
        for from in self.peers() {
            while !self.incoming[usize::from(from)].aside.is_full() {
                match self.next(from) {
                    Ok(Some(next)) => self.set_aside(from, next),
                    Ok(None) | Err(_) => break,
                }
            }
        }
    }

    fn cells(&self) -> usize {
        usize::try_from(self.segment.geometry().cells()).unwrap_or(usize::MAX)
    }

    /// Keeps a message for whoever asks for it later.
    fn set_aside(&mut self, from: u16, next: Next) {
        let (tag, message) = match next {
            Next::Whole(tag, message) => (tag, message),
            Next::Frame(tag, frame) => match self.take_whole(from, tag, &frame) {
                Some(message) => (tag, message),
                None => return,
            },
        };
        self.incoming[usize::from(from)].aside.push(tag, message);
    }

    /// Takes a message in one frame out of the ring. `None` = it was for others after all.
    fn take_whole(&mut self, from: u16, tag: u32, frame: &Arrived) -> Option<Vec<u8>> {
        let mut message = vec![0; frame.bytes];
        self.copy(from, frame, &mut message);
        self.take_frame(from, tag, frame).then_some(message)
    }

    /// Copies the payload of a frame.
    fn copy(&self, from: u16, frame: &Arrived, into: &mut [u8]) {
        if let Some(Some(reader)) = self.readers.get(usize::from(from)) {
            copy::get(reader.payload(frame), into);
        }
    }

    /// Takes a frame whose payload was copied. False = the copy is of something else: look again.
    #[inline]
    fn take_frame(&mut self, from: u16, tag: u32, frame: &Arrived) -> bool {
        let place = usize::from(from);
        let reader = self.readers.get_mut(place).and_then(Option::as_mut);
        let Some(wake) = reader.and_then(|reader| reader.take(frame)) else {
            return false;
        };
        wait::wake(self.segment.words(), wake);
        let incoming = &mut self.incoming[place];
        // What was begun and goes on with another message was given up by its sender.
        incoming.partial = None;
        if tag & INTERNAL != 0 {
            let (last, frames) = incoming.own;
            incoming.own = (tag, if last == tag { frames + 1 } else { 1 });
        }
        true
    }

    /// The next message in a ring, whatever its tag.
    #[inline]
    fn next(&mut self, from: u16) -> Result<Option<Next>, BusError> {
        // A ring holds no more frames, so a sender that goes on meanwhile has called whoever sleeps after that.
        for _ in 0..=self.cells() {
            let reader = self.readers.get_mut(usize::from(from));
            let Some(reader) = reader.and_then(Option::as_mut) else {
                break;
            };
            let frame = match reader.peek() {
                Ok(frame) => frame,
                // A look needs no buffer that could be too small.
                Err(RecvError::Empty | RecvError::TooSmall { .. }) => break,
                Err(RecvError::Corrupt(error)) => return Err(error.into()),
            };
            match Kind::split(frame.tag) {
                Some((Kind::Whole, tag)) => return Ok(Some(Next::Frame(tag, frame))),
                Some((kind, tag)) => {
                    if let Some(whole) = self.take_part(from, kind, tag, &frame)? {
                        return Ok(Some(Next::Whole(tag, whole)));
                    }
                }
                None if self.take_frame(from, 0, &frame) => {
                    return Err(corrupt("frame kind", from, frame.tag));
                }
                None => {}
            }
        }
        Ok(None)
    }

    /// Takes a frame of a long message, and returns the message if that was the last.
    fn take_part(
        &mut self,
        from: u16,
        kind: Kind,
        tag: u32,
        frame: &Arrived,
    ) -> Result<Option<Vec<u8>>, BusError> {
        let place = usize::from(from);
        let mut partial = self.incoming[place].partial.take();
        let mut alone = Vec::new();
        let bytes = match &mut partial {
            Some(partial) if kind == Kind::Rest && partial.tag == tag => &mut partial.bytes,
            // A beginning; or the rest of a message whose beginning was for nobody: its sender gave up.
            _ => &mut alone,
        };
        let before = bytes.len();
        bytes.resize(before + frame.bytes, 0);
        let into = &mut bytes[before..];
        if let Some(reader) = self.readers.get(place).and_then(Option::as_ref) {
            copy::get(reader.payload(frame), into);
        }
        if !self.take_frame(from, tag, frame) {
            bytes.truncate(before);
        } else if kind == Kind::First {
            partial = Some(begin(from, tag, &alone)?);
        }
        let complete = |partial: &mut Partial| partial.bytes.len() >= partial.total;
        let whole = partial.take_if(complete);
        self.incoming[place].partial = partial;
        Ok(whole.map(|mut whole| {
            whole.bytes.truncate(whole.total);
            whole.bytes
        }))
    }

    /// Takes the next message with this tag, or any, to its place, and returns its tag and bytes; those with other tags are set aside. One
    /// that does not fit is the next, whatever tag is asked for.
    pub(super) fn take(
        &mut self,
        from: u16,
        tag: Option<u32>,
        place: &mut Place<'_>,
    ) -> Result<Option<(u32, usize)>, BusError> {
        let wanted = |found: u32| match tag {
            Some(tag) => tag == found,
            None => found < INTERNAL,
        };
        let at = usize::from(from);
        if let Some(first) = self.incoming[at].aside.find(wanted) {
            return self.take_aside(from, first, place);
        }
        let crowded = BusError::Crowded {
            rank: from,
            limit: Aside::MESSAGES,
        };
        // Each round sets a message aside or has the cursor on, see `next`.
        for _ in 0..=Aside::MESSAGES.saturating_add(self.cells()) {
            if self.incoming[at].aside.is_over() {
                return Err(crowded);
            }
            match self.next(from)? {
                Some(Next::Frame(found, frame)) if wanted(found) => {
                    if let Some(bytes) = self.take_to(from, found, &frame, place)? {
                        return Ok(Some((found, bytes)));
                    }
                }
                Some(Next::Whole(found, message)) if wanted(found) => {
                    return self.put(from, found, message, place).map(Some);
                }
                Some(Next::Frame(_, frame)) if self.incoming[at].aside.is_full() => {
                    let reader = self.readers.get(at).and_then(Option::as_ref);
                    if reader.is_some_and(|reader| reader.stands(&frame)) {
                        return Err(crowded);
                    }
                }
                // Also one more than are allowed, which has left the ring already.
                Some(next) => self.set_aside(from, next),
                None => return self.begun_too_long(from, wanted, place),
            }
        }
        Ok(None)
    }

    /// What nothing in the ring means: an error, if what is asked for has begun to come and will not fit. No more of it is taken for that.
    fn begun_too_long(
        &self,
        from: u16,
        wanted: impl Fn(u32) -> bool,
        place: &Place<'_>,
    ) -> Result<Option<(u32, usize)>, BusError> {
        match &self.incoming[usize::from(from)].partial {
            Some(Partial { tag, total, .. }) if wanted(*tag) && !place.fits(*total) => {
                Err(BusError::TooSmall { bytes: *total })
            }
            _ => Ok(None),
        }
    }

    /// Takes a message that was set aside.
    fn take_aside(
        &mut self,
        from: u16,
        at: usize,
        place: &mut Place<'_>,
    ) -> Result<Option<(u32, usize)>, BusError> {
        match self.incoming[usize::from(from)].aside.take(at) {
            Some((tag, message)) => self.put(from, tag, message, place).map(Some),
            None => Ok(None),
        }
    }

    /// Puts a message that has left the ring to its place. One that does not fit is the next.
    fn put(
        &mut self,
        from: u16,
        tag: u32,
        message: Vec<u8>,
        place: &mut Place<'_>,
    ) -> Result<(u32, usize), BusError> {
        place
            .put(message)
            .map(|bytes| (tag, bytes))
            .map_err(|message| {
                let bytes = message.len();
                let incoming = &mut self.incoming[usize::from(from)];
                incoming.aside.push_first(tag, message);
                BusError::TooSmall { bytes }
            })
    }

    /// Copies a message out of the ring and takes it. `None` = it was for others after all.
    #[inline]
    fn take_to(
        &mut self,
        from: u16,
        tag: u32,
        frame: &Arrived,
        place: &mut Place<'_>,
    ) -> Result<Option<usize>, BusError> {
        let bytes = frame.bytes;
        let Some(room) = place.room(bytes) else {
            return match self.take_whole(from, tag, frame) {
                Some(message) => self.put(from, tag, message, place).map(|_| None),
                None => Ok(None),
            };
        };
        self.copy(from, frame, room);
        Ok(self.take_frame(from, tag, frame).then_some(bytes))
    }

    /// Waits until `look` finds something in the ring of `from`. What a dead rank has published is still found.
    pub(super) fn await_news<T>(
        &mut self,
        from: u16,
        waiting: &Waiting,
        counters: &Counters,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, BusError>,
    ) -> Result<T, BusError> {
        let (segment, pace) = (self.segment, self.pace);
        let missing = RankSet::default().with(from);
        let news = self.news(from)?;
        let found = wait::until(segment, pace, waiting, counters, |stage| {
            match look(self) {
                Ok(Some(found)) => return Look::Done(Ok(found)),
                Ok(None) if stage == Stage::Spin => return Look::Sleep(news, missing),
                Ok(None) => {}
                Err(error) => return Look::Done(Err(error)),
            }
            match wait::gone(segment, from) {
                Ok(None) => Look::Sleep(news, missing),
                // It may have published right before it went.
                Ok(Some(why)) => Look::Done(match look(self) {
                    Ok(Some(found)) => Ok(found),
                    Ok(None) => Err(waiting.error(segment, why, missing).into()),
                    Err(error) => Err(error),
                }),
                Err(error) => Look::Done(Err(error.into())),
            }
        });
        found.unwrap_or_else(|| Err(waiting.error(segment, Why::Deadline, missing).into()))
    }

    /// Receives a message to its place; its tag and bytes.
    pub(super) fn recv(
        &mut self,
        from: u16,
        tag: Option<u32>,
        mut place: Place<'_>,
        waiting: &Waiting,
        counters: &Counters,
    ) -> Result<(u32, usize), BusError> {
        self.check(from)?;
        self.await_news(from, waiting, counters, |ends| {
            ends.take(from, tag, &mut place)
        })
    }

    /// Frames of the bus's own message with this tag that have come from a rank.
    pub(super) fn own_frames(&self, from: u16, tag: u32) -> usize {
        let (last, frames) = self.incoming[usize::from(from)].own;
        if last == tag { frames } else { 0 }
    }

    /// Takes what has come from a rank, and returns its message with this tag if it is complete.
    pub(super) fn take_own(&mut self, from: u16, tag: u32) -> Result<Option<Vec<u8>>, BusError> {
        let mut message = Vec::new();
        let taken = self.take(from, Some(tag), &mut Place::Vec(&mut message))?;
        Ok(taken.map(|_| message))
    }

    /// Before the all-gather with this tag: drops what came of earlier ones, which failed. A rank for which more have failed is ahead, and what
    /// it sends for those to come is kept for them. Tags wrap, so half of all are behind.
    pub(super) fn forget_own_before(&mut self, tag: u32) {
        let is_behind = |found: u32| found.wrapping_sub(tag) & (INTERNAL - 1) >= INTERNAL / 2;
        for incoming in &mut self.incoming {
            let stays = |found| found < INTERNAL || !is_behind(found);
            incoming.aside.retain(stays);
        }
    }
}
