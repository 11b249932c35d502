//! Bytes as decisions, for what tries the rest of the crate.

/// Takes bytes as decisions; zeros once there are no more.
pub(crate) struct Decisions<'a>(&'a [u8]);

impl<'a> Decisions<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Up to `most` bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy, const N: usize>(&mut self, all: &[T; N]) -> T {
        const { assert!(N > 0) }
        all[usize::from(self.byte()) % N]
    }
}
