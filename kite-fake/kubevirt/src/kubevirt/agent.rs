//! The agent on the node, which runs guests.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use kite_fake::actors::Gate;
use kite_fake::actors::HOST_PORTS;
use kite_fake::actors::References;
use kite_fake::actors::events;
use kite_fake::actors::kind::{Key, Kind, POD, SECRET, VOLUME, VOLUME_SNAPSHOT_CONTENT};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{Objects, ignore_missing, is_deleting, text, uid};
use kite_fake::actors::storage::{BROKEN, COPYING_FROM, FILLED_FROM, STILL, TAKEN, annotation};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::cloud_init::{self, UserData};
use super::conditions::find;
use super::guests::{Address, Guests, Machine};
use super::instances::is_over;
use super::{freezing, launcher, live_update, migratable, volumes};
use crate::kinds::INSTANCE;
use crate::stages;

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[INSTANCE, SECRET];

/// Plays virt-handler: boots the guest of an instance whose launcher Pod is
/// ready, tells its address, and shuts it down when the instance is deleted.
#[derive(Debug)]
pub struct NodeAgent {
    guests: Arc<dyn Guests>,
    /// Which instance, by uid, has a guest under which key.
    running: Mutex<HashMap<Key, String>>,
    /// Which instances read which Secrets.
    secrets: Mutex<References>,
    /// Launchers that keep file systems still, with their instances.
    still: Mutex<HashMap<Key, Key>>,
}

impl NodeAgent {
    /// Runs its guests by `guests`.
    pub fn new(guests: Arc<dyn Guests>) -> Self {
        Self {
            guests,
            running: Mutex::default(),
            secrets: Mutex::default(),
            still: Mutex::default(),
        }
    }
}

#[async_trait]
impl Actor for NodeAgent {
    fn name(&self) -> &'static str {
        "virt-handler"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![INSTANCE, SECRET, POD, VOLUME, VOLUME_SNAPSHOT_CONTENT])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        if [VOLUME, VOLUME_SNAPSHOT_CONTENT].contains(&change.kind) {
            self.see_disk(change);
            return Vec::new();
        }
        if change.kind == POD {
            return self.heed(change).into_iter().collect();
        }
        let key = change.key();
        let mut secrets = self.secrets.lock();
        if change.kind == SECRET {
            return secrets.to(&key);
        }
        let secret = cloud_init::secret(&change.object.data["spec"])
            .filter(|_| !change.gone)
            .map(|name| Key::new(&SECRET, key.namespace.as_deref(), name));
        secrets.set(&key, secret.into_iter().collect());
        vec![key]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let instance = objects.get(key).await?;
        let present = instance.as_deref().map(uid).unwrap_or_default();
        let stray = self
            .running
            .lock()
            .get(key)
            .filter(|id| *id != present)
            .cloned();
        if let Some(stray) = stray {
            self.halt(key, &stray).await;
        }
        let Some(instance) = &instance else {
            return Ok(Next::Done);
        };
        let host = Host {
            context,
            objects,
            key,
            instance,
        };
        let phase = text(instance, "/status/phase");
        match phase {
            "Scheduled" | "Running" | "Unknown" if is_deleting(instance) => {
                self.shut_down(&host).await
            }
            "Scheduled" => self.boot(&host).await,
            // After a restart of the actors the guest is not there.
            "Running" if !self.running.lock().contains_key(key) => self.boot(&host).await,
            "Running" | "Unknown" => {
                if self.is_still(key) || freezing::is_said(instance) {
                    let next = freezing::follow(context, objects, instance).await?;
                    if next != Next::Done {
                        return Ok(next);
                    }
                }
                host.look(phase).await
            }
            _ if is_over(phase) => {
                self.halt(key, present).await;
                Ok(Next::Done)
            }
            _ => Ok(Next::Done),
        }
    }

    async fn stop(&self) {
        let all: Vec<(Key, String)> = self.running.lock().drain().collect();
        for (_, id) in all {
            self.guests.halt(&id).await;
        }
    }
}

/// An instance on its node.
struct Host<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    key: &'a Key,
    instance: &'a DynamicObject,
}

impl NodeAgent {
    fn is_still(&self, instance: &Key) -> bool {
        self.still.lock().values().any(|it| it == instance)
    }

    /// The instance whose launcher keeps file systems still now, or did until now.
    fn heed(&self, change: &Change) -> Option<Key> {
        let labels = change.object.metadata.labels.as_ref()?;
        let name = labels.get("vm.kubevirt.io/name")?;
        let key = Key::new(&INSTANCE, change.object.metadata.namespace.as_deref(), name);
        let is_still = !change.gone && annotation(&change.object, STILL).is_some();
        let mut still = self.still.lock();
        let was = if is_still {
            still.insert(change.key(), key.clone())
        } else {
            still.remove(&change.key())
        };
        (is_still || was.is_some()).then_some(key)
    }

    /// What becomes of disks becomes of what guests have on them.
    fn see_disk(&self, change: &Change) {
        let object = &change.object;
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let disk = format!("{}/{name}", change.kind.plural);
        if change.gone {
            return self.guests.disk_gone(&disk);
        }
        if change.kind == VOLUME_SNAPSHOT_CONTENT {
            if annotation(object, TAKEN).is_some() {
                let of = text(object, "/spec/source/volumeHandle");
                let of = format!("{}/{of}", VOLUME.plural);
                self.guests.disk_kept(&of, &disk);
            }
            return;
        }
        let is_there = [COPYING_FROM, BROKEN]
            .iter()
            .all(|obstacle| annotation(object, obstacle).is_none());
        if let Some(source) = annotation(object, FILLED_FROM).filter(|_| is_there) {
            self.guests.disk_filled(source, &disk);
        }
    }

    async fn halt(&self, key: &Key, id: &str) {
        if self
            .running
            .lock()
            .get(key)
            .is_some_and(|running| running == id)
        {
            self.guests.halt(id).await;
            self.running.lock().remove(key);
        }
    }

    async fn boot(&self, host: &Host<'_>) -> Result<Next, ActorError> {
        match host.context.gate(stages::GUEST_BOOTED, host.instance, "") {
            Gate::Open => {}
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held => return Ok(Next::Held),
            Gate::Fail(failure) => {
                let words = ("False", failure.reason.as_str(), failure.message.as_str());
                host.over("Failed", words).await?;
                return Ok(Next::Done);
            }
        }
        let Some(pod) = host.pod().await? else {
            return Ok(Next::Done);
        };
        let Some(machine) = host.machine().await? else {
            // Its Secret is not there yet; its creation brings the instance back.
            return Ok(Next::Done);
        };
        let address = match self.guests.boot(machine).await {
            Ok(address) => address,
            Err(why) => {
                tracing::warn!(instance = %host.key, %why, "a guest does not boot");
                host.over("Failed", ("False", "GuestNotBooted", &why))
                    .await?;
                return Ok(Next::Done);
            }
        };
        let id = uid(host.instance).to_owned();
        self.running.lock().insert(host.key.clone(), id);
        if let Some(address) = &address {
            host.publish(&pod, address).await?;
        }
        let ip = address.map_or_else(
            || text(&pod, "/status/podIP").to_owned(),
            |address| address.ip.to_string(),
        );
        let new = host.running(&ip).await?;
        ignore_missing(host.objects.set_status(host.key, host.instance, new).await)?;
        if text(host.instance, "/status/phase") != "Running" {
            let said = events::normal("Started", "VirtualMachineInstance started.");
            host.event(said).await;
        }
        Ok(Next::Done)
    }

    async fn shut_down(&self, host: &Host<'_>) -> Result<Next, ActorError> {
        match host.context.gate(stages::GUEST_STOPPED, host.instance, "") {
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held => return Ok(Next::Held),
            Gate::Open | Gate::Fail(_) => {}
        }
        self.halt(host.key, uid(host.instance)).await;
        let words = (
            "False",
            "PodTerminating",
            "virt-launcher pod is terminating",
        );
        host.over("Succeeded", words).await?;
        Ok(Next::Done)
    }
}

impl Host<'_> {
    async fn pod(&self) -> Result<Option<Found>, ActorError> {
        freezing::launcher_of(self.objects, self.instance).await
    }

    /// Whether the agent still knows how the guest fares.
    async fn look(&self, phase: &str) -> Result<Next, ActorError> {
        let (seen, next) = match self.context.gate(stages::GUEST_SEEN, self.instance, "") {
            // Other rules may say otherwise.
            Gate::Open => ("Running", Next::Held),
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held => return Ok(Next::Held),
            Gate::Fail(_) => ("Unknown", Next::Held),
        };
        if seen != phase {
            let mut status = self.instance.data["status"].clone();
            status["phase"] = json!(seen);
            let written = self.objects.set_status(self.key, self.instance, status);
            ignore_missing(written.await)?;
        }
        Ok(next)
    }

    /// What the guest is made of; `None` while a Secret that it needs is missing.
    async fn machine(&self) -> Result<Option<Machine>, ActorError> {
        let spec = &self.instance.data["spec"];
        let namespace = self.key.namespace.as_deref();
        let volumes = volumes::observe(self.objects, spec, namespace).await?;
        let mut claims = volumes
            .iter()
            .filter_map(|v| v.storage.as_ref()?.claim.as_ref());
        let name = &self.key.name;
        let user_data = match cloud_init::user_data(self.objects, spec, namespace).await? {
            UserData::None => None,
            UserData::Text(text) => Some(text),
            UserData::Missing => return Ok(None),
        };
        Ok(Some(Machine {
            id: uid(self.instance).to_owned(),
            instance: format!("{}/{name}", self.key.space()),
            hostname: spec["hostname"].as_str().unwrap_or(name).to_owned(),
            user_data,
            disk: claims
                .next()
                .map(|claim| format!("{}/{}", VOLUME.plural, text(claim, "/spec/volumeName"))),
        }))
    }

    /// Writes where the guest really listens onto its Pod.
    async fn publish(&self, pod: &DynamicObject, address: &Address) -> Result<(), ActorError> {
        let key = Key::of(&POD, pod);
        let ports = address.ports.iter();
        let ports: Vec<String> = ports.map(|(of, at)| format!("{of}={at}")).collect();
        let patch = json!({"metadata": {"annotations": {HOST_PORTS: ports.join(",")}}});
        let pod = self.objects.merge(&key, None, patch).await?;
        let mut status = pod.data["status"].clone();
        status["podIP"] = json!(address.ip.to_string());
        status["podIPs"] = json!([{"ip": address.ip.to_string()}]);
        ignore_missing(self.objects.set_status(&key, &pod, status).await)
    }

    /// The status of an instance whose guest runs.
    async fn running(&self, ip: &str) -> Result<Value, ActorError> {
        let old = &self.instance.data["status"];
        let now = self.context.now();
        let mut status = old.clone();
        let spec = &self.instance.data["spec"];
        let namespace = self.key.namespace.as_deref();
        let volumes = volumes::observe(self.objects, spec, namespace).await?;
        let since = find(old, "Ready")
            .filter(|c| c["status"] == "True")
            .map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
        let connected =
            find(old, "AgentConnected").map_or_else(|| json!(now), |c| c["lastProbeTime"].clone());
        let mut conditions = Vec::new();
        conditions.extend(find(old, "DataVolumesReady").map(without_null_times));
        conditions.push(json!({"type": "Ready", "status": "True", "lastTransitionTime": since}));
        let annotations = self.instance.metadata.annotations.as_ref();
        let migratable = migratable::condition(spec, annotations, &volumes);
        if migratable["status"] == "True" {
            status["migrationMethod"] = json!("LiveMigration");
        }
        conditions.push(migratable);
        conditions.push(json!({
            "type": "AgentConnected",
            "status": "True",
            "lastProbeTime": connected,
        }));
        status["phase"] = json!("Running");
        status["conditions"] = json!(conditions);
        if old["currentCPUTopology"].is_null() {
            live_update::at_boot(spec, &mut status);
        }
        status["guestOSInfo"] =
            json!({"id": "debian", "name": "Debian GNU/Linux", "version": "12"});
        let interfaces = status.get_mut("interfaces").and_then(Value::as_array_mut);
        for (n, interface) in interfaces.into_iter().flatten().enumerate() {
            interface["infoSource"] = json!("domain, guest-agent");
            interface["mac"] = json!(mac(uid(self.instance), n));
            if n == 0 {
                interface["ipAddress"] = json!(ip);
                interface["ipAddresses"] = json!([ip]);
            }
        }
        Ok(status)
    }

    async fn event(&self, said: events::Said<'_>) {
        let about = (&INSTANCE, self.instance);
        events::tell(self.context, "virt-handler", about, said).await;
    }

    /// The instance has ended, and its launcher with it.
    async fn over(&self, phase: &str, ready: (&str, &str, &str)) -> Result<(), ActorError> {
        let mut status = self.instance.data["status"].clone();
        let now = self.context.now();
        let (word, reason, message) = ready;
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let mut conditions: Vec<Value> = conditions
            .into_iter()
            .filter(|c| c["type"] != "Ready")
            .collect();
        conditions.push(json!({
            "type": "Ready",
            "status": word,
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        }));
        status["phase"] = json!(phase);
        status["conditions"] = json!(conditions);
        ignore_missing(
            self.objects
                .set_status(self.key, self.instance, status)
                .await,
        )?;
        let said = if phase == "Failed" {
            events::warning("Stopped", "The VirtualMachineInstance crashed.")
        } else {
            events::normal("Stopped", "The VirtualMachineInstance was shut down.")
        };
        self.event(said).await;
        if let Some(pod) = self.pod().await? {
            let status = launcher::closed(&pod.data["status"], phase, &now);
            let key = Key::of(&POD, &pod);
            ignore_missing(self.objects.set_status(&key, &pod, status).await)?;
        }
        Ok(())
    }
}

fn without_null_times(condition: &Value) -> Value {
    let mut condition = condition.clone();
    if let Some(fields) = condition.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    condition
}

/// A hardware address that depends on nothing but the instance.
fn mac(id: &str, interface: usize) -> String {
    let digits: Vec<u8> = id.bytes().filter_map(hex).collect();
    let pair = |n: usize| {
        let digit = |n: usize| digits.get(n).copied().unwrap_or_default();
        digit(2 * n) << 4 | digit(2 * n + 1)
    };
    let last = pair(2).wrapping_add(u8::try_from(interface).unwrap_or_default());
    format!("52:54:00:{:02x}:{:02x}:{last:02x}", pair(0), pair(1))
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|d| u8::try_from(d).ok())
}
