//! What is made of texts, made once in a process: worlds of tests come by the hundred, and
//! each has the same definitions.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// So many are kept.
const MOST: usize = 1024;
/// What is made of longer texts, in bytes, is made anew each time.
const LONGEST: usize = 16 << 10;

/// What was made of which text.
pub(crate) struct Memo<T>(Mutex<BTreeMap<String, T>>);

impl<T: Clone> Memo<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// What `make` gives for `text`, or what it gave when it was asked before.
    pub(crate) fn of(&self, text: &str, make: impl FnOnce() -> T) -> T {
        if text.len() > LONGEST {
            return make();
        }
        if let Some(known) = self.0.lock().get(text) {
            return known.clone();
        }
        // Not under the lock: it may take long.
        let new = make();
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(text.to_owned(), new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_not_kept_without_end() {
        let memo = Memo::new();
        assert_eq!(memo.of("a", || 1), 1);
        assert_eq!(memo.of("a", || 2), 1);
        for n in 0..=MOST {
            memo.of(&format!("{n}"), || n);
        }
        assert!(memo.0.lock().len() <= MOST);
        let long = "a".repeat(LONGEST + 1);
        assert_eq!([memo.of(&long, || 1), memo.of(&long, || 2)], [1, 2]);
    }
}
