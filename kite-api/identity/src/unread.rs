//! Settings of the platform that cannot be read.

use std::time::Duration;

use kite_core::{crd::KitePlatformSpec, names};
use kite_rest::{Problem, ProblemKind};

/// When to look again whether a setting was mended.
const MENDED_SOON: Duration = Duration::from_secs(30);

/// Refuses what rests on the setting `field` while that cannot be read.
///
/// # Errors
/// [`ProblemKind::Unavailable`] while the setting cannot be read.
pub fn require_read(spec: &KitePlatformSpec, field: &str) -> Result<(), Problem> {
    if !spec.is_unread(field) {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::Unavailable,
        format!(
            "the platform's setting {field} cannot be read, and nothing is done that rests on it: \
             an administrator of the cluster mends it with kubectl edit kiteplatform {}",
            names::PLATFORM
        ),
    )
    .retry_after(MENDED_SOON))
}
