//! [`Store`]: the cluster as an application's handlers write to it.

use kite_core::cluster::FieldManager;
use tokio::sync::Semaphore;

use crate::audit::Audited;

/// Wrong bodies that are shown to the API server at a time.
const TRIALS: usize = 8;

/// The cluster as an application's handlers write to it, and as whom they do.
#[derive(Debug)]
pub struct Store {
    cluster: Audited,
    manager: FieldManager,
    trials: Semaphore,
}

impl Store {
    /// Writes to `cluster` as `manager`.
    pub fn new(cluster: Audited, manager: FieldManager) -> Self {
        Self {
            cluster,
            manager,
            trials: Semaphore::new(TRIALS),
        }
    }

    /// The cluster: what is written is noted for the audit log.
    pub fn cluster(&self) -> &Audited {
        &self.cluster
    }

    /// As whom fields are owned.
    pub fn manager(&self) -> FieldManager {
        self.manager
    }

    /// Places for bodies that are shown to the API server.
    pub(crate) fn trials(&self) -> &Semaphore {
        &self.trials
    }
}
