//! Restricts the calling thread to some CPUs, as a launcher would.
#![allow(unsafe_code, reason = "sched_setaffinity is a C call")]

use proxy_os::affinity::CpuSet;
use proxy_os::sys::affinity;

/// The calling thread's CPUs are put back on drop.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Restricts the calling thread.
    pub fn to(cpus: &CpuSet) -> Self {
        let before = affinity::current().expect("own mask");
        set(cpus);
        assert_eq!(affinity::current().expect("own mask"), *cpus);
        Self { before }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        set(&self.before);
    }
}

fn set(cpus: &CpuSet) {
    // SAFETY: all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus.iter() {
        // SAFETY: `set` is valid; the tests' machines have fewer CPUs than the set.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    // SAFETY: `set` is valid for its size; 0 = the calling thread.
    let answer = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}
