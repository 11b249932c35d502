//! What was asked: the last requests, and counts of all.

use std::collections::{BTreeMap, VecDeque};

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// A bounded log with counts that go on.
#[derive(Debug, Clone)]
pub struct RequestLog {
    limit: usize,
    entries: VecDeque<Logged>,
    counts: BTreeMap<(String, String), u64>,
}

impl RequestLog {
    /// Remembers at most `limit` requests.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            entries: VecDeque::new(),
            counts: BTreeMap::new(),
        }
    }

    pub(crate) fn record(&mut self, entry: Logged) {
        // Documents are not counted one by one: their paths are the client's.
        if !entry.resource.starts_with('/') {
            let key = (entry.verb.clone(), entry.resource.clone());
            if self.counts.len() < MOST_COUNTS || self.counts.contains_key(&key) {
                *self.counts.entry(key).or_default() += 1;
            }
        }
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
    pub fn counts(&self) -> &BTreeMap<(String, String), u64> {
        &self.counts
    }

    /// How many requests could have changed something.
    pub fn writes(&self) -> u64 {
        self.counts
            .iter()
            .filter(|((verb, _), _)| !matches!(verb.as_str(), "get" | "list" | "watch"))
            .map(|(_, n)| n)
            .sum()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.counts.clear();
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
}
