//! What was asked: the last requests, and counts of all.

use std::collections::{BTreeMap, VecDeque};
use std::{fmt, mem};

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Logged {
    /// `get`, `list`, `create` and so on; the HTTP method for documents.
    pub verb: String,
    /// Plural, with the group and the subresource: `things.x.io/status`; the
    /// path for documents.
    pub resource: String,
    /// Namespace, empty at cluster scope.
    pub namespace: String,
    /// Name of the object, if the path has one.
    pub name: String,
    /// Who asked.
    pub user: String,
    /// The client's program.
    pub user_agent: String,
    /// HTTP status of the answer.
    pub code: u16,
}

/// Most pairs of verb and resource that are counted: clients may ask for
/// resources that do not exist.
const MOST_COUNTS: usize = 4096;

/// How many requests there were, by verb and resource.
pub type Counts = BTreeMap<(String, String), u64>;

/// A moment in the life of a log: see [`RequestLog::mark`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    recorded: u64,
    counts: Counts,
}

/// What was asked since a [`Mark`]. Its text has one line for each verb and
/// resource: `patch configmaps: 2`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Since {
    /// The requests, oldest first, as far as the log remembers them.
    pub entries: Vec<Logged>,
    /// All of them, by verb and resource.
    pub counts: Counts,
}

impl Since {
    /// How many requests there were with that verb on that resource.
    pub fn count(&self, verb: &str, resource: &str) -> u64 {
        count(&self.counts, verb, resource)
    }

    /// How many requests could have changed something.
    pub fn writes(&self) -> u64 {
        writes(&self.counts)
    }
}

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((verb, resource), count) in &self.counts {
            writeln!(f, "{verb} {resource}: {count}")?;
        }
        Ok(())
    }
}

fn count(counts: &Counts, verb: &str, resource: &str) -> u64 {
    let key = (verb.to_owned(), resource.to_owned());
    counts.get(&key).copied().unwrap_or_default()
}

fn writes(counts: &Counts) -> u64 {
    counts
        .iter()
        .filter(|((verb, _), _)| !matches!(verb.as_str(), "get" | "list" | "watch"))
        .map(|(_, n)| n)
        .sum()
}

/// A bounded log with counts that go on.
#[derive(Debug, Clone)]
pub struct RequestLog {
    limit: usize,
    entries: VecDeque<Logged>,
    counts: Counts,
    /// How many entries there ever were; clearing does not change it.
    recorded: u64,
    /// How many there were when the log was last cleared.
    cleared: u64,
}

impl RequestLog {
    /// Remembers at most `limit` requests.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            entries: VecDeque::new(),
            counts: Counts::new(),
            recorded: 0,
            cleared: 0,
        }
    }

    pub(crate) fn record(&mut self, mut entry: Logged) {
        // Documents are not counted one by one: their paths are the client's.
        if !entry.resource.starts_with('/') {
            // The entry lends its words for the search, so that nothing is copied
            // for a pair that is known.
            let key = (mem::take(&mut entry.verb), mem::take(&mut entry.resource));
            if let Some(count) = self.counts.get_mut(&key) {
                *count += 1;
            } else if self.counts.len() < MOST_COUNTS {
                self.counts.insert(key.clone(), 1);
            }
            (entry.verb, entry.resource) = key;
        }
        self.recorded += 1;
        if self.limit == 0 {
            return;
        }
        while self.entries.len() >= self.limit {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// The last requests, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Logged> {
        self.entries.iter()
    }

    /// How many requests there were, by verb and resource.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many requests there were with that verb on that resource
    /// (`("patch", "things.x.io/status")`).
    pub fn count(&self, verb: &str, resource: &str) -> u64 {
        count(&self.counts, verb, resource)
    }

    /// This moment, to ask later what came [`since`](Self::since).
    pub fn mark(&self) -> Mark {
        Mark {
            recorded: self.recorded,
            counts: self.counts.clone(),
        }
    }

    /// What was asked since a mark. The counts are exact, however many requests
    /// there were, unless the log was cleared in between: then they are those
    /// since it was.
    pub fn since(&self, mark: &Mark) -> Since {
        let new = self.recorded.saturating_sub(mark.recorded);
        let new = usize::try_from(new).unwrap_or(usize::MAX);
        let skipped = self.entries.len().saturating_sub(new);
        let was = |key| mark.counts.get(key).copied().unwrap_or_default();
        let fresh = mark.recorded < self.cleared;
        let counts = self.counts.iter().map(|(key, n)| {
            let before = if fresh { 0 } else { was(key) };
            (key.clone(), n.saturating_sub(before))
        });
        Since {
            entries: self.entries.iter().skip(skipped).cloned().collect(),
            counts: counts.filter(|(_, n)| *n > 0).collect(),
        }
    }

    /// How many requests could have changed something.
    pub fn writes(&self) -> u64 {
        writes(&self.counts)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.counts.clear();
        self.cleared = self.recorded;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(verb: &str) -> Logged {
        Logged {
            verb: verb.into(),
            resource: "pods".into(),
            namespace: String::new(),
            name: String::new(),
            user: String::new(),
            user_agent: String::new(),
            code: 200,
        }
    }

    #[test]
    fn the_log_is_bounded_and_the_counts_are_not() {
        let mut log = RequestLog::new(2);
        for verb in ["get", "patch", "patch"] {
            log.record(entry(verb));
        }
        assert_eq!(log.entries().count(), 2);
        assert_eq!(log.counts()[&("patch".into(), "pods".into())], 2);
        assert_eq!(log.writes(), 2);
    }

    #[test]
    fn what_came_since_a_mark_is_counted_however_much_was_forgotten() {
        let mut log = RequestLog::new(2);
        log.record(entry("patch"));
        let mark = log.mark();
        for verb in ["get", "patch", "patch", "patch"] {
            log.record(entry(verb));
        }
        let since = log.since(&mark);
        assert_eq!((since.count("patch", "pods"), since.writes()), (3, 3));
        assert_eq!(since.entries.len(), 2);
        assert_eq!(since.to_string(), "get pods: 1\npatch pods: 3\n");
        assert_eq!(log.since(&log.mark()).to_string(), "");
        log.clear();
        log.record(entry("patch"));
        assert_eq!(log.since(&mark).writes(), 1);
    }
}
