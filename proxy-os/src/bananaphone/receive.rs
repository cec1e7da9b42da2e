//! The receiving side of messages: frames put together, sorted by tag, copied from the ring to where they are wanted.
//!
//! A message in one frame is copied once, from the ring to its place. What a look at a ring has shown counts only once the frame is
//! taken, see [`proxy_core::phone::ring`]; until then the copy may be of anything.

use std::collections::VecDeque;

use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::ring::{Arrived, RecvError};

use super::channel::{Ends, INTERNAL};
use super::counters::Counters;
use super::error::{BusError, Why};
use super::frame::{Kind, Partial, Place, begin, corrupt};
use super::wait::{self, Look, Stage, Waiting};
use crate::sys::copy;

/// Messages with other tags that may wait per sender.
const CROWD: usize = 1024;

/// What came from one rank and was not received yet.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    partial: Option<Partial>,
    /// Complete messages that nobody has asked for, in order.
    crowd: VecDeque<(u32, Vec<u8>)>,
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
            while self.incoming[usize::from(from)].crowd.len() < CROWD {
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
            Next::Frame(tag, frame) => {
                let mut message = vec![0; frame.bytes];
                self.copy(from, &frame, &mut message);
                if !self.take_frame(from, tag, &frame) {
                    return;
                }
                (tag, message)
            }
        };
        self.incoming[usize::from(from)]
            .crowd
            .push_back((tag, message));
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
        let crowd = &mut self.incoming[usize::from(from)].crowd;
        if let Some(at) = crowd.iter().position(|(found, _)| wanted(*found)) {
            return self.take_aside(from, at, place);
        }
        let crowded = BusError::Crowded {
            rank: from,
            limit: CROWD,
        };
        // Each round sets a message aside or has the cursor on, see `next`.
        for _ in 0..=CROWD.saturating_add(self.cells()) {
            let waiting = self.incoming[usize::from(from)].crowd.len();
            if waiting > CROWD {
                return Err(crowded);
            }
            match self.next(from)? {
                Some(Next::Frame(found, frame)) if wanted(found) => {
                    if let Some(bytes) = self.take_to(from, found, &frame, place)? {
                        return Ok(Some((found, bytes)));
                    }
                }
                Some(Next::Whole(found, message)) if wanted(found) => {
                    let crowd = &mut self.incoming[usize::from(from)].crowd;
                    crowd.push_front((found, message));
                    return self.take_aside(from, 0, place);
                }
                Some(Next::Frame(_, frame)) if waiting == CROWD => {
                    let reader = self.readers.get(usize::from(from)).and_then(Option::as_ref);
                    if reader.is_some_and(|reader| reader.stands(&frame)) {
                        return Err(crowded);
                    }
                }
                // Also one more than are allowed, which has left the ring already.
                Some(next) => self.set_aside(from, next),
                None => break,
            }
        }
        Ok(None)
    }

    /// Takes a message that was set aside.
    fn take_aside(
        &mut self,
        from: u16,
        at: usize,
        place: &mut Place<'_>,
    ) -> Result<Option<(u32, usize)>, BusError> {
        let crowd = &mut self.incoming[usize::from(from)].crowd;
        let Some((tag, message)) = crowd.remove(at) else {
            return Ok(None);
        };
        match place.put(message) {
            Ok(bytes) => Ok(Some((tag, bytes))),
            Err(message) => {
                let bytes = message.len();
                crowd.push_front((tag, message));
                Err(BusError::TooSmall { bytes })
            }
        }
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
            let before = self.incoming[usize::from(from)].crowd.len();
            self.set_aside(from, Next::Frame(tag, *frame));
            let crowd = &mut self.incoming[usize::from(from)].crowd;
            if crowd.len() == before {
                return Ok(None);
            }
            crowd.rotate_right(1);
            return Err(BusError::TooSmall { bytes });
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

    /// Drops messages of the bus's own with other tags than this: of all-gathers that failed.
    pub(super) fn forget_own_but(&mut self, tag: u32) {
        for incoming in &mut self.incoming {
            incoming
                .crowd
                .retain(|(found, _)| *found < INTERNAL || *found == tag);
        }
    }
}
