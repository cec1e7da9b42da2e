//! Progress: one line that is written over on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Between two lines that stay.
const SELDOM: Duration = Duration::from_secs(15);

/// A line of what has come out.
pub(crate) fn say(text: &str) -> Result<(), String> {
    let written = std::io::stdout().write_all(format!("{text}\n").as_bytes());
    written.map_err(|error| format!("cannot write standard output: {error}"))
}

/// Where progress goes.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: bool,
    told: Instant,
}

impl Screen {
    /// Standard output.
    pub(crate) fn new() -> Self {
        Self {
            terminal: std::io::stdout().is_terminal(),
            told: Instant::now(),
        }
    }

    /// Shows how far it is.
    pub(crate) fn progress(&mut self, text: &str) {
        let mut out = std::io::stdout();
        // Nobody is left to read it: the soak goes on all the same.
        if self.terminal {
            let _ = write!(out, "\r\x1b[K{text}");
            let _ = out.flush();
        } else if self.told.elapsed() >= SELDOM {
            self.told = Instant::now();
            let _ = writeln!(out, "{text}");
        }
    }

    /// Gives the line free for what comes.
    pub(crate) fn end(&self) {
        if self.terminal {
            let _ = write!(std::io::stdout(), "\r\x1b[K");
        }
    }
}
