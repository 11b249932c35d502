//! What the load notices, and when.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// What somebody noticed.
#[derive(Clone, Debug)]
pub enum What {
    /// A request was answered, or not: before the client tried again.
    Attempt { is_good: bool },
    /// A request with all that the client tried.
    Request { is_good: bool, took: Duration },
    /// An SSH login with a command.
    Login { is_good: bool },
    /// A long session was cut.
    Cut,
    /// It was opened anew, so long after.
    Reopened(Duration),
    /// An echo came so long after the one before.
    Echo(Duration),
    /// A stream of news broke off.
    StreamCut,
    /// It was opened anew and told everything, so long after.
    StreamBack(Duration),
    /// What must never be.
    Wrong(String),
}

/// All that was noticed; clones are the same.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<(Instant, What)>>>);

impl Notes {
    pub fn note(&self, what: What) {
        self.0.lock().unwrap().push((Instant::now(), what));
    }

    /// What was noticed since `start`.
    pub fn since(&self, start: Instant) -> Vec<(Instant, What)> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|it| it.0 >= start).cloned().collect()
    }

    /// All that must never be.
    pub fn wrong(&self) -> Vec<String> {
        let all = self.0.lock().unwrap();
        let wrong = all.iter().filter_map(|it| match &it.1 {
            What::Wrong(text) => Some(text.clone()),
            _ => None,
        });
        wrong.collect()
    }
}
