//! `cargo xtask`: the one door to everything that is done with this repository.
//!
//! One file per verb; the rest is what the verbs share: the workspace as cargo sees it, starting child commands, reading
//! test results and drawing tables. This package uses none of the project's crates, so it builds when they do not.

mod apt;
mod asan;
mod bare;
mod bench;
mod child;
mod ci;
mod doc;
mod guard;
mod header;
mod install;
mod libtest;
mod loom;
mod mutants;
mod run;
mod sanitizer;
mod sim;
mod soak;
mod table;
mod targets;
mod test;
mod tidy;
mod timeline;
mod top;
mod tsan;
mod usage;
mod verify;
mod workspace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use workspace::Workspace;

#[derive(Debug, Parser)]
#[command(
    bin_name = "cargo xtask",
    about = "The one door: run, test, loom, sim, mutants, soak, tsan, asan, guard, bench, bare, verify, tidy, header, install, doc, ci."
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Build the main job in release and run it; `run --help` shows its own options.
    #[command(disable_help_flag = true)]
    Run {
        /// Passed to the main job as they are.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run every test of the workspace, then the loom models in short form.
    Test {
        /// Only the tests whose name contains this text.
        filter: Option<String>,
    },
    /// Explore the loom models.
    Loom {
        /// Up to four preemptions per execution, or as many as a model sets itself (the short form: up to three).
        #[arg(long)]
        full: bool,
    },
    /// Run simulated worlds in release, 100 000 unless told otherwise; `sim --help` shows its own options.
    #[command(disable_help_flag = true)]
    Sim {
        /// Passed to the program as they are.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Plant one fault after the other into a copy of the core; the simulated worlds must find each.
    Mutants {
        /// Plant only every n-th.
        #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = usage::count)]
        every: usize,
    },
    /// Run rank processes under kills, stops, aborts and early releases, in release; `soak --help` shows its own options.
    #[command(disable_help_flag = true)]
    Soak {
        /// Passed to the program as they are.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run the tests that use threads under the race detector; fetches a compiler where none has the source it needs.
    Tsan {
        /// Of which packages; of all it knows if none is named.
        #[arg(value_parser = tsan::TSAN.packages())]
        packages: Vec<String>,
    },
    /// Run the tests of shell, host bus and C interface under the checker for memory errors and leaks.
    Asan {
        /// Of which packages; of all it knows if none is named.
        #[arg(value_parser = asan::ASAN.packages())]
        packages: Vec<String>,
    },
    /// Build the benches in release and run them; `bench --help` shows their own options.
    #[command(disable_help_flag = true)]
    Bench {
        /// Passed to the benches as they are.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Count the instructions of the hot operations and compare them with the committed limits.
    Guard,
    /// Draw a picture of a trace that `run ... --trace FILE` has written.
    Timeline {
        /// The trace.
        file: PathBuf,
        /// Where the picture goes.
        #[arg(short, long, value_name = "SVG")]
        output: PathBuf,
        #[command(flatten)]
        window: timeline::Window,
    },
    /// Boot the conformance suite without an operating system in emulators, and weigh the core.
    Bare {
        /// Which images; all if none is named.
        #[arg(value_parser = bare::names())]
        images: Vec<String>,
        /// Write the sizes down instead of comparing them.
        #[arg(long)]
        bless: bool,
    },
    /// Run every check beyond the tests, one row each, with a table at the end.
    Verify {
        /// Which checks; all if none is named.
        #[arg(value_parser = verify::names())]
        checks: Vec<String>,
        /// Seconds instead of minutes: what belongs to every change.
        #[arg(long)]
        short: bool,
        /// Write snapshots instead of comparing with them.
        #[arg(long)]
        bless: bool,
    },
    /// Look into running processes: `proxytop`, whose own options `top --help` shows.
    #[command(disable_help_flag = true)]
    Top {
        /// Passed to the program as they are.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Check by machine what the docs promise about the sources.
    Tidy,
    /// Build the documentation; a warning is an error.
    Doc,
    /// Write the C header from the sources of proxy-ffi.
    Header {
        /// Write nothing; fail if the committed header is another.
        #[arg(long)]
        check: bool,
    },
    /// Build the libraries for C and put them under a prefix, with header, pkg-config and CMake files and `proxytop`.
    Install {
        /// The folder that gets `bin`, `include` and `lib`; made if it is not there.
        #[arg(long, value_name = "DIR")]
        prefix: PathBuf,
    },
    /// Everything a change has to pass.
    Ci,
}

fn main() -> ExitCode {
    usage::end_when_output_fails();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return usage::said(&said),
    };
    let done = Workspace::find().and_then(|workspace| match cli.verb {
        Verb::Run { args } => Err(run::exec(&workspace, &args)),
        Verb::Test { filter } => test::verb(&workspace, filter.as_deref()),
        Verb::Loom { full } => loom::verb(&workspace, full),
        Verb::Sim { args } => sim::verb(&workspace, &args),
        Verb::Soak { args } => soak::verb(&workspace, &args),
        Verb::Mutants { every } => mutants::verb(&workspace, every),
        Verb::Tsan { packages } => tsan::verb(&workspace, &packages),
        Verb::Asan { packages } => asan::verb(&workspace, &packages),
        Verb::Bench { args } => bench::verb(&workspace, &args),
        Verb::Guard => guard::verb(&workspace),
        Verb::Top { args } => top::verb(&workspace, &args),
        Verb::Timeline {
            file,
            output,
            window,
        } => timeline::verb(&file, &output, window),
        Verb::Bare { images, bless } => bare::verb(&workspace, &images, bless),
        Verb::Verify {
            checks,
            short,
            bless,
        } => verify::verb(&workspace, &checks, verify::Options { short, bless }),
        Verb::Tidy => tidy::verb(&workspace),
        Verb::Doc => doc::verb(&workspace),
        Verb::Header { check } => header::verb(&workspace, check),
        Verb::Install { prefix } => install::verb(&workspace, &prefix),
        Verb::Ci => ci::verb(&workspace),
    });
    match done {
        Ok(code) => code,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
