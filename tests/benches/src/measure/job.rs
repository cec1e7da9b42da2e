//! The whole stand-in chain, and what a worker costs that has nothing to do.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use proxy_benches::clock::Figure;
use proxy_benches::tools;
use proxy_core::ExecId;
use proxy_os::bananaphone::{Bus, Options};
use proxy_os::nccom;

use super::bus::{self, AMPLE};
use super::world::{DONE, What, World};

/// Where `cargo xtask bench` says the main job and its library are.
const JOB: [&str; 2] = ["PROXY_BENCH_JOB", "PROXY_BENCH_LIBRARY"];

/// The job of 32 ranks on one worker. Its figure is the median execution, as a row's is: one that the machine holds up says nothing of the barrier, and would be most of a mean.
const JOB_OF_32: &str =
    "allr -r 32 --ranks-per-process 32 --ranks-per-proxy 32 -b 4kb -e 4kb -d fp32 -n 50 -t p50";

/// One execution of 32 ranks on one worker, with the host barrier and without, in one process.
pub(super) fn chain() {
    let [Some(job), Some(library)] = JOB.map(std::env::var_os) else {
        println!("SKIPPED: the main job not available");
        return;
    };
    let time = |barrier: &[&str]| {
        let mut command = Command::new(&job);
        command
            .args(JOB_OF_32.split(' '))
            .args(barrier)
            .arg("--library")
            .arg(&library);
        let output = command.output().expect("the main job runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let row = text
            .lines()
            .find(|line| line.trim_start().starts_with("4096 "));
        let time = row.and_then(|row| row.split_whitespace().nth(3)?.parse::<f64>().ok());
        time.unwrap_or_else(|| panic!("no row: {text}{}", String::from_utf8_lossy(&output.stderr)))
    };
    // Alternately, as the two are compared.
    let differences = (0..5).map(|_| (time(&[]) - time(&["--no-barrier"])) * 1e3);
    Figure::of_few(differences.collect()).tell("chain.32");
}

/// A worker with nothing to do for 10 s.
pub(super) fn still() {
    let world = World::new(Duration::from_micros(50));
    world.run(&world.context(0, What::new(DONE)), 0);
    thread::sleep(Duration::from_millis(50));
    let before = (cpu(&world), wakes(&world));
    thread::sleep(Duration::from_secs(10));
    Figure::single(wakes(&world) - before.1).tell("still.wakes");
    Figure::single(cpu(&world) - before.0).tell("still.cpu");
}

/// CPU time of the worker's thread, in nanoseconds.
fn cpu(world: &World) -> f64 {
    let text = fs::read_to_string(format!("/proc/self/task/{}/schedstat", world.queue.tid()));
    let text = text.expect("the scheduler's figures");
    text.split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(f64::MAX)
}

/// How often the worker has gone to sleep.
fn wakes(world: &World) -> f64 {
    status(
        &format!("/proc/self/task/{}/status", world.queue.tid()),
        "voluntary_ctxt_switches",
    )
}

/// A number of a status file.
fn status(path: &str, name: &str) -> f64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text
        .lines()
        .find(|line| line.starts_with(name))
        .unwrap_or_default();
    let word = line.split_whitespace().nth(1).unwrap_or_default();
    word.parse().unwrap_or(f64::MAX)
}

fn resident() -> f64 {
    status("/proc/self/status", "RssAnon") * 1024.0
}

/// What a full group and a full bus have resident, in a process that had none before, so that no memory is used again.
pub(super) fn full() {
    resident_group();
    resident_bus();
}

fn resident_group() {
    // The library is no part of the group.
    let library = tools::library().expect("a C compiler");
    nccom::shared(library.as_os_str()).expect("the library loads");
    let before = resident();
    let world = World::new(Duration::ZERO);
    for rank in 0..64 {
        let context = world.context(rank, What::new(DONE));
        for exec in 0..64 {
            let _ = context.enqueue(ExecId(exec)).expect("room");
        }
        std::mem::forget(context);
    }
    thread::sleep(Duration::from_millis(50));
    Figure::single(resident() - before).tell("resident.group");
}

fn resident_bus() {
    let shared = || status("/proc/self/status", "RssShmem") * 1024.0;
    let (job, before) = (bus::job("resident"), shared());
    let ranks: Vec<_> = (0..64)
        .map(|rank| {
            let job = job.clone();
            thread::spawn(move || {
                let mut bus = Bus::create(&Options::new(job, rank, 64)).expect("joined");
                bus.connect(AMPLE).expect("all are there");
                bus.all_gather(&[1; 8], AMPLE).expect("gathered");
                bus
            })
        })
        .collect();
    let buses: Vec<Bus> = ranks
        .into_iter()
        .map(|rank| rank.join().expect("no panic"))
        .collect();
    Figure::single(shared() - before).tell("resident.bus");
    drop(buses);
}
