//! All or nothing, whatever goes wrong in the middle.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A folder with a blank in its name, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("proxy place {}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a fresh folder");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed is no reason to fail a test that has passed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Everything under a folder, with what is in it.
fn listing(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.push(path.display().to_string());
            found.extend(listing(&path));
        } else {
            let text = fs::read_to_string(&path).expect("a text");
            let link = fs::read_link(&path).unwrap_or_default();
            found.push(format!("{} {} {text}", path.display(), link.display()));
        }
    }
    found.sort();
    found
}

fn entries(text: &str) -> Vec<Entry> {
    vec![
        Entry::new("lib/a.so.1", What::Text(text.to_owned())),
        Entry::new("lib/a.so", What::Link("a.so.1".to_owned())),
        Entry::new("include/a.h", What::Text(format!("{text} header"))),
    ]
}

#[test]
fn a_second_installation_replaces_and_leaves_nothing_beside() {
    let scratch = Scratch::new();
    let prefix = scratch.0.join("a prefix");
    place(&prefix, &entries("one")).expect("an empty place");
    let first = listing(&prefix);
    assert_eq!(first.len(), 5, "two folders, three files: {first:?}");
    place(&prefix, &entries("one")).expect("the same again");
    assert_eq!(listing(&prefix), first);
    // What an installation that was killed has left.
    fs::write(prefix.join("lib/.a.so.1.new"), "half").expect("writable");
    fs::write(prefix.join("lib/.a.so.1.old"), "half").expect("writable");
    place(&prefix, &entries("two")).expect("a newer one");
    let second = listing(&prefix);
    assert_eq!(second.len(), 5, "{second:?}");
    assert_eq!(
        fs::read_to_string(prefix.join("lib/a.so")).expect("a link"),
        "two"
    );
}

#[test]
fn a_failure_leaves_what_was_there() {
    let scratch = Scratch::new();
    place(&scratch.0, &entries("one")).expect("an empty place");
    let before = listing(&scratch.0);
    let mut more = entries("two");
    let missing = scratch.0.join("no such file");
    more.push(Entry::new("share/new/b", What::Copy(missing)));
    let error = place(&scratch.0, &more).expect_err("there is no such file");
    assert!(
        error.contains("cannot write") && error.contains("share/new/b"),
        "{error}"
    );
    assert!(error.ends_with("was changed"), "{error}");
    assert_eq!(listing(&scratch.0), before, "no new folder either");
}

#[test]
fn a_failure_between_the_renames_takes_them_back() {
    let scratch = Scratch::new();
    place(&scratch.0, &entries("one")).expect("an empty place");
    fs::remove_file(scratch.0.join("lib/a.so")).expect("it is there");
    let before = listing(&scratch.0);
    // Found to be a file when it is looked at, its own folder when it is renamed: the last name cannot be given.
    let mut placing = Placing::default();
    for entry in entries("two") {
        placing
            .write(scratch.0.join(&entry.at), &entry.what)
            .expect("writable");
    }
    for file in &mut placing.files {
        file.keep_old().expect("there is an old one, or none");
    }
    for file in &mut placing.files[..2] {
        fs::rename(&file.new, &file.at).expect("the same folder");
        file.renamed = true;
    }
    drop(placing);
    assert_eq!(listing(&scratch.0), before);
}

#[test]
fn a_folder_or_a_file_in_the_way_is_named() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.0.join("lib/a.so.1")).expect("writable");
    let before = listing(&scratch.0);
    let error = place(&scratch.0, &entries("one")).expect_err("a folder is there");
    assert!(error.contains("a.so.1 is a folder"), "{error}");
    assert_eq!(listing(&scratch.0), before);
    let file = scratch.0.join("file");
    fs::write(&file, "").expect("writable");
    let error = place(&file, &entries("one")).expect_err("a file is no folder");
    assert!(error.contains("cannot make the folder"), "{error}");
}

#[test]
fn two_at_a_time_are_refused() {
    let scratch = Scratch::new();
    let held = lock(&scratch.0).expect("nobody else is there");
    let error = place(&scratch.0, &entries("one")).expect_err("it is taken");
    assert!(error.contains("another installation into"), "{error}");
    drop(held);
    place(&scratch.0, &entries("one")).expect("it is free again");
}

/// Says to the child of a test which prefix it places into.
const PREFIX: &str = "PROXY_TEST_PLACE";

/// The other side of the two tests below; nothing when it is run by itself.
#[test]
fn child() {
    if let Ok(prefix) = env::var(PREFIX) {
        let big = "x".repeat(1 << 20);
        match place(Path::new(&prefix), &entries(&big)) {
            Ok(()) => println!("placed"),
            Err(error) => println!("error: {error}"),
        }
    }
}

/// Runs [`child`] by a shell command that ends with `"$0" "$@"`.
fn run_child(script: &str, prefix: &Path, unprivileged: bool) -> io::Result<String> {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(script)
        .arg(env::current_exe()?)
        .args(["--exact", "install::place::tests::child", "--nocapture"])
        .env(PREFIX, prefix);
    if unprivileged {
        command.uid(65534).gid(65534);
    }
    let output = command.output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_full_disk_changes_nothing() {
    let scratch = Scratch::new();
    place(&scratch.0, &entries("one")).expect("an empty place");
    let before = listing(&scratch.0);
    // A file of more than a few blocks ends in an error, as on a disk that is full.
    let script = r#"trap '' XFSZ; ulimit -f 64; exec "$0" "$@""#;
    let said = run_child(script, &scratch.0, false).expect("a shell");
    assert!(
        said.contains("error: cannot write") && said.contains("File too large"),
        "{said}"
    );
    assert_eq!(listing(&scratch.0), before);
}

#[test]
fn a_prefix_without_permission_is_named() {
    let scratch = Scratch::new();
    let prefix = scratch.0.join("closed");
    fs::create_dir(&prefix).expect("writable");
    let mut permissions = fs::metadata(&prefix).expect("there").permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&prefix, permissions).expect("it is ours");
    // A superuser may write anyway, and becomes somebody else.
    let root = fs::create_dir(prefix.join("probe"))
        .is_ok_and(|()| fs::remove_dir(prefix.join("probe")).is_ok());
    let said = run_child(r#"exec "$0" "$@""#, &prefix, root).unwrap_or_default();
    if !said.contains("running 1 test") {
        println!("SKIPPED: a user who may run this program and not write everywhere not available");
        return;
    }
    assert!(said.contains("error: cannot make the folder"), "{said}");
    assert!(said.contains("Permission denied"), "{said}");
    assert_eq!(listing(&prefix), Vec::<String>::new());
}
