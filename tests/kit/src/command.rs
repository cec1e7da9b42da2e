//! What the command lines of the programs here have in common: how a number is refused, what becomes of output that nobody takes, and how
//! tests start those that they are about to signal.
#![allow(
    unsafe_code,
    reason = "the treatment of a signal is set by a C call in the child"
)]

use std::fmt::Display;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::os::unix::process::CommandExt;
use std::panic;
use std::process::Command;
use std::str::FromStr;

/// The exit code of a program whose reader went away, as a shell shows it: 128 + `SIGPIPE`.
const READER_GONE: i32 = 141;

/// What a shell has the jobs ignore that it starts in the background, and `nohup` its command; whatever these start ignores it, too.
const OFTEN_IGNORED: [libc::c_int; 3] = [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP];

/// Has a program treat signals as one that is typed at a terminal does, whatever the caller was started with. For programs that a test
/// interrupts: a test runner in the background of a shell ignores interrupts, and so does all that it starts.
pub fn with_usual_signals(command: &mut Command) -> &mut Command {
    let usual = || {
        for signal in OFTEN_IGNORED {
            // SAFETY: a signal's number and a treatment of it without a handler; the call is safe between fork and exec.
            if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing, takes no lock, and calls nothing but `signal`.
    unsafe { command.pre_exec(usual) }
}

/// A whole number within a range, in digits alone; the error says what is accepted, the parser of the command line adds option and value.
///
/// # Errors
/// The text is something else.
pub fn within<T: FromStr + PartialOrd + Display>(
    text: &str,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("accepted: {} to {}", range.start(), range.end()))
}

/// Ends a program whose parser has said what it had to say instead of a command line: `printed` is how that went, `help` whether it was
/// asked for, and `code` the exit code that it gives. Help that nobody gets is a failure, as any other output is.
pub fn end_unparsed(program: &str, printed: io::Result<()>, help: bool, code: i32) -> ! {
    match printed {
        Err(error) if help => end_unwritten(program, &error.to_string()),
        _ => std::process::exit(code),
    }
}

/// Ends a program for what the system says of its standard output; without a word where its reader went away, as `head` does.
fn end_unwritten(program: &str, why: &str) -> ! {
    if why.starts_with("Broken pipe") {
        std::process::exit(READER_GONE);
    }
    let line = format!("{program}: cannot write standard output: {why}\n");
    let _ = io::stderr().write_all(line.as_bytes());
    std::process::exit(1);
}

/// From now on the macros that print end the program with one line on standard error when standard output cannot be written, as on a
/// full disk, instead of a panic; and without a word where its reader went away, as `head` does. For programs that have
/// nothing to clean up. Call it first in `main`.
pub fn end_when_output_fails(program: &'static str) {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        // The words of the standard library's macros.
        let text = panicked.payload_as_str().unwrap_or_default();
        let Some(why) = text.strip_prefix("failed printing to stdout: ") else {
            return usual(panicked);
        };
        end_unwritten(program, why);
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn ignore_interrupts() -> libc::sighandler_t {
        // SAFETY: a signal's number and a treatment of it without a handler.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) }
    }

    #[test]
    fn programs_have_the_usual_signals_where_the_caller_ignores_them() {
        let before = ignore_interrupts();
        let interrupted = |command: &mut Command| {
            let status = command.args(["-c", "kill -INT $$"]).status();
            status.expect("a shell").signal()
        };
        assert_eq!(interrupted(&mut Command::new("sh")), None);
        let mut usual = Command::new("sh");
        let usual = interrupted(with_usual_signals(&mut usual));
        // SAFETY: as above, with what was there before.
        unsafe { libc::signal(libc::SIGINT, before) };
        assert_eq!(usual, Some(libc::SIGINT));
    }

    #[test]
    fn digits_within_the_range_are_a_number() {
        assert_eq!(within("7", 7..=9), Ok(7));
        assert_eq!(within(&u64::MAX.to_string(), 0..=u64::MAX), Ok(u64::MAX));
        for text in ["", "6", "10", "-7", "+7", "7 ", "x", "18446744073709551616"] {
            let refused = Err("accepted: 7 to 9".to_owned());
            assert_eq!(within(text, 7..=9_u64), refused, "{text}");
        }
    }
}
