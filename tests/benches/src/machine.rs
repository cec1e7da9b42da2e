//! What a measurement does to the machine and must know of it: pinning, and the load that others put on it.
#![allow(
    unsafe_code,
    reason = "affinity, resource usage and priorities are C calls"
)]

use std::time::Instant;

/// Puts the calling thread, and those it starts, on one CPU. Without it figures of two CPUs mean nothing, so a failure ends the program.
pub fn pin(cpu: usize) {
    // SAFETY: all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is larger than any CPU number used here.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is valid for its size; 0 = the calling thread.
    let answer = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    assert_eq!(
        answer,
        0,
        "cannot pin to CPU {cpu}: {}",
        std::io::Error::last_os_error()
    );
}

/// CPU time of this process and of those it has waited for, in seconds.
fn own() -> f64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .map(|who| {
            // SAFETY: all zeros is valid.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: `usage` is valid for the kernel to write.
            unsafe { libc::getrusage(who, &raw mut usage) };
            let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
            seconds(usage.ru_utime) + seconds(usage.ru_stime)
        })
        .iter()
        .sum()
}

/// CPU time of the whole machine that was neither idle nor waiting, in seconds; time stolen by the host included.
fn busy() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let numbers = line
        .split_whitespace()
        .skip(1)
        .map(|word| word.parse().unwrap_or(0.0));
    // user nice system idle iowait irq softirq steal, in hundredths of a second.
    numbers
        .take(8)
        .enumerate()
        .filter(|(place, _)| !matches!(place, 3 | 4))
        .map(|(_, time): (_, f64)| time * 0.01)
        .sum()
}

/// CPU time of this process alone, all threads, in seconds.
pub fn cpu_time() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the kernel to write.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Measures what others do on the machine.
#[derive(Debug)]
pub struct Load {
    since: Instant,
    busy: f64,
    own: f64,
}

impl Load {
    /// From now on.
    pub fn begin() -> Self {
        Self {
            since: Instant::now(),
            busy: busy(),
            own: own(),
        }
    }

    /// CPUs that others have used on average since then.
    pub fn foreign(&self) -> f64 {
        let used = (busy() - self.busy) - (own() - self.own);
        (used / self.since.elapsed().as_secs_f64()).max(0.0)
    }
}
