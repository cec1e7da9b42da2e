//! A program that has nothing but an installation: by plain compiler and pkg-config, and by CMake; shared and static.

use std::path::Path;

use proxy_install::{Scratch, finish, given, has, program, succeed};

/// Warnings are errors.
const COMPILE: &str = "cc -std=c11 -Wall -Wextra -Werror -o all_reduce all_reduce.c";

#[test]
fn a_plain_compiler_links_the_shared_library() {
    let (Some(prefix), Some(library)) = (given("PROXY_PREFIX"), given("PROXY_NCCOM_LIB")) else {
        return;
    };
    if !has("pkg-config") {
        return;
    }
    let scratch = Scratch::new();
    // `eval`: the flags name a folder with a blank, which pkg-config writes as a shell reads it.
    let script = format!(r#"eval "{COMPILE} $(pkg-config --cflags --libs enc_proxy)""#);
    succeed(&mut scratch.shell(&prefix, &script));
    let consumer = scratch.path("all_reduce");
    let needed = succeed(&mut scratch.shell(&prefix, "LC_ALL=C readelf -d all_reduce"));
    assert!(needed.contains("[libenc_proxy.so.0]"), "{needed}");
    scratch.reduces(&mut program(&consumer, Some(&prefix.join("lib"))), &library);
}

#[test]
fn a_plain_compiler_links_the_static_library() {
    let (Some(prefix), Some(library)) = (given("PROXY_PREFIX"), given("PROXY_NCCOM_LIB")) else {
        return;
    };
    if !has("pkg-config") {
        return;
    }
    let scratch = Scratch::new();
    let libs = "$(pkg-config --static --cflags --libs enc_proxy | sed 's/-lenc_proxy /-l:libenc_proxy.a /')";
    succeed(&mut scratch.shell(&prefix, &format!(r#"eval "{COMPILE} {libs}""#)));
    let needed = succeed(&mut scratch.shell(&prefix, "LC_ALL=C readelf -d all_reduce"));
    assert!(!needed.contains("libenc_proxy"), "{needed}");
    scratch.reduces(&mut program(&scratch.path("all_reduce"), None), &library);
}

#[test]
fn cmake_links_either_library() {
    let (Some(prefix), Some(library)) = (given("PROXY_PREFIX"), given("PROXY_NCCOM_LIB")) else {
        return;
    };
    if !has("cmake") {
        return;
    }
    let scratch = Scratch::new();
    succeed(&mut scratch.shell(&prefix, "cmake -S . -B build && cmake --build build"));
    for name in ["build/all_reduce_enc_proxy", "build/all_reduce_static"] {
        scratch.reduces(&mut program(&scratch.path(name), None), &library);
    }
}

#[test]
fn the_tool_starts_from_where_it_is_installed() {
    let Some(prefix) = given("PROXY_PREFIX") else {
        return;
    };
    let help = succeed(program(&prefix.join("bin/proxytop"), None).arg("--help"));
    assert!(help.contains("Usage: proxytop"), "{help}");
}

/// What cannot be shown is an error, also where the runtime would hide it.
#[test]
fn the_tool_tells_when_nobody_gets_what_it_shows() {
    let Some(prefix) = given("PROXY_PREFIX") else {
        return;
    };
    let file = std::env::temp_dir().join(format!("proxytop-{}", std::process::id()));
    let full = format!(">'{}'; ulimit -f 0", file.display());
    for (to, why) in [
        (">&-", "it is closed"),
        (">/dev/full", "No space left on device"),
        (&*full, "File too large"),
    ] {
        for what in ["--help", "--once", "--once --json"] {
            let mut shell = program(Path::new("sh"), None);
            shell.args(["-c", &format!("exec {to}; exec \"$0\" {what}")]);
            let output = finish(shell.arg(prefix.join("bin/proxytop")));
            let text = String::from_utf8_lossy(&output.stderr);
            let told = format!("proxytop: cannot write standard output: {why}");
            assert_eq!(output.status.code(), Some(1), "{what} {to}: {text}");
            assert!(text.starts_with(&told), "{what} {to}: {text}");
        }
    }
    let _ = std::fs::remove_file(file);
}
