//! `cargo xtask mutants`: plants one fault after the other into a copy of proxy-core and expects the simulation to find each.
//!
//! The test of the test: a simulation that never fails proves nothing. The copy lies in the target folder; the sources are
//! not touched. First the copy is run as it is, which must pass.

mod list;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::child;
use crate::sim;
use crate::table;
use crate::workspace::Workspace;
use list::{MUTANTS, Mutant};

/// Worlds in which a fault must show.
const SCHEDULES: &str = "20000";

/// More than one build and its worlds need on a slow machine.
const LIMIT: Duration = Duration::from_secs(300);

/// What the copy consists of.
const MEMBERS: [&str; 3] = ["proxy-core", "tests/kit", "tests/sim"];

/// The verb: every `every`-th mutant, from the first on.
pub(crate) fn verb(workspace: &Workspace, every: usize) -> Result<ExitCode, String> {
    let copy = Copy::make(workspace)?;
    let mut rows = Vec::new();
    let mut survivors = Vec::new();
    let as_it_is = copy.run()?;
    if let Found::Yes(line) = &as_it_is.found {
        return Err(format!("without any mutation the simulation fails: {line}"));
    }
    rows.push(as_it_is.row("(none: must pass)"));
    for mutant in MUTANTS.iter().step_by(every.max(1)) {
        let ran = copy.run_with(mutant)?;
        println!("mutants: {}: {}", mutant.name, ran.told());
        if let Found::No = ran.found {
            survivors.push(mutant.name);
        }
        rows.push(ran.row(mutant.name));
    }
    println!(
        "\n{}",
        table::draw(&["mutation", "found by", "after", "time"], &rows)
    );
    if survivors.is_empty() {
        println!("mutants: {} planted, all found", rows.len() - 1);
        return Ok(ExitCode::SUCCESS);
    }
    println!("FAILED: not found: {}", survivors.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Whether the simulation failed, and what it said.
enum Found {
    Yes(String),
    No,
}

/// One build and run.
struct Ran {
    found: Found,
    time: Duration,
}

impl Ran {
    fn told(&self) -> &str {
        match &self.found {
            Found::Yes(line) => line,
            Found::No => "not found",
        }
    }

    /// Reads `FAILED after 12 worlds: seed 34: ...`.
    fn row(&self, name: &str) -> Vec<String> {
        let (seed, after) = match &self.found {
            Found::No => ("-".to_owned(), format!("{SCHEDULES} worlds")),
            Found::Yes(line) => {
                let after = between(line, "FAILED after ", ":").unwrap_or("?");
                let seed = between(line, "seed ", ":").unwrap_or("?");
                (format!("seed {seed}"), after.to_owned())
            }
        };
        let time = format!("{:.1} s", self.time.as_secs_f64());
        vec![name.to_owned(), seed, after, time]
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}

/// The text of a file with the mutation in it; an error if the place is not there exactly once.
fn mutated(mutant: &Mutant, text: &str) -> Result<String, String> {
    match text.matches(mutant.find).count() {
        1 => Ok(text.replacen(mutant.find, mutant.replace, 1)),
        count => Err(format!(
            "{}: its text stands {count} times in proxy-core/src/{}, once is accepted: {}",
            mutant.name, mutant.file, mutant.find
        )),
    }
}

/// A copy of the core and its simulation.
struct Copy {
    root: PathBuf,
    target: PathBuf,
    cargo: Command,
}

impl Copy {
    fn make(workspace: &Workspace) -> Result<Self, String> {
        let root = workspace.target.join("mutants").join("tree");
        // Left from an earlier run, perhaps with a mutation in it.
        let _ = fs::remove_dir_all(&root);
        for member in MEMBERS {
            copied(&workspace.root.join(member), &root.join(member))?;
        }
        let manifest = read(&workspace.root.join("Cargo.toml"))?;
        write(&root.join("Cargo.toml"), &smaller(&manifest))?;
        let lock = read(&workspace.root.join("Cargo.lock"))?;
        write(&root.join("Cargo.lock"), &lock)?;
        Ok(Self {
            target: workspace.target.join("mutants").join("build"),
            cargo: workspace.cargo(&[]),
            root,
        })
    }

    fn run_with(&self, mutant: &Mutant) -> Result<Ran, String> {
        let path = self.root.join("proxy-core/src").join(mutant.file);
        let text = read(&path)?;
        write(&path, &mutated(mutant, &text)?)?;
        let ran = self.run();
        write(&path, &text)?;
        ran.map_err(|error| format!("{}: {error}", mutant.name))
    }

    /// Builds the copy as it stands and runs its worlds.
    fn run(&self) -> Result<Ran, String> {
        let start = Instant::now();
        let mut build = Command::new(self.cargo.get_program());
        // Warnings of a mutant are of no interest; one optimisation level is the best sum of building and running.
        build
            .args(["build", "--quiet", "--offline", "-p", sim::PROGRAM])
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("RUSTFLAGS", "--cap-lints allow");
        child::run_within(&mut build, LIMIT)?;
        let mut worlds = Command::new(self.target.join("debug").join(sim::PROGRAM));
        worlds.args(["--brief", "--schedules", SCHEDULES]);
        let mut found = Found::No;
        let shown = child::rerun(&worlds);
        let status = child::lines_of(worlds, LIMIT, |line| {
            if line.starts_with("FAILED after") {
                found = Found::Yes(line.to_owned());
            }
        })?;
        match (&found, status.success()) {
            (Found::No, false) => Err(format!("{status} without a finding; rerun: {shown}")),
            _ => Ok(Ran {
                found,
                time: start.elapsed(),
            }),
        }
    }
}

/// The workspace's manifest with the members of the copy only.
fn smaller(manifest: &str) -> String {
    let mut text = String::new();
    let mut is_list = false;
    for line in manifest.lines() {
        if line.starts_with("members = [") {
            let members: Vec<String> = MEMBERS.iter().map(|name| format!("{name:?}")).collect();
            text += &format!("members = [{}]\n", members.join(", "));
            is_list = !line.ends_with(']');
        } else if is_list {
            is_list = !line.ends_with(']');
        } else if !line.starts_with("default-members") && !line.starts_with("exclude") {
            text += line;
            text += "\n";
        }
    }
    text
}

fn copied(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot copy {}: {error}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copied(&path, &to)?;
        } else {
            fs::copy(&path, &to).map_err(failed)?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mutation whose place has gone would plant nothing: whoever changes the core's text here changes the list.
    #[test]
    fn every_mutation_has_its_place_in_the_sources() {
        let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy-core/src");
        for mutant in MUTANTS {
            let text = read(&core.join(mutant.file)).expect("the file");
            let text = mutated(mutant, &text).expect("its place, once");
            assert!(mutant.find != mutant.replace && text.contains(mutant.replace));
        }
    }

    #[test]
    fn a_place_that_stands_twice_or_not_at_all_is_an_error() {
        let mutant = Mutant {
            name: "m",
            file: "f.rs",
            find: "x",
            replace: "y",
        };
        assert_eq!(mutated(&mutant, "a x b").as_deref(), Ok("a y b"));
        for text in ["", "x x"] {
            assert!(mutated(&mutant, text).is_err());
        }
    }

    #[test]
    fn a_finding_is_read_from_its_line() {
        let line = "FAILED after 12 worlds: seed 34: law: ...".to_owned();
        let ran = Ran {
            found: Found::Yes(line),
            time: Duration::from_secs(1),
        };
        assert_eq!(ran.row("m"), ["m", "seed 34", "12 worlds", "1.0 s"]);
    }

    #[test]
    fn the_copys_manifest_has_its_own_members_only() {
        let text = "[workspace]\nmembers = [\n    \"a\",\n]\ndefault-members = [\"a\"]\nexclude = [\"b\"]\n\n[x]\n";
        let members = "[\"proxy-core\", \"tests/kit\", \"tests/sim\"]";
        assert_eq!(
            smaller(text),
            format!("[workspace]\nmembers = {members}\n\n[x]\n")
        );
    }
}
