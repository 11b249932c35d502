//! The route table: five kinds of objects in, one route per login name out. Four are
//! watched; of the fifth, Secrets, the table says which it wants.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kite_core::crd::{
    KitePlatform, KiteUser, KiteVirtualMachine, PowerState, SshLogin, VmPhase, vm_condition,
};
use kite_core::versions::as_option;
use kite_core::{labels, names};
use kube::ResourceExt;
use kube::runtime::watcher::Event;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::keys::{Trusted, VmKeys, public_keys, vm_keys};
use super::mirror::{Groups, Mirror};
use super::wanted::{Reading, Wanted};
use crate::route::{Credential, LoginName, LoginRule, Route, Routes, Target, VmKey, VmState};

/// What the names of access Services start with, see [`names::access_service`].
const ACCESS_PREFIX: &str = "vps-access-";
/// Name of the access Service's port.
const SSH_PORT: &str = "ssh";

type Claims = HashMap<String, BTreeMap<VmKey, Arc<Route>>>;
/// Addresses by VM and the slice's name.
type Slices = Mirror<(VmKey, String), Vec<SocketAddr>>;

#[derive(Default)]
struct Objects {
    vms: Mirror<VmKey, KiteVirtualMachine>,
    users: Mirror<String, KiteUser>,
    keys: HashMap<VmKey, VmKeys>,
    wanted: Wanted,
    slices: Slices,
    /// The VMs of each namespace.
    by_namespace: Groups<String, VmKey>,
    /// The names of each VM's slices.
    by_vm: Groups<VmKey, String>,
    /// Which authorities vouch for users.
    platform: Mirror<(), Vec<Trusted>>,
    /// The login name under which each VM's route stands now.
    logins: HashMap<VmKey, String>,
}

impl Objects {
    /// Wants the keys of the VM of this name as soon as it may have a route, and knows
    /// none of an earlier one.
    fn want_keys(&mut self, key: &VmKey) {
        let vm = self.vms.get(key);
        let uid = vm.and_then(|vm| vm.metadata.uid.as_deref());
        let has_access = |vm: &&KiteVirtualMachine| {
            vm.status
                .as_ref()
                .is_some_and(|status| status.access.is_some())
        };
        let uid = vm.filter(has_access).and(uid);
        if self.wanted.set(key, uid) {
            self.keys.remove(key);
        }
    }
}

/// Routes of all VMs of a cluster. Clones share the table.
#[derive(Clone)]
pub struct RouteTable {
    objects: Arc<Mutex<Objects>>,
    /// By login name; of several VMs that claim one, the first by key has it.
    /// The controller's reservations see to it that there is one.
    routes: Arc<RwLock<Claims>>,
    wants: Arc<Notify>,
    ready: Arc<watch::Sender<bool>>,
}

impl Default for RouteTable {
    fn default() -> Self {
        Self {
            objects: Arc::default(),
            routes: Arc::default(),
            wants: Arc::default(),
            ready: Arc::new(watch::Sender::new(false)),
        }
    }
}

impl Routes for RouteTable {
    fn find(&self, login: &LoginName) -> Option<Arc<Route>> {
        let routes = self.routes.read();
        routes.get(login.as_str())?.values().next().cloned()
    }

    fn doubt(&self, route: &Route) {
        if self.objects.lock().wanted.doubt(&route.vm, &route.uid) {
            self.wants.notify_one();
        }
    }
}

impl RouteTable {
    /// Takes an event of the watch of `KiteVirtualMachine`s.
    pub fn vm(&self, event: Event<KiteVirtualMachine>) {
        let mut objects = self.objects.lock();
        let changed = objects
            .vms
            .apply(event, |vm| Some((key_of(&vm)?, Some(vm))));
        for key in &changed {
            let there = objects.vms.get(key).is_some();
            objects.by_namespace.set(&key.namespace, key, there);
            objects.want_keys(key);
        }
        self.rebuild(&mut objects, changed);
        self.wants.notify_one();
    }

    /// Takes an event of the watch of `KiteUser`s.
    pub fn user(&self, event: Event<KiteUser>) {
        let mut objects = self.objects.lock();
        let changed = objects
            .users
            .apply(event, |user| Some((user.name_any(), Some(user))));
        let changed = changed
            .iter()
            .flat_map(|user| objects.by_namespace.of(&names::user_namespace(user)))
            .cloned()
            .collect();
        self.rebuild(&mut objects, changed);
    }

    /// Takes an event of the watch of the `KitePlatform`.
    pub fn platform(&self, event: Event<KitePlatform>) {
        let mut objects = self.objects.lock();
        let before = objects.platform.get(&()).cloned();
        objects.platform.apply(event, |platform| {
            let gateway = &platform.spec.gateway;
            let trusted = Trusted::all(&gateway.user_authorities);
            (platform.name_any() == names::PLATFORM).then_some(((), Some(trusted)))
        });
        // Most of its events are about other things.
        let all = if objects.platform.get(&()) == before.as_ref() {
            Vec::new()
        } else {
            objects.logins.keys().cloned().collect()
        };
        self.rebuild(&mut objects, all);
    }

    /// Takes in what came of reading a VM's key Secret.
    pub(super) fn key_secret(
        &self,
        vm: &VmKey,
        uid: &str,
        secret: Result<Option<Secret>, String>,
        now: Instant,
    ) {
        let (keys, reading) = match secret {
            Ok(Some(secret)) if labelled(&secret).as_ref() == Some(vm) => {
                let keys = vm_keys(&secret);
                let is_usable = keys.is_ok();
                (
                    keys,
                    if is_usable {
                        Reading::Done
                    } else {
                        Reading::None
                    },
                )
            }
            Ok(Some(_)) => (
                Err("it is not labelled as the VM's".to_owned()),
                Reading::None,
            ),
            Ok(None) => (Err("it is not there".to_owned()), Reading::None),
            Err(error) => (Err(error), Reading::Failed),
        };
        let mut objects = self.objects.lock();
        if !objects.wanted.done(vm, uid, reading, now) {
            return;
        }
        match keys {
            Ok(keys) => {
                objects.keys.insert(vm.clone(), keys);
            }
            // What was known stays.
            Err(error) => tracing::warn!(%vm, error, "a VM's key Secret cannot be used"),
        }
        self.rebuild(&mut objects, vec![vm.clone()]);
    }

    /// At most `most` VMs whose keys are to be read now, each with its uid.
    pub(super) fn keys_due(&self, most: usize, now: Instant) -> Vec<(VmKey, String)> {
        self.objects.lock().wanted.due(most, now)
    }

    /// When keys are to be read that are not yet.
    pub(super) fn next_keys(&self) -> Option<Instant> {
        self.objects.lock().wanted.next()
    }

    /// Waits until other keys are wanted.
    pub(super) async fn keys_wanted(&self) {
        self.wants.notified().await;
    }

    /// Takes an event of the watch of access Services' `EndpointSlices`.
    pub fn slice(&self, event: Event<EndpointSlice>) {
        let mut objects = self.objects.lock();
        let changed = objects.slices.apply(event, |slice| {
            let namespace = slice.namespace()?;
            let service = slice.labels().get(labels::SERVICE_NAME)?;
            let name = service.strip_prefix(ACCESS_PREFIX)?.to_owned();
            let vm = VmKey { namespace, name };
            Some(((vm, slice.name_any()), Some(addresses(&slice))))
        });
        for key in &changed {
            let there = objects.slices.get(key).is_some();
            objects.by_vm.set(&key.0, &key.1, there);
        }
        let changed = changed.into_iter().map(|(vm, _)| vm).collect();
        self.rebuild(&mut objects, changed);
    }

    /// Whether the machine is one that is switched off when nobody uses it.
    pub(super) fn stops_when_idle(&self, vm: &VmKey, uid: &str) -> bool {
        let objects = self.objects.lock();
        objects.vms.get(vm).is_some_and(|vm| {
            vm.spec.idle_timeout.is_some() && vm.metadata.uid.as_deref() == Some(uid)
        })
    }

    /// The route of a VM, if it has one.
    pub fn of_vm(&self, vm: &VmKey) -> Option<Arc<Route>> {
        let login = self.objects.lock().logins.get(vm).cloned()?;
        self.routes.read().get(&login)?.get(vm).cloned()
    }

    /// Waits until every kind of object was listed once, and the keys of the VMs in
    /// these lists were asked for; a minute at most for keys that nothing is said of.
    pub async fn ready(&self) {
        let mut ready = self.ready.subscribe();
        // The sender lives as long as this table.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// Whether it is as [`ready`](Self::ready) says.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// How many login names lead somewhere.
    pub fn len(&self) -> usize {
        self.routes.read().len()
    }

    /// Whether no login name leads anywhere.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn rebuild(&self, objects: &mut Objects, changed: Vec<VmKey>) {
        for key in changed {
            let route = route(objects, &key);
            let mut routes = self.routes.write();
            let login = route.as_ref().map(|(login, _)| login.clone());
            let before = match &login {
                Some(login) => objects.logins.insert(key.clone(), login.clone()),
                None => objects.logins.remove(&key),
            };
            if let Some(before) = before.filter(|before| Some(before) != login.as_ref())
                && let Some(claims) = routes.get_mut(&before)
            {
                claims.remove(&key);
                if claims.is_empty() {
                    routes.remove(&before);
                }
            }
            if let Some((login, route)) = route {
                routes
                    .entry(login)
                    .or_default()
                    .insert(key, Arc::new(route));
            }
        }
        let all = objects.vms.is_ready()
            && objects.users.is_ready()
            && objects.wanted.all_tried()
            && objects.slices.is_ready()
            && objects.platform.is_ready();
        if all {
            self.ready
                .send_if_modified(|ready| !std::mem::replace(ready, true));
        }
    }
}

fn key_of(object: &impl ResourceExt) -> Option<VmKey> {
    Some(VmKey {
        namespace: object.namespace()?,
        name: object.name_any(),
    })
}

/// The VM that an object's labels name, which must be of its own namespace:
/// nobody may hand keys to a VM of another namespace.
fn labelled(object: &impl ResourceExt) -> Option<VmKey> {
    let namespace = object.namespace()?;
    let name = object.labels().get(labels::VM_NAME)?.clone();
    (object.labels().get(labels::VM_NAMESPACE) == Some(&namespace))
        .then_some(VmKey { namespace, name })
}

/// The addresses of a slice's endpoints that are ready.
fn addresses(slice: &EndpointSlice) -> Vec<SocketAddr> {
    let ports = slice.ports.as_deref().unwrap_or_default();
    let port = ports
        .iter()
        .find(|port| port.name.as_deref() == Some(SSH_PORT))
        .or(ports.first())
        .and_then(|port| u16::try_from(port.port?).ok());
    let Some(port) = port else {
        return Vec::new();
    };
    as_option::<Vec<Endpoint>, _>(&slice.endpoints)
        .into_iter()
        .flatten()
        .filter(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            conditions.and_then(|c| c.ready).unwrap_or(true)
        })
        .flat_map(|endpoint| &endpoint.addresses)
        .filter_map(|address| address.parse::<IpAddr>().ok())
        .map(|address| SocketAddr::new(address, port))
        .collect()
}

/// The route of a VM, if it may have one: only once its login name is reserved
/// for it, which the controller says by setting `status.access`.
fn route(objects: &Objects, key: &VmKey) -> Option<(String, Route)> {
    let vm = objects.vms.get(key)?;
    vm.status.as_ref()?.access.as_ref()?;
    // Nobody can say who may log in to it.
    if vm.spec.unreadable.is_some() {
        return None;
    }
    let owner = names::user_of_namespace(&key.namespace);
    let user = owner.and_then(|owner| objects.users.get(&owner.to_owned()));
    let suspended = user.is_some_and(|user| !user.spec.may_come_in());
    let mut addresses: Vec<SocketAddr> = objects
        .by_vm
        .of(key)
        .filter_map(|name| objects.slices.get(&(key.clone(), name.clone())))
        .flatten()
        .copied()
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    let mut authorized_keys = public_keys(&vm.spec.ssh_public_keys);
    if let Some(user) = user {
        authorized_keys.extend(public_keys(&user.spec.ssh_public_keys));
    }
    let trusted = objects.platform.get(&()).filter(|_| !suspended);
    let account = owner.filter(|_| user.is_some());
    let authorities = trusted
        .into_iter()
        .flatten()
        .filter_map(|it| it.of_vm(account, &vm.spec.ssh_id))
        .collect();
    let state = state(vm, !addresses.is_empty());
    let route = Route {
        vm: key.clone(),
        uid: vm.uid().unwrap_or_default(),
        owner: owner.map(str::to_owned),
        state,
        start_on_connect: vm.spec.start_on_connect,
        rule: match vm.spec.ssh_login {
            SshLogin::KeyOrPassword => LoginRule::KeyOrPassword,
            SshLogin::KeyAndPassword => LoginRule::KeyAndPassword,
        },
        target: objects.keys.get(key).map(|keys| Target {
            addresses,
            user: vm.spec.ssh_id.clone(),
            credential: Credential::Key(Arc::clone(&keys.client)),
            host_key: keys.host.clone(),
        }),
        password: vm.spec.ssh_password_hash.clone().filter(|_| !suspended),
        authorized_keys: if suspended {
            Vec::new()
        } else {
            authorized_keys
        },
        authorities,
    };
    Some((vm.spec.ssh_id.clone(), route))
}

/// What the owner is told about a VM that cannot be entered. An address of a
/// ready endpoint is better evidence that it runs than a status which a stopped
/// controller may have left behind.
fn state(vm: &KiteVirtualMachine, has_address: bool) -> VmState {
    let name = vm.name_any();
    let namespace = vm.namespace().unwrap_or_default();
    if vm.metadata.deletion_timestamp.is_some() {
        return VmState::Unavailable("it is being deleted".to_owned());
    }
    if vm.spec.power_state == PowerState::Off {
        return VmState::Stopped(format!(
            "it is switched off; switch it on in the web page, or with: kubectl -n {namespace} \
             patch ktvm {name} --type merge -p '{{\"spec\":{{\"powerState\":\"On\"}}}}'"
        ));
    }
    if has_address {
        return VmState::Running;
    }
    let status = vm.status.as_ref();
    if status.is_some_and(|status| status.expiry.is_some())
        && let Some(why) = ready_message(vm)
    {
        return VmState::Unavailable(why.to_owned());
    }
    if status.is_some_and(|status| status.idle.is_some()) {
        // Who reads this has logged in, which is what starts it.
        return VmState::Starting("it was off as nobody used it, and is started".to_owned());
    }
    VmState::Starting(match status.and_then(|s| s.phase) {
        Some(VmPhase::Provisioning) => {
            let progress = status
                .and_then(|s| s.disk.as_ref())
                .and_then(|disk| disk.progress.clone());
            let progress = progress.map(|p| format!(" ({p})")).unwrap_or_default();
            format!("its disk is being made{progress}")
        }
        Some(VmPhase::Failed) => {
            let message = ready_message(vm);
            let message = message.map(|it| format!(": {it}")).unwrap_or_default();
            return VmState::Unavailable(format!("it needs attention{message}"));
        }
        Some(VmPhase::Paused) => return VmState::Unavailable("it is paused".to_owned()),
        Some(VmPhase::Stopping | VmPhase::Stopped | VmPhase::Deleting) => {
            "it is not running, and will be started again".to_owned()
        }
        Some(VmPhase::Running | VmPhase::Migrating) => {
            "it runs but its address is not known yet".to_owned()
        }
        Some(VmPhase::Pending | VmPhase::Starting) | None => "it is starting".to_owned(),
    })
}

/// What the controller says of the VM as a whole.
fn ready_message(vm: &KiteVirtualMachine) -> Option<&str> {
    let conditions = &vm.status.as_ref()?.conditions;
    let ready = conditions.iter().find(|it| it.type_ == vm_condition::READY);
    ready.map(|ready| ready.message.as_str())
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
