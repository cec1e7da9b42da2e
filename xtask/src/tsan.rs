//! `cargo xtask tsan`: runs the tests that use threads under ThreadSanitizer and counts the data races it reports.
//!
//! The standard library has to be instrumented as well, or every use of it looks like a race. That takes a compiler and the
//! source of exactly its standard library.

use std::process::ExitCode;

use crate::sanitizer::{self, Run, Sanitizer};
use crate::workspace::Workspace;

/// The race detector.
pub(crate) const TSAN: Sanitizer = Sanitizer {
    name: "tsan",
    flag: "thread",
    builds_std: true,
    options: ("TSAN_OPTIONS", ""),
    reports: &[
        "WARNING: ThreadSanitizer",
        "ERROR: ThreadSanitizer",
        "FATAL: ThreadSanitizer",
    ],
    runs: &[
        Run {
            package: "proxy-core",
            targets: &["--tests"],
            beside: &[],
            without: &[],
        },
        Run {
            package: "proxy-os",
            targets: &["--tests"],
            beside: &[],
            without: &[],
        },
        Run {
            package: "proxy-loom",
            targets: &["--tests"],
            beside: &[],
            without: &[],
        },
        Run {
            package: "proxy-ffi",
            targets: &["--lib", "--test", "embed"],
            beside: &["--example", "embed"],
            without: &[],
        },
        Run {
            package: "proxy-checks",
            targets: &["--tests"],
            beside: &[],
            without: &[
                (
                    "h38_a_hundred_thousand",
                    "a hundred thousand threads take too long here; the other tests start and end threads the same way",
                ),
                (
                    "h40_a_child_of_a_child",
                    "its child, forked from a process with threads, starts a thread, which the runtime refuses",
                ),
            ],
        },
    ],
};

/// The verb.
pub(crate) fn verb(workspace: &Workspace, packages: &[String]) -> Result<ExitCode, String> {
    sanitizer::verb(workspace, &TSAN, packages)
}
