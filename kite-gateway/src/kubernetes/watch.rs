//! The watches that keep the route table.

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kite_core::cluster::{Lenient, Object, Unread};
use kite_core::crd::{
    KitePlatform, KitePlatformSpec, KiteUser, KiteUserSpec, KiteVirtualMachine,
    KiteVirtualMachineSpec,
};
use kite_core::quantity::Bytes;
use kite_core::{labels, names, watch_backoff::WatchBackoff};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::infrastructure;
use super::table::RouteTable;
use crate::route::VmKey;
use crate::standing::Infrastructure;

/// Pause after a watch failed beyond what `kube` itself retries.
const PAUSE: Duration = Duration::from_secs(1);
/// How long it may take to read one VM's keys.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many VMs' keys are read at a time.
const PARALLEL: usize = 16;

/// Keeps `table` by watches through `client` until `shutdown`. Of `EndpointSlices` only
/// those that Kite labelled are asked for, and of Secrets those with VMs' keys, each by
/// its name.
///
/// The platform tells of authorities that vouch for users, and of addresses that lie between
/// clients and the gateway, which go to `infrastructure`. It is not watched where that is
/// `None`: where nobody logs in by the table, as before terminals in a browser.
pub async fn watch_routes(
    client: Client,
    table: RouteTable,
    infrastructure: Option<Infrastructure>,
    shutdown: CancellationToken,
) {
    let selector = |component: &str| {
        watcher::Config::default().labels(&format!("{}={component}", labels::COMPONENT))
    };
    let everything = watcher::Config::default;
    // One that cannot be read must not end the watch of all others.
    let vms = Api::<Lenient<KiteVirtualMachine>>::all(client.clone());
    let vms = watcher(vms, everything()).map_ok(|event| readable(event, closed_vm));
    let users = Api::<Lenient<KiteUser>>::all(client.clone());
    let users = watcher(users, everything()).map_ok(|event| readable(event, closed_account));
    let slices = watcher(
        Api::<EndpointSlice>::all(client.clone()),
        selector(labels::COMPONENT_ACCESS),
    );
    let only = everything().fields(&format!("metadata.name={}", names::PLATFORM));
    let platforms = watcher(Api::<Lenient<KitePlatform>>::all(client.clone()), only);
    let platforms = platforms.map_ok(|event| readable(event, closed_platform));
    let platform = async {
        let Some(infrastructure) = infrastructure else {
            table.platform(Event::InitDone);
            return;
        };
        let platforms = platforms.backoff(WatchBackoff::default());
        let take = |event| {
            infrastructure::take(&infrastructure, &event);
            table.platform(event);
        };
        feed("KitePlatform", platforms, take).await;
    };
    let feeding = async {
        tokio::join!(
            platform,
            feed(
                "KiteVirtualMachine",
                vms.backoff(WatchBackoff::default()),
                |e| table.vm(e)
            ),
            feed("KiteUser", users.backoff(WatchBackoff::default()), |e| {
                table.user(e);
            }),
            feed(
                "EndpointSlice",
                slices.backoff(WatchBackoff::default()),
                |e| table.slice(e)
            ),
            read_keys(&client, &table),
        )
    };
    tokio::select! {
        _ = feeding => {}
        () = shutdown.cancelled() => {}
    }
}

/// The event, with `closed` in place of what cannot be read.
fn readable<K: Object>(event: Event<Lenient<K>>, closed: fn(&Unread) -> K) -> Event<K> {
    let read = |object| match object {
        Lenient::Read(object) => *object,
        Lenient::Unreadable(unread) => {
            tracing::error!(kind = %K::kind(&()), %unread, "nobody is let in by it");
            closed(&unread)
        }
    };
    match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(read(object)),
        Event::Apply(object) => Event::Apply(read(object)),
        Event::Delete(object) => Event::Delete(read(object)),
    }
}

/// A VM to which nothing leads: it has no login name of its own.
fn closed_vm(unread: &Unread) -> KiteVirtualMachine {
    let spec = KiteVirtualMachineSpec::new(1, Bytes::from_gib(1), Bytes::from_gib(1), "", "");
    KiteVirtualMachine {
        metadata: unread.meta.clone(),
        spec,
        status: None,
    }
}

/// An account that opens nothing.
fn closed_account(unread: &Unread) -> KiteUser {
    let name = unread.meta.name.clone().unwrap_or_default();
    let mut user = KiteUser::new(&name, KiteUserSpec::new(&name));
    user.metadata = unread.meta.clone();
    user.spec.suspended = true;
    user
}

/// A platform that vouches for nobody, and tells of no addresses.
fn closed_platform(unread: &Unread) -> KitePlatform {
    KitePlatform {
        metadata: unread.meta.clone(),
        spec: KitePlatformSpec::closed(&unread.why),
        status: None,
    }
}

/// Reads the keys that the table wants, as long as the future is polled.
async fn read_keys(client: &Client, table: &RouteTable) {
    let mut reading = FuturesUnordered::new();
    loop {
        let free = PARALLEL.saturating_sub(reading.len());
        for (vm, uid) in table.keys_due(free, Instant::now()) {
            reading.push(read_key(client.clone(), vm, uid));
        }
        let next = table.next_keys();
        tokio::select! {
            Some((vm, uid, secret)) = reading.next() => {
                table.key_secret(&vm, &uid, secret, Instant::now());
            }
            () = table.keys_wanted() => {}
            () = at(next), if reading.len() < PARALLEL => {}
        }
    }
}

/// Waits for that time; for ever if there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Reads one VM's key Secret, if there is one.
async fn read_key(
    client: Client,
    vm: VmKey,
    uid: String,
) -> (VmKey, String, Result<Option<Secret>, String>) {
    let secrets = Api::<Secret>::namespaced(client, &vm.namespace);
    let name = names::ssh_key_secret(&vm.name);
    let read = match tokio::time::timeout(PATIENCE, secrets.get_opt(&name)).await {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err("the cluster does not answer".to_owned()),
    };
    (vm, uid, read)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn event<K: Object>(object: serde_json::Value) -> Event<Lenient<K>> {
        Event::Apply(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn what_cannot_be_read_is_closed_and_keeps_its_name() {
        let metadata = json!({"name": "web", "namespace": "kite-user-ann"});
        let mut odd = json!({"metadata": metadata, "spec": "what", "status": {"access": {}}});
        let Event::Apply(vm) = readable(event(odd.clone()), closed_vm) else {
            unreachable!()
        };
        assert_eq!(vm.metadata.name.as_deref(), Some("web"));
        // Nothing leads to it by that, nor by what can be read of its status.
        assert!(vm.spec.unreadable.is_some());
        assert!(vm.status.is_none_or(|status| status.access.is_none()));
        odd["metadata"]["annotations"] = json!("none");
        let Event::Apply(vm) = readable(event(odd), closed_vm) else {
            unreachable!()
        };
        assert_eq!(vm.metadata.name.as_deref(), Some("web"));
        assert_eq!(vm.metadata.namespace.as_deref(), Some("kite-user-ann"));
        assert!(vm.status.is_none());
        let odd = json!({"metadata": {"name": "ann"}, "spec": []});
        let platform = json!({"metadata": {"name": "default", "annotations": "none"}});
        let Event::Apply(platform) = readable(event(platform), closed_platform) else {
            unreachable!()
        };
        assert_eq!(platform.metadata.name.as_deref(), Some("default"));
        assert!(platform.spec.gateway.user_authorities.is_empty() && platform.status.is_none());
        let Event::Apply(user) = readable(event(odd), closed_account) else {
            unreachable!()
        };
        assert!(!user.spec.may_come_in());
        let sound = json!({"metadata": {"name": "ann"}, "spec": {"username": "ann"}});
        let Event::Apply(user) = readable(event::<KiteUser>(sound), closed_account) else {
            unreachable!()
        };
        assert!(user.spec.may_come_in());
    }
}
