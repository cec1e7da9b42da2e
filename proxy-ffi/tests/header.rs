//! The header by itself, and the layouts that it promises, under several compilers and languages.
//!
//! Requirements: H75.
#![allow(
    clippy::disallowed_methods,
    reason = "compilers are started as processes"
)]

mod common;

use std::process::Command;

use common::{STRICT, has, package, succeed};

/// Language, standard and the compilers that know it.
const LANGUAGES: [(&str, &str, [&str; 2]); 4] = [
    ("c", "-std=c99", ["gcc", "clang"]),
    ("c", "-std=c11", ["gcc", "clang"]),
    ("c++", "-std=c++11", ["g++", "clang++"]),
    ("c++", "-std=c++20", ["g++", "clang++"]),
];

/// Compiles a file of this package in every language, with and without short enumerations.
fn compile_everywhere(file: &str) {
    for (language, standard, compilers) in LANGUAGES {
        for compiler in compilers.into_iter().filter(|compiler| has(compiler)) {
            for more in [&[][..], &["-fshort-enums"]] {
                let mut command = Command::new(compiler);
                command
                    .args(STRICT)
                    .args([standard, "-x", language])
                    .args(more);
                command
                    .arg("-I")
                    .arg(package("include"))
                    .args(["-c", "-o", "/dev/null"]);
                succeed(command.arg(package(file)));
            }
        }
    }
}

#[test]
fn the_header_compiles_alone_in_every_language() {
    compile_everywhere("include/enc_proxy.h");
}

#[test]
fn h75_every_size_alignment_and_offset_is_what_the_header_promises() {
    compile_everywhere("tests/c/layout.c");
}

#[test]
fn h75_every_struct_of_the_header_is_checked() {
    let header = std::fs::read_to_string(package("include/enc_proxy.h")).expect("the header");
    let checks = std::fs::read_to_string(package("tests/c/layout.c")).expect("the checks");
    let mut name = None;
    let mut fields = 0;
    for line in header.lines() {
        if let Some(rest) = line
            .strip_prefix("typedef struct ")
            .and_then(|rest| rest.strip_suffix(" {"))
        {
            assert!(checks.contains(&format!("SIZE({rest}, ")), "size of {rest}");
            assert!(
                checks.contains(&format!("ALIGN({rest}, ")),
                "alignment of {rest}"
            );
            name = Some(rest);
        } else if line.starts_with('}') {
            name = None;
        } else if let Some(name) = name
            && let Some(declaration) = line.strip_suffix(';')
        {
            let declaration = declaration.split('[').next().unwrap_or_default();
            let field = declaration.rsplit([' ', '*']).next().unwrap_or_default();
            assert!(
                checks.contains(&format!("AT({name}, {field}, ")),
                "offset of {name}.{field}"
            );
            fields += 1;
        }
    }
    assert!(fields > 100, "only {fields} fields were found");
}
