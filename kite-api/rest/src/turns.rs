//! [`Turns`]: of requests that create the same thing, one at a time.
//!
//! An API server reckons with an object before it finds that there is one of its name
//! already, and a quota counts what was not created until somebody counts anew. So
//! whoever asks for the same at the same time waits, and sees what came of it.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use kite_core::cluster::ObjectKey;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Who creates what at the moment.
#[derive(Debug, Default)]
pub struct Turns(Mutex<HashMap<ObjectKey, Weak<AsyncMutex<()>>>>);

/// While this lives nobody else creates the same.
#[derive(Debug)]
pub struct Turn {
    _guard: OwnedMutexGuard<()>,
}

impl Turns {
    /// Waits until nobody else creates `key`.
    pub async fn of(&self, key: &ObjectKey) -> Turn {
        let mutex = {
            let mut all = self.0.lock();
            // Of those who are done nothing is kept.
            all.retain(|_, mutex| mutex.strong_count() > 0);
            let known = all.get(key).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let mutex = Arc::new(AsyncMutex::new(()));
                all.insert(key.clone(), Arc::downgrade(&mutex));
                mutex
            })
        };
        Turn {
            _guard: mutex.lock_owned().await,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_for_each_thing() {
        let turns = Turns::default();
        let (web, db) = (ObjectKey::cluster("web"), ObjectKey::cluster("db"));
        let first = turns.of(&web).await;
        let _other = turns.of(&db).await;
        let soon = Duration::from_secs(1);
        assert!(tokio::time::timeout(soon, turns.of(&web)).await.is_err());
        drop(first);
        let again = tokio::time::timeout(soon, turns.of(&web)).await;
        drop(again.unwrap());
        drop(turns.of(&db));
        let _last = turns.of(&ObjectKey::cluster("last")).await;
        assert_eq!(turns.0.lock().len(), 2, "db, which is held, and the last");
    }
}
