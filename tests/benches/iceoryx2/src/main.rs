//! One rank on iceoryx2: `bench-iceoryx2 KEY JOB RANK RANKS BYTES`, KEY round_trip.*, gather.* or join.*.
//!
//! A service that all publish to and all read, payloads rewritten before each send and copied out by each reader. Waits spin a
//! little and then yield, as it is usual with it. Prints `figure KEY P50 P99` on rank 0.

// The very timer and pinning of our own figures.
#[allow(dead_code, reason = "the benches use the rest")]
#[path = "../../src/clock.rs"]
mod clock;
#[allow(dead_code, reason = "the benches use the rest")]
#[path = "../../src/machine.rs"]
mod machine;

use std::error::Error;
use std::time::Duration;

use clock::{Figure, stamp};

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
        machine::pin(me % 2);
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
    let mut rank = Rank {
        me,
        ranks,
        ends: (publisher, subscriber),
        own: vec![0; bytes],
        all: vec![0; bytes * ranks],
        received: vec![0; ranks],
    };
    if key.starts_with("join") {
        return rank.meet();
    }
    // What is published before another rank has connected would be missed by it; what is published before it has taken it, too.
    std::thread::sleep(Duration::from_millis(50));
    let rounds = if bytes > 4096 { 500 } else { 4000 };
    rank.measure(key, rounds)?;
    std::thread::sleep(Duration::from_millis(100));
    Ok(())
}

impl Rank {
    fn measure(&mut self, key: &str, rounds: usize) -> Result<(), Box<dyn Error>> {
        let trip = key.starts_with("round_trip");
        let mut times = Vec::with_capacity(rounds);
        for round in 1..=rounds {
            let begin = stamp();
            if trip {
                self.trip(round)?;
            } else {
                self.send(round)?;
                self.await_all(round)?;
            }
            times.push(stamp() - begin);
        }
        if self.me == 0 {
            Figure::of(times).tell(key);
        }
        Ok(())
    }

    /// A barrier of ranks that may not have connected: each says again where it is until all have come there. Who has heard all twice knows
    /// that all have heard it once, so that they are connected to it, and what it said last reaches them when it is gone.
    fn meet(&mut self) -> Result<(), Box<dyn Error>> {
        let mut heard = vec![0; self.ranks];
        for place in 1..=2_u8 {
            loop {
                self.own[..2].copy_from_slice(&[self.me as u8, place]);
                let sample = self.ends.0.loan_slice_uninit(self.own.len())?;
                sample.write_from_slice(&self.own).send()?;
                while let Some(sample) = self.ends.1.receive()? {
                    let heard = &mut heard[usize::from(sample[0])];
                    *heard = sample[1].max(*heard);
                }
                if heard.iter().all(|heard| *heard >= place) {
                    break;
                }
                std::thread::yield_now();
            }
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
