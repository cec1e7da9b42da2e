//! What a run came across: a run that met no fault would prove nothing about faults.

use std::fmt;
use std::ops::AddAssign;

macro_rules! counts {
    ($($(#[$meta:meta])* $name:ident),+ $(,)?) => {
        /// Totals of one or of many worlds.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counts { $($(#[$meta])* pub $name: u64),+ }

        impl AddAssign for Counts {
            fn add_assign(&mut self, other: Self) { $(self.$name += other.$name;)+ }
        }

        impl Counts {
            /// Name and value of each.
            #[must_use]
            pub fn rows(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

counts! {
    /// Turns of actors.
    turns,
    /// Microseconds of virtual time.
    virtual_time,
    /// Tasks appended.
    tasks,
    /// Steps of tasks.
    steps,
    /// Tasks that ended.
    ends,
    /// Of those, with an error.
    failed,
    /// Calls across the ports.
    calls,
    /// Turns of others in the middle of a call.
    cuts,
    /// Calls that took their time.
    blocked_calls,
    /// Appends from within the library.
    callbacks,
    /// Errors of library and barrier.
    library_errors,
    /// Fires that did not come, came twice, early, or with garbage.
    device_faults,
    /// Appends refused because the device was early.
    fired_before_arm,
    /// Appends refused because the rank was full.
    full,
    /// Contexts retired while in use.
    retired,
    /// Statuses of retired contexts that were given up.
    given_up,
    /// Tasks that were ordered to end early.
    orders,
    /// Of those, such that had their code before the worker came.
    verdicts,
    /// Words given a fresh start.
    resets,
    /// Workers that died.
    deaths,
    /// Of those, such that died in the abort that follows, too.
    second_deaths,
    /// Times a worker slept.
    sleeps,
    /// Rings for nothing.
    spurious_rings,
    /// Jumps of a worker's clock.
    clock_jumps,
    /// Releases that drained.
    drains,
    /// Releases that aborted, also after a drain that was too late.
    aborts,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.rows() {
            writeln!(f, "  {:<18}{value:>14}", name.replace('_', " "))?;
        }
        Ok(())
    }
}
