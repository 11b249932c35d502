//! The statuses of Kite's kinds, as controllers report them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_cluster::conditions::ReportedStatus;

use super::{
    KiteImageStatus, KitePlatformStatus, KiteSnapshotStatus, KiteUserStatus,
    KiteVirtualMachineOfferStatus, KiteVirtualMachineStatus, KiteVolumeStatus, UnreadStatus,
};

macro_rules! statuses {
    ($($status:ty),* $(,)?) => { $(
        impl ReportedStatus for $status {
            fn conditions(&self) -> &[Condition] {
                &self.conditions
            }

            fn observed_generation(&self) -> Option<i64> {
                self.observed_generation
            }

            // What could not be read is gone then, if it is not kept.
            fn complete(self, conditions: Vec<Condition>, generation: Option<i64>) -> Self {
                let unread = self.unreadable.map(|unread| *unread);
                Self {
                    conditions,
                    observed_generation: generation,
                    unreadable: unread.and_then(UnreadStatus::rewritten).map(Box::new),
                    ..self
                }
            }
        }
    )* };
}

statuses!(
    KiteImageStatus,
    KitePlatformStatus,
    KiteUserStatus,
    KiteSnapshotStatus,
    KiteVirtualMachineOfferStatus,
    KiteVirtualMachineStatus,
    KiteVolumeStatus,
);
