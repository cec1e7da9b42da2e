//! H30: a rank whose library cannot be initialised ends the start of all ranks at once, and each knows which rank and why.

use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE, PROMPT};
use proxy_checks::pace::at_most;
use proxy_checks::stub::{Scratch, Stub};
use proxy_core::Status;
use proxy_os::bananaphone::start::{StartError, together};
use proxy_os::bananaphone::{Bus, BusError, Phase, Why};
use proxy_os::nccom::abi::DeviceInfo;
use proxy_os::nccom::{CallError, Comm, Library};

/// Tag of the start's messages.
const START: u32 = 30;

/// The library's initialisation of one of three participants.
#[allow(unsafe_code, reason = "a call of the library")]
fn initialise(stub: &Stub, rank: u16) -> Result<Comm, CallError> {
    let library = Library::load(stub.path.as_os_str()).expect("the stub loads");
    let device = DeviceInfo::standalone(rank.into());
    // SAFETY: the stub looks at none of its arguments.
    unsafe { library.init_global_comm(rank.into(), 3, &device, c"127.0.0.1:1", c"h30") }
}

#[test]
fn h30_a_failed_initialisation_is_heard_by_all_at_once() {
    let scratch = Scratch::new();
    let good = scratch.stub("libgood.so", &[]);
    let bad = scratch.stub("libbad.so", &["STATUS=4242"]);
    let started = bus::threads(3, |mut bus| {
        let rank = bus.rank();
        let stub = if rank == 0 { &bad } else { &good };
        let since = Instant::now();
        let started = together(&mut bus, START, AMPLE, || initialise(stub, rank));
        (started.map(|_| ()), since.elapsed())
    });
    assert_eq!(bad.count("call InitGlobalComm"), 1);
    let text = match &started[0].0 {
        Err(StartError::Own(error)) => {
            assert_eq!(error.status, Status(4242));
            error.to_string()
        }
        other => panic!("{other:?}"),
    };
    assert!(text.contains("libbad.so"), "{text}");
    for (result, took) in &started[1..] {
        match result {
            Err(StartError::PeerFailed {
                rank: 0,
                text: heard,
            }) => assert_eq!(*heard, text),
            other => panic!("{other:?}"),
        }
        assert!(*took < PROMPT, "{took:?}");
    }
    assert!(started[0].1 < PROMPT, "{:?}", started[0].1);
}

/// The failed rank is the last in turn, another has not even begun: neither hides the failure from who listens.
#[test]
fn h30_a_failure_is_heard_while_another_rank_is_still_starting() {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(Some(wait));
    let started = bus::threads(3, |mut bus| {
        let since = Instant::now();
        let result = match bus.rank() {
            0 => {
                let heard = together(&mut bus, START, AMPLE, || Ok::<_, String>(()));
                done.send(()).expect("rank 1 waits");
                heard
            }
            1 => together(&mut bus, START, AMPLE, || {
                let wait = wait.lock().expect("no panic").take().expect("once");
                wait.recv().expect("rank 0 has heard");
                Ok(())
            }),
            _ => together(&mut bus, START, AMPLE, || Err("no network".to_owned())),
        };
        (result, since.elapsed())
    });
    let heard = StartError::PeerFailed {
        rank: 2,
        text: "no network".to_owned(),
    };
    assert_eq!(started[0].0.as_ref(), Err(&heard));
    assert_eq!(started[1].0.as_ref(), Err(&heard));
    assert_eq!(started[2].0, Err(StartError::Own("no network".to_owned())));
    assert!(started[0].1 < PROMPT, "{:?}", started[0].1);
}

#[test]
fn h30_all_start_when_nothing_fails_and_silence_ends_at_the_deadline() {
    let ranks = bus::threads(3, |mut bus| {
        let rank = bus.rank();
        let made = together(&mut bus, START, AMPLE, || Ok::<_, String>(rank));
        let silent = Duration::from_millis(50);
        let late = match rank {
            0 => together(&mut bus, START + 1, silent, || Ok::<_, String>(rank)).map(|_| ()),
            _ => Ok(()),
        };
        // Nobody leaves while rank 0 listens.
        bus.all_gather(&[], AMPLE).expect("all are there");
        (made, late)
    });
    let made: Vec<_> = ranks.iter().map(|(made, _)| made.clone()).collect();
    assert_eq!(made, [Ok(0), Ok(1), Ok(2)]);
    match &ranks[0].1 {
        Err(StartError::Bus(BusError::Wait(error))) => {
            assert_eq!(error.why, Why::Deadline);
            assert_eq!(error.within.time, Duration::from_millis(50));
        }
        other => panic!("{other:?}"),
    }
}

/// A rank that receives nothing leaves no room for what the others say of their starts.
#[test]
fn h30_room_that_is_waited_for_is_part_of_the_time() {
    let whole = Duration::from_secs(1);
    let ranks = bus::threads(2, |mut bus| {
        let full = vec![0; bus.capacity()];
        if bus.rank() == 1 {
            // Room comes when most of the other's time has passed, and nothing else does.
            bus.recv(0, Some(1), AMPLE).expect("its clock begins");
            std::thread::sleep(whole * 6 / 10);
            bus.recv(0, Some(2), AMPLE).expect("it was sent");
            bus.recv(0, Some(3), AMPLE).expect("it has given up");
            return None;
        }
        bus.send(1, 1, &[], AMPLE).expect("room");
        bus.send(1, 2, &full, AMPLE)
            .expect("room when that is read");
        let since = Instant::now();
        let started = together(&mut bus, START, whole, || Ok::<_, String>(()));
        let took = since.elapsed();
        bus.send(1, 3, &[], AMPLE).expect("room");
        Some((started, took))
    });
    let (started, took) = ranks[0].clone().expect("rank 0 has tried");
    let Err(StartError::Bus(BusError::Wait(error))) = started else {
        panic!("{started:?}");
    };
    assert_eq!((error.why, error.phase), (Why::Deadline, Phase::Receive));
    assert!(error.elapsed >= whole, "{error}");
    assert!(took < whole * 7 / 5, "{took:?}");
}

#[test]
fn h30_a_failure_does_not_wait_until_there_is_room_to_tell_it() {
    let [mut one, _two]: [Bus; 2] = bus::everybody(2).try_into().expect("two");
    let full = vec![0; one.capacity()];
    one.send(1, 1, &full, AMPLE).expect("room");
    let since = Instant::now();
    let started = together(&mut one, START, AMPLE, || Err::<(), _>("no network"));
    assert_eq!(started, Err(StartError::Own("no network")));
    let took = since.elapsed();
    assert!(took < at_most(Duration::from_secs(1)), "{took:?}");
}
