//! Sets of completion indexes, written as `0-3,5`.

use std::collections::BTreeSet;
use std::fmt;

/// Some indexes of an indexed Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(BTreeSet<u64>);

impl Indexes {
    /// Reads indexes that are below `completions`; what is no range is left out.
    pub(super) fn parse(text: &str, completions: u64) -> Self {
        let mut all = BTreeSet::new();
        for part in text.split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (Ok(from), Ok(to)) = (from.trim().parse::<u64>(), to.trim().parse::<u64>()) else {
                continue;
            };
            all.extend(from..=to.min(completions.saturating_sub(1)));
        }
        all.retain(|index| *index < completions);
        Self(all)
    }

    pub(super) fn has(&self, index: u64) -> bool {
        self.0.contains(&index)
    }

    pub(super) fn add(&mut self, index: u64) {
        self.0.insert(index);
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    pub(super) fn total(&self) -> u64 {
        self.0.len() as u64
    }

    /// How many of these are in `other`, too.
    pub(super) fn shared(&self, other: &Self) -> u64 {
        self.0.intersection(&other.0).count() as u64
    }

    /// The first `count` indexes below `completions` that are not in here.
    pub(super) fn first_missing(&self, count: usize, completions: u64) -> Vec<u64> {
        let missing = (0..completions).filter(|index| !self.has(*index));
        missing.take(count).collect()
    }
}

impl FromIterator<u64> for Indexes {
    fn from_iter<T: IntoIterator<Item = u64>>(all: T) -> Self {
        Self(all.into_iter().collect())
    }
}

impl fmt::Display for Indexes {
    /// Three and more in a row are a range, two are told one by one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for &index in &self.0 {
            match runs.last_mut() {
                Some((_, to)) if *to + 1 == index => *to = index,
                _ => runs.push((index, index)),
            }
        }
        let texts: Vec<String> = runs
            .into_iter()
            .map(|(from, to)| match to - from {
                0 => from.to_string(),
                1 => format!("{from},{to}"),
                _ => format!("{from}-{to}"),
            })
            .collect();
        f.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_written() {
        let some = Indexes::parse("0-2,4,6-9", 8);
        assert_eq!(some.to_string(), "0-2,4,6,7");
        assert_eq!(some.total(), 6);
        assert_eq!(some.first_missing(5, 10), [3, 5, 8, 9]);
        assert_eq!(Indexes::parse("", 5), Indexes::default());
        assert_eq!(some.shared(&Indexes::parse("2-5", 8)), 2);
    }
}
