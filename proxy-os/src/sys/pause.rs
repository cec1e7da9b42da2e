//! One step of a spin loop: `tpause` where the CPU has it, else the plain pause (`pause` on x86-64, `isb` on AArch64, as the standard
//! library has them). `wfe` is no choice there: without a line that it watches it ends by the kernel's event stream alone, 0.1 ms late.
//!
//! Both free the core's sibling and save power for a moment. A pause takes 15 to 50 ns and cannot be told how long; `tpause` is told
//! (here about as long) and lets the core go deeper meanwhile. Its time is bounded twice: by the deadline that is given, and by what
//! the kernel allows any process (`umwait_control`, 0.1 ms). `umwait`, which would also watch a line, has nothing to watch here: a
//! worker's tick looks at as many lines as it has tasks.
#![allow(unsafe_code, reason = "CPUID, the time stamp counter and tpause")]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

#[cfg(target_arch = "x86_64")]
mod timed {
    use core::arch::asm;
    use core::arch::x86_64::{__cpuid_count, __get_cpuid_max, _rdtsc};
    use std::sync::OnceLock;

    /// Ticks of the time stamp counter that one pause takes.
    const TICKS: u64 = 100;
    /// The lighter of the two states: it is left faster.
    const LIGHT: u32 = 1;

    /// `tpause ecx`, in bytes as assemblers before 2019 do not know it: prefix, two bytes of escape, opcode extension 6 with register 1.
    pub(super) const TPAUSE: [u8; 4] = [0x66, 0x0f, 0xae, 0xc0 | 6 << 3 | 1];

    /// Whether a CPU with this highest leaf has `tpause`: the feature WAITPKG, bit 5 of ECX of leaf 7, which is asked for if there is one.
    pub(super) fn known_to(highest: u32, ecx: impl FnOnce() -> u32) -> bool {
        highest >= 7 && ecx() >> 5 & 1 == 1
    }

    /// Whether this CPU has `tpause`.
    pub(super) fn is_there() -> bool {
        static THERE: OnceLock<bool> = OnceLock::new();
        *THERE.get_or_init(|| known_to(__get_cpuid_max(0).0, || __cpuid_count(7, 0).ecx))
    }

    /// Pauses; only where [`is_there`] says so.
    pub(super) fn pause() {
        // SAFETY: every x86-64 CPU has the counter.
        let until = unsafe { _rdtsc() }.wrapping_add(TICKS);
        // SAFETY: `tpause ecx`, which the CPU has, touches no memory and no register but the flags; it ends at the time in edx:eax at
        // the latest.
        unsafe {
            asm!(
                ".byte {}, {}, {}, {}",
                const TPAUSE[0],
                const TPAUSE[1],
                const TPAUSE[2],
                const TPAUSE[3],
                in("ecx") LIGHT,
                in("eax") until as u32,
                in("edx") (until >> 32) as u32,
                options(nomem, nostack),
            );
        }
    }
}

/// Tells the core that this is a spin loop. Any thread; 15 to 100 ns, no system call.
#[inline]
pub fn pause() {
    #[cfg(target_arch = "x86_64")]
    if timed::is_there() {
        return timed::pause();
    }
    std::hint::spin_loop();
}

/// Nanoseconds between two looks at a line that another core is about to write: about what a line takes there and back where it is quick.
/// Looks that follow one another at once keep fetching the line, which then moves more often than once.
const BETWEEN_LOOKS: u128 = 130;
/// Pauses that are measured together.
const MEASURED: u32 = 32;

/// Pauses as long as is good between two looks at a line that another core is about to write. Any thread; some 130 ns, no system call. The
/// first call of a process measures what a pause takes, in some microseconds.
pub fn pause_between_looks() {
    static PAUSES: OnceLock<u32> = OnceLock::new();
    let measured = || {
        let start = Instant::now();
        (0..MEASURED).for_each(|_| pause());
        start.elapsed()
    };
    // The quickest, as this thread may lose its CPU meanwhile.
    let quickest = || (0..4).map(|_| measured()).min().unwrap_or_default();
    let pauses = *PAUSES.get_or_init(|| pauses(quickest()));
    (0..pauses).for_each(|_| pause());
}

/// How many pauses are long enough where [`MEASURED`] of them take `time`; 1 to 16.
fn pauses(time: Duration) -> u32 {
    let needed = BETWEEN_LOOKS * u128::from(MEASURED);
    let pauses = needed.div_ceil(time.as_nanos().max(1));
    u32::try_from(pauses.clamp(1, 16)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_as_far_apart_whatever_a_pause_takes() {
        let each = |ns: u64| pauses(Duration::from_nanos(ns * u64::from(MEASURED)));
        assert_eq!([11, 45, 130, 1000].map(each), [12, 3, 1, 1]);
        assert_eq!(each(0), 16, "a clock that stands still");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn f12_the_timed_pause_is_taken_where_the_cpu_says_so_and_nowhere_else() {
        let none = || unreachable!("a leaf that is not there");
        assert!(!timed::known_to(0, none) && !timed::known_to(6, none));
        assert!(!timed::known_to(7, || !(1 << 5)), "every other feature");
        assert!(timed::known_to(7, || 1 << 5) && timed::known_to(0x20, || u32::MAX));
    }

    #[cfg(target_arch = "x86_64")]
    core::arch::global_asm!(
        ".pushsection .rodata",
        "proxy_pause_as_assembled: tpause ecx",
        ".popsection",
    );

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn f12_the_bytes_of_the_timed_pause_are_those_of_an_assembler() {
        unsafe extern "C" {
            #[link_name = "proxy_pause_as_assembled"]
            static ASSEMBLED: [u8; 4];
        }
        // SAFETY: four bytes above, which nobody writes.
        assert_eq!(timed::TPAUSE, unsafe { ASSEMBLED });
    }

    /// With or without the instruction: a pause ends by itself, and soon.
    #[test]
    fn the_quickest_of_many_pauses_is_short() {
        let quickest = (0..1000).map(|_| {
            let start = Instant::now();
            pause();
            start.elapsed()
        });
        assert!(quickest.min() < Some(Duration::from_micros(20)));
    }
}
