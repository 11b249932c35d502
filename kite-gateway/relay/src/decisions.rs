//! Bytes as decisions, for what tries the rest of the crate.

/// Takes bytes as decisions; zeros once there are no more.
pub struct Decisions<'a>(&'a [u8]);

impl<'a> Decisions<'a> {
    /// Of these bytes.
    pub fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// The next one.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Up to `most` bytes.
    /// The next one.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Whether there are no more.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of these, of which there has to be one.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }
}
