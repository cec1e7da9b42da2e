//! A terminal as a tool that draws on it needs it: its size, keys one by one, and everything as before at the end.
#![allow(
    unsafe_code,
    reason = "terminals, signal masks and descriptors of signals are C calls"
)]

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::check;
use super::poll::{For, poll};

/// Columns and rows; `None` if it is no terminal, or one that does not know.
pub fn size(of: &impl AsFd) -> Option<(usize, usize)> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let fd = of.as_fd().as_raw_fd();
    // SAFETY: an open descriptor; the record is valid for the kernel to write.
    let answer = unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) };
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (answer == 0 && columns > 0 && rows > 0).then_some((columns, rows))
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The time is over.
    Time,
    /// A key, as the byte that it sends.
    Key(u8),
    /// The terminal has another size.
    Resized,
    /// Ctrl-C, a request to end, or the terminal is gone.
    End,
}

/// Signals that end the program, which then has to leave the terminal as it was.
const ENDS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// The other screen, without a cursor; and back.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// The terminal while a program draws on it: a screen of its own, no echo, keys at once. Dropping it gives everything back.
///
/// For a program with one thread: the signals that end it and that tell of a new size are taken from the thread that begins.
#[derive(Debug)]
pub struct Screen {
    output: File,
    /// Keys and the modes to put back; `None` if standard input is something else.
    keys: Option<(File, libc::termios)>,
    signals: File,
    mask: libc::sigset_t,
}

impl Screen {
    /// Takes the terminal behind `output`, and `input` if it is one.
    ///
    /// # Errors
    /// The kernel's, with everything as it was.
    pub fn enter(input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<Self> {
        let output = File::from(output.try_clone_to_owned()?);
        let input = input
            .is_terminal()
            .then(|| input.try_clone_to_owned().map(File::from))
            .transpose()?;
        let keys = input
            .map(|input| modes(&input).map(|modes| (input, modes)))
            .transpose()?;
        let (signals, mask) = take_signals()?;
        let mut screen = Self {
            output,
            keys,
            signals,
            mask,
        };
        // From here on whatever fails is undone by the drop.
        if let Some((input, before)) = &screen.keys {
            let mut now = *before;
            now.c_lflag &= !(libc::ICANON | libc::ECHO);
            // A stop would leave the other screen to the shell.
            now.c_cc[libc::VSUSP] = 0;
            set_modes(input, &now)?;
        }
        screen.output.write_all(ENTER)?;
        Ok(screen)
    }

    /// Waits for the time to pass, or for what comes before.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&self, time: Duration) -> io::Result<Woken> {
        let mut of = vec![(self.signals.as_fd(), For::Input)];
        of.extend(self.keys.iter().map(|(keys, _)| (keys.as_fd(), For::Input)));
        let news = poll(&of, Some(time))?;
        if news.first() == Some(&true) {
            return self.signal();
        }
        if let (Some(true), Some((keys, _))) = (news.get(1), &self.keys) {
            let mut key = [0];
            let mut keys = keys;
            let read = keys.read(&mut key)?;
            return Ok(if read == 0 {
                Woken::End
            } else {
                Woken::Key(key[0])
            });
        }
        Ok(Woken::Time)
    }

    fn signal(&self) -> io::Result<Woken> {
        let mut record = [0_u8; size_of::<libc::signalfd_siginfo>()];
        let mut signals = &self.signals;
        signals.read_exact(&mut record)?;
        // The record begins with the signal's number.
        let number = record
            .first_chunk()
            .map_or(0, |four| u32::from_ne_bytes(*four));
        let resized = number == libc::SIGWINCH.unsigned_abs();
        Ok(if resized { Woken::Resized } else { Woken::End })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing is left to be done about a terminal that is gone.
        let _ = self.output.write_all(LEAVE);
        if let Some((input, before)) = &self.keys {
            let _ = set_modes(input, before);
        }
        // SAFETY: the set is the one that the kernel gave; the former one is not asked for.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.mask,
                std::ptr::null_mut(),
            )
        };
    }
}

fn modes(of: &File) -> io::Result<libc::termios> {
    // SAFETY: all zeros is a valid record.
    let mut modes: libc::termios = unsafe { mem::zeroed() };
    // SAFETY: an open descriptor; the record is valid to be written.
    check(unsafe { libc::tcgetattr(of.as_raw_fd(), &raw mut modes) })?;
    Ok(modes)
}

fn set_modes(of: &File, modes: &libc::termios) -> io::Result<()> {
    // SAFETY: an open descriptor; the record is valid to be read.
    check(unsafe { libc::tcsetattr(of.as_raw_fd(), libc::TCSADRAIN, modes) }).map(|_| ())
}

/// Has the signals come through a descriptor; returns it, and the thread's former mask.
fn take_signals() -> io::Result<(File, libc::sigset_t)> {
    // SAFETY: all zeros is a valid set.
    let (mut taken, mut former): (libc::sigset_t, libc::sigset_t) = unsafe { mem::zeroed() };
    for signal in ENDS.into_iter().chain([libc::SIGWINCH]) {
        // SAFETY: a valid set, and a signal that there is.
        check(unsafe { libc::sigaddset(&raw mut taken, signal) })?;
    }
    // SAFETY: a valid set.
    let fd = check(unsafe { libc::signalfd(-1, &raw const taken, libc::SFD_CLOEXEC) })?;
    // SAFETY: the descriptor was just created and nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: two valid sets; the call cannot fail with this way of changing.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const taken, &raw mut former) };
    Ok((File::from(fd), former))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_file_is_no_terminal() {
        let file = File::open("/dev/null").unwrap();
        assert_eq!(size(&file), None);
    }

    /// Both ends of a terminal: whoever looks at it, and the program in it.
    fn terminal() -> Option<(File, File)> {
        let (mut outer, mut inner) = (-1, -1);
        let none = std::ptr::null_mut();
        // SAFETY: two valid places; name, modes and size are not given.
        let answer = unsafe {
            libc::openpty(
                &raw mut outer,
                &raw mut inner,
                none,
                std::ptr::null(),
                std::ptr::null(),
            )
        };
        if answer != 0 {
            println!("SKIPPED: a pseudo-terminal not available");
            return None;
        }
        // SAFETY: a descriptor that was just created, with no other owner.
        let outer = unsafe { OwnedFd::from_raw_fd(outer) };
        // SAFETY: as above.
        let inner = unsafe { OwnedFd::from_raw_fd(inner) };
        Some((outer.into(), inner.into()))
    }

    /// Reads what is written on the terminal until `end` came.
    fn shown(outer: &mut File, end: &[u8]) -> Vec<u8> {
        let mut seen = Vec::new();
        while !seen.ends_with(end) {
            let mut byte = [0];
            outer.read_exact(&mut byte).unwrap();
            seen.push(byte[0]);
        }
        seen
    }

    #[test]
    fn f03_keys_a_new_size_and_ctrl_c_are_told_and_the_terminal_is_as_before_at_the_end() {
        let Some((mut outer, inner)) = terminal() else {
            return;
        };
        let echo = |of: &File| modes(of).unwrap().c_lflag & (libc::ECHO | libc::ICANON);
        let (before, suspend) = (echo(&inner), modes(&inner).unwrap().c_cc[libc::VSUSP]);
        assert_eq!(before, libc::ECHO | libc::ICANON);
        let screen = Screen::enter(inner.as_fd(), inner.as_fd()).unwrap();
        shown(&mut outer, ENTER);
        assert_eq!(echo(&inner), 0);
        assert_eq!(screen.wait(Duration::ZERO).unwrap(), Woken::Time);
        outer.write_all(b"q").unwrap();
        assert_eq!(screen.wait(LONG).unwrap(), Woken::Key(b'q'));
        for (signal, told) in [
            (libc::SIGWINCH, Woken::Resized),
            (libc::SIGINT, Woken::End),
            (libc::SIGTERM, Woken::End),
        ] {
            // SAFETY: no pointers; this thread holds the signal back.
            unsafe { libc::raise(signal) };
            assert_eq!(screen.wait(LONG).unwrap(), told, "signal {signal}");
        }
        drop(screen);
        shown(&mut outer, LEAVE);
        assert_eq!(echo(&inner), before);
        assert_eq!(modes(&inner).unwrap().c_cc[libc::VSUSP], suspend);
    }

    #[test]
    fn what_is_no_terminal_is_no_source_of_keys() {
        let Some((_outer, inner)) = terminal() else {
            return;
        };
        let file = File::open("/dev/null").unwrap();
        let screen = Screen::enter(file.as_fd(), inner.as_fd()).unwrap();
        assert_eq!(screen.wait(Duration::ZERO).unwrap(), Woken::Time);
    }
}
