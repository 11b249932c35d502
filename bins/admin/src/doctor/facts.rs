//! What a cluster says of itself.

use std::{collections::BTreeMap, net::IpAddr};

use http::header;
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        core::v1::{Namespace, Node, Pod, Service},
        networking::v1::IngressClass,
        rbac::v1::{Role, RoleBinding},
        storage::v1::StorageClass,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kite_core::{
    crd::{KiteImage, KitePlatform, KitePlatformSpec},
    names,
    volume_snapshot::VolumeSnapshotClass,
};
use kite_render::install::Process;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
    core::NamespaceResourceScope,
};
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    Aim,
    rights::{Answers, of_any},
};
use crate::causes::causes;

/// So many pods are looked at: their ranges are seen in them.
const PODS: u32 = 500;

const GATEWAY: (&str, &str, &str) = ("gateway.networking.k8s.io", "v1", "Gateway");

const VM: (&str, &str, &str) = (kite_core::crd::GROUP, "v1", "KiteVirtualMachine");

const USER: (&str, &str, &str) = (kite_core::crd::GROUP, "v1", "KiteUser");

const VOLUME: (&str, &str, &str) = (kite_core::crd::GROUP, "v1", "KiteVolume");

/// What became of a question to the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen<T> {
    /// The answer.
    Known(T),
    /// The kind is not served, or there is none of the name.
    Absent,
    /// Whoever asks may not know.
    Refused,
    /// There was no answer that could be understood.
    Failed(String),
}

impl<T> Seen<T> {
    /// The answer, if there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Absent | Self::Refused | Self::Failed(_) => None,
        }
    }

    fn of(result: Result<T, kube::Error>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(kube::Error::Api(status)) if status.code == 404 => Self::Absent,
            Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => Self::Refused,
            Err(error) => Self::Failed(causes(&error)),
        }
    }
}

/// What a name resolves to, or why to nothing.
pub type Resolved = Result<Vec<IpAddr>, String>;

/// What a cluster says of itself, and what names resolve to where this runs.
#[derive(Debug)]
pub struct Facts {
    /// `gitVersion` of the API server.
    pub version: Seen<String>,
    /// How far the API server's clock is ahead of this machine's, give or take a
    /// second. Absent where it does not say.
    pub ahead: Option<SignedDuration>,
    /// All definitions of custom resources.
    pub definitions: Seen<Vec<CustomResourceDefinition>>,
    /// `KubeVirt` objects: how it was installed.
    pub kubevirt: Seen<Vec<DynamicObject>>,
    /// `CDI` objects: how it was installed.
    pub cdi: Seen<Vec<DynamicObject>>,
    /// The nodes.
    pub nodes: Seen<Vec<Node>>,
    /// Pods, or as many of them as fit into an answer.
    pub pods: Seen<Vec<Pod>>,
    /// `DaemonSets`, among them the network plugin's.
    pub daemon_sets: Seen<Vec<DaemonSet>>,
    /// Classes of volumes.
    pub storage_classes: Seen<Vec<StorageClass>>,
    /// Classes of snapshots of volumes.
    pub snapshot_classes: Seen<Vec<VolumeSnapshotClass>>,
    /// What CDI knows of the `StorageClasses`.
    pub storage_profiles: Seen<Vec<DynamicObject>>,
    /// Classes of Ingresses.
    pub ingress_classes: Seen<Vec<IngressClass>>,
    /// Gateways of the Gateway API.
    pub gateways: Seen<Vec<DynamicObject>>,
    /// The Gateway that the platform names.
    pub gateway: Seen<DynamicObject>,
    /// The `ClusterIssuer` that the platform names.
    pub issuer: Seen<DynamicObject>,
    /// Kite's golden images.
    pub images: Seen<Vec<KiteImage>>,
    /// Kite's settings.
    pub platform: Seen<KitePlatform>,
    /// Which of them cannot be read, and why: they are not known then.
    pub unread_settings: Option<String>,
    /// The Service by which users reach the SSH gateway.
    pub gateway_service: Seen<Service>,
    /// Services for which something in front of the cluster is to have an address.
    pub balanced: Seen<Vec<Service>>,
    /// Services beside the cluster's DNS, its own among them.
    pub dns_services: Seen<Vec<Service>>,
    /// Kite's processes.
    pub deployments: Seen<Vec<Deployment>>,
    /// The same where they keep something, such as recordings.
    pub stateful_sets: Seen<Vec<StatefulSet>>,
    /// VMs, wherever they are.
    pub vms: Seen<Vec<DynamicObject>>,
    /// Accounts.
    pub users: Seen<Vec<DynamicObject>>,
    /// Namespaces, whoever made them.
    pub namespaces: Seen<Vec<Namespace>>,
    /// All volumes of Kite's.
    pub volumes: Seen<Vec<DynamicObject>>,
    /// Bindings of the role by which the controller has Secrets, wherever they are.
    pub own_bindings: Seen<Vec<RoleBinding>>,
    /// What the controller may do in Kite's namespace.
    pub own_role: Seen<Role>,
    /// What names of the platform resolve to.
    pub names: BTreeMap<String, Resolved>,
    /// Whether whoever asks may do what installing takes.
    pub rights: Answers,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    git_version: String,
}

impl Facts {
    /// Asks the cluster. `now` is this machine's clock.
    pub async fn gather(client: &Client, aim: &Aim, now: impl Fn() -> Timestamp) -> Self {
        let (version, ahead) = version(client, now).await;
        if version.known().is_none() {
            return Self::of_silence(version);
        }
        let definitions = all(client).await;
        let kubevirt = dynamic(client, ("kubevirt.io", "v1", "KubeVirt")).await;
        let cdi = dynamic(client, ("cdi.kubevirt.io", "v1beta1", "CDI")).await;
        let profile = ("cdi.kubevirt.io", "v1beta1", "StorageProfile");
        let (platform, unread_settings) = settings_of(Seen::of(
            Api::all(client.clone()).get(names::PLATFORM).await,
        ));
        let settings = match (&platform, &aim.planned) {
            (Seen::Absent, Some(planned)) => Some(planned),
            (platform, _) => platform.known().map(|it| &it.spec),
        };
        let namespace = &*aim.namespace;
        Self {
            version,
            ahead,
            definitions,
            kubevirt,
            cdi,
            nodes: all(client).await,
            pods: some_pods(client).await,
            daemon_sets: all(client).await,
            storage_classes: all(client).await,
            snapshot_classes: all(client).await,
            storage_profiles: dynamic(client, profile).await,
            ingress_classes: all(client).await,
            gateways: dynamic(client, GATEWAY).await,
            gateway: gateway(client, settings).await,
            issuer: issuer(client, settings).await,
            gateway_service: of(client, namespace, names::GATEWAY_EXTERNAL_SERVICE).await,
            balanced: balanced(client).await,
            dns_services: in_namespace(client, DNS_NAMESPACE).await,
            deployments: in_namespace(client, namespace).await,
            stateful_sets: in_namespace(client, namespace).await,
            vms: dynamic(client, VM).await,
            // Accounts last: whatever was made for one is not taken for left behind.
            namespaces: all(client).await,
            users: dynamic(client, USER).await,
            volumes: dynamic(client, VOLUME).await,
            own_bindings: own_bindings(client).await,
            own_role: of(client, namespace, names::CONTROLLER_ACCOUNT).await,
            names: resolve(settings).await,
            images: all(client).await,
            platform,
            unread_settings,
            rights: of_any(client, namespace).await,
        }
    }

    /// Of a cluster that does not say its version: it is asked nothing else.
    fn of_silence(version: Seen<String>) -> Self {
        Self {
            version,
            ahead: None,
            definitions: Seen::Absent,
            kubevirt: Seen::Absent,
            cdi: Seen::Absent,
            nodes: Seen::Absent,
            pods: Seen::Absent,
            daemon_sets: Seen::Absent,
            storage_classes: Seen::Absent,
            snapshot_classes: Seen::Absent,
            storage_profiles: Seen::Absent,
            ingress_classes: Seen::Absent,
            gateways: Seen::Absent,
            gateway: Seen::Absent,
            issuer: Seen::Absent,
            images: Seen::Absent,
            platform: Seen::Absent,
            unread_settings: None,
            gateway_service: Seen::Absent,
            balanced: Seen::Absent,
            dns_services: Seen::Absent,
            deployments: Seen::Absent,
            stateful_sets: Seen::Absent,
            vms: Seen::Absent,
            users: Seen::Absent,
            namespaces: Seen::Absent,
            volumes: Seen::Absent,
            own_bindings: Seen::Absent,
            own_role: Seen::Absent,
            names: BTreeMap::new(),
            rights: Vec::new(),
        }
    }
}

/// Kite's settings, unless some cannot be read: nothing is judged by what stands for them.
fn settings_of(seen: Seen<KitePlatform>) -> (Seen<KitePlatform>, Option<String>) {
    let why = seen.known().and_then(|it| it.spec.unreadable.clone());
    match why {
        None => (seen, None),
        Some(why) => (Seen::Failed(format!("it cannot be read: {why}")), Some(why)),
    }
}

/// The API server's version, and how far its clock is ahead.
async fn version(
    client: &Client,
    now: impl Fn() -> Timestamp,
) -> (Seen<String>, Option<SignedDuration>) {
    let request = match http::Request::get("/version").body(kube::client::Body::empty()) {
        Ok(request) => request,
        Err(error) => return (Seen::Failed(error.to_string()), None),
    };
    let before = now();
    let response = match client.send(request).await {
        Ok(response) => response,
        Err(error) => return (Seen::of(Err(error)), None),
    };
    let after = now();
    let date = response.headers().get(header::DATE);
    let date = date.and_then(|value| rfc2822::parse(value.to_str().ok()?).ok());
    // The header has whole seconds, and was written in between.
    let middle = before + after.duration_since(before) / 2;
    let ahead = date.map(|date| date.timestamp().duration_since(middle));
    let status = response.status();
    let body = response.into_body().collect_bytes().await;
    let info = match body {
        Ok(bytes) => serde_json::from_slice::<Info>(&bytes)
            .map_err(|error| format!("{status}, and no version: {error}")),
        Err(error) => Err(error.to_string()),
    };
    match info {
        Ok(info) => (Seen::Known(info.git_version), ahead),
        Err(error) => (Seen::Failed(error), ahead),
    }
}

async fn all<K>(client: &Client) -> Seen<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let list = Api::<K>::all(client.clone());
    let list = list.list(&ListParams::default()).await;
    Seen::of(list.map(|list| list.items))
}

async fn some_pods(client: &Client) -> Seen<Vec<Pod>> {
    let pods = Api::<Pod>::all(client.clone());
    let some = pods.list(&ListParams::default().limit(PODS)).await;
    Seen::of(some.map(|list| list.items))
}

async fn in_namespace<K>(client: &Client, namespace: &str) -> Seen<Vec<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let list = Api::<K>::namespaced(client.clone(), namespace);
    let list = list.list(&ListParams::default()).await;
    Seen::of(list.map(|list| list.items))
}

async fn of<K>(client: &Client, namespace: &str, name: &str) -> Seen<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    Seen::of(Api::namespaced(client.clone(), namespace).get(name).await)
}

fn kind((group, version, kind): (&str, &str, &str)) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

async fn dynamic(client: &Client, of: (&str, &str, &str)) -> Seen<Vec<DynamicObject>> {
    let api = Api::<DynamicObject>::all_with(client.clone(), &plural(kind(of)));
    let list = api.list(&ListParams::default()).await;
    Seen::of(list.map(|list| list.items))
}

/// The plural is guessed by English rules, which these kinds do not follow.
fn plural(mut resource: ApiResource) -> ApiResource {
    match resource.kind.as_str() {
        "KubeVirt" => "kubevirts".clone_into(&mut resource.plural),
        "CDI" => "cdis".clone_into(&mut resource.plural),
        _ => {}
    }
    resource
}

/// Where the cluster's DNS is, whatever makes it.
const DNS_NAMESPACE: &str = "kube-system";

async fn balanced(client: &Client) -> Seen<Vec<Service>> {
    let services = Api::<Service>::all(client.clone());
    let balanced = ListParams::default().fields("spec.type=LoadBalancer");
    Seen::of(services.list(&balanced).await.map(|list| list.items))
}

async fn own_bindings(client: &Client) -> Seen<Vec<RoleBinding>> {
    let Some(role) = Process::Controller.role_for_users() else {
        return Seen::Absent;
    };
    let bindings = Api::<RoleBinding>::all(client.clone());
    let of_role = ListParams::default().fields(&format!("metadata.name={role}"));
    Seen::of(bindings.list(&of_role).await.map(|list| list.items))
}

async fn gateway(client: &Client, settings: Option<&KitePlatformSpec>) -> Seen<DynamicObject> {
    let Some(named) = settings.and_then(|it| it.exposure.gateway.as_ref()) else {
        return Seen::Absent;
    };
    let kind = kind(GATEWAY);
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &named.namespace, &kind);
    Seen::of(api.get(&named.name).await)
}

async fn issuer(client: &Client, settings: Option<&KitePlatformSpec>) -> Seen<DynamicObject> {
    let named = settings.and_then(|it| it.exposure.certificate.cluster_issuer.as_ref());
    let Some(named) = named else {
        return Seen::Absent;
    };
    let kind = kind(("cert-manager.io", "v1", "ClusterIssuer"));
    let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
    Seen::of(api.get(named).await)
}

/// What the names under which people reach Kite resolve to on this machine.
async fn resolve(settings: Option<&KitePlatformSpec>) -> BTreeMap<String, Resolved> {
    let Some(spec) = settings else {
        return BTreeMap::new();
    };
    let mut hosts: Vec<String> = Vec::new();
    if let Some(domain) = &spec.base_domain {
        hosts.push(domain.clone());
        // Of a VM, whose name nobody has.
        hosts.push(format!("kite-doctor.{domain}"));
    }
    hosts.extend(spec.gateway.public_host.clone());
    let mut names = BTreeMap::new();
    for host in hosts {
        let found = tokio::net::lookup_host((host.as_str(), 0)).await;
        let found = found.map_err(|error| error.to_string());
        let found = found.map(|found| {
            let mut found: Vec<_> = found.map(|address| address.ip()).collect();
            found.sort();
            found.dedup();
            found
        });
        names.insert(host, found);
    }
    names
}
