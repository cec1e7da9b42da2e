//! `cargo xtask bare`: boots the images of `tests/bare` in an emulator and reads what they say; weighs the core.
//!
//! An image runs the conformance suite without an operating system. It passes if the emulator ends with the image's own code
//! for success *and* the lines are there that say what ran: neither alone would show that anything happened. What
//! a machine lacks (a target's core library, an emulator) is fetched where that is possible, else the image is skipped and
//! the line says for want of what.

mod emulator;
mod sizes;
mod toolchain;

use std::process::ExitCode;
use std::time::Instant;

use crate::apt;
use crate::table;
use crate::workspace::Workspace;
use toolchain::Toolchain;

/// One image and what it takes to run it.
#[derive(Debug)]
struct Image {
    /// Its name on the command line.
    name: &'static str,
    target: &'static str,
    /// Its package in `tests/bare`, which is also the name of its program.
    package: &'static str,
    emulator: &'static str,
    /// The Debian package of the emulator.
    provider: &'static str,
    /// The emulator's arguments; the image's path follows them.
    arguments: &'static [&'static str],
    /// How the emulator ends if the image says that all is well.
    success: i32,
    /// The image writes defmt frames instead of text.
    frames: bool,
}

/// What QEMU needs to run a board whose semihosting calls reach this machine. Its clock counts instructions, 128 ns each, so the
/// timer's interrupts come in the middle of the work, and at the same places each time.
macro_rules! board {
    ($machine:literal) => {
        &[
            "-machine",
            $machine,
            "-icount",
            "shift=7,align=off,sleep=off",
            "-nographic",
            "-monitor",
            "none",
            "-serial",
            "null",
            "-semihosting-config",
            "enable=on,target=native",
            "-kernel",
        ]
    };
}

const IMAGES: [Image; 3] = [
    Image {
        name: "x86",
        target: "x86_64-unknown-none",
        package: "bare-x86",
        emulator: "qemu-system-x86_64",
        provider: "qemu-system-x86",
        // One emulating thread: two would spin against each other on a machine with few processors.
        arguments: &[
            "-accel",
            "tcg,thread=single",
            "-machine",
            "q35",
            "-smp",
            "2",
            "-m",
            "64",
            "-display",
            "none",
            "-serial",
            "stdio",
            "-no-reboot",
            "-device",
            "isa-debug-exit,iobase=0xf4,iosize=4",
            "-kernel",
        ],
        success: 33,
        frames: false,
    },
    Image {
        name: "v7m",
        target: "thumbv7m-none-eabi",
        package: "bare-cortex-m",
        emulator: "qemu-system-arm",
        provider: "qemu-system-arm",
        arguments: board!("lm3s6965evb"),
        success: 0,
        frames: true,
    },
    Image {
        name: "v6m",
        target: "thumbv6m-none-eabi",
        package: "bare-cortex-m",
        emulator: "qemu-system-arm",
        provider: "qemu-system-arm",
        arguments: board!("microbit"),
        success: 0,
        frames: true,
    },
];

/// How an image ended.
enum End {
    /// This many cases passed, and its sizes are in order.
    Passed(u64),
    Failed(String),
    Skipped(String),
}

/// The verb. `which` names images; none means all. `bless` writes the sizes down instead of comparing them.
pub(crate) fn verb(
    workspace: &Workspace,
    which: &[String],
    bless: bool,
) -> Result<ExitCode, String> {
    let images = chosen(which)?;
    let (mut rows, mut failures, mut cases, mut skipped) = (Vec::new(), Vec::new(), 0, 0);
    let mut weighed = Vec::new();
    for image in &images {
        let start = Instant::now();
        let (result, count) = match run(workspace, image, &mut weighed) {
            End::Passed(count) => ("passed", count),
            End::Failed(what) => {
                failures.push(format!("{}: {what}", image.name));
                ("FAILED", 0)
            }
            End::Skipped(what) => {
                println!("SKIPPED: {what} not available");
                skipped += 1;
                ("skipped", 0)
            }
        };
        cases += count;
        let time = format!("{:.1} s", start.elapsed().as_secs_f64());
        rows.push(vec![
            image.name.to_owned(),
            image.target.to_owned(),
            count.to_string(),
            time,
            result.to_owned(),
        ]);
    }
    failures.extend(sizes::settle(workspace, &weighed, bless)?);
    let head = ["image", "target", "cases", "time", "result"];
    println!("\n{}", table::draw(&head, &rows));
    for failure in &failures {
        println!("FAILED: {failure}");
    }
    let failed = failures.len();
    println!("bare: {cases} passed, {failed} failed, {skipped} skipped");
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// What an image may be called.
pub(crate) fn names() -> Vec<&'static str> {
    IMAGES.map(|image| image.name).to_vec()
}

fn chosen(which: &[String]) -> Result<Vec<&'static Image>, String> {
    if which.is_empty() {
        return Ok(IMAGES.iter().collect());
    }
    let named = |name: &String| {
        let accepted = IMAGES.map(|image| image.name).join(", ");
        let image = IMAGES.iter().find(|image| image.name == *name);
        image.ok_or_else(|| format!("no image is called {name}, accepted: {accepted}"))
    };
    which.iter().map(named).collect()
}

/// Builds, weighs and boots one image.
fn run(workspace: &Workspace, image: &Image, weighed: &mut Vec<sizes::Size>) -> End {
    println!("\n== {} ({})", image.name, image.target);
    if let Err(what) = apt::provide(image.emulator, image.provider) {
        return End::Skipped(what);
    }
    let toolchain = match Toolchain::find(workspace, image.target) {
        Ok(toolchain) => toolchain,
        Err(what) => return End::Skipped(what),
    };
    let booted = toolchain
        .build(workspace, image.package)
        .and_then(|()| emulator::boot(workspace, image, &toolchain));
    let weighing = sizes::weigh(workspace, &toolchain);
    match (booted, weighing) {
        (Ok(count), Ok(sizes)) => {
            weighed.extend(sizes);
            End::Passed(count)
        }
        (Err(what), _) | (_, Err(what)) => End::Failed(what),
    }
}
