//! Rule `requirement`: every requirement that is said to be met has a test that carries its number.
//!
//! A test `h14_a_stale_zero_does_not_start_the_next_execution` checks H14; `h04_h05_...` checks both.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::functions::functions;
use super::source::Source;
use super::{Report, Tree};

/// The requirements that are said to be met. A new one is added together with its tests.
const MET: [RangeInclusive<u8>; 1] = [1..=81];

/// `requirement`.
pub(super) fn tested(tree: &Tree, report: &mut Report<'_>) {
    let tested: BTreeSet<u8> = tree.rust(&[""]).flat_map(numbers_of_tests).collect();
    for number in MET
        .into_iter()
        .flatten()
        .filter(|number| !tested.contains(number))
    {
        let what = format!("no test is named after H{number:02} (`fn h{number:02}_...`)");
        report.add("tests", 0, what);
    }
}

/// The numbers that the tests of a file carry in their names.
fn numbers_of_tests(file: &Source) -> Vec<u8> {
    functions(file)
        .into_iter()
        .filter(|function| is_test(file, function.first))
        .flat_map(|function| numbers(&function.name))
        .collect()
}

/// Whether `#[test]` stands among the attributes and comments right above a function.
fn is_test(file: &Source, function: usize) -> bool {
    let mut above = file.lines[..function].iter().rev().take_while(|line| {
        let code = line.code.trim();
        code.starts_with("#[")
            || code.ends_with(']')
            || (code.is_empty() && !line.comment.is_empty())
    });
    above.any(|line| line.code.trim() == "#[test]")
}

/// The numbers at the head of a name: 4 and 5 of `h04_h05_...`.
fn numbers(name: &str) -> Vec<u8> {
    let number = |part: &str| {
        let digits = part.strip_prefix('h')?;
        (digits.len() == 2).then(|| digits.parse().ok())?
    };
    name.split('_').map_while(number).collect()
}

#[cfg(test)]
mod tests {
    use super::super::planted::{found, tree};
    use super::*;

    #[test]
    fn numbers_are_read_from_the_head_of_a_name() {
        assert_eq!(numbers("h04_h05_an_error_ends_the_task"), [4, 5]);
        assert_eq!(numbers("after_h04"), Vec::<u8>::new());
        assert_eq!(numbers("hot_path"), Vec::<u8>::new());
    }

    #[test]
    fn only_functions_with_the_attribute_are_tests() {
        let text = concat!(
            "#[test]\n// why\n#[cfg(unix)]\nfn h01_a() {}\n",
            "fn h02_helper() {}\n",
            "#[test]\nfn h03_b() {}\n",
        );
        assert_eq!(numbers_of_tests(&Source::read("a.rs", text)), [1, 3]);
    }

    #[test]
    fn a_requirement_without_a_test_is_found() {
        let all: String = MET
            .into_iter()
            .flatten()
            .filter(|number| *number != 42)
            .map(|number| format!("#[test]\nfn h{number:02}_x() {{}}\n"))
            .collect();
        let tree = tree(&[("tests/checks/tests/all.rs", &all)]);
        assert_eq!(found(tested, &tree), ["tests:0"]);
    }
}
