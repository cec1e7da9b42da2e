//! `cargo xtask header`: the C header, from the sources of proxy-ffi. It is committed; CI checks that it is current.
//!
//! The files are read in the order in which a reader of the header needs them; what they declare keeps its order.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};

use crate::workspace::Workspace;

/// The header, relative to the workspace.
const HEADER: &str = "proxy-ffi/include/enc_proxy.h";

/// The sources, in order.
const SOURCES: [&str; 19] = [
    "status", "version", "log", "arg", "library", "comm", "settings", "fifo", "task", "group",
    "context", "abort", "error", "report", "trace", "bus", "members", "barrier", "glb_comm",
];

/// What stands above everything.
const PREAMBLE: &str = "\
/* The C interface of the proxy driver. Written by `cargo xtask header`; do not edit.
 *
 * - Every function returns a status, but for the two that return a text. 0 is success. `enc_proxy_last_error` says why the
 *   calling thread's last failed call failed.
 * - Handles are opaque and never followed: null, destroyed, made up or of another type is NRT_INVALID_HANDLE.
 * - A struct with `struct_size` is zeroed first, then its size is set: `T x; memset(&x, 0, sizeof x); x.struct_size = sizeof x;`.
 *   0 is the default of every field. A shorter struct (of an older header) has the defaults for what is missing; a longer
 *   one is accepted if what this release does not know is 0, else the answer is ENC_PROXY_UNSUPPORTED_FIELD.
 * - `flags` and `reserved` must be 0.
 * - Out-parameters are untouched on error, but where a function says so.
 * - Times are microseconds; ENC_PROXY_FOREVER never passes.
 * - ENC_PROXY_PANIC: a fault of this library was contained. The handle can only be destroyed then.
 * - The collective library, the log sink, the error handler and the functions for dynamic sizes must not throw: an exception (or a panic of another Rust
 *   runtime) that leaves one of their functions cannot be contained and aborts the process with a message.
 * - ENC_PROXY_WRONG_THREAD: on a worker's thread, inside a function that the library has called, nothing is waited for: calls that could only
 *   wait are refused, the timeouts of others count as 0.
 * - ENC_PROXY_FORKED: a forked child has none of the threads. It can exit, or exec; every call is an error at once.
 * - The shared library stays in the process after a dlclose: its threads end by themselves, later. A shared library of one's own with the static
 *   one in it needs the same: link it with -z nodelete.
 */";

/// The verb.
pub(crate) fn verb(workspace: &Workspace, check: bool) -> Result<ExitCode, String> {
    let text = generate(&workspace.root)?;
    let path = workspace.root.join(HEADER);
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if text == committed {
        println!("header: {HEADER} is current");
        return Ok(ExitCode::SUCCESS);
    }
    if check {
        println!("header: {HEADER} is not what the sources say; run `cargo xtask header`");
        return Ok(ExitCode::FAILURE);
    }
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("header: {HEADER} written");
    Ok(ExitCode::SUCCESS)
}

/// The header's text.
fn generate(root: &Path) -> Result<String, String> {
    let mut builder = Builder::new().with_config(config());
    for source in SOURCES {
        builder = builder.with_src(root.join(format!("proxy-ffi/src/{source}.rs")));
    }
    // The reverse edge comes last: most embedders never call it.
    for source in ["reverse", "dynamic"] {
        builder = builder.with_src(root.join(format!("proxy-ffi/src/{source}.rs")));
    }
    let bindings = builder.generate().map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).map_err(|error| error.to_string())?;
    Ok(on_one_line(&tidied(&text)))
}

fn config() -> Config {
    Config {
        language: Language::C,
        header: Some(PREAMBLE.to_owned()),
        include_guard: Some("ENC_PROXY_H".to_owned()),
        cpp_compat: true,
        no_includes: true,
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"]
            .map(str::to_owned)
            .to_vec(),
        documentation_style: DocumentationStyle::Doxy,
        style: Style::Both,
        usize_is_size_t: true,
        tab_width: 4,
        line_length: 110,
        ..Config::default()
    }
}

/// Puts negative constants in parentheses, takes trailing blanks away, and turns the sources' headings into plain text.
fn tidied(text: &str) -> String {
    let mut tidy = String::with_capacity(text.len());
    for line in text.lines() {
        let line = match line
            .strip_prefix("#define ")
            .and_then(|rest| rest.split_once(" -"))
        {
            Some((name, number)) => format!("#define {name} (-{number})"),
            None => line
                .trim_end()
                .replace(" * # Safety", " * The caller promises:"),
        };
        tidy.push_str(&line);
        tidy.push('\n');
    }
    tidy
}

/// Writes a comment of one line on one line.
fn on_one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut short = String::with_capacity(text.len());
    let mut rest = lines.as_slice();
    while let [line, after @ ..] = rest {
        rest = after;
        short.push_str(line);
        if let [body, end, ..] = after
            && line.trim() == "/**"
            && end.trim() == "*/"
            && let Some(words) = body.trim().strip_prefix("* ")
        {
            short.push_str(&format!(" {words} */"));
            rest = &after[2..];
        }
        short.push('\n');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_constants_are_in_parentheses() {
        assert_eq!(
            tidied("#define A -1\n#define B 2 \n * # Safety\n"),
            "#define A (-1)\n#define B 2\n * The caller promises:\n"
        );
    }

    #[test]
    fn a_comment_of_one_line_is_on_one_line() {
        let two = "/**\n * a\n * b\n */\n";
        assert_eq!(on_one_line(two), two);
        assert_eq!(
            on_one_line("  /**\n   * a\n   */\nint a;\n"),
            "  /** a */\nint a;\n"
        );
    }
}
