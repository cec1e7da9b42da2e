//! Exports: what the committed lists say, not one more and not one less; and the version that a collective library asks for.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proxy_install::{Scratch, finish, given, program, succeed};

/// The committed list of exports of a library.
fn listed(map: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proxy-ffi/link");
    let text = fs::read_to_string(path.join(map)).expect("a list of exports");
    let names = text
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';'));
    names
        .filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .map(str::to_owned)
        .collect()
}

/// What a library really exports, with versions.
fn exported(library: &Path) -> BTreeSet<String> {
    let mut nm = Command::new("nm");
    let listing = succeed(nm.args(["-D", "--defined-only"]).arg(library));
    let fields = listing
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    // A version is an absolute symbol.
    fields
        .filter(|fields| fields.len() == 3 && fields[1] != "A")
        .map(|fields| fields[2].to_owned())
        .collect()
}

fn versioned(map: &str, version: &str) -> BTreeSet<String> {
    let names = listed(map).into_iter();
    names.map(|name| format!("{name}@@{version}")).collect()
}

#[test]
fn the_installed_library_stays_mapped_after_a_dlclose() {
    let Some(prefix) = given("PROXY_PREFIX") else {
        return;
    };
    let mut readelf = Command::new("readelf");
    let library = prefix.join("lib/libenc_proxy.so");
    let dynamic = succeed(readelf.args(["-d", "-W"]).arg(library));
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}

#[test]
fn the_installed_libraries_export_what_is_listed_and_nothing_else() {
    let Some(prefix) = given("PROXY_PREFIX") else {
        return;
    };
    let shared = exported(&prefix.join("lib/libenc_proxy.so"));
    assert!(shared.len() >= 50, "{shared:?}");
    assert_eq!(shared, versioned("libenc_proxy.map", "ENC_PROXY_0"));
    let reverse = exported(&prefix.join("lib/libnrt.so.1"));
    assert_eq!(reverse, versioned("libnrt.map", "NRT_2.0.0"));
    let dynamic = succeed(
        Command::new("readelf")
            .args(["--dyn-syms", "-W"])
            .arg(prefix.join("lib/libnrt.so.1")),
    );
    assert_eq!(
        dynamic.matches("@@NRT_2.0.0").count(),
        listed("libnrt.map").len()
    );
}

#[test]
fn the_library_that_cargo_makes_exports_the_same_names() {
    // Cargo builds it beside the stand-in, and has built it where there is an installation.
    let (Some(_), Some(library)) = (given("PROXY_PREFIX"), given("PROXY_NCCOM_LIB")) else {
        return;
    };
    let library = library.with_file_name("libenc_proxy.so");
    assert_eq!(exported(&library), listed("libenc_proxy.map"));
}

#[test]
fn the_header_declares_what_is_listed() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proxy-ffi/include/enc_proxy.h");
    let header = fs::read_to_string(header).expect("the header");
    for name in listed("libenc_proxy.map") {
        assert!(
            header.contains(&format!("{name}(")),
            "{name} is not declared"
        );
    }
}

#[test]
fn the_reverse_edge_is_what_the_shared_library_has() {
    let (all, reverse) = (listed("libenc_proxy.map"), listed("libnrt.map"));
    assert!(
        !reverse.is_empty() && reverse.is_subset(&all),
        "{reverse:?}"
    );
    assert!(reverse.iter().all(|name| name.starts_with("nec_")));
}

/// Links the stand-in once more, so that it asks for `libnrt.so.1` and its version by name, as the original does.
fn versioned_stand_in(scratch: &Scratch, prefix: &Path, plain: &Path) -> PathBuf {
    let exports = exported(plain);
    assert_eq!(exports.len(), 37, "{exports:?}");
    let names: Vec<&str> = exports.iter().map(String::as_str).collect();
    fs::write(
        scratch.path("nccom.map"),
        format!("{{ global: {}; local: *; }};\n", names.join("; ")),
    )
    .expect("a file");
    let library = scratch.path("libnccom.so");
    let mut command = Command::new("cc");
    command
        .args(["-shared", "-Wl,-z,defs", "-Wl,--gc-sections", "-Xlinker"])
        .arg(format!(
            "--version-script={}",
            scratch.path("nccom.map").display()
        ))
        .args(names.iter().map(|name| format!("-Wl,-u,{name}")))
        .arg("-o")
        .arg(&library)
        .arg(plain.with_extension("a"))
        .arg(prefix.join("lib/libnrt.so.1"))
        .arg("-Xlinker")
        .arg(format!("-rpath-link={}", prefix.join("lib").display()))
        .args(["-lgcc_s", "-lpthread", "-lm", "-ldl", "-lc"]);
    succeed(&mut command);
    assert_eq!(exported(&library), exports);
    let mut readelf = Command::new("readelf");
    let needs = succeed(
        readelf
            .env("LC_ALL", "C")
            .args(["-W", "-V", "-d", "--dyn-syms"])
            .arg(&library),
    );
    for part in [
        "[libnrt.so.1]",
        "Name: NRT_2.0.0",
        "UND nec_inc_semaphore@NRT_2.0.0",
    ] {
        assert!(needs.contains(part), "{part} is not in:\n{needs}");
    }
    library
}

#[test]
fn a_library_that_asks_for_dynamic_sizes_by_version_is_answered() {
    let Some(prefix) = given("PROXY_PREFIX") else {
        return;
    };
    let scratch = Scratch::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proxy-ffi/tests/c");
    let mut library = Command::new("cc");
    library
        .args(["-std=c11", "-shared", "-fPIC", "-Wl,-z,defs"])
        .args(["-DASKS_FOR_SIZES", "-o"])
        .arg(scratch.path("libsizes.so"))
        .arg(source.join("hooked_library.c"))
        .arg(prefix.join("lib/libnrt.so.1"))
        .arg("-Xlinker")
        .arg(format!("-rpath-link={}", prefix.join("lib").display()));
    succeed(&mut library);
    let mut readelf = Command::new("readelf");
    let needs = succeed(
        readelf
            .env("LC_ALL", "C")
            .args(["-W", "--dyn-syms"])
            .arg(scratch.path("libsizes.so")),
    );
    for name in [
        "nec_get_dynamic_send_size_bytes",
        "nec_get_dynamic_send_offset_bytes",
        "nec_get_dynamic_recv_offset_bytes",
        "nec_set_recv_size_bytes",
    ] {
        assert!(needs.contains(&format!("UND {name}@NRT_2.0.0")), "{needs}");
    }
    let compile = r#"cc -std=c11 -Wall -Wextra -Werror -o dynamic dynamic.c -I"$PREFIX/include" -L"$PREFIX/lib" -lenc_proxy"#;
    succeed(&mut scratch.shell(&prefix, compile));
    let mut asks = program(&scratch.path("dynamic"), Some(&prefix.join("lib")));
    assert_eq!(succeed(asks.arg(scratch.path("libsizes.so"))), "ok\n");
}

#[test]
fn a_library_that_needs_libnrt_by_version_loads_and_reduces() {
    let (Some(prefix), Some(plain)) = (given("PROXY_PREFIX"), given("PROXY_NCCOM_LIB")) else {
        return;
    };
    let scratch = Scratch::new();
    let library = versioned_stand_in(&scratch, &prefix, &plain);
    let folder = prefix.join("lib");
    let compile = r#"cc -std=c11 -o all_reduce all_reduce.c -I"$PREFIX/include""#;
    // With the project in a library, and in the program, where it exports nothing.
    for link in [
        r#"-L"$PREFIX/lib" -lenc_proxy"#,
        r#""$PREFIX/lib/libenc_proxy.a" -lgcc_s -lpthread -lm -ldl"#,
    ] {
        succeed(&mut scratch.shell(&prefix, &format!("{compile} {link}")));
        let consumer = scratch.path("all_reduce");
        scratch.reduces(&mut program(&consumer, Some(&folder)), &library);
    }
    // The static one finds no libnrt.so.1 when nobody says where it is, and says so.
    let mut alone = program(&scratch.path("all_reduce"), None);
    let output = finish(
        alone
            .current_dir(scratch.path(""))
            .arg(&library)
            .args(["1", "1", "inputs", "outputs"]),
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("libnrt.so.1"),
        "{said}"
    );
}
