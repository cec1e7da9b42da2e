//! What checks which edge, as `tests/transitions.txt` has it.
//!
//! `machine NAME: FILE` begins the lines of a machine; each is `COLUMN EDGES: FILE FUNCTION by TEXT`, with edges such as `1 3-5`. `#`
//! begins a comment.

/// The list.
pub(super) const FILE: &str = "tests/transitions.txt";

/// A way of checking, a column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    /// What says independently how a machine must behave: a second, plain implementation, or a model of all interleavings.
    Model,
    /// What goes through all states or all sequences of a bounded size.
    Exhaustive,
    /// What chooses at random, guided by coverage.
    Fuzz,
    /// What runs without an operating system.
    Bare,
}

impl Column {
    pub(super) const ALL: [Self; 4] = [Self::Model, Self::Exhaustive, Self::Fuzz, Self::Bare];

    const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Exhaustive => "exhaustive",
            Self::Fuzz => "fuzz",
            Self::Bare => "bare",
        }
    }

    /// Where its checks stand.
    const fn folders(self) -> &'static [&'static str] {
        match self {
            Self::Model => &[
                "tests/loom/tests/models/",
                "tests/kit/src/oracle",
                "tests/fuzz/bodies/",
                "proxy-core/src/",
            ],
            Self::Exhaustive => &["tests/sim/tests/", "tests/checks/tests/", "proxy-core/src/"],
            Self::Fuzz => &["tests/fuzz/bodies/"],
            Self::Bare => &["tests/conformance/src/"],
        }
    }
}

/// A check of some edges.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claim<'t> {
    pub(super) column: Column,
    pub(super) edges: Vec<u32>,
    pub(super) file: &'t str,
    pub(super) function: &'t str,
    /// What the check says where it takes the edge.
    pub(super) by: &'t str,
}

impl<'t> Claim<'t> {
    fn read(line: &'t str) -> Option<Self> {
        let (head, rest) = line.split_once(": ")?;
        let (column, edges) = head.split_once(' ')?;
        let (check, by) = rest.split_once(" by ")?;
        let (file, function) = check.split_once(' ')?;
        let column = Column::ALL.into_iter().find(|one| one.name() == column)?;
        let is_there = column
            .folders()
            .iter()
            .any(|folder| file.starts_with(folder));
        let edges = edges
            .split(' ')
            .map(range)
            .collect::<Option<Vec<_>>>()?
            .concat();
        (is_there && !by.is_empty()).then_some(Self {
            column,
            edges,
            file,
            function,
            by,
        })
    }

    /// The file's name without folders and ending.
    pub(super) fn stem(&self) -> &'t str {
        let name = self.file.rsplit('/').next().unwrap_or(self.file);
        name.trim_end_matches(".rs")
    }

    /// That, with the folder where it would say nothing.
    pub(super) fn module(&self) -> &'t str {
        let path = self.file.trim_end_matches(".rs");
        let folder = path
            .strip_suffix("/tests")
            .and_then(|path| path.rsplit('/').next());
        folder.unwrap_or_else(|| self.stem())
    }

    /// Whether it has to be a test: what is a second implementation is not, nor what runs on bare metal or in a fuzzer.
    pub(super) fn is_test(&self) -> bool {
        self.column == Column::Exhaustive || self.file.starts_with("tests/loom/")
    }
}

/// `3` or `3-5`.
fn range(text: &str) -> Option<Vec<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then(|| (first..=last).collect())
}

/// A machine of the core and what checks its edges.
#[derive(Debug)]
pub(super) struct Machine<'t> {
    pub(super) name: &'t str,
    /// The file with its diagram.
    pub(super) file: &'t str,
    pub(super) claims: Vec<Claim<'t>>,
}

impl Machine<'_> {
    /// Whether the edges that something is claimed of are in the drawing, which has some.
    pub(super) fn claims_are_drawn(&self, edges: &[(u32, String)]) -> Result<(), String> {
        let file = self.file;
        if edges.is_empty() {
            return Err(format!("{file} has no diagram with numbered edges"));
        }
        let is_drawn = |number: &&u32| edges.iter().any(|(drawn, _)| drawn == *number);
        let mut claimed = self.claims.iter().flat_map(|claim| &claim.edges);
        match claimed.find(|number| !is_drawn(number)) {
            Some(number) => Err(format!("{FILE}: {file} has no edge {number}")),
            None => Ok(()),
        }
    }
}

/// Reads the list.
pub(super) fn read(text: &str) -> Result<Vec<Machine<'_>>, String> {
    let mut machines: Vec<Machine<'_>> = Vec::new();
    let lines = text.lines().zip(1..);
    for (line, number) in lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')) {
        let accepted = "accepted: `machine NAME: FILE`, `COLUMN EDGES: FILE FUNCTION by TEXT`";
        let wrong = || format!("{FILE}:{number}: {line:?}, {accepted}");
        if let Some(rest) = line.strip_prefix("machine ") {
            let (name, file) = rest.split_once(": ").ok_or_else(wrong)?;
            let claims = Vec::new();
            machines.push(Machine { name, file, claims });
        } else {
            let claim = Claim::read(line).ok_or_else(wrong)?;
            machines.last_mut().ok_or_else(wrong)?.claims.push(claim);
        }
    }
    Ok(machines)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# why\n\nmachine a: proxy-core/src/a.rs\n\
                        exhaustive 1 3-5: proxy-core/src/a/tests.rs all_of_it by Op::Shut(by the way)\n";

    #[test]
    fn a_claim_has_edges_a_check_and_a_text() {
        let machines = read(LIST).expect("a list");
        let [
            Machine {
                name: "a", claims, ..
            },
        ] = &machines[..]
        else {
            panic!("{machines:?}");
        };
        let claim = Claim {
            column: Column::Exhaustive,
            edges: vec![1, 3, 4, 5],
            file: "proxy-core/src/a/tests.rs",
            function: "all_of_it",
            by: "Op::Shut(by the way)",
        };
        assert_eq!(claims, &[claim]);
        assert_eq!((claims[0].module(), claims[0].is_test()), ("a", true));
    }

    #[test]
    fn lines_that_say_less_are_refused() {
        for wrong in [
            "exhaustive 1: proxy-core/src/a.rs b by c",
            "machine a: b\nexhaustive 1: proxy-core/src/a.rs b",
            "machine a: b\nexhaustive: proxy-core/src/a.rs b by c",
            "machine a: b\nexhaustive 5-3: proxy-core/src/a.rs b by c",
            "machine a: b\nbare 1: tests/kit/src/a.rs b by c",
            "machine a: b\nother 1: proxy-core/src/a.rs b by c",
        ] {
            let error = read(wrong).expect_err(wrong);
            assert!(error.contains("accepted: "), "{error}");
        }
    }

    #[test]
    fn an_edge_that_is_not_drawn_is_found() {
        let machines = read(LIST).expect("a list");
        let drawn = |last| {
            (1..=last)
                .map(|number| (number, String::new()))
                .collect::<Vec<_>>()
        };
        assert_eq!(machines[0].claims_are_drawn(&drawn(5)), Ok(()));
        let missing = machines[0].claims_are_drawn(&drawn(4));
        assert_eq!(
            missing,
            Err(format!("{FILE}: proxy-core/src/a.rs has no edge 5"))
        );
        assert!(machines[0].claims_are_drawn(&[]).is_err());
    }
}
