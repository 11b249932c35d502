//! Starting machines that are switched off, when somebody logs in to them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::route::{Route, VmKey};

/// How soon a machine may be asked to start again: a login may open many channels at
/// once, and each of them finds it off.
const ASK_AGAIN: Duration = Duration::from_secs(15);

/// Starts machines.
#[async_trait]
pub trait Starter: Send + Sync + 'static {
    /// Asks for a machine to be started. It need not run when this returns: whether
    /// it does is said by its route.
    ///
    /// # Errors
    ///
    /// Why it is not started, for its owner to read.
    async fn start(&self, route: &Route) -> Result<(), String>;
}

/// What was started lately.
pub(crate) struct Starts {
    starter: Option<Arc<dyn Starter>>,
    asked: Mutex<HashMap<(VmKey, String), Instant>>,
}

impl Starts {
    pub(crate) fn new(starter: Option<Arc<dyn Starter>>) -> Self {
        Self {
            starter,
            asked: Mutex::default(),
        }
    }

    /// Has the machine started, unless that was asked for just now.
    pub(crate) async fn start(&self, route: &Route) -> Result<(), String> {
        let Some(starter) = &self.starter else {
            return Err("this gateway starts no machines".to_owned());
        };
        let machine = (route.vm.clone(), route.uid.clone());
        let now = Instant::now();
        {
            let mut asked = self.asked.lock();
            asked.retain(|_, at| now.duration_since(*at) < ASK_AGAIN);
            if asked.contains_key(&machine) {
                return Ok(());
            }
            asked.insert(machine.clone(), now);
        }
        let outcome = starter.start(route).await;
        if outcome.is_err() {
            self.asked.lock().remove(&machine);
        }
        outcome
    }
}
