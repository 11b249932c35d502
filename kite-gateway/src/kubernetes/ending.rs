//! How those that write into the cluster end with their process: soon, also while the
//! API server does not answer, and not without a try.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// How long what is under way may take when the process ends.
const GRACE: Duration = Duration::from_secs(2);
/// How long what is left may take after that.
pub(super) const LAST: Duration = Duration::from_secs(8);
/// How long one request of that may take: an answer that never comes leaves time for
/// others.
pub(super) const LAST_PATIENCE: Duration = Duration::from_secs(3);

/// Waits for `work`, which begins nothing more after `shutdown`. What is under way by
/// then is awaited for a moment, lest it is carried out after what follows it.
pub(super) async fn until(shutdown: &CancellationToken, work: impl Future<Output = ()>) {
    let too_late = async {
        shutdown.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        () = work => {}
        () = too_late => {}
    }
}
