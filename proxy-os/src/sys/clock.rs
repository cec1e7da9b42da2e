//! The monotonic clock as one number, which is what the core and the recorder store.
#![allow(
    unsafe_code,
    reason = "clock_gettime is a C call; std's Instant does not give its number"
)]

/// Nanoseconds of `CLOCK_MONOTONIC`: the same for all threads of the machine, never goes back, stands still in suspend.
///
/// Any thread. Costs a vDSO call, no system call on the usual machines.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid, exclusive timespec. The call cannot fail: the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    // Both parts of a monotonic time are not negative.
    (now.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(now.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_forward_at_the_rate_of_std() {
        let (ours, std) = (monotonic_ns(), std::time::Instant::now());
        while std.elapsed().as_millis() < 5 {
            std::hint::spin_loop();
        }
        assert!(monotonic_ns() - ours >= 5_000_000);
    }
}
