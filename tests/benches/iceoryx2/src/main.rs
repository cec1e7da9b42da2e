//! One rank on iceoryx2: `bench-iceoryx2 KEY JOB RANK RANKS BYTES`, KEY round_trip.*, gather.* or join.*.
//!
//! A service that all publish to and all read, payloads rewritten before each send and copied out by each reader. Waits spin a
//! little and then yield, as it is usual with it. Prints `figure KEY P50 P99` on rank 0.

use std::error::Error;
use std::time::{Duration, Instant};

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::*;

type Ends = (Publisher<ipc::Service, [u8], ()>, Subscriber<ipc::Service, [u8], ()>);

/// One rank's view.
struct Rank {
    me: usize,
    ranks: usize,
    ends: Ends,
    own: Vec<u8>,
    all: Vec<u8>,
    /// Contributions received, by rank.
    received: Vec<usize>,
}

fn main() -> Result<(), Box<dyn Error>> {
    set_log_level(LogLevel::Error);
    let args: Vec<String> = std::env::args().collect();
    let [_, key, job, numbers @ ..] = args.as_slice() else {
        return Err("a key, a job, rank, ranks, bytes".into());
    };
    let numbers = numbers.iter().map(|word| word.parse()).collect::<Result<Vec<usize>, _>>()?;
    let [me, ranks, bytes] = numbers[..] else {
        return Err("rank, ranks, bytes".into());
    };
    if !key.starts_with("join") {
        pin(me % 2);
    }
    let bytes = bytes.max(8);
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let service = node
        .service_builder(&ServiceName::new(job)?)
        .publish_subscribe::<[u8]>()
        .max_publishers(ranks)
        .max_subscribers(ranks)
        .subscriber_max_buffer_size(4)
        .open_or_create()?;
    let subscriber = service.subscriber_builder().create()?;
    let publisher = service.publisher_builder().initial_max_slice_len(bytes).create()?;
    let here = || {
        let config = service.dynamic_config();
        config.number_of_subscribers().min(config.number_of_publishers())
    };
    while here() < ranks {
        std::thread::yield_now();
    }
    publisher.update_connections()?;
    subscriber.update_connections()?;
    // A rank that leaves, or publishes, before another has connected would be missed by it.
    std::thread::sleep(Duration::from_millis(if key.starts_with("join") { 3 } else { 50 }));
    let mut rank = Rank {
        me,
        ranks,
        ends: (publisher, subscriber),
        own: vec![0; bytes],
        all: vec![0; bytes * ranks],
        received: vec![0; ranks],
    };
    if !key.starts_with("join") {
        let rounds = if bytes > 4096 { 500 } else { 4000 };
        rank.measure(key, rounds)?;
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

impl Rank {
    fn measure(&mut self, key: &str, rounds: usize) -> Result<(), Box<dyn Error>> {
        let trip = key.starts_with("round_trip");
        let mut times = Vec::with_capacity(rounds);
        for round in 1..=rounds {
            let begin = Instant::now();
            if trip {
                self.trip(round)?;
            } else {
                self.send(round)?;
                self.await_all(round)?;
            }
            times.push(begin.elapsed().as_nanos() as u64);
        }
        times.sort_unstable();
        if self.me == 0 {
            println!("figure {key} {} {}", times[rounds / 2], times[rounds * 99 / 100]);
        }
        Ok(())
    }

    fn trip(&mut self, round: usize) -> Result<(), Box<dyn Error>> {
        if self.me == 0 {
            self.send(round)?;
        }
        while self.received[1 - self.me] < round {
            self.receive()?;
        }
        if self.me == 1 {
            self.send(round)?;
        }
        Ok(())
    }

    fn await_all(&mut self, round: usize) -> Result<(), Box<dyn Error>> {
        let mut looks = 0;
        while self.received.iter().any(|received| *received < round) {
            looks = if self.receive()? { 0 } else { looks + 1 };
            if looks > 4 {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    fn send(&mut self, round: usize) -> Result<(), Box<dyn Error>> {
        self.own.fill(round as u8);
        self.own[0] = self.me as u8;
        let sample = self.ends.0.loan_slice_uninit(self.own.len())?;
        sample.write_from_slice(&self.own).send()?;
        Ok(())
    }

    fn receive(&mut self) -> Result<bool, Box<dyn Error>> {
        let Some(sample) = self.ends.1.receive()? else {
            return Ok(false);
        };
        let (from, bytes) = (usize::from(sample[0]), self.own.len());
        assert!(from < self.ranks, "a foreign publisher");
        self.received[from] += 1;
        self.all[from * bytes..][..bytes].copy_from_slice(&sample);
        Ok(true)
    }
}

fn pin(cpu: usize) {
    // SAFETY: all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is larger than any CPU number used here.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is valid for its size; 0 = the calling thread.
    let answer = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    assert_eq!(answer, 0, "cannot pin to CPU {cpu}");
}
