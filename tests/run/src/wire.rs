//! What a rank tells the launcher: one message per line, as JSON, over the pipe of its process.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// A message, and who has said it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Said {
    /// The rank.
    pub(crate) rank: u32,
    /// The message.
    pub(crate) message: Message,
}

impl Said {
    /// A line as a message of one of `ranks`; an error says what it is instead.
    pub(crate) fn read(line: &str, ranks: &Range<u32>) -> Result<Self, String> {
        match serde_json::from_str::<Self>(line) {
            Ok(said) if ranks.contains(&said.rank) => Ok(said),
            Ok(said) => Err(format!("said {line:?} for rank {}", said.rank)),
            Err(error) => Err(format!("said {line:?}: {error}")),
        }
    }
}

/// A message of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    /// Its settings are good, and its process is about to load the library. Said by the first rank of a process alone.
    Loading,
    /// Its process has loaded the library, and its settings are good. Said by the first rank of a process alone.
    Ready,
    /// It has met all others.
    Joined,
    /// It is at that iteration, counted from 1. Said now and then: for the progress line, and as a sign of life.
    Iteration(u32),
    /// A size is through.
    Size(SizeResult),
    /// It cannot go on; its process ends when all its ranks are through or cannot go on.
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

/// A rank's end. The ranks of a process share its pipe.
#[derive(Debug)]
pub(crate) struct Speaker {
    rank: u32,
    pipe: Arc<Mutex<File>>,
}

impl Speaker {
    /// Speaks for `rank` into `pipe`.
    pub(crate) fn new(rank: u32, pipe: File) -> Self {
        let pipe = Arc::new(Mutex::new(pipe));
        Self { rank, pipe }
    }

    /// Speaks for another rank of the same process.
    pub(crate) fn of(&self, rank: u32) -> Self {
        let pipe = Arc::clone(&self.pipe);
        Self { rank, pipe }
    }

    /// Sends one message.
    pub(crate) fn say(&self, message: Message) -> io::Result<()> {
        let rank = self.rank;
        let mut line = serde_json::to_vec(&Said { rank, message })?;
        line.push(b'\n');
        // A rank that panicked while it wrote has left half a line, which the launcher reports.
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        pipe.write_all(&line)
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
            let said = Said { rank: 3, message };
            let line = serde_json::to_string(&said).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(Said::read(&line, &(3..4)), Ok(said));
            assert!(Said::read(&line, &(0..3)).is_err());
        }
    }
}
