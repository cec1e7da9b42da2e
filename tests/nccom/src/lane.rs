//! Frames on one connection: a queue of transfers in order, and how far the first of them has come.
//!
//! A frame is a header of 8 bytes (payload size, running number of the frame on its connection) and the payload.
//! Both directions move as many frames per system call as fit one batch, header and payload together, and stop where
//! the socket stops; the next pass goes on from there.
#![allow(
    unsafe_code,
    reason = "vectored I/O straight from and into the buffers that the host lent"
)]

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;

use libc::iovec;

use crate::boot::wire::word;
use crate::sock::{receive, send, would_block};

const HEADER_LEN: usize = 8;
/// Frames per system call.
const BATCH: usize = 16;

/// One transfer of an op list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    /// Host address of the buffer; lent by the host until the transfer completes.
    pub(crate) address: u64,
    /// Bytes, not 0.
    pub(crate) size: u32,
    /// Which transfer of the op list's run this is.
    pub(crate) ticket: u64,
}

/// Why a lane stops for good.
#[derive(Debug)]
pub(crate) enum LaneError {
    /// The peer has closed or reset the connection.
    Closed,
    /// The peer's next message has another size than the posted receive.
    Size { sent: u32, expected: u32 },
    /// The peer's frames are out of step.
    Sequence { found: u32, expected: u32 },
    /// Anything else the system reports.
    System(io::Error),
}

impl From<io::Error> for LaneError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::System(error),
        }
    }
}

/// What one go at a lane did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moved {
    /// Some bytes went through.
    pub(crate) any: bool,
    /// The socket would not take or give more.
    pub(crate) blocked: bool,
}

/// The queue of one direction of one connection.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    queue: VecDeque<Job>,
    /// Bytes of the first frame, header included, that have been moved.
    offset: usize,
    /// Number of the first frame.
    sequence: u32,
    /// What has been received of the first frame's header.
    header: [u8; HEADER_LEN],
}

type Headers = [[u8; HEADER_LEN]; BATCH];

impl Lane {
    pub(crate) fn push(&mut self, job: Job) {
        self.queue.push_back(job);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Forgets all transfers and starts numbering anew, for a new connection.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            queue: std::mem::take(&mut self.queue),
            ..Self::default()
        };
        self.queue.clear();
    }

    /// Sends until the queue is empty or the socket takes no more. Appends the tickets of finished transfers.
    pub(crate) fn send(
        &mut self,
        stream: &TcpStream,
        finished: &mut Vec<u64>,
    ) -> Result<Moved, LaneError> {
        self.run(finished, |lane| {
            let mut headers: Headers = std::array::from_fn(|index| lane.outgoing_header(index));
            let (mut pieces, count, wanted) = lane.pieces(&mut headers);
            // SAFETY: headers live on this stack; payloads are readable, lent by the host until they complete.
            let sent = unsafe { send(stream, &mut pieces[..count]) };
            Ok((sent?, wanted))
        })
    }

    /// Receives until the queue is empty or nothing has come. Appends the tickets of finished transfers.
    pub(crate) fn receive(
        &mut self,
        stream: &TcpStream,
        finished: &mut Vec<u64>,
    ) -> Result<Moved, LaneError> {
        self.run(finished, |lane| {
            let mut headers: Headers = [[0; HEADER_LEN]; BATCH];
            headers[0] = lane.header;
            let (mut pieces, count, wanted) = lane.pieces(&mut headers);
            // SAFETY: headers live on this stack; payloads are writable, lent by the host and left alone by it until
            // they complete.
            let got = unsafe { receive(stream, &mut pieces[..count]) }?;
            if got == 0 {
                return Err(LaneError::Closed);
            }
            lane.check_headers(got, &headers)?;
            Ok((got, wanted))
        })
    }

    /// Calls `step`, which moves one batch and returns bytes moved and wanted, until nothing is left or it falls short.
    fn run(
        &mut self,
        finished: &mut Vec<u64>,
        mut step: impl FnMut(&mut Self) -> Result<(usize, usize), LaneError>,
    ) -> Result<Moved, LaneError> {
        let mut moved = Moved::default();
        while !self.queue.is_empty() {
            let (count, wanted) = match step(self) {
                Err(LaneError::System(error)) if would_block(&error) => (0, 1),
                other => other?,
            };
            moved.any |= count > 0;
            self.advance(count, finished);
            if count < wanted {
                moved.blocked = true;
                break;
            }
        }
        Ok(moved)
    }

    fn outgoing_header(&self, index: usize) -> [u8; HEADER_LEN] {
        let size = self.queue.get(index).map_or(0, |job| job.size);
        let number = self
            .sequence
            .wrapping_add(u32::try_from(index).unwrap_or(0));
        let mut header = [0; HEADER_LEN];
        header[..4].copy_from_slice(&size.to_le_bytes());
        header[4..].copy_from_slice(&number.to_le_bytes());
        header
    }

    /// The memory of the next frames from `offset` on: pieces, how many of them, and their bytes in all.
    fn pieces(&self, headers: &mut Headers) -> ([iovec; 2 * BATCH], usize, usize) {
        let mut pieces = [iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; 2 * BATCH];
        let (mut count, mut bytes, mut skip) = (0, 0, self.offset);
        for (job, header) in self.queue.iter().zip(headers) {
            let rest = &mut header[skip.min(HEADER_LEN)..];
            let done = skip.saturating_sub(HEADER_LEN);
            let payload = payload_address(job, done);
            let parts = [
                iovec {
                    iov_base: rest.as_mut_ptr().cast(),
                    iov_len: rest.len(),
                },
                iovec {
                    iov_base: payload.cast(),
                    iov_len: size_of_job(job) - done,
                },
            ];
            for part in parts.into_iter().filter(|part| part.iov_len > 0) {
                pieces[count] = part;
                count += 1;
                bytes += part.iov_len;
            }
            skip = 0;
        }
        (pieces, count, bytes)
    }

    /// Compares the headers that `got` more bytes completed with the posted transfers, and keeps a partial one.
    fn check_headers(&mut self, got: usize, headers: &Headers) -> Result<(), LaneError> {
        let mut available = self.offset + got;
        for (index, job) in self.queue.iter().take(BATCH).enumerate() {
            self.header = headers[index];
            if available < HEADER_LEN {
                return Ok(());
            }
            let (sent, found) = (word(&headers[index], 0), word(&headers[index], 4));
            let expected = self
                .sequence
                .wrapping_add(u32::try_from(index).unwrap_or(0));
            if found != expected {
                return Err(LaneError::Sequence { found, expected });
            }
            if sent != job.size {
                return Err(LaneError::Size {
                    sent,
                    expected: job.size,
                });
            }
            let frame = HEADER_LEN + size_of_job(job);
            if available < frame {
                return Ok(());
            }
            available -= frame;
        }
        Ok(())
    }

    fn advance(&mut self, count: usize, finished: &mut Vec<u64>) {
        self.offset += count;
        while let Some(job) = self.queue.front() {
            let frame = HEADER_LEN + size_of_job(job);
            if self.offset < frame {
                return;
            }
            self.offset -= frame;
            self.sequence = self.sequence.wrapping_add(1);
            finished.push(job.ticket);
            self.queue.pop_front();
        }
    }
}

fn size_of_job(job: &Job) -> usize {
    usize::try_from(job.size).unwrap_or(usize::MAX)
}

fn payload_address(job: &Job, done: usize) -> *mut u8 {
    let address = usize::try_from(job.address).unwrap_or(0);
    std::ptr::with_exposed_provenance_mut::<u8>(address).wrapping_add(done)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use super::*;
    use crate::sock::{interest, poll};

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        (near, far)
    }

    fn job(buffer: &mut [u8], ticket: u64) -> Job {
        let address = buffer.as_mut_ptr().expose_provenance() as u64;
        Job {
            address,
            size: u32::try_from(buffer.len()).unwrap(),
            ticket,
        }
    }

    fn wait_readable(stream: &TcpStream) {
        poll(
            &mut [interest(stream.as_raw_fd(), libc::POLLIN)],
            Duration::from_secs(10),
        )
        .unwrap();
    }

    #[test]
    fn frames_larger_than_any_socket_buffer_and_more_than_a_batch_arrive_in_order() {
        let (near, far) = connection();
        let sizes: Vec<usize> = (0..40).map(|n| [1, 4096, 1 << 20, 7][n % 4]).collect();
        let mut sent: Vec<Vec<u8>> = (0..).zip(&sizes).map(|(n, &size)| vec![n; size]).collect();
        let mut received: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![0xFF; size]).collect();
        let (mut out, mut into) = (Lane::default(), Lane::default());
        for ticket in 0..sizes.len() {
            out.push(job(&mut sent[ticket], ticket as u64));
            into.push(job(&mut received[ticket], ticket as u64));
        }
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        while !into.is_empty() {
            out.send(&near, &mut sends).unwrap();
            wait_readable(&far);
            into.receive(&far, &mut receives).unwrap();
        }
        let order: Vec<u64> = (0..sizes.len() as u64).collect();
        assert_eq!((&sends, &receives), (&order, &order));
        assert!(sent == received);
    }

    #[test]
    fn a_frame_that_comes_byte_by_byte_is_put_together() {
        let (mut near, far) = connection();
        let mut buffer = [0; 3];
        let mut into = Lane::default();
        into.push(job(&mut buffer, 8));
        let mut finished = Vec::new();
        for byte in [3, 0, 0, 0, 0, 0, 0, 0, 10, 20, 30] {
            assert!(finished.is_empty());
            near.write_all(&[byte]).unwrap();
            wait_readable(&far);
            let moved = into.receive(&far, &mut finished).unwrap();
            assert!(moved.any);
        }
        assert_eq!((finished, buffer), (vec![8], [10, 20, 30]));
    }

    #[test]
    fn a_full_socket_is_reported_and_the_rest_follows() {
        let (near, mut far) = connection();
        let mut buffer = vec![5; 32 << 20];
        let mut out = Lane::default();
        out.push(job(&mut buffer, 0));
        let mut finished = Vec::new();
        assert_eq!(
            out.send(&near, &mut finished).unwrap(),
            Moved {
                any: true,
                blocked: true
            }
        );
        assert_eq!(
            out.send(&near, &mut finished).unwrap(),
            Moved {
                any: false,
                blocked: true
            }
        );
        let mut total = 0;
        let mut sink = vec![0; 1 << 20];
        while total < buffer.len() + HEADER_LEN {
            wait_readable(&far);
            total += far.read(&mut sink).unwrap();
            out.send(&near, &mut finished).unwrap();
        }
        assert_eq!(finished, [0]);
    }

    #[test]
    fn sizes_and_numbers_that_do_not_match_are_errors() {
        for (header, expected) in [
            ([2_u32, 0], "Size { sent: 2, expected: 3 }"),
            ([3, 1], "Sequence { found: 1, expected: 0 }"),
        ] {
            let (mut near, far) = connection();
            let mut buffer = [0; 3];
            let mut into = Lane::default();
            into.push(job(&mut buffer, 0));
            near.write_all(&header[0].to_le_bytes()).unwrap();
            near.write_all(&header[1].to_le_bytes()).unwrap();
            near.write_all(&[0; 3]).unwrap();
            wait_readable(&far);
            let error = loop {
                match into.receive(&far, &mut Vec::new()) {
                    Ok(_) => wait_readable(&far),
                    Err(error) => break error,
                }
            };
            assert_eq!(format!("{error:?}"), expected);
        }
    }

    #[test]
    fn a_peer_that_closes_is_an_error_only_where_something_is_expected() {
        let (near, far) = connection();
        drop(near);
        wait_readable(&far);
        let mut into = Lane::default();
        assert_eq!(
            into.receive(&far, &mut Vec::new()).unwrap(),
            Moved::default()
        );
        let mut buffer = [0; 3];
        into.push(job(&mut buffer, 0));
        assert!(matches!(
            into.receive(&far, &mut Vec::new()),
            Err(LaneError::Closed)
        ));
    }
}
