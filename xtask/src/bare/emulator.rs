//! Runs an image in its emulator and reads what it said.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Image;
use super::toolchain::{Toolchain, folder, host_tool, make_room};
use crate::child;
use crate::workspace::Workspace;

/// Boot to exit takes less than a second; a loaded machine may need many.
const LIMIT: Duration = Duration::from_secs(120);

/// Cases of the smallest suite that counts as one: an image that runs fewer has lost some.
const FEWEST_CASES: u64 = 50;

/// Boots an image; returns how many cases passed. An error says what was wrong.
pub(super) fn boot(
    workspace: &Workspace,
    image: &Image,
    toolchain: &Toolchain,
) -> Result<u64, String> {
    let program = toolchain.program(workspace, image.package);
    let said = folder(workspace).join(image.name).with_extension("out");
    make_room(&said)?;
    let cannot = |error| format!("cannot write {}: {error}", said.display());
    let mut command = Command::new(image.emulator);
    command
        .args(image.arguments)
        .arg(&program)
        .stdout(File::create(&said).map_err(cannot)?);
    let ended = child::status_within(&mut command, LIMIT);
    let text = text(workspace, image, &program, &said)?;
    for line in text.lines() {
        println!("{line}");
    }
    let status = ended?;
    if status.code() != Some(image.success) {
        let shown = child::rerun(&command);
        return Err(format!(
            "{status}, not the image's own {}; rerun: {shown}",
            image.success
        ));
    }
    println!(
        "exit code {}, as the image says where all is well",
        image.success
    );
    judge(&text)
}

/// What an image wrote, as text.
fn text(
    workspace: &Workspace,
    image: &Image,
    program: &Path,
    said: &Path,
) -> Result<String, String> {
    let unreadable = |error| format!("cannot read {}: {error}", said.display());
    if !image.frames {
        let bytes = fs::read(said).map_err(unreadable)?;
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    let mut command = Command::new(host_tool(workspace)?);
    command.arg("decode").arg(program);
    child::stdout_from(&mut command, File::open(said).map_err(unreadable)?)
}

/// Reads the closing line. The traffic has a line of its own, as without it the cases alone would pass on one core.
fn judge(text: &str) -> Result<u64, String> {
    let traffic = text.lines().any(|line| line.starts_with("traffic: "));
    let closing = text.lines().find_map(closing);
    match closing {
        None => Err("the image did not get to its closing line".to_owned()),
        Some((_, failed)) if failed > 0 => Err(format!("{failed} cases failed")),
        Some(_) if !traffic => Err("no traffic crossed".to_owned()),
        Some((passed, _)) if passed < FEWEST_CASES => Err(format!(
            "{passed} cases ran, at least {FEWEST_CASES} are there"
        )),
        Some((passed, _)) => Ok(passed),
    }
}

/// `conformance: N passed, M failed`.
fn closing(line: &str) -> Option<(u64, u64)> {
    let rest = line.strip_prefix("conformance: ")?;
    let (passed, failed) = rest.split_once(" passed, ")?;
    let failed = failed.strip_suffix(" failed")?;
    Some((passed.parse().ok()?, failed.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_passes_only_with_its_traffic_and_all_its_cases() {
        let said = |passed: u64, failed| {
            format!("ok a\ntraffic: 9 executions\nconformance: {passed} passed, {failed} failed\n")
        };
        assert_eq!(judge(&said(FEWEST_CASES, 0)), Ok(FEWEST_CASES));
        assert!(judge(&said(FEWEST_CASES, 1)).is_err());
        assert!(judge(&said(FEWEST_CASES - 1, 0)).is_err());
        assert!(judge("ok a\n").is_err(), "it stopped on its way");
        let silent = said(FEWEST_CASES, 0).replace("traffic", "other");
        assert_eq!(judge(&silent), Err("no traffic crossed".to_owned()));
    }
}
