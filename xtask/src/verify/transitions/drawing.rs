//! The numbered edges of a diagram in a comment.

/// The numbered edges of the diagrams in a file, in order: a number, one space, and words up to a gap or a line of the drawing.
pub(super) fn edges(source: &str) -> Vec<(u32, String)> {
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
