//! The input of a body, read from its start. At its end it is all zero.
#![allow(dead_code, reason = "each target is a program and uses a part")]

/// What is left of the input.
pub(crate) struct Input<'d>(pub(crate) &'d [u8]);

impl Input<'_> {
    /// Whether all has been read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    pub(crate) fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    pub(crate) fn long(&mut self) -> u64 {
        u64::from(self.word()) | u64::from(self.word()) << 32
    }

    /// A number: small, near an edge, or any.
    pub(crate) fn number(&mut self) -> u32 {
        match self.byte() % 8 {
            0..=4 => u32::from(self.byte() % 4),
            5 => u32::MAX - u32::from(self.byte() % 4),
            6 => 1 << (self.byte() % 32),
            _ => self.word(),
        }
    }

    /// A short timeout in microseconds.
    pub(crate) fn timeout(&mut self) -> u64 {
        self.pick(&[0, 1, 500, 2000])
    }

    /// One of `options`, which is not empty.
    pub(crate) fn pick<T: Copy>(&mut self, options: &[T]) -> T {
        options[usize::from(self.byte()) % options.len()]
    }

    /// The next bytes, as many as the next byte says, at most what is there.
    pub(crate) fn bytes(&mut self) -> &[u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }
}
