//! This process's part of `--trace`: what each of its workers did, written where the launcher finds it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use proxy_os::ProxyQueue;

use crate::wire::Failure;

/// Events of one worker that are kept, of which each takes 48 bytes here and about 150 in the file: what comes later is counted.
const EVENTS: usize = 1 << 16;

/// The traces of the workers of this process.
#[derive(Debug)]
pub(super) struct Traces {
    /// The launcher's folder for the parts, if traces are wanted.
    folder: Option<PathBuf>,
    /// The first rank of this process, which names its parts.
    first: u32,
    /// Kept to the end of the process, as the traces are theirs.
    queues: Mutex<Vec<Arc<ProxyQueue>>>,
}

impl Traces {
    /// Nothing is traced yet.
    pub(super) fn new(folder: Option<PathBuf>, first: u32) -> Self {
        Self {
            folder,
            first,
            queues: Mutex::default(),
        }
    }

    /// Starts the trace of a rank's worker, if traces are wanted and no other rank has started it.
    pub(super) fn start(&self, queue: &Arc<ProxyQueue>) {
        if self.folder.is_some() && queue.start_trace(EVENTS).is_ok() {
            self.queues().push(Arc::clone(queue));
        }
    }

    /// Writes the part of each worker as it is now, also of one that is stuck; replaces what was written before.
    pub(super) fn write(&self) -> Result<(), Failure> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let queues = self.queues();
        for (number, queue) in queues.iter().enumerate() {
            let part = folder.join(format!("{}-{number}", self.first));
            let partial = part.with_extension("partial");
            let written = write(queue, &partial).and_then(|()| fs::rename(&partial, &part));
            written.map_err(|error| {
                Failure::own(format!("--trace: its part cannot be written: {error}"))
            })?;
        }
        Ok(())
    }

    fn queues(&self) -> std::sync::MutexGuard<'_, Vec<Arc<ProxyQueue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(queue: &ProxyQueue, path: &std::path::Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    if let Some(trace) = queue.trace() {
        trace.write_chrome(queue.gid(), &mut out)?;
    }
    out.flush()
}
