//! The size of the terminal behind a descriptor.
#![allow(unsafe_code, reason = "ioctl is a C call")]

use std::os::fd::{AsFd, AsRawFd};

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

#[cfg(test)]
mod tests {
    #[test]
    fn a_file_is_no_terminal() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(super::size(&file), None);
    }
}
