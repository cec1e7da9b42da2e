//! `cargo xtask tidy`: checks by machine what the docs promise about the sources.
//!
//! A rule is a plain function from the [`Tree`] (the text files and packages of the workspace, already read) to findings;
//! the walk over the file system is apart from the rules, so that each rule is tested on planted sources. The one check
//! that needs a build, the symbols of proxy-core, is split the same way: see [`symbols`]; so is the one that asks cargo, [`tree`].

mod atomics;
mod functions;
mod imports;
mod panics;
mod reasons;
mod requirements;
mod size;
mod source;
mod symbols;
mod text;
mod tree;
mod unsafety;
mod walk;

use std::fmt;
use std::process::ExitCode;

use crate::workspace::{Package, Workspace};
use source::Source;

/// Everything the rules look at.
#[derive(Debug)]
struct Tree {
    files: Vec<Source>,
    packages: Vec<Package>,
}

impl Tree {
    /// The Rust files under any of these path prefixes; an empty prefix means all.
    fn rust<'a>(&'a self, under: &'a [&'a str]) -> impl Iterator<Item = &'a Source> {
        self.files
            .iter()
            .filter(move |file| file.is_rust() && file.is_under(under))
    }
}

/// One violation.
#[derive(Debug, PartialEq)]
struct Finding {
    path: String,
    /// Counted from 1; 0 when the finding is about the whole file.
    line: usize,
    rule: &'static str,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            rule,
            what,
        } = self;
        write!(f, "{path}:{line}: {rule}: {what}")
    }
}

/// A rule: its name and the function that finds its violations.
struct Rule {
    name: &'static str,
    check: fn(&Tree, &mut Report<'_>),
}

/// Where a rule puts what it finds.
struct Report<'a> {
    rule: &'static str,
    findings: &'a mut Vec<Finding>,
}

impl Report<'_> {
    /// Adds a finding about a line, counted from 0 as the rules do.
    fn at(&mut self, file: &Source, line: usize, what: impl Into<String>) {
        self.add(&file.path, line + 1, what);
    }

    /// Adds a finding with the line as shown.
    fn add(&mut self, path: &str, line: usize, what: impl Into<String>) {
        self.findings.push(Finding {
            path: path.to_owned(),
            line,
            rule: self.rule,
            what: what.into(),
        });
    }
}

/// Every rule that reads sources.
const RULES: [Rule; 19] = [
    Rule {
        name: "imports",
        check: imports::dependencies,
    },
    Rule {
        name: "imports-use",
        check: imports::names,
    },
    Rule {
        name: "core-no-std",
        check: imports::core_without_std,
    },
    Rule {
        name: "core-forbids-unsafe",
        check: unsafety::core_forbids,
    },
    Rule {
        name: "unsafe-place",
        check: unsafety::place,
    },
    Rule {
        name: "unsafe-argued",
        check: unsafety::argued,
    },
    Rule {
        name: "atomics-facade",
        check: atomics::facade,
    },
    Rule {
        name: "ordering-argued",
        check: atomics::orderings,
    },
    Rule {
        name: "loom-model",
        check: atomics::modelled,
    },
    Rule {
        name: "file-length",
        check: size::files,
    },
    Rule {
        name: "function-length",
        check: size::long_functions,
    },
    Rule {
        name: "module-header",
        check: size::headers,
    },
    Rule {
        name: "unfinished",
        check: text::unfinished,
    },
    Rule {
        name: "trailing-space",
        check: text::trailing_space,
    },
    Rule {
        name: "machine-path",
        check: text::machine_paths,
    },
    Rule {
        name: "panic",
        check: panics::calls,
    },
    Rule {
        name: "ignore-reason",
        check: reasons::ignored,
    },
    Rule {
        name: "lint-reason",
        check: reasons::lints,
    },
    Rule {
        name: "requirement",
        check: requirements::tested,
    },
];

/// The verb.
pub(crate) fn verb(workspace: &Workspace) -> Result<ExitCode, String> {
    let files = walk::tree(workspace)?;
    let mut findings = check(&files);
    let mut rules = RULES.len();
    match symbols::of_core(workspace)? {
        Some(found) => {
            findings.extend(found);
            rules += 1;
        }
        None => println!("SKIPPED: {}: nm not available", symbols::RULE),
    }
    findings.extend(tree::of_core(workspace)?);
    rules += 1;
    if findings.is_empty() {
        println!("tidy: clean ({} files, {rules} rules)", files.files.len());
        return Ok(ExitCode::SUCCESS);
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings", findings.len());
    Ok(ExitCode::FAILURE)
}

/// Applies every rule; findings in the order of files and lines.
fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in &RULES {
        let mut report = Report {
            rule: rule.name,
            findings: &mut findings,
        };
        (rule.check)(tree, &mut report);
    }
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    findings
}

/// What the tests of the rules share.
#[cfg(test)]
mod planted {
    use super::*;

    /// A tree of these files, without packages.
    pub(super) fn tree(files: &[(&str, &str)]) -> Tree {
        Tree {
            files: files
                .iter()
                .map(|(path, text)| Source::read(path, text))
                .collect(),
            packages: Vec::new(),
        }
    }

    /// `path:line` of everything that one rule finds.
    pub(super) fn found(check: fn(&Tree, &mut Report<'_>), tree: &Tree) -> Vec<String> {
        let mut findings = Vec::new();
        check(
            tree,
            &mut Report {
                rule: "planted",
                findings: &mut findings,
            },
        );
        findings
            .iter()
            .map(|finding| format!("{}:{}", finding.path, finding.line))
            .collect()
    }

    #[test]
    fn a_finding_is_one_line_that_editors_understand() {
        let finding = Finding {
            path: "a/b.rs".into(),
            line: 7,
            rule: "panic",
            what: "`.unwrap()`".into(),
        };
        assert_eq!(finding.to_string(), "a/b.rs:7: panic: `.unwrap()`");
    }
}
