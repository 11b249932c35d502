//! What of a state has to be the same, whatever went wrong on the way.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::fault::RIVAL;
use crate::state::{ObjectId, Snapshot};
use crate::store::{GroupResource, Key, Object};

/// Objects without what may differ from run to run.
pub(super) type Essence = BTreeMap<ObjectId, Arc<Value>>;

/// What many runs begin with and most leave alone: CRDs, which are large. Their
/// essence is made once.
#[derive(Debug, Default)]
pub(super) struct Constants(HashMap<(GroupResource, Key), Constant>);

#[derive(Debug)]
struct Constant {
    revision: u64,
    id: ObjectId,
    essence: Arc<Value>,
}

impl Constants {
    /// Of what there is at the beginning, what is the same whatever else there is.
    pub(super) fn of(beginning: &Snapshot, ignored: &[Ignored]) -> Self {
        let mut constants = HashMap::new();
        for (resource, key, object) in beginning.objects() {
            if !Snapshot::stands_alone(object) {
                continue;
            }
            let only = |r: &GroupResource, k: &Key, _: &Object| r == resource && k == key;
            let Some((id, essence)) = distil(beginning.normalised(only), ignored).pop_first()
            else {
                continue;
            };
            let constant = Constant {
                revision: object.revision(),
                id,
                essence,
            };
            constants.insert((resource.clone(), key.clone()), constant);
        }
        Self(constants)
    }

    fn get(&self, resource: &GroupResource, key: &Key, object: &Object) -> Option<&Constant> {
        let constant = self.0.get(&(resource.clone(), key.clone()))?;
        (constant.revision == object.revision()).then_some(constant)
    }
}

/// A field that is not compared.
#[derive(Clone, Debug)]
pub(super) struct Ignored {
    pub(super) kind: String,
    /// JSON pointer (RFC 6901).
    pub(super) pointer: String,
    /// Whether nothing is of an object that has the field.
    pub(super) with_object: bool,
}

impl Ignored {
    fn is_whole(&self, id: &ObjectId, object: &Value) -> bool {
        self.with_object && self.kind == id.kind && object.pointer(&self.pointer).is_some()
    }
}

/// A field that tells what an object of some kind has lived through.
#[derive(Clone, Debug)]
pub(super) struct History {
    /// The kind of that object.
    pub(super) of: String,
    /// The field, of whatever object; of an empty pointer, whether there is one.
    pub(super) field: Ignored,
}

/// What of a state has to be the same. Uids, resourceVersions, times and
/// generated names have placeholders; addresses and ports, too. The order of
/// conditions does not count. Generations count writes, so they are left out, and what was observed is only told to be
/// current or not. Kubernetes' Events tell the way, not the outcome.
pub(super) fn essence(state: &Snapshot, ignored: &[Ignored], constants: &Constants) -> Essence {
    let is_other =
        |r: &GroupResource, k: &Key, object: &Object| constants.get(r, k, object).is_none();
    let mut all = distil(state.normalised(is_other), ignored);
    let same = state
        .objects()
        .filter_map(|(resource, key, object)| constants.get(resource, key, object));
    all.extend(same.map(|it| (it.id.clone(), Arc::clone(&it.essence))));
    all
}

fn distil(mut all: BTreeMap<ObjectId, Value>, ignored: &[Ignored]) -> Essence {
    all.retain(|id, object| {
        id.kind != "Event" && !ignored.iter().any(|it| it.is_whole(id, object))
    });
    let addresses = addresses_of_pods(&all);
    // A uid may be part of a name, too: of a volume, that of its claim.
    let mut all: BTreeMap<ObjectId, Value> = all
        .into_iter()
        .map(|(mut id, object)| {
            if let Some(name) = object["metadata"]["name"].as_str() {
                name.clone_into(&mut id.name);
            }
            (id, object)
        })
        .collect();
    for (id, object) in &mut all {
        let generation = object["metadata"]["generation"].as_i64();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("generation");
            metadata.remove("uid");
            forget_rival(metadata);
        }
        mask(object, generation, &addresses);
        for ignored in ignored.iter().filter(|ignored| ignored.kind == id.kind) {
            if let Some(value) = object.pointer_mut(&ignored.pointer) {
                *value = Value::from("<ignored>");
            }
        }
    }
    all.into_iter()
        .map(|(id, value)| (id, Arc::new(value)))
        .collect()
}

fn forget_rival(metadata: &mut serde_json::Map<String, Value>) {
    let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    annotations.retain(|name, _| !name.starts_with(RIVAL));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// Whose each address is that one Pod alone has: Pods get theirs in the order in
/// which they start, and what matters is that everybody names the same Pod's.
fn addresses_of_pods(all: &BTreeMap<ObjectId, Value>) -> HashMap<String, String> {
    let mut addresses = HashMap::new();
    let mut shared = BTreeSet::new();
    for (id, pod) in all.iter().filter(|(id, _)| id.kind == "Pod") {
        let Some(ip) = pod["status"]["podIP"].as_str() else {
            continue;
        };
        let whose = format!("<address of {id}>");
        if addresses.insert(ip.to_owned(), whose).is_some() {
            shared.insert(ip.to_owned());
        }
    }
    addresses.retain(|ip, _| !shared.contains(ip));
    addresses
}

/// Conditions are a map by their type, even where their order is that in which they
/// came.
fn sort_conditions(list: &mut [Value]) {
    let types: BTreeSet<_> = list.iter().map(|it| it["type"].as_str()).collect();
    if types.len() == list.len() && !types.contains(&None) {
        list.sort_by(|a, b| a["type"].as_str().cmp(&b["type"].as_str()));
    }
}

fn mask(value: &mut Value, generation: Option<i64>, addresses: &HashMap<String, String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match (name.as_str(), &*member) {
                    ("observedGeneration", Value::Number(seen)) => {
                        let is_current = seen.as_i64() == generation;
                        *member = Value::from(if is_current { "current" } else { "behind" });
                    }
                    ("clusterIP", Value::String(ip)) if ip != "None" => {
                        *member = Value::from("<ip>");
                    }
                    ("clusterIPs", Value::Array(ips)) if !ips.iter().any(|ip| ip == "None") => {
                        *member = Value::from("<ips>");
                    }
                    ("nodePort" | "healthCheckNodePort", Value::Number(_)) => {
                        *member = Value::from("<port>");
                    }
                    _ => {
                        mask(member, generation, addresses);
                        if name == "conditions"
                            && let Value::Array(list) = member
                        {
                            sort_conditions(list);
                        }
                    }
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                mask(item, generation, addresses);
            }
        }
        // Whose uid it is may be said by a name with a uid in it.
        Value::String(text) => {
            *text = match addresses.get(text) {
                Some(whose) => whose.clone(),
                None => crate::state::without_uids(text),
            }
        }
        _ => {}
    }
}

/// What differs, in words. `past` is not compared.
pub(super) fn differences(reference: &Essence, run: &Essence, past: &[&Ignored]) -> Vec<String> {
    let is_past = |id: &ObjectId| {
        let mut of_kind = past.iter().filter(|field| field.kind == id.kind);
        of_kind.any(|field| field.pointer.is_empty())
    };
    let mut lines = Vec::new();
    for (id, expected) in reference.iter().filter(|(id, _)| !is_past(id)) {
        match run.get(id) {
            None => lines.push(format!("{id} is missing")),
            Some(found) if Arc::ptr_eq(expected, found) || expected == found => {}
            Some(found) => {
                let past = past.iter().filter(|field| field.kind == id.kind);
                let past: Vec<&str> = past.map(|field| field.pointer.as_str()).collect();
                let fields =
                    crate::state::field_changes(&without(expected, &past), &without(found, &past));
                let fields = fields
                    .iter()
                    .map(|field| format!("{id} differs in {field}"));
                lines.extend(fields);
            }
        }
    }
    let is_extra = |id: &&ObjectId| !reference.contains_key(*id) && !is_past(id);
    let extra = run.keys().filter(is_extra);
    lines.extend(extra.map(|id| format!("{id} is there and should not be")));
    lines
}

/// The value without these fields.
fn without<'a>(value: &'a Value, pointers: &[&str]) -> Cow<'a, Value> {
    let mut value = Cow::Borrowed(value);
    for pointer in pointers {
        let Some((parent, name)) = pointer.rsplit_once('/') else {
            continue;
        };
        if value.pointer(pointer).is_some()
            && let Some(members) = value
                .to_mut()
                .pointer_mut(parent)
                .and_then(Value::as_object_mut)
        {
            members.remove(&name.replace("~1", "/").replace("~0", "~"));
        }
    }
    value
}

/// Objects all of whose owners are gone.
pub(super) fn orphans(state: &Snapshot) -> Vec<String> {
    let alive: BTreeSet<&str> = state.objects().map(|(_, _, o)| o.meta("uid")).collect();
    let mut lines = Vec::new();
    for (_, _, object) in state.objects() {
        let object = object.value();
        let metadata = &object["metadata"];
        let Some(owners) = metadata["ownerReferences"].as_array() else {
            continue;
        };
        let is_there = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| alive.contains(uid));
        if owners.is_empty() || owners.iter().any(is_there) {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let whose: Vec<String> = owners
            .iter()
            .map(|owner| format!("{} {}", text(&owner["kind"]), text(&owner["name"])))
            .collect();
        let namespace = text(&metadata["namespace"]);
        let slash = if namespace.is_empty() { "" } else { "/" };
        lines.push(format!(
            "{} {namespace}{slash}{} is owned by {}, which is gone or was replaced",
            text(&object["kind"]),
            text(&metadata["name"]),
            whose.join(" and ")
        ));
    }
    lines
}
