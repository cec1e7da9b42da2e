//! Row `transitions`: the table of every state transition of the core and of what checks it, `tests/TRANSITIONS.md`.
//!
//! It is generated: the transitions are the numbered edges of the diagrams at the head of each machine's file, and every
//! check that is named has to be there, as a function or a fuzz target. A new edge or a check that is gone changes
//! the table, and the row fails until `--bless` has written it and somebody has read the difference.

use std::fs;
use std::path::Path;

use super::{Found, Options};
use crate::workspace::Workspace;

const TABLE: &str = "tests/TRANSITIONS.md";

/// A machine of the core and what checks all of its edges.
struct Machine {
    name: &'static str,
    /// The file with its diagram.
    file: &'static str,
    /// What says independently how it must behave: a second, plain implementation, or a model of all interleavings.
    model: &'static [Check],
    /// What goes through all states or all sequences of a bounded size.
    exhaustive: &'static [Check],
    /// What chooses at random, guided by coverage.
    fuzz: &'static [&'static str],
    /// What runs it without an operating system.
    bare: &'static [Check],
}

/// A file and a function in it.
type Check = (&'static str, &'static str);

const ORACLE: &str = "tests/kit/src/oracle/machine.rs";
const SEQUENCES: &str = "tests/checks/tests/core_oracle.rs";
const EXPLORED: Check = (
    "tests/sim/tests/exhaustion.rs",
    "every_state_of_small_worlds_keeps_every_law_and_every_drawn_edge_is_taken",
);
const GATED: Check = (
    SEQUENCES,
    "all_short_sequences_with_triggers_and_barrier_agree",
);
const BLOCKS: Check = (SEQUENCES, "all_short_sequences_of_blocks_and_stops_agree");
const ARMED: Check = (SEQUENCES, "all_short_sequences_of_explicit_arming_agree");

const ORDERED: Check = (
    SEQUENCES,
    "all_short_sequences_of_orders_and_verdicts_agree",
);

const MACHINES: [Machine; 9] = [
    Machine {
        name: "network task",
        file: "proxy-core/src/task/network.rs",
        model: &[(ORACLE, "progress")],
        exhaustive: &[EXPLORED, GATED, BLOCKS],
        fuzz: &["driver_ops"],
        bare: &[(
            "tests/conformance/src/network.rs",
            "every_block_is_started_and_drained_in_order",
        )],
    },
    Machine {
        name: "barrier task",
        file: "proxy-core/src/task/barrier.rs",
        model: &[(ORACLE, "barrier")],
        exhaustive: &[EXPLORED, GATED],
        fuzz: &["driver_ops"],
        bare: &[(
            "tests/conformance/src/barrier.rs",
            "all_phases_that_are_ready_pass_in_one_step",
        )],
    },
    Machine {
        name: "slot of a task",
        file: "proxy-core/src/board.rs",
        model: &[
            (
                "tests/loom/tests/models/status.rs",
                "h10_done_is_the_workers_last_access_to_a_slot",
            ),
            (
                "tests/loom/tests/models/slab.rs",
                "h01_a_slot_given_back_has_one_new_owner",
            ),
        ],
        exhaustive: &[GATED],
        fuzz: &["driver_ops"],
        bare: &[(
            "tests/conformance/src/queue.rs",
            "a_full_rank_says_so_and_harms_no_other",
        )],
    },
    Machine {
        name: "early end of a task",
        file: "proxy-core/src/board/order.rs",
        model: &[
            (
                "tests/loom/tests/models/abort.rs",
                "a_verdict_and_the_end_of_a_task_are_told_once",
            ),
            ("tests/kit/src/oracle/orders.rs", "conclude"),
        ],
        exhaustive: &[ORDERED],
        fuzz: &["driver_ops"],
        bare: &[(
            "tests/conformance/src/queue.rs",
            "an_ordered_task_has_its_verdict_before_the_worker_comes",
        )],
    },
    Machine {
        name: "work list and doorbell",
        file: "proxy-core/src/doorbell.rs",
        model: &[(
            "tests/loom/tests/models/bell.rs",
            "h38_no_wake_up_is_lost_between_enqueue_sleep_and_stop",
        )],
        exhaustive: &[BLOCKS],
        fuzz: &["driver_ops"],
        bare: &[("tests/conformance/src/traffic.rs", "produce")],
    },
    Machine {
        name: "context",
        file: "proxy-core/src/context.rs",
        model: &[(
            "tests/loom/tests/models/context.rs",
            "an_enqueue_beside_a_retire_is_refused_or_runs",
        )],
        exhaustive: &[ARMED],
        fuzz: &["driver_ops"],
        bare: &[(
            "tests/conformance/src/queue.rs",
            "a_context_is_retired_when_nothing_of_it_is_unfinished",
        )],
    },
    Machine {
        name: "place of a rank",
        file: "proxy-core/src/queue/ranks.rs",
        model: &[(
            "tests/loom/tests/models/ranks.rs",
            "a_place_goes_to_one_of_two_ranks",
        )],
        exhaustive: &[(
            SEQUENCES,
            "all_short_sequences_of_more_ranks_than_places_agree",
        )],
        fuzz: &["driver_ops"],
        bare: &[(
            "tests/conformance/src/queue.rs",
            "tables_that_are_full_say_their_capacity",
        )],
    },
    Machine {
        name: "group",
        file: "proxy-core/src/group.rs",
        model: &[("tests/fuzz/bodies/group_ops.rs", "expected")],
        exhaustive: &[
            (
                "proxy-core/src/group.rs",
                "acquire_and_release_in_every_state",
            ),
            ("proxy-core/src/group.rs", "reports_in_every_state"),
        ],
        fuzz: &["group_ops"],
        bare: &[(
            "tests/conformance/src/records.rs",
            "a_group_is_created_shared_and_released",
        )],
    },
    Machine {
        name: "member of the bus",
        file: "proxy-core/src/phone/member.rs",
        model: &[(
            "tests/loom/tests/models/phone_sleep.rs",
            "of_leaving_and_dying_one_comes_first",
        )],
        exhaustive: &[(
            "proxy-core/src/phone/member/tests.rs",
            "every_state_and_event_is_as_drawn",
        )],
        fuzz: &["hostile_segment"],
        bare: &[(
            "tests/conformance/src/phone.rs",
            "members_join_become_ready_and_leave",
        )],
    },
];

const HEAD: &str = "# Every state transition of the core, and what checks it

Generated by `cargo xtask verify transitions --bless` from the diagrams at the head of each file; the number is that of the edge.
What is named is there for the whole machine. *Model*: a second implementation of the same rules (the oracle), or loom over all
interleavings. *Exhaustive*: every reachable state of small worlds, all sequences of operations of a bounded length, or every event in every state. *Fuzz*: a
target of `tests/fuzz`. *Bare*: one case of the machine's part of the suite that also runs without an operating system. A
dash is a gap.
";

pub(super) fn run(workspace: &Workspace, options: Options) -> Result<Found, String> {
    let (text, edges) = table(&workspace.root)?;
    let file = workspace.root.join(TABLE);
    let failed = |error| format!("{TABLE}: {error}");
    if options.bless {
        fs::write(&file, &text).map_err(failed)?;
    }
    if fs::read_to_string(&file).map_err(failed)? != text {
        return Err(format!(
            "{TABLE} is not what the sources say; `cargo xtask verify transitions --bless` writes it"
        ));
    }
    let machines = MACHINES.len();
    Ok(Found::Ran(format!(
        "{edges} transitions of {machines} machines"
    )))
}

/// The table, and how many transitions it has.
fn table(root: &Path) -> Result<(String, usize), String> {
    let read = |file: &str| {
        fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))
    };
    let (mut text, mut count) = (HEAD.to_owned(), 0);
    for machine in &MACHINES {
        let edges = edges(&read(machine.file)?);
        if edges.is_empty() {
            return Err(format!(
                "{} has no diagram with numbered edges",
                machine.file
            ));
        }
        let mut cells = Vec::new();
        for checks in [machine.model, machine.exhaustive] {
            cells.push(named(checks, read)?);
        }
        cells.push(fuzzed(machine.fuzz, root)?);
        cells.push(named(machine.bare, read)?);
        text += &format!("\n## {} (`{}`)\n\n", machine.name, machine.file);
        text += "| edge | | model | exhaustive | fuzz | bare |\n|---|---|---|---|---|---|\n";
        for (number, what) in &edges {
            text += &format!("| {number} | {what} | {} |\n", cells.join(" | "));
        }
        count += edges.len();
    }
    Ok((text, count))
}

/// The cell of some checks, each of which has to be there.
fn named(
    checks: &[Check],
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut cells = Vec::new();
    for (file, function) in checks {
        let text = read(file)?;
        let is_there = ["(", "<"].map(|after| text.contains(&format!("fn {function}{after}")));
        if is_there == [false; 2] {
            return Err(format!("{file} has no function {function}"));
        }
        cells.push(format!("`{}::{function}`", short(file)));
    }
    Ok(or_dash(cells))
}

/// The file's name without folders and ending.
fn short(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.trim_end_matches(".rs")
}

fn fuzzed(targets: &[&str], root: &Path) -> Result<String, String> {
    for target in targets {
        let file = format!("tests/fuzz/fuzz_targets/{target}.rs");
        if !root.join(&file).is_file() {
            return Err(format!("there is no {file}"));
        }
    }
    Ok(or_dash(
        targets.iter().map(|target| format!("`{target}`")).collect(),
    ))
}

fn or_dash(cells: Vec<String>) -> String {
    match cells.is_empty() {
        true => "-".to_owned(),
        false => cells.join(", "),
    }
}

/// The numbered edges of the diagrams in a file, in order: a number, one space, and words up to a gap or a line of the drawing.
fn edges(source: &str) -> Vec<(u32, String)> {
    let mut edges: Vec<(u32, String)> = Vec::new();
    let mut inside = false;
    for line in source.lines() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            continue;
        };
        if comment.contains("```") {
            inside = comment.contains("```text");
        } else if inside {
            for (number, what) in edges_of(comment) {
                if edges.iter().all(|(known, _)| *known != number) {
                    edges.push((number, what));
                }
            }
        }
    }
    edges.sort_by_key(|(number, _)| *number);
    edges
}

fn edges_of(line: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(|c: char| c.is_ascii_digit()) {
        let before = &line[..at];
        let last = before.trim_end().chars().next_back();
        let after_words = last.is_some_and(char::is_alphanumeric) && !before.ends_with("  ");
        let rest = &line[at..];
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, rest) = rest.split_at(digits);
        let Some(words) = rest.strip_prefix(' ') else {
            continue;
        };
        // A number in the middle of words refers to an edge, but for the second one behind a comma.
        let drawn = before.is_empty() || (before.ends_with(' ') && !after_words);
        let starts = words.starts_with(|c: char| c.is_ascii_lowercase());
        if let (true, Ok(number)) = (drawn && starts, number.parse()) {
            found.push((number, words_of_edge(words)));
        }
    }
    found
}

/// Up to a gap, a line of the drawing, or the next edge behind a comma.
fn words_of_edge(words: &str) -> String {
    let gap = ["  ", " -", " |", " +", " <"];
    let comma = words
        .match_indices(", ")
        .find(|(at, _)| words[at + 2..].starts_with(|c: char| c.is_ascii_digit()));
    let gaps = gap.iter().filter_map(|gap| words.find(gap));
    let end = gaps.chain(comma.map(|(at, _)| at)).min();
    words[..end.unwrap_or(words.len())].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_read_from_a_drawing() {
        let source = "//! ```text\n\
                      //!            1 claim                2 publish\n\
                      //!   FREE(g) ---------> CLAIMED(g+1) ---------> INIT\n\
                      //!    \\---- 3 pending ---> PROGRESSING after 2 in this step, else IDLE\n\
                      //!   DONE <---- 8 failed, 9 abort: cancel ---- any phase\n\
                      //!   bit 31   30     29      28..0    |  +--+ 7    |\n\
                      //! ```\n\
                      //! 4 is no edge\n";
        let found = edges(source);
        let shown: Vec<_> = found
            .iter()
            .map(|(number, what)| format!("{number} {what}"))
            .collect();
        let expected = [
            "1 claim",
            "2 publish",
            "3 pending",
            "8 failed",
            "9 abort: cancel",
        ];
        assert_eq!(shown, expected);
    }
}
