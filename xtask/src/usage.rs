//! Command lines that are not accepted: one message with option, value and what is accepted, and exit code 2 for every verb; and
//! output that cannot be written.

use std::io::{self, Write};
use std::panic;
use std::process::ExitCode;

/// Exit code for what was typed, as the parser's own.
pub(crate) const USAGE: u8 = 2;
/// The exit code of a program whose reader went away, as a shell shows it: 128 + `SIGPIPE`.
const READER_GONE: u8 = 141;

/// Refuses a value that only its use has shown to be none; returns the exit code.
pub(crate) fn refuse(what: &str) -> ExitCode {
    note(what);
    ExitCode::from(USAGE)
}

/// Shows what the parser has to say, which may be help; returns the exit code. Help that cannot be written is a failure, too.
pub(crate) fn said(parser: &clap::Error) -> ExitCode {
    let usual = ExitCode::from(u8::try_from(parser.exit_code()).unwrap_or(USAGE));
    match parser.print() {
        Err(error) if !parser.use_stderr() => ExitCode::from(unwritten(&error.to_string())),
        _ => usual,
    }
}

/// Says what the system says of standard output, but nothing where its reader went away, as `head` does; returns the exit code.
fn unwritten(why: &str) -> u8 {
    if why.starts_with("Broken pipe") {
        return READER_GONE;
    }
    note(&format!("cannot write standard output: {why}"));
    1
}

/// A line on standard error, which ends nothing when it cannot be written: nobody is left to be told.
fn note(what: &str) {
    let _ = io::stderr().write_all(format!("xtask: {what}\n").as_bytes());
}

/// A whole number, in digits alone.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    whole(text).ok_or_else(|| format!("accepted: 0 to {}", u64::MAX))
}

/// How many, at least one.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    let number = whole(text).and_then(|number| usize::try_from(number).ok());
    let accepted = number.filter(|number| *number > 0);
    accepted.ok_or_else(|| format!("accepted: 1 to {}", usize::MAX))
}

fn whole(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// A moment in microseconds.
pub(crate) fn micros(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "accepted: a number of microseconds".to_owned())
}

/// From now on the macros that print end this program with one line on standard error when standard output cannot be written, as on
/// a full disk, instead of a panic; and without a word where its reader went away, as `head` does.
pub(crate) fn end_when_output_fails() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        // The words of the standard library's macros.
        let text = panicked.payload_as_str().unwrap_or_default();
        let Some(why) = text.strip_prefix("failed printing to stdout: ") else {
            return usual(panicked);
        };
        std::process::exit(unwritten(why).into());
    }));
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::USAGE;
    use crate::Cli;

    #[test]
    fn the_command_itself_is_sound() {
        Cli::command().debug_assert();
    }

    /// Every verb with every option that has a value: what is named, and with which words. What `run`, `sim`, `soak`, `bench` and
    /// `top` refuse is their programs' own, which have tests of the same kind.
    const REFUSED: &[(&str, &[&str])] = &[
        ("", &["Usage:"]),
        ("nonsense", &["'nonsense'"]),
        ("test one two", &["'two'"]),
        ("loom extra", &["'extra'"]),
        ("loom --full=yes", &["'yes'", "--full"]),
        ("mutants x", &["'x'"]),
        (
            "mutants --every x",
            &["'x'", "--every <N>", "accepted: 1 to"],
        ),
        (
            "mutants --every 0",
            &["'0'", "--every <N>", "accepted: 1 to"],
        ),
        (
            "mutants --every -1",
            &["'-1'", "--every <N>", "accepted: 1 to"],
        ),
        ("tsan extra", &["'extra'"]),
        ("asan extra", &["'extra'"]),
        ("guard extra", &["'extra'"]),
        ("timeline", &["<FILE>", "--output <SVG>"]),
        (
            "timeline t -o p --exec x",
            &["'x'", "--exec <NUMBER>", "accepted: 0 to"],
        ),
        (
            "timeline t -o p --exec -1",
            &["'-1'", "--exec <NUMBER>", "accepted: 0 to"],
        ),
        (
            "timeline t -o p --from nan",
            &["'nan'", "--from <US>", "accepted: a number of microseconds"],
        ),
        (
            "timeline t -o p --to x",
            &["'x'", "--to <US>", "accepted: a number of microseconds"],
        ),
        ("bare v8", &["'v8'", "[possible values: x86, v7m, v6m]"]),
        (
            "verify nonsense",
            &["'nonsense'", "[possible values: deny, transitions, api,"],
        ),
        ("tidy extra", &["'extra'"]),
        ("doc extra", &["'extra'"]),
        ("header extra", &["'extra'"]),
        ("install", &["--prefix <DIR>"]),
        ("install --prefix", &["--prefix <DIR>"]),
        ("ci extra", &["'extra'"]),
    ];

    #[test]
    fn every_refusal_has_option_value_and_what_is_accepted() {
        for (args, parts) in REFUSED {
            let words = std::iter::once("xtask").chain(args.split_whitespace());
            let error = Cli::try_parse_from(words).expect_err(args);
            let text = error.to_string();
            for part in *parts {
                assert!(text.contains(part), "{args}: no {part:?} in {text}");
            }
            assert_eq!(error.exit_code(), i32::from(USAGE), "{args}");
        }
    }
}
