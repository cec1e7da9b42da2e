//! Thread names within the kernel's 15 bytes.

use std::ffi::CStr;
use std::fmt;

/// Bytes of a name without the terminator: the kernel's limit.
const LIMIT: usize = 15;

/// A name that the kernel accepts: at most 15 bytes, no null byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadName {
    /// The name, then zeros: at least one.
    bytes: [u8; LIMIT + 1],
}

impl ThreadName {
    /// A name from any label. Of a longer one the end is kept: that is where labels differ (`proxy-4194303`,
    /// `group-of-device-17`). A null byte becomes `?`.
    pub fn new(label: &str) -> Self {
        let mut from = label.len().saturating_sub(LIMIT);
        while !label.is_char_boundary(from) {
            from += 1;
        }
        let mut bytes = [0; LIMIT + 1];
        for (place, byte) in bytes.iter_mut().zip(label[from..].bytes()) {
            *place = if byte == 0 { b'?' } else { byte };
        }
        Self { bytes }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        // Made from whole characters of a string, so the fallback is never used.
        self.as_c_str().to_str().unwrap_or_default()
    }

    /// The name as the C library takes it.
    pub(super) fn as_c_str(&self) -> &CStr {
        // The last byte is always zero, so the fallback is never used.
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_labels_keep_their_end() {
        assert_eq!(ThreadName::new("proxy-4194303").as_str(), "proxy-4194303");
        let long = ThreadName::new("collectives-group-of-device-17");
        assert_eq!(long.as_str(), "up-of-device-17");
    }

    #[test]
    fn characters_are_never_cut() {
        let name = ThreadName::new("ééééééééé7");
        assert_eq!(name.as_str(), "ééééééé7");
        assert_eq!(ThreadName::new("a\0b").as_str(), "a?b");
    }
}
