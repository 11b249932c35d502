//! An axum router on a socket, until a token ends it.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How long requests that are under way get after the end was asked for.
const GRACE: Duration = Duration::from_secs(1);

/// Serves `router` on `listener` until `shutdown`, then lets the requests that
/// are under way finish for a moment. Idle and streaming connections are cut.
pub async fn serve_http(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let serving = axum::serve(listener, service)
        .with_graceful_shutdown(shutdown.clone().cancelled_owned())
        .into_future();
    let cut = async {
        shutdown.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        result = serving => result.context("the HTTP server failed"),
        () = cut => Ok(()),
    }
}
