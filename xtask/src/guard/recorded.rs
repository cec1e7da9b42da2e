//! How much of a row is what a worker records of itself: counters, latencies, and the library call that it is in.
//!
//! Counted where it stands, in the code as it is shipped: callgrind tells how often each instruction ran, and addr2line which lines it comes
//! from, also of functions that are inlined. The same row compiled a second time without would differ by more than what is looked for, as the
//! compiler inlines other functions then.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::child;

/// Instructions that come from lines of these files, or were inlined into them, are recording.
const RECORDERS: [&str; 3] = [
    "/proxy-os/src/watch.rs:",
    "/proxy-os/src/latency/",
    "/proxy-os/src/context/note.rs:",
];

/// What is recorded in a row, in percent of the rest of it; `None` without addr2line.
pub(super) fn share(program: &Path, row: &str) -> Result<Option<f64>, String> {
    if child::stdout_of(Command::new("addr2line").arg("--version")).is_err() {
        return Ok(None);
    }
    let file = program.with_file_name(format!("guard-{}.callgrind", std::process::id()));
    let out = format!("--callgrind-out-file={}", file.display());
    let options = [
        "--dump-instr=yes",
        "--compress-pos=no",
        "--compress-strings=no",
        &out,
    ];
    let counted = super::callgrind(program, row, &options);
    let text = fs::read_to_string(&file);
    let _ = fs::remove_file(&file);
    counted?;
    let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
    let (total, costs) = costs(&text, &program.display().to_string());
    let recorded = recorded(&costs, &frames(program, &costs)?);
    if recorded == 0 {
        return Err(format!(
            "{row}: nothing is recorded in it, or no line of {RECORDERS:?} is found"
        ));
    }
    Ok(Some(
        recorded as f64 / total.saturating_sub(recorded) as f64 * 100.0,
    ))
}

/// All instructions of a callgrind file, and those of the program by address.
fn costs(text: &str, program: &str) -> (u64, HashMap<u64, u64>) {
    let (mut total, mut costs) = (0, HashMap::new());
    let (mut ours, mut inclusive) = (false, false);
    for line in text.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            ours = object == program;
        } else if line.starts_with("calls=") {
            // The next line has the cost of the whole call, whose own lines are elsewhere.
            inclusive = true;
        } else if let Some((address, cost)) = cost(line)
            && !std::mem::take(&mut inclusive)
        {
            total += cost;
            if ours {
                *costs.entry(address).or_default() += cost;
            }
        }
    }
    (total, costs)
}

/// The line `0x4a10 12 300`: address, line of the source, instructions.
fn cost(line: &str) -> Option<(u64, u64)> {
    let mut words = line.strip_prefix("0x")?.split_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    Some((address, words.nth(1)?.parse().ok()?))
}

/// What addr2line says of the addresses: for each a line with itself, and then the lines it comes from, the innermost first.
fn frames(program: &Path, costs: &HashMap<u64, u64>) -> Result<String, String> {
    let mut command = Command::new("addr2line");
    command.args(["-a", "-i", "-e"]).arg(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let failed = |error| format!("addr2line: {error}");
    let mut lookup = command.spawn().map_err(failed)?;
    let addresses: String = costs
        .keys()
        .map(|address| format!("{address:#x}\n"))
        .collect();
    if let Some(mut input) = lookup.stdin.take() {
        // Written beside the reading below, as neither side's pipe holds all.
        std::thread::spawn(move || input.write_all(addresses.as_bytes()));
    }
    let output = lookup.wait_with_output().map_err(failed)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Instructions that belong to the recorders.
fn recorded(costs: &HashMap<u64, u64>, frames: &str) -> u64 {
    let (mut sum, mut waiting) = (0, 0);
    for line in frames.lines() {
        if let Some(address) = line.strip_prefix("0x") {
            let address = u64::from_str_radix(address, 16).unwrap_or_default();
            waiting = costs.get(&address).copied().unwrap_or_default();
        } else if RECORDERS.iter().any(|file| line.contains(file)) {
            sum += std::mem::take(&mut waiting);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_costs_are_added_up_and_those_of_calls_are_not() {
        let text = "events: Ir\nob=/guard\nfn=a\n0x10 1 5\n0x14 2 7\ncalls=3 0x99 0\n0x14 2 1000\nob=/libc.so\n0x10 9 50\n\
                    ob=/guard\n0x10 1 2\ntotals: 64\n";
        let (total, costs) = costs(text, "/guard");
        assert_eq!(total, 64);
        assert_eq!(costs, HashMap::from([(0x10, 7), (0x14, 7)]));
    }

    #[test]
    fn an_instruction_counts_once_wherever_the_recorder_stands_among_its_lines() {
        let costs = HashMap::from([(0x10, 7), (0x14, 20), (0x18, 100)]);
        let frames = "0x0000000000000010\n/rust/core/src/sync/atomic.rs:9\n/w/proxy-os/src/watch.rs:4\n/w/proxy-os/src/watch.rs:8\n\
                      0x0000000000000014\n/w/proxy-os/src/latency/mod.rs:3\n0x0000000000000018\n/w/proxy-os/src/watchdog.rs:7\n";
        assert_eq!(recorded(&costs, frames), 27);
    }
}
