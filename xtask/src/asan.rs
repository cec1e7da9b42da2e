//! `cargo xtask asan`: runs the tests of shell and C interface under AddressSanitizer: use after free, overruns, and leaks at the end of each process.
//!
//! The pinned toolchain can do it by itself: the standard library need not be instrumented for it.

use std::process::ExitCode;

use crate::sanitizer::{self, Run, Sanitizer};
use crate::workspace::Workspace;

/// The memory checker, with its leak check.
pub(crate) const ASAN: Sanitizer = Sanitizer {
    name: "asan",
    flag: "address",
    builds_std: false,
    options: ("ASAN_OPTIONS", "detect_leaks=1"),
    reports: &["ERROR: AddressSanitizer", "ERROR: LeakSanitizer"],
    runs: &[
        Run {
            package: "proxy-os",
            targets: &["--tests"],
            beside: &[],
            without: &[],
        },
        Run {
            package: "proxy-ffi",
            targets: &["--lib", "--test", "embed"],
            beside: &["--example", "embed"],
            without: &[(
                "the_example_runs_three_executions_against_the_scripted_library",
                "that library keeps communicators that were freed, for tests to read; the stand-in runs the same",
            )],
        },
        Run {
            package: "proxy-checks",
            targets: &["--tests"],
            beside: &[],
            without: &[
                (
                    "h38_a_hundred_thousand",
                    "a hundred thousand threads take minutes here; the other tests start and end threads the same way",
                ),
                (
                    "h37_h39_a_port_that_panics_twice",
                    "it shows that a worker that dies twice keeps what was lent to the library: memory is what that costs",
                ),
                (
                    "h41_a_child_that_exits_normally",
                    "what a forked child has of its parent's other threads belongs to nobody in it, which the leak check counts",
                ),
            ],
        },
        Run {
            package: "proxy-run",
            targets: &[
                "--test", "barrier", "--test", "latency", "--test", "failures",
            ],
            beside: &[],
            without: &[],
        },
    ],
};

/// The verb.
pub(crate) fn verb(workspace: &Workspace, packages: &[String]) -> Result<ExitCode, String> {
    sanitizer::verb(workspace, &ASAN, packages)
}
