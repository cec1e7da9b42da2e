//! `bare-host decode IMAGE`: prints the defmt frames that arrive on stdin as lines. `bare-host sizes IMAGE...`: prints what each
//! image takes in bytes, as `NAME text data bss`.
//!
//! A program of its own, so that `cargo xtask` needs neither a decoder nor a reader of images to build.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use defmt_decoder::{DecodeError, Table};
use object::{Object, ObjectSection, SectionFlags, SectionKind, elf};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let done = match words.split_first() {
        Some((verb, [image])) if verb == "decode" => decode(Path::new(image)),
        Some((verb, images)) if verb == "sizes" => {
            images.iter().try_for_each(|image| sizes(Path::new(image)))
        }
        _ => Err(anyhow::anyhow!("accepted: decode IMAGE, or sizes IMAGE...")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bare-host: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn read(image: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(image).with_context(|| format!("cannot read {}", image.display()))
}

/// Decodes stdin to its end. A frame that makes no sense is an error: the image is then not the one that speaks.
fn decode(image: &Path) -> anyhow::Result<()> {
    let table = Table::parse(&read(image)?)?.context("the image has no defmt section")?;
    let mut decoder = table.new_stream_decoder();
    let mut buffer = [0; 1024];
    loop {
        let bytes = io::stdin().read(&mut buffer)?;
        decoder.received(buffer.get(..bytes).unwrap_or(&[]));
        loop {
            match decoder.decode() {
                Ok(frame) => println!("{}", frame.display_message()),
                Err(DecodeError::UnexpectedEof) => break,
                Err(DecodeError::Malformed) => bail!("a malformed frame"),
            }
        }
        if bytes == 0 {
            return Ok(());
        }
    }
}

/// Sums the sections of an image that are loaded: code and constants, initialised data, zeroed data.
fn sizes(image: &Path) -> anyhow::Result<()> {
    let bytes = read(image)?;
    let file = object::File::parse(&*bytes)?;
    let [mut text, mut data, mut bss] = [0_u64; 3];
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags } = section.flags() else {
            bail!("{} is no ELF file", image.display());
        };
        let is = |flag: u32| sh_flags & u64::from(flag) != 0;
        if !is(elf::SHF_ALLOC) {
            continue;
        }
        let kind = match section.kind() {
            SectionKind::UninitializedData => &mut bss,
            _ if is(elf::SHF_WRITE) => &mut data,
            _ => &mut text,
        };
        *kind += section.size();
    }
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    println!("{name} {text} {data} {bss}");
    Ok(())
}
