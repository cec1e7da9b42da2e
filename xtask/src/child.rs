//! Starting child commands. Every error shows the exact command, so that it can be run again by hand.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How long output may stay open after the child itself is gone.
const AFTERGLOW: Duration = Duration::from_secs(2);

/// How often a wait with a limit looks.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a command on this terminal; a status other than success is an error.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|error| cannot_start(command, &error))?;
    succeeded(command, status)
}

/// Becomes a command, so that signals and the exit code are its own. Returns only when it cannot be started, with the reason.
pub(crate) fn exec(command: &mut Command) -> String {
    let error = command.exec();
    cannot_start(command, &error)
}

/// Runs a command and returns what it printed; if it fails, what it said on stderr goes to ours (when it was captured).
pub(crate) fn stdout_of(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| cannot_start(command, &error))?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    succeeded(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Like [`stdout_of`], with a file as its input.
pub(crate) fn stdout_from(command: &mut Command, input: File) -> Result<String, String> {
    let output = command
        .stdin(input)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| cannot_start(command, &error))?;
    succeeded(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command on this terminal for at most `limit`, then kills it.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<(), String> {
    let status = status_within(command, limit)?;
    succeeded(command, status)
}

/// Runs a command for at most `limit`, then kills it; whatever status it ends with is the caller's to judge.
pub(crate) fn status_within(command: &mut Command, limit: Duration) -> Result<ExitStatus, String> {
    let mut child = command
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| cannot_start(command, &error))?;
    match wait_within(&mut child, limit).map_err(|error| cannot_start(command, &error))? {
        Some(status) => Ok(status),
        None => Err(overdue(limit, &rerun(command))),
    }
}

/// Runs a command with stdout and stderr joined in one stream, in the order they were written; hands each line to `line` as
/// it comes. An error if it runs for longer than `limit`, or if a process that it left behind keeps the stream open.
pub(crate) fn lines_of(
    mut command: Command,
    limit: Duration,
    mut line: impl FnMut(&str),
) -> Result<ExitStatus, String> {
    let shown = rerun(&command);
    let failed = |error: io::Error| format!("cannot run: {error}; rerun: {shown}");
    let (reader, writer) = io::pipe().map_err(failed)?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().map_err(failed)?)
        .stderr(writer);
    let mut child = command.spawn().map_err(failed)?;
    // The command keeps our copies of the writing end; the stream ends only when they are closed.
    drop(command);
    let lines = received(reader);
    let start = Instant::now();
    loop {
        if start.elapsed() > limit {
            // The child may end by itself in this moment; either way it is collected.
            let _ = child.kill();
            child.wait().map_err(failed)?;
            return Err(overdue(limit, &shown));
        }
        match lines.recv_timeout(AFTERGLOW) {
            Ok(text) => line(&text),
            Err(RecvTimeoutError::Disconnected) => return child.wait().map_err(failed),
            Err(RecvTimeoutError::Timeout) => {
                if child.try_wait().map_err(failed)?.is_some() {
                    return Err(format!("a process was left behind by: {shown}"));
                }
            }
        }
    }
}

/// The lines of a stream, read by a thread of their own.
fn received(stream: PipeReader) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut bytes = Vec::new();
        while stream.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&bytes);
            if send.send(text.trim_end_matches('\n').to_owned()).is_err() {
                return;
            }
            bytes.clear();
        }
    });
    lines
}

/// The command as it can be typed in the workspace's root: changed environment, program, arguments.
pub(crate) fn rerun(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => words.push(format!("{}={}", name.to_string_lossy(), quoted(value))),
            None => words.push(format!("env -u {}", name.to_string_lossy())),
        }
    }
    let program = command.get_program();
    let is_cargo = Path::new(program).file_stem() == Some(OsStr::new("cargo"));
    words.push(if is_cargo {
        "cargo".to_owned()
    } else {
        quoted(program)
    });
    words.extend(command.get_args().map(quoted));
    words.join(" ")
}

fn wait_within(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(LOOK);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

fn succeeded(command: &Command, status: ExitStatus) -> Result<(), String> {
    if status.success() {
        Ok(())
    } else {
        Err(format!("{status}; rerun: {}", rerun(command)))
    }
}

fn overdue(limit: Duration, shown: &str) -> String {
    let seconds = limit.as_secs();
    format!("not finished after {seconds} s, killed; rerun: {shown}")
}

fn cannot_start(command: &Command, error: &io::Error) -> String {
    format!("cannot run: {error}; rerun: {}", rerun(command))
}

/// Quotes a word for the shell where it needs that.
pub(crate) fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_command_is_shown_as_it_can_be_typed() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command
            .args(["test", "--", "it's", ""])
            .env("RUSTFLAGS", "--cfg loom");
        assert_eq!(
            rerun(&command),
            r"RUSTFLAGS='--cfg loom' cargo test -- 'it'\''s' ''"
        );
    }

    #[test]
    fn both_streams_arrive_in_the_order_of_writing() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; printf three; exit 3"]);
        let mut seen = Vec::new();
        let status = lines_of(command, MINUTE, |line| seen.push(line.to_owned())).expect("sh runs");
        assert_eq!(seen, ["one", "two", "three"]);
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn a_process_left_behind_is_an_error_and_not_a_hang() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 30 & echo $!"]);
        let mut left = String::new();
        let error =
            lines_of(command, MINUTE, |line| left = line.to_owned()).expect_err("sleep holds on");
        assert!(
            error.starts_with("a process was left behind by: sh"),
            "{error}"
        );
        run(Command::new("kill").arg(left)).expect("the sleep is still there");
    }

    #[test]
    fn a_limit_ends_a_command_and_a_failure_names_it() {
        let error = run_within(Command::new("sleep").arg("30"), Duration::from_millis(50))
            .expect_err("30 s are more than the limit");
        assert!(error.ends_with("killed; rerun: sleep 30"), "{error}");
        let mut command = Command::new("sleep");
        command.arg("30");
        let error = lines_of(command, Duration::ZERO, |_| {}).expect_err("no time at all");
        assert!(error.ends_with("killed; rerun: sleep 30"), "{error}");
        let error = run(&mut Command::new("false")).expect_err("false fails");
        assert_eq!(error, "exit status: 1; rerun: false");
    }
}
