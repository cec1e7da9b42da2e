//! What the core weighs: text, data and bss of an image with nothing but the core, less those of an empty one, per target and
//! configuration. The sizes are written down in `tests/bare/sizes.txt`; a change beyond the tolerance is a failure, in
//! either direction, so that the file stays true.

use std::fs;
use std::process::Command;

use super::toolchain::{FOLDER, Toolchain, host_tool};
use crate::child;
use crate::table;
use crate::workspace::Workspace;

/// The configurations: programs of the package `bare-size`.
const CONFIGURATIONS: [&str; 2] = ["small", "large"];

/// The sizes that are written down.
const SNAPSHOT: &str = "sizes.txt";

/// A size may differ by one part in this many, or by [`SLACK`] bytes, whichever is more.
const PART: u64 = 10;
const SLACK: u64 = 128;

/// What the core takes in one configuration.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Size {
    target: String,
    configuration: String,
    /// text, data, bss.
    bytes: [u64; 3],
}

/// Builds and weighs the core for one target. A compiler other than the pinned one makes other sizes: nothing is weighed then.
pub(super) fn weigh(workspace: &Workspace, toolchain: &Toolchain) -> Result<Vec<Size>, String> {
    if !toolchain.is_pinned() {
        println!("SKIPPED: sizes by the pinned compiler not available");
        return Ok(Vec::new());
    }
    toolchain.build(workspace, "bare-size")?;
    let tool = host_tool(workspace)?;
    let of = |name: &str| {
        let program = toolchain.program(workspace, &format!("size-{name}"));
        let said = child::stdout_of(Command::new(&tool).arg("sizes").arg(program))?;
        sizes(&said).ok_or_else(|| format!("no sizes in: {said}"))
    };
    let empty = of("none")?;
    let mut weighed = Vec::new();
    for configuration in CONFIGURATIONS {
        let whole = of(configuration)?;
        weighed.push(Size {
            target: toolchain.target().to_owned(),
            configuration: configuration.to_owned(),
            bytes: [0, 1, 2].map(|at| whole[at].saturating_sub(empty[at])),
        });
    }
    Ok(weighed)
}

/// The three numbers behind the name in what the host's tool prints.
fn sizes(said: &str) -> Option<[u64; 3]> {
    let numbers: Vec<u64> = said
        .split_whitespace()
        .skip(1)
        .map_while(|word| word.parse().ok())
        .collect();
    numbers.try_into().ok()
}

/// Prints the sizes and compares them with those that are written down, or writes them down. Returns what differs.
pub(super) fn settle(
    workspace: &Workspace,
    weighed: &[Size],
    bless: bool,
) -> Result<Vec<String>, String> {
    if weighed.is_empty() {
        return Ok(Vec::new());
    }
    println!("\n{}", drawn(weighed));
    let file = workspace.root.join(FOLDER).join(SNAPSHOT);
    let failed = |error| format!("{}: {error}", file.display());
    if bless {
        fs::write(&file, format!("{HEAD}{}", lines(weighed))).map_err(failed)?;
        return Ok(Vec::new());
    }
    let known = read(&fs::read_to_string(&file).map_err(failed)?);
    Ok(weighed
        .iter()
        .filter_map(|size| differs(size, &known))
        .collect())
}

/// The first lines of the file.
const HEAD: &str = "# Bytes of the core: target, configuration, text, data, bss. Written by `cargo xtask bare --bless`.\n";

fn lines(weighed: &[Size]) -> String {
    let line = |size: &Size| {
        let [text, data, bss] = size.bytes;
        format!(
            "{} {} {text} {data} {bss}\n",
            size.target, size.configuration
        )
    };
    weighed.iter().map(line).collect()
}

fn read(text: &str) -> Vec<Size> {
    let line = |line: &str| {
        let (target, rest) = line.split_once(' ')?;
        let configuration = rest.split(' ').next()?;
        Some(Size {
            target: target.to_owned(),
            configuration: configuration.to_owned(),
            bytes: sizes(rest)?,
        })
    };
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(line)
        .collect()
}

fn differs(size: &Size, known: &[Size]) -> Option<String> {
    let Size {
        target,
        configuration,
        bytes,
    } = size;
    let same = |known: &&Size| (&known.target, &known.configuration) == (target, configuration);
    let Some(known) = known.iter().find(same) else {
        return Some(format!(
            "{target} {configuration}: not in {FOLDER}/{SNAPSHOT}; `cargo xtask bare --bless` writes it"
        ));
    };
    let apart = |(&found, &known): (&u64, &u64)| found.abs_diff(known) > SLACK.max(known / PART);
    bytes.iter().zip(&known.bytes).any(apart).then(|| {
        format!(
            "{target} {configuration}: text, data and bss are {bytes:?}, {FOLDER}/{SNAPSHOT} has {:?}; \
             `cargo xtask bare --bless` writes new ones",
            known.bytes
        )
    })
}

fn drawn(weighed: &[Size]) -> String {
    let row = |size: &Size| {
        let mut row = vec![format!("{} {}", size.target, size.configuration)];
        row.extend(size.bytes.map(|bytes| bytes.to_string()));
        row
    };
    let rows: Vec<_> = weighed.iter().map(row).collect();
    table::draw(&["the core alone (bytes)", "text", "data", "bss"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: u64) -> Size {
        Size {
            target: "thumbv6m-none-eabi".to_owned(),
            configuration: "small".to_owned(),
            bytes: [text, 0, 1000],
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let weighed = [size(8000)];
        let text = format!("{HEAD}{}", lines(&weighed));
        assert_eq!(read(&text), weighed);
    }

    #[test]
    fn a_size_beyond_the_tolerance_differs_in_either_direction() {
        let known = [size(8000)];
        for near in [7200, 8000, 8800] {
            assert_eq!(differs(&size(near), &known), None);
        }
        for far in [7199, 8801] {
            assert!(differs(&size(far), &known).is_some());
        }
        assert!(differs(&size(8000), &[]).is_some(), "not written down");
    }
}
