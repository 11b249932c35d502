//! What a new cluster has before anybody asks for it: classes, roles, levels and the server's
//! own Service's endpoints.
//!
//! A real server writes these when it starts. Here they come to be when a request is first
//! about their kind, as they would have been at the start: at a revision before all others,
//! with nothing said to watches. So a cluster starts as fast as without them, and states of
//! it do not have them unless they were changed.

mod cluster;
mod flow;
mod services;

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ApiServer;
use crate::auth;
use crate::builtin;
use crate::clock::{Ids, rfc3339};
use crate::fields::{self, Context, Manager, Operation, Reset};
use crate::registry::{Origin, Resource, join_version};
use crate::store::{GroupResource, Key};

/// Who makes them.
const MANAGER: &str = "kube-apiserver";
/// Stands for the time of the start in a status.
const START: &str = "1970-01-01T00:00:00Z";

/// Kinds whose objects have the server look at objects of any other kind: policies at
/// parameters and rights, webhooks at the Services that they are behind, quotas at what they
/// count.
const LOOK_AROUND: [(&str, &str); 5] = [
    ("", "resourcequotas"),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
    ),
    (
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
    ),
];

/// The objects of one kind.
#[derive(Debug)]
pub(super) struct Part {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    make: fn() -> Vec<Value>,
    /// Whether they are there from the start where RBAC decides.
    is_of_rbac: bool,
    /// As they are in every cluster, but for uids and times.
    made: OnceLock<Vec<Value>>,
}

const fn part([group, version, kind, plural]: [&'static str; 4], make: fn() -> Vec<Value>) -> Part {
    Part {
        group,
        version,
        kind,
        plural,
        make,
        is_of_rbac: false,
        made: OnceLock::new(),
    }
}

const fn of_rbac(kind: &'static str, plural: &'static str, make: fn() -> Vec<Value>) -> Part {
    let mut part = part(["rbac.authorization.k8s.io", "v1", kind, plural], make);
    part.is_of_rbac = true;
    part
}

const FLOW: &str = "flowcontrol.apiserver.k8s.io";

static PARTS: [Part; 9] = [
    of_rbac("ClusterRole", "clusterroles", || bootstrap("ClusterRole")),
    of_rbac("ClusterRoleBinding", "clusterrolebindings", || {
        bootstrap("ClusterRoleBinding")
    }),
    part(
        [
            "scheduling.k8s.io",
            "v1",
            "PriorityClass",
            "priorityclasses",
        ],
        cluster::priority_classes,
    ),
    part(
        ["apiregistration.k8s.io", "v1", "APIService", "apiservices"],
        cluster::api_services,
    ),
    part(["", "v1", "Endpoints", "endpoints"], services::endpoints),
    part(
        ["discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"],
        services::slices,
    ),
    part(
        ["networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs"],
        services::ranges,
    ),
    part([FLOW, "v1", "FlowSchema", "flowschemas"], flow::schemas),
    part(
        [
            FLOW,
            "v1",
            "PriorityLevelConfiguration",
            "prioritylevelconfigurations",
        ],
        flow::levels,
    ),
];

fn bootstrap(kind: &str) -> Vec<Value> {
    let all = auth::bootstrap_objects().into_iter();
    all.filter(|object| object["kind"] == kind).collect()
}

impl Part {
    fn objects(&self) -> &[Value] {
        self.made.get_or_init(|| {
            let all = (self.make)().into_iter();
            all.map(|object| self.prepared(object)).collect()
        })
    }

    /// An object as it would be after a create.
    fn prepared(&self, mut object: Value) -> Value {
        let api_version = join_version(self.group, self.version);
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(self.kind);
        let Some(kind) = builtin::kind(self.group, self.version, self.kind) else {
            return object;
        };
        // What is written here fits its kind.
        let _ = kind.decode(&mut object);
        let manager = Manager {
            name: MANAGER.to_owned(),
            operation: Operation::Update,
            api_version,
            subresource: String::new(),
        };
        let context = Context {
            schema: kind.schema(),
            versions: None,
            manager: &manager,
            reset: match kind.reset("") {
                Reset::Nothing => Reset::Members(&["status"]),
                reset => reset,
            },
            empty: kind.empty(),
            now: Timestamp::UNIX_EPOCH,
        };
        let mut object = fields::update(&context, None, object);
        let status = object.get("status").cloned();
        kind.prepare_create(&mut object);
        if let (Some(status), Some(members)) = (status, object.as_object_mut()) {
            members.insert("status".to_owned(), status);
        }
        object
    }
}

/// The same word for a kind in every cluster, so that its uids are its own.
fn salt(plural: &str) -> u64 {
    plural.bytes().fold(0x5bd1_e995, |salt, byte| {
        salt.rotate_left(7) ^ u64::from(byte)
    })
}

/// Writes the time of the start where it belongs.
fn date(value: &mut Value, start: &str) {
    match value {
        Value::String(text) if text == START => start.clone_into(text),
        Value::Array(elements) => elements.iter_mut().for_each(|inner| date(inner, start)),
        Value::Object(members) => members.values_mut().for_each(|inner| date(inner, start)),
        _ => {}
    }
}

impl ApiServer {
    /// Has what a new cluster has come to be when somebody looks.
    pub(crate) fn start_fresh(&mut self) {
        let roles_are_there = self.rbac;
        let all = PARTS.iter();
        self.fresh = all
            .filter(|part| !(roles_are_there && part.is_of_rbac))
            .collect();
        let is_stored = |(group, plural): &(&str, &str)| {
            self.store.count(&GroupResource::new(*group, *plural), None) > 0
        };
        if LOOK_AROUND.iter().any(is_stored) {
            self.bear_all();
        }
    }

    /// Brings everything into being before something is stored that looks at other objects
    /// than those that requests are about.
    pub(super) fn bear_for(&mut self, stored: &Resource) {
        if LOOK_AROUND.contains(&(stored.group.as_str(), stored.plural.as_str())) {
            self.bear_all();
        }
    }

    fn bear_all(&mut self) {
        let kinds = self.fresh.iter();
        let kinds = kinds.filter_map(|it| self.registry.get(it.group, it.version, it.plural));
        let kinds: Vec<Arc<Resource>> = kinds.cloned().collect();
        for kind in kinds {
            self.bear(&kind);
        }
    }

    /// Objects of a kind that are there but have not been looked at yet; as they are in
    /// every cluster, without uids.
    pub(super) fn unborn(&self, group: &str, plural: &str) -> &'static [Value] {
        let mut parts = self.fresh.iter();
        let part = parts.find(|it| it.group == group && it.plural == plural);
        part.map_or(&[], |part| part.objects())
    }

    /// Brings the objects of a kind into being that somebody looks at first.
    pub(super) fn bear(&mut self, resource: &Resource) {
        let is_meant = |part: &&'static Part| {
            part.plural == resource.plural
                && part.group == resource.group
                && resource.origin == Origin::BuiltIn
        };
        let Some(place) = self.fresh.iter().position(is_meant) else {
            return;
        };
        let part = self.fresh.swap_remove(place);
        let namespaces = GroupResource::new("", "namespaces");
        let first = self.store.get(&namespaces, &Key::new("", "default"));
        let start = first.map_or_else(
            || rfc3339(self.now),
            |namespace| namespace.meta("creationTimestamp").to_owned(),
        );
        let mut ids = Ids::new(self.seed() ^ salt(part.plural));
        let collection = resource.collection();
        for object in part.objects() {
            let mut object = object.clone();
            let metadata = &mut object["metadata"];
            metadata["uid"] = json!(ids.uid());
            metadata["creationTimestamp"] = json!(start);
            metadata["managedFields"][0]["time"] = json!(start);
            let text = |member: &str| metadata[member].as_str().unwrap_or_default().to_owned();
            let key = Key::new(text("namespace"), text("name"));
            if let Some(status) = object.get_mut("status") {
                date(status, &start);
            }
            self.store
                .put_first(&collection, key, object, resource.epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use crate::FakeCluster;
    use crate::server::core_tests::{Client, RBAC};

    #[test]
    fn what_a_new_cluster_has_fits_its_kinds() {
        for part in &super::PARTS {
            for object in part.objects() {
                let kind = super::builtin::kind(part.group, part.version, part.kind).unwrap();
                let found = kind.validate_create(object);
                assert_eq!(found.errors, [], "{object:#}");
                let mut again = object.clone();
                assert_eq!(kind.decode(&mut again), Ok(()));
                assert_eq!(&again, object);
            }
        }
    }

    #[test]
    fn it_is_there_as_from_the_start() {
        let client = Client::new();
        let before = client.get("/api/v1/namespaces")["metadata"]["resourceVersion"].clone();
        let at = format!("{RBAC}/clusterroles/cluster-admin");
        let role = client.get(&at);
        assert_eq!(role["metadata"]["resourceVersion"], "1");
        assert_eq!(
            role["metadata"]["managedFields"][0]["manager"],
            "kube-apiserver"
        );
        let list = client.get(&format!("{RBAC}/clusterroles"));
        assert_eq!(list["metadata"]["resourceVersion"], before);
        for (at, count) in [
            ("/apis/scheduling.k8s.io/v1/priorityclasses", 2),
            ("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", 11),
            (
                "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
                8,
            ),
            ("/apis/networking.k8s.io/v1/servicecidrs", 1),
            ("/api/v1/namespaces/default/endpoints", 1),
            (
                "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
                1,
            ),
        ] {
            assert_eq!(
                client.get(at)["items"].as_array().unwrap().len(),
                count,
                "{at}"
            );
        }
        let core = client.get("/apis/apiregistration.k8s.io/v1/apiservices/v1.");
        assert_eq!(core["spec"]["groupPriorityMinimum"], 18000);
        assert_eq!(core["status"]["conditions"][0]["reason"], "Local");
        // It can be changed and deleted as anything else.
        let patched = client.send("PATCH", &at, &json!({"metadata": {"labels": {"a": "b"}}}));
        assert_eq!(patched.0, 200);
        let flow = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/probes";
        assert_eq!(client.send("DELETE", flow, &Value::Null).0, 200);
        assert_eq!(client.get(flow)["code"], 404);
        let class = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
        assert_eq!(client.send("DELETE", class, &Value::Null).0, 403);
        let admin = &json!({"metadata": {"name": "admin"}, "rules": []});
        let told = client.refused(&format!("{RBAC}/clusterroles"), admin, 409);
        assert!(told.contains("already exists"));
    }

    #[test]
    fn a_state_has_only_what_was_changed_of_it() {
        let (one, two) = (
            FakeCluster::builder().build().unwrap(),
            FakeCluster::builder().build().unwrap(),
        );
        let before = one.snapshot();
        let client = Client(one.clone());
        let at = format!("{RBAC}/clusterroles/view");
        let uid = client.get(&at)["metadata"]["uid"].clone();
        assert!(before.diff(&one.snapshot()).is_empty());
        assert_eq!(
            Client(two).get(&at)["metadata"]["uid"],
            uid,
            "whoever looks first"
        );
        client.send("PATCH", &at, &json!({"metadata": {"labels": {"a": "b"}}}));
        let changed = one.snapshot();
        assert_eq!(before.diff(&changed).to_string(), "+ ClusterRole view\n");
        one.restore(&before);
        assert!(client.get(&at)["metadata"]["labels"]["a"].is_null());
        one.restore(&changed);
        assert_eq!(client.get(&at)["metadata"]["labels"]["a"], "b");
        assert_eq!(
            client.get(&format!("{RBAC}/clusterroles/edit"))["kind"],
            "ClusterRole"
        );
    }
}
