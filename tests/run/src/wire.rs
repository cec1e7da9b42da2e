//! What a rank tells the launcher: one message per line, as JSON, over a pipe.

use std::fs::File;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

/// A message of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    /// The library is loaded, settings and worker are good. Next it waits for the others.
    Ready,
    /// It has met all others.
    Joined,
    /// It begins with that iteration, counted from 1. Rank 0 only, and only when asked for progress.
    Iteration(u32),
    /// A size is through.
    Size(SizeResult),
    /// It cannot go on; its process ends.
    Failed(Failure),
    /// All sizes are through and everything is given back.
    Finished,
}

/// One rank's result of one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SizeResult {
    /// The size.
    pub(crate) bytes: u64,
    /// Time of each measured iteration in nanoseconds.
    pub(crate) nanos: Vec<u64>,
    /// The first wrong element: iteration, index, got, want.
    pub(crate) wrong: Option<String>,
    /// A hash of the last checked output.
    pub(crate) digest: Option<u64>,
}

/// Why a rank cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// In words.
    pub(crate) text: String,
    /// Whether the cause may as well lie with another rank.
    pub(crate) by_peer: bool,
}

impl Failure {
    /// A failure whose cause lies with the rank itself.
    pub(crate) fn own(text: impl ToString) -> Self {
        Self {
            text: text.to_string(),
            by_peer: false,
        }
    }

    /// A failure that another rank may have caused.
    pub(crate) fn by_peer(text: impl ToString) -> Self {
        Self {
            text: text.to_string(),
            by_peer: true,
        }
    }
}

/// The rank's end.
#[derive(Debug)]
pub(crate) struct Speaker(File);

impl Speaker {
    /// Speaks into `pipe`.
    pub(crate) const fn new(pipe: File) -> Self {
        Self(pipe)
    }

    /// Sends one message.
    pub(crate) fn say(&mut self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}

/// Cuts the bytes of a pipe into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<u8>);

impl Lines {
    /// Adds bytes; returns the lines that are complete now.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Vec<String> {
        self.0.extend_from_slice(bytes);
        let Some(end) = self.0.iter().rposition(|&byte| byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.0.split_off(end + 1);
        let whole = std::mem::replace(&mut self.0, rest);
        String::from_utf8_lossy(&whole)
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// What is left at the end of the pipe: a line without an end.
    pub(crate) fn rest(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.0);
        (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_pipe_cuts() {
        let mut lines = Lines::default();
        assert_eq!(lines.add(b"ab"), Vec::<String>::new());
        assert_eq!(lines.add(b"c\nd\n\ne"), ["abc", "d", ""]);
        assert_eq!(lines.rest().as_deref(), Some("e"));
        assert_eq!(lines.rest(), None);
    }

    #[test]
    fn messages_read_back() {
        let result = SizeResult {
            bytes: 4,
            nanos: vec![1, u64::MAX],
            wrong: Some("element 0".to_owned()),
            digest: Some(1),
        };
        for message in [
            Message::Ready,
            Message::Iteration(3),
            Message::Size(result),
            Message::Failed(Failure::own("a\nb")),
        ] {
            let line = serde_json::to_string(&message).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Message>(&line).unwrap(), message);
        }
    }
}
