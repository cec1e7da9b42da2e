//! Putting files under a prefix, all or none: each is written beside its place first, and they are renamed when the last has been
//! written. A process that dies in the middle leaves old files or new ones, each whole, and the next installation clears up.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// One file.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its place under the prefix.
    pub(super) at: PathBuf,
    what: What,
}

/// What a file is made of.
#[derive(Debug)]
pub(super) enum What {
    /// This text.
    Text(String),
    /// The bytes and permissions of a file.
    Copy(PathBuf),
    /// A symbolic link to a file of the same folder.
    Link(String),
}

impl Entry {
    pub(super) fn new(at: impl Into<PathBuf>, what: What) -> Self {
        let at = at.into();
        Self { at, what }
    }
}

/// Places all entries, or changes nothing. Waits for nobody: a second installation into the prefix at the same time is an error.
pub(super) fn place(prefix: &Path, entries: &[Entry]) -> Result<(), String> {
    let mut placing = Placing::default();
    let placed = placing.all(prefix, entries);
    placed.map_err(|what| format!("{what}; nothing under {} was changed", prefix.display()))
}

/// What has to be taken back, or cleared up; done on drop.
#[derive(Debug, Default)]
struct Placing {
    /// Folders made for it, the outermost first.
    folders: Vec<PathBuf>,
    files: Vec<Placed>,
    done: bool,
}

/// One file on its way.
#[derive(Debug)]
struct Placed {
    at: PathBuf,
    new: PathBuf,
    /// The name under which what was there before is kept until all is done.
    old: Option<PathBuf>,
    renamed: bool,
}

impl Placing {
    fn all(&mut self, prefix: &Path, entries: &[Entry]) -> Result<(), String> {
        self.folder(prefix)?;
        let _locked = lock(prefix)?;
        for entry in entries {
            let at = prefix.join(&entry.at);
            self.folder(at.parent().unwrap_or(prefix))?;
            self.write(at, &entry.what)?;
        }
        for file in &mut self.files {
            file.keep_old()?;
        }
        for file in &mut self.files {
            fs::rename(&file.new, &file.at).map_err(|error| cannot("write", &file.at, &error))?;
            file.renamed = true;
        }
        self.done = true;
        Ok(())
    }

    /// Makes a folder and those above it, remembering the new ones.
    fn folder(&mut self, path: &Path) -> Result<(), String> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(above) = path.parent() {
            self.folder(above)?;
        }
        match fs::create_dir(path) {
            Ok(()) => self.folders.push(path.to_owned()),
            // Somebody else has just made it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            Err(error) => return Err(cannot("make the folder", path, &error)),
        }
        Ok(())
    }

    /// Writes an entry beside its place, down to the disk.
    fn write(&mut self, at: PathBuf, what: &What) -> Result<(), String> {
        if at.is_dir() && !at.is_symlink() {
            return Err(format!("{} is a folder", at.display()));
        }
        let new = beside(&at, "new");
        remove(&new).map_err(|error| cannot("remove", &new, &error))?;
        // From here on it is removed if anything goes wrong.
        self.files.push(Placed {
            at: at.clone(),
            new: new.clone(),
            old: None,
            renamed: false,
        });
        let written = match what {
            What::Text(text) => File::create_new(&new)
                .and_then(|mut file| file.write_all(text.as_bytes()).and(file.sync_all())),
            What::Copy(from) => fs::copy(from, &new)
                .and_then(|_| File::open(&new))
                .and_then(|file| file.sync_all()),
            What::Link(to) => symlink(to, &new),
        };
        written.map_err(|error| cannot("write", &at, &error))
    }
}

impl Placed {
    /// Gives what is there a second name.
    fn keep_old(&mut self) -> Result<(), String> {
        let old = beside(&self.at, "old");
        remove(&old).map_err(|error| cannot("remove", &old, &error))?;
        match fs::hard_link(&self.at, &old) {
            Ok(()) => self.old = Some(old),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot("keep", &self.at, &error)),
        }
        Ok(())
    }
}

impl Drop for Placing {
    fn drop(&mut self) {
        // What cannot be removed or taken back here has no one left to tell; the next installation removes it.
        for file in &self.files {
            let _ = remove(&file.new);
            match (&file.old, self.done) {
                (Some(old), true) => drop(remove(old)),
                (Some(old), false) => drop(fs::rename(old, &file.at).and_then(|()| remove(old))),
                (None, false) if file.renamed => drop(remove(&file.at)),
                (None, _) => {}
            }
        }
        if !self.done {
            for folder in self.folders.iter().rev() {
                // One in which somebody else has put something stays.
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

/// A name in the same folder, and so in the same file system.
fn beside(at: &Path, end: &str) -> PathBuf {
    let name = at.file_name().unwrap_or_default().to_string_lossy();
    at.with_file_name(format!(".{name}.{end}"))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Keeps others away from the prefix for as long as the file is open.
fn lock(prefix: &Path) -> Result<File, String> {
    let folder = File::open(prefix).map_err(|error| cannot("open", prefix, &error))?;
    match folder.try_lock() {
        Ok(()) => Ok(folder),
        Err(TryLockError::WouldBlock) => Err(format!(
            "another installation into {} is at work",
            prefix.display()
        )),
        Err(TryLockError::Error(error)) => Err(cannot("lock", prefix, &error)),
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

#[cfg(test)]
mod tests;
