//! What is shown instead of a run when the command line is not one: a refusal, or help that was asked for.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::launcher::screen;

/// Shows what the parser has to say, which may be help; returns the exit code. What cannot be written is a failure, too.
pub(crate) fn exit(error: &clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::InvalidUtf8 {
        screen::note(&no_text(std::env::args_os().skip(1)));
        return ExitCode::from(screen::USAGE);
    }
    match error.print() {
        Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(screen::USAGE)),
        Err(_) if error.use_stderr() => ExitCode::from(screen::USAGE),
        Err(unwritten) => screen::failed(&screen::unwritten(unwritten), screen::note),
    }
}

/// What the parser says of an argument that is no text, but it names neither the argument nor what is accepted.
fn no_text(args: impl Iterator<Item = OsString>) -> String {
    let strange = args.filter(|arg| arg.to_str().is_none());
    let strange: Vec<String> = strange.map(|arg| format!("{arg:?}")).collect();
    format!(
        "error: not text: {}; accepted: UTF-8, and any bytes in a path",
        strange.join(" ")
    )
}
