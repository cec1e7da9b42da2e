//! The processes of ranks, as their conductor has them: started, told, heard, hurt and collected.
#![allow(unsafe_code, reason = "kill is a C call")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use crate::talk::{News, Order};

/// First argument of a process of ranks.
pub(crate) const HOST: &str = "host";

/// A process of ranks. Killed and collected when it is dropped.
#[derive(Debug)]
pub(crate) struct Host {
    child: Child,
}

impl Host {
    /// Starts one, which loads the library and has `folder` for its files; what it says comes as news of process `place`. The end of its output comes as `None`.
    pub(crate) fn start(
        place: usize,
        library: &Path,
        folder: &Path,
        heard: Sender<(usize, Option<News>)>,
    ) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command
            .arg(HOST)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The library says there what a fault has brought; reports have what must not be.
            .stderr(Stdio::null())
            // A bootstrap whose peer has died must not outlast the round. One arena and no spare stacks, so that what a process holds
            // at rest is what it needs.
            .env("TMPDIR", folder)
            .env("NEURON_CCOM_SOCK_TIMEOUT", "20")
            .env("MALLOC_ARENA_MAX", "1")
            .env("GLIBC_TUNABLES", "glibc.pthread.stack_cache_size=0");
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let output = child.stdout.take().ok_or("no output")?;
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // A line that is none of ours, or half of one, is of a process that is being killed.
                if let Ok(news) = serde_json::from_str(&line) {
                    let _ = heard.send((place, Some(news)));
                }
            }
            let _ = heard.send((place, None));
        });
        let mut host = Self { child };
        host.tell(&Order::Load(library.to_owned()))?;
        Ok(host)
    }

    /// Tells it something.
    pub(crate) fn tell(&mut self, order: &Order) -> Result<(), String> {
        let mut line = serde_json::to_vec(order).map_err(|error| error.to_string())?;
        line.push(b'\n');
        let pid = self.child.id();
        let input = self.child.stdin.as_mut().ok_or("it was dismissed")?;
        input
            .write_all(&line)
            .map_err(|error| format!("process {pid} cannot be told: {error}"))
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: no memory is passed. The process is not collected yet, so the number is its own.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends its input, and collects it when it has ended; an error if that takes longer than `limit`.
    pub(crate) fn dismiss(mut self, limit: Duration) -> Result<ExitStatus, String> {
        drop(self.child.stdin.take());
        let since = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if since.elapsed() < limit => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok(None) => return Err(format!("process {} does not end", self.pid())),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It has ended, or somebody has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
