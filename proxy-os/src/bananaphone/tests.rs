//! The rendezvous against hubs and ranks that are not what they should be. The other side is played by the test.
//!
//! Requirements: H58, H61, H65, H67.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use proxy_core::phone::layout::{self, LayoutError};

use super::hello::{Hello, RECORD_LIMIT, Reply, Welcome};
use super::*;
use crate::sys::memfd;
use crate::sys::poll::{For, poll};
use crate::sys::socket::Socket;

const AMPLE: Duration = Duration::from_secs(20);
/// Where a record has its version and its stamp.
const VERSION_AT: usize = 8;
const STAMP_AT: usize = 4;

fn job() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only uniqueness matters.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("unit-{}-{number}", std::process::id())
}

fn receive(socket: &Socket) -> Vec<u8> {
    poll(&[(socket.as_fd(), For::Input)], Some(AMPLE)).unwrap();
    let mut buffer = [0; RECORD_LIMIT];
    let record = socket.receive(&mut buffer).unwrap();
    buffer[..record.bytes].to_vec()
}

/// Joins as rank 1 of 2 a bus whose hub answers with this record and these descriptors.
fn join_hub(answer: &[u8], fds: &[BorrowedFd<'_>]) -> (JoinError, Vec<u8>) {
    let job = job();
    let hub = Socket::bind(&join::name(&job)).unwrap();
    hub.listen().unwrap();
    std::thread::scope(|scope| {
        let rank = scope.spawn(|| {
            Bus::create(&Options::new(&job, 1, 2))
                .map(drop)
                .unwrap_err()
        });
        poll(&[(hub.as_fd(), For::Input)], Some(AMPLE)).unwrap();
        let connection = hub.accept().unwrap().unwrap();
        Hello::decode(&receive(&connection)).unwrap();
        connection.send(answer, fds).unwrap();
        (rank.join().unwrap(), receive(&connection))
    })
}

fn welcome() -> Vec<u8> {
    let welcome = Welcome {
        bus: [1, 2],
        hub: 0,
        sealed: true,
    };
    Reply::Welcome(welcome).encode()
}

/// Descriptors of this process that are open on the file.
fn open_on(file: &File) -> usize {
    let inode = file.metadata().unwrap().ino();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let on_it = |entry: &std::fs::DirEntry| {
        std::fs::metadata(entry.path()).is_ok_and(|open| open.ino() == inode)
    };
    open.filter(on_it).count()
}

#[test]
fn h58_extra_descriptors_are_closed_and_a_missing_one_is_reported() {
    let file = memfd::create().unwrap();
    let three = [file.as_fd(); 3];
    let (error, told) = join_hub(&welcome(), &three);
    // Empty and unsealed, so it is refused after it was taken.
    assert_eq!(error, JoinError::NotSealed);
    assert!(matches!(Reply::decode(&told), Ok(Reply::Failed(failure)) if failure.cause == error));
    assert_eq!(open_on(&file), 1);
    let (error, told) = join_hub(&welcome(), &[]);
    assert!(matches!(error, JoinError::FdNotDelivered { limit } if limit > 0));
    assert!(matches!(Reply::decode(&told), Ok(Reply::Failed(failure)) if failure.cause == error));
}

#[test]
fn h61_a_segment_that_is_unsealed_or_too_small_is_refused_at_the_door() {
    let wanted = Geometry::new(2, 8, 256).unwrap().words() as u64 * 4;
    let file = memfd::create().unwrap();
    file.set_len(wanted).unwrap();
    assert_eq!(
        join_hub(&welcome(), &[file.as_fd()]).0,
        JoinError::NotSealed
    );
    file.set_len(4096).unwrap();
    memfd::seal(&file).unwrap();
    let small = JoinError::TooSmall {
        found: 4096,
        wanted,
    };
    assert_eq!(join_hub(&welcome(), &[file.as_fd()]).0, small);
}

#[test]
fn h61_a_sealed_segment_without_a_header_is_refused() {
    let geometry = Geometry::new(2, 8, 256).unwrap();
    let file = memfd::create().unwrap();
    file.set_len(geometry.words() as u64 * 4).unwrap();
    memfd::seal(&file).unwrap();
    let error = join_hub(&welcome(), &[file.as_fd()]).0;
    assert_eq!(error, JoinError::Layout(LayoutError::NotABus { found: 0 }));
}

#[test]
fn h67_a_rank_refuses_a_hub_of_another_layout() {
    let mut other = welcome();
    let theirs = layout::VERSION + 1;
    other[VERSION_AT..][..4].copy_from_slice(&theirs.to_ne_bytes());
    // Nothing behind the fixed words is looked at.
    other.truncate(16);
    let ours = layout::VERSION;
    let mismatch = LayoutError::VersionMismatch { ours, theirs };
    assert_eq!(join_hub(&other, &[]).0, JoinError::Layout(mismatch));
}

/// A hub of world 2 that a rank greets whose record has `word` at `at`: the hub's answer and what its own rank is told.
fn greet_hub(at: usize, word: u32) -> (Vec<u8>, JoinError) {
    let job = job();
    let bus = Bus::create(&Options::new(&job, 0, 2)).unwrap();
    let hello = Hello {
        job: join::hash(&job),
        namespace: 0,
        rank: 1,
        world: 2,
        barriers: 8,
        cells: 256,
    };
    let mut record = hello.encode();
    record[at..][..4].copy_from_slice(&word.to_ne_bytes());
    let rank = Socket::connect(&join::name(&job)).unwrap();
    rank.send(&record, &[]).unwrap();
    let start = Instant::now();
    let told = bus.connect(AMPLE).unwrap_err();
    assert!(start.elapsed() < Duration::from_millis(500));
    (receive(&rank), told)
}

#[test]
fn h67_a_hub_refuses_a_rank_of_another_layout_and_both_are_told() {
    let ours = layout::VERSION;
    let theirs = ours + 1;
    let (answer, told) = greet_hub(VERSION_AT, theirs);
    let cause = LayoutError::VersionMismatch { ours, theirs };
    let peer = |cause: LayoutError| JoinError::Peer {
        rank: None,
        cause: Box::new(cause.into()),
    };
    assert_eq!(told, peer(cause));
    // The rank finds the hub's version where every version has it.
    assert_eq!(answer[VERSION_AT..][..4], ours.to_ne_bytes());
    let theirs = layout::STAMP.swap_bytes();
    let (_, told) = greet_hub(STAMP_AT, theirs);
    let ours = layout::STAMP;
    assert_eq!(told, peer(LayoutError::StampMismatch { ours, theirs }));
}

#[test]
fn ranks_that_were_told_different_sizes_are_told_so_on_both_sides() {
    let job = job();
    let bus = Bus::create(&Options::new(&job, 0, 2)).unwrap();
    let mut other = Options::new(&job, 1, 2);
    other.cells = 512;
    let differs = |ours, theirs| JoinError::Differs {
        field: error::Field::Cells,
        ours,
        theirs,
    };
    assert_eq!(Bus::create(&other).unwrap_err(), differs(512, 256));
    let cause = Box::new(differs(256, 512));
    let rank = Some(1);
    assert_eq!(
        bus.connect(AMPLE).unwrap_err(),
        JoinError::Peer { rank, cause }
    );
    // Whoever comes now is told the same.
    let late = Bus::create(&Options::new(&job, 1, 2)).unwrap_err();
    let cause = Box::new(differs(256, 512));
    assert_eq!(late, JoinError::Peer { rank, cause });
}

#[test]
fn a_second_rank_of_the_same_number_is_refused() {
    let job = job();
    let _bus = Bus::create(&Options::new(&job, 0, 2)).unwrap();
    let twin = Bus::create(&Options::new(&job, 0, 2)).unwrap_err();
    assert_eq!(twin, JoinError::RankTaken { rank: 0 });
}

#[test]
fn long_job_ids_are_told_apart() {
    let (one, two) = ("a".repeat(200), "a".repeat(199) + "b");
    assert_ne!(join::name(&one), join::name(&two));
    let bus = Bus::create(&Options::new(one, 0, 1)).unwrap();
    bus.connect(AMPLE).unwrap();
}

/// A budget that would last for minutes.
#[test]
fn h65_many_looks_and_many_yields_end_with_the_deadline() {
    for (spins, yields) in [(u32::MAX, None), (0, Some(u32::MAX))] {
        let mut options = Options::new(job(), 0, 2);
        (options.spins, options.yields) = (Some(spins), yields);
        let mut bus = Bus::create(&options).unwrap();
        let start = Instant::now();
        let waited = bus.recv(1, None, Duration::from_millis(20)).unwrap_err();
        assert!(
            start.elapsed() < AMPLE,
            "{spins} {yields:?}: {:?}",
            start.elapsed()
        );
        let BusError::Wait(error) = waited else {
            panic!("{waited}");
        };
        assert_eq!(error.why, Why::Deadline);
        assert!(error.elapsed >= Duration::from_millis(20), "{error}");
    }
}

#[test]
fn ranks_know_whether_they_share_their_cpus_when_all_are_there() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let Some(many) = u16::try_from(cpus + 1).ok().filter(|many| *many <= 128) else {
        println!("SKIPPED: fewer CPUs than ranks not available");
        return;
    };
    let is_crowded = |bus: &Bus| {
        bus.ends
            .with(|ends| bus.counters.crowd.is_there(ends.segment, bus.me))
    };
    for world in [many - 1, many] {
        let job = job();
        let mut buses = Vec::new();
        for rank in 0..world {
            if let Some(first) = buses.first() {
                assert!(is_crowded(first), "others may come");
            }
            buses.push(Bus::create(&Options::new(&job, rank, world)).unwrap());
        }
        for bus in &buses {
            assert_eq!(is_crowded(bus), world == many, "{world} ranks, {cpus} CPUs");
        }
    }
}
