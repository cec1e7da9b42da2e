//! H31-H33, H35: where a worker runs, what the kernel refuses, and what it is called.
//!
//! CPUs that no machine has stand for CPUs that a cpuset forbids: the kernel drops both in the same way.
//!
//! Requirements: H31, H32, H33, H35.

use std::sync::{Mutex, MutexGuard, PoisonError};

use proxy_checks::messages;
use proxy_checks::pin::Pinned;
use proxy_os::affinity::{self, CpuSet, PlaceError, Placement, Resolved};
use proxy_os::log::Level;
use proxy_os::sys::fault::{self, Call};
use proxy_os::sys::thread::{Thread, ThreadName};
use proxy_os::sys::{self, thread};

/// Faults belong to the process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cpus(list: &[u32]) -> CpuSet {
    list.iter().copied().collect()
}

fn mask(list: &CpuSet, strict: bool) -> Placement {
    Placement::Mask {
        list: list.clone(),
        strict,
    }
}

fn union(a: &CpuSet, b: &CpuSet) -> CpuSet {
    a.iter().chain(b.iter()).collect()
}

/// Creates a worker that stays, as the registry does, and gives what it runs on.
fn worker_cpus(placement: &Placement) -> CpuSet {
    let mask = affinity::place(placement).expect("the placement holds");
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let body = Box::new(move || {
        wait.recv().expect_err("nothing is sent");
    });
    let worker =
        thread::spawn(|_| ThreadName::new("worker"), mask.as_ref(), body).expect("a thread");
    let cpus = sys::affinity::of(worker.tid()).expect("the worker is alive");
    drop(release);
    worker.join().expect("joinable");
    cpus
}

/// The lowest and the highest CPU that may be used; the same on a machine with one.
fn two_cpus() -> (CpuSet, CpuSet) {
    let allowed = sys::affinity::allowed().expect("the kernel tells");
    let first = allowed.iter().next().expect("at least one CPU");
    let last = allowed.iter().last().expect("at least one CPU");
    (cpus(&[first]), cpus(&[last]))
}

#[test]
fn h31_dropped_cpus_are_named_and_the_rest_is_used() {
    let resolved = affinity::resolve(&mask(&cpus(&[0, 1, 2, 3]), false), &cpus(&[2, 4]));
    let resolved = resolved.expect("not strict");
    assert_eq!(resolved.mask, Some(cpus(&[2])));
    assert_eq!(resolved.dropped, cpus(&[0, 1, 3]));
    let warning = resolved.warning().expect("CPUs were dropped");
    assert!(
        warning.contains("CPUs 0-1,3 ") && warning.ends_with("runs on 2"),
        "{warning}"
    );
}

#[test]
fn h31_an_empty_rest_keeps_the_inherited_cpus_or_is_an_error_when_strict() {
    let allowed = cpus(&[2, 4]);
    let asked = cpus(&[0, 1]);
    let resolved = affinity::resolve(&mask(&asked, false), &allowed).expect("not strict");
    assert_eq!((&resolved.mask, &resolved.dropped), (&None, &asked));
    let warning = resolved.warning().expect("CPUs were dropped");
    assert!(
        warning.contains("CPUs 0-1 ") && warning.contains("creator"),
        "{warning}"
    );
    let error = affinity::resolve(&mask(&asked, true), &allowed).expect_err("strict");
    let text = error.to_string();
    assert!(
        text.contains("CPUs 0-1 ") && text.ends_with("CPUs of 2,4"),
        "{text}"
    );
}

#[test]
fn h31_nothing_dropped_is_no_warning() {
    let resolved = affinity::resolve(&mask(&cpus(&[2]), true), &cpus(&[2, 4])).expect("allowed");
    assert_eq!(
        (resolved.mask.clone(), resolved.warning()),
        (Some(cpus(&[2])), None)
    );
    let inherit = affinity::resolve(&Placement::Inherit, &cpus(&[2])).expect("nothing asked");
    assert_eq!(inherit, Resolved::default());
}

#[test]
fn h31_a_worker_runs_on_the_allowed_part_with_one_warning() {
    let _alone = alone();
    messages::collect();
    let (first, _) = two_cpus();
    let absent = cpus(&[40_001]);
    assert_eq!(worker_cpus(&mask(&union(&first, &absent), true)), first);
    let said = messages::with("40001");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].0, Level::Warn);
}

#[test]
fn h31_a_worker_without_an_allowed_cpu_keeps_its_creators() {
    let _alone = alone();
    messages::collect();
    let (first, _) = two_cpus();
    let _pinned = Pinned::to(&first);
    let absent = cpus(&[40_002, 40_003]);
    assert_eq!(worker_cpus(&mask(&absent, false)), first);
    assert_eq!(messages::with("40002-40003").len(), 1);
    let error = affinity::place(&mask(&absent, true)).expect_err("strict");
    assert!(matches!(error, PlaceError::NotAllowed { .. }), "{error}");
}

#[test]
fn h32_a_worker_gets_its_mask_whatever_its_creator_runs_on() {
    let _alone = alone();
    let (creator, worker) = two_cpus();
    let _pinned = Pinned::to(&creator);
    assert_eq!(worker_cpus(&mask(&worker, true)), worker);
    assert_eq!(sys::affinity::current().expect("own mask"), creator);
}

#[test]
fn h32_a_creators_mask_survives_every_failure() {
    let _alone = alone();
    let (creator, worker) = two_cpus();
    let _pinned = Pinned::to(&creator);
    let create = || -> Result<Thread, String> {
        let mask = affinity::place(&mask(&worker, true)).map_err(|error| error.to_string())?;
        let created = thread::spawn(
            |_| ThreadName::new("worker"),
            mask.as_ref(),
            Box::new(|| ()),
        );
        created.map_err(|error| error.to_string())
    };
    for (call, errno) in [
        (Call::ThreadCreate, libc::EAGAIN),
        (Call::SetAffinity, libc::EPERM),
        (Call::GetAffinity, libc::EPERM),
    ] {
        fault::inject(call, 1, errno);
        let error = create().expect_err("the fault");
        assert_eq!(fault::left(call), 0);
        let text = std::io::Error::from_raw_os_error(errno).to_string();
        assert!(error.contains(&text), "{call:?}: {error}");
        assert_eq!(
            sys::affinity::current().expect("own mask"),
            creator,
            "{call:?}"
        );
    }
    create()
        .expect("no fault is left")
        .join()
        .expect("joinable");
    assert_eq!(sys::affinity::current().expect("own mask"), creator);
}

#[test]
fn h32_the_kernels_own_refusal_leaves_no_thread() {
    let _alone = alone();
    let before = sys::affinity::current().expect("own mask");
    for bad in [cpus(&[40_004]), CpuSet::new()] {
        let body = Box::new(|| panic!("the body ran"));
        let refused = thread::spawn(|_| ThreadName::new("worker"), Some(&bad), body);
        let error = refused.expect_err("no allowed CPU");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
    assert_eq!(sys::affinity::current().expect("own mask"), before);
}

#[test]
fn h33_without_a_mask_a_worker_runs_where_its_creator_does() {
    let _alone = alone();
    let (_, last) = two_cpus();
    let _pinned = Pinned::to(&last);
    assert_eq!(worker_cpus(&Placement::Inherit), last);
}

#[test]
fn h33_none_makes_no_affinity_call() {
    let _alone = alone();
    let none: Placement = "none".parse().expect("accepted");
    assert_eq!(none, Placement::Untouched);
    fault::inject(Call::SetAffinity, 1, libc::EPERM);
    fault::inject(Call::GetAffinity, 1, libc::EPERM);
    let mask = affinity::place(&none).expect("nothing to fail");
    let worker = thread::spawn(
        |_| ThreadName::new("worker"),
        mask.as_ref(),
        Box::new(|| ()),
    );
    worker.expect("nothing to fail").join().expect("joinable");
    assert_eq!(fault::left(Call::SetAffinity), 1);
    assert_eq!(fault::left(Call::GetAffinity), 1);
    fault::inject(Call::SetAffinity, 0, 0);
    fault::inject(Call::GetAffinity, 0, 0);
}

#[test]
fn h35_names_fit_and_tell_threads_apart() {
    let _alone = alone();
    assert_eq!(ThreadName::new("proxy-4194303").as_str(), "proxy-4194303");
    let label = "collectives-proxy-of-device-17";
    assert_eq!(label.len(), 30);
    assert_eq!(ThreadName::new(label).as_str(), "xy-of-device-17");

    let (send, receive) = std::sync::mpsc::channel();
    let spawn = || {
        let send = send.clone();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let body = move || {
            let comm = format!("/proc/self/task/{}/comm", thread::gettid());
            send.send(std::fs::read_to_string(comm).expect("own name"))
                .expect("the test waits");
            wait.recv().expect_err("nothing is sent");
        };
        let name = |tid| ThreadName::new(&format!("proxy-{tid}"));
        (
            thread::spawn(name, None, Box::new(body)).expect("a thread"),
            release,
        )
    };
    let workers = [spawn(), spawn()];
    let mut names: Vec<_> = (0..2).map(|_| receive.recv().expect("a name")).collect();
    let mut expected = workers
        .each_ref()
        .map(|(worker, _)| format!("proxy-{}\n", worker.tid()));
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
    assert_ne!(names[0], names[1]);
    for (worker, release) in workers {
        drop(release);
        worker.join().expect("joinable");
    }
}
