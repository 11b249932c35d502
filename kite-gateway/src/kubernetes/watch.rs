//! The watches that keep the route table.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kite_core::crd::{KiteUser, KiteVirtualMachine};
use kite_core::labels;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use super::table::RouteTable;

/// Pause after a watch failed beyond what `kube` itself retries.
const PAUSE: Duration = Duration::from_secs(1);

/// Keeps `table` by watches through `client` until `shutdown`. Of Secrets and
/// `EndpointSlices` only those that Kite labelled are asked for.
pub async fn watch_routes(client: Client, table: RouteTable, shutdown: CancellationToken) {
    let selector = |component: &str| {
        watcher::Config::default().labels(&format!("{}={component}", labels::COMPONENT))
    };
    let everything = watcher::Config::default;
    let vms = watcher(Api::<KiteVirtualMachine>::all(client.clone()), everything());
    let users = watcher(Api::<KiteUser>::all(client.clone()), everything());
    let secrets = watcher(
        Api::<Secret>::all(client.clone()),
        selector(labels::COMPONENT_SSH_KEY),
    );
    let slices = watcher(
        Api::<EndpointSlice>::all(client),
        selector(labels::COMPONENT_ACCESS),
    );
    let feeding = async {
        tokio::join!(
            feed("KiteVirtualMachine", vms.default_backoff(), |e| table.vm(e)),
            feed("KiteUser", users.default_backoff(), |e| table.user(e)),
            feed("Secret", secrets.default_backoff(), |e| table.secret(e)),
            feed("EndpointSlice", slices.default_backoff(), |e| table
                .slice(e)),
        )
    };
    tokio::select! {
        _ = feeding => {}
        () = shutdown.cancelled() => {}
    }
}

/// Carries the events of one watch into the table until the stream ends. What
/// was known stays while a watch fails.
pub async fn feed<O: Debug>(
    kind: &str,
    stream: impl Stream<Item = Result<Event<O>, watcher::Error>>,
    take: impl Fn(Event<O>),
) {
    let mut stream = std::pin::pin!(stream);
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => take(event),
            Err(error) => {
                tracing::warn!(kind, %error, "a watch failed and is started again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
