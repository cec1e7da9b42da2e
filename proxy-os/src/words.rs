//! One and many in sentences: `1 task`, `2 tasks`; `rank 3 is`, `ranks 3-5 are`.

use std::fmt::Display;

/// `1 task` or `2 tasks`.
pub(crate) fn counted(count: impl Display, what: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// `rank 3` or `ranks 3-5`; the set is numbers and ranges, such as `0-2,5`.
pub(crate) fn named(what: &str, set: impl Display) -> String {
    let set = set.to_string();
    format!("{what}{} {set}", agree(&set, "", "s"))
}

/// The word that goes with one or many members of a set.
pub(crate) fn agree<'word>(set: &str, one: &'word str, many: &'word str) -> &'word str {
    if set.parse::<u32>().is_ok() {
        one
    } else {
        many
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_many_are_told_apart() {
        assert_eq!(counted(0, "task"), "0 tasks");
        assert_eq!(counted(1_u64, "task"), "1 task");
        assert_eq!(counted(21, "task"), "21 tasks");
        assert_eq!(named("rank", "21"), "rank 21");
        assert_eq!(named("rank", "0-1"), "ranks 0-1");
        assert_eq!(named("CPU", "1,3"), "CPUs 1,3");
        assert_eq!(agree("7", "is", "are"), "is");
        assert_eq!(agree("7-8", "is", "are"), "are");
    }
}
