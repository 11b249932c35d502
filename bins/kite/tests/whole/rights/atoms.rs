//! Rights, one by one: a verb on a resource, and on one name where only some are meant.

use std::{collections::BTreeSet, fmt};

use kite_fake::server::Logged;
use kite_render::install::{Installation, Process, Right, Scope};
use serde_json::{Value, json};

/// The namespace of the user who goes.
const ANN: &str = "kite-user-ann";

/// A request of one of the processes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    pub process: Process,
    /// `create` too, where a patch made the object.
    pub verb: String,
    /// With the subresource and the group, as in `virtualmachines.kubevirt.io/restart`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub code: u16,
    /// Whether the user in whose namespace it is was about to go: the rights there go
    /// with the namespace, while some still tell what came of the last connections.
    pub is_late: bool,
}

impl Asked {
    /// What a logged request takes; nothing if none of the processes sent it.
    pub fn of(entry: &Logged, is_ending: bool) -> Vec<Self> {
        let process = Process::ALL
            .into_iter()
            .find(|it| it.username("kite") == entry.user);
        let Some(process) = process else {
            return Vec::new();
        };
        // An apply that makes the object needs both.
        let also = (entry.verb == "patch" && entry.code == 201).then(|| "create".to_owned());
        [entry.verb.clone()]
            .into_iter()
            .chain(also)
            .map(|verb| Self {
                process,
                verb,
                resource: entry.resource.clone(),
                namespace: entry.namespace.clone(),
                name: entry.name.clone(),
                code: entry.code,
                is_late: is_ending && entry.namespace == ANN,
            })
            .collect()
    }

    /// Whether it was refused for want of a right.
    pub fn is_refused(&self) -> bool {
        // CDI calls a disk invalid that may not be cloned.
        let by_cdi = self.code == 422 && self.resource == "datavolumes.cdi.kubevirt.io";
        // A watch of Secrets may be begun again before its end is known.
        let goes_with_namespace =
            self.is_late && (self.process != Process::Controller || self.resource == "secrets");
        (self.code == 403 || by_cdi) && !goes_with_namespace
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = self.process.name();
        let (verb, resource) = (&self.verb, &self.resource);
        let (namespace, name) = (&self.namespace, &self.name);
        write!(
            f,
            "{process}: {verb} {resource} {namespace}/{name}: {}",
            self.code
        )
    }
}

/// The smallest part of a right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Atom {
    process: Process,
    scope: Scope,
    group: &'static str,
    resource: &'static str,
    name: Option<String>,
    verb: &'static str,
}

impl Atom {
    fn of(process: Process, right: &Right) -> Vec<Self> {
        let mut all = Vec::new();
        for resource in &right.resources {
            for verb in &right.verbs {
                let atom = |name: Option<String>| Self {
                    process,
                    scope: right.scope,
                    group: right.group,
                    resource,
                    name,
                    verb,
                };
                if right.names.is_empty() {
                    all.push(atom(None));
                }
                all.extend(right.names.iter().cloned().map(|name| atom(Some(name))));
            }
        }
        all
    }

    /// The resource as the log writes it.
    fn resource(&self) -> String {
        let (resource, below) = self.resource.split_once('/').unwrap_or((self.resource, ""));
        let group = if self.group.is_empty() { "" } else { "." };
        let below = if below.is_empty() {
            String::new()
        } else {
            format!("/{below}")
        };
        format!("{resource}{group}{}{below}", self.group)
    }

    /// Whether it allows this request.
    pub fn allows(&self, asked: &Asked) -> bool {
        let is_there = match self.scope {
            Scope::Cluster => true,
            Scope::Kite => asked.namespace == "kite",
            Scope::Images => asked.namespace == "kite-images",
            Scope::Users => asked.namespace.starts_with("kite-user-"),
        };
        is_there
            && self.process == asked.process
            && self.verb == asked.verb
            && self.resource() == asked.resource
            && self.name.as_ref().is_none_or(|name| *name == asked.name)
    }

    /// Who asks for it while another request is judged, which alone is written down, if so.
    pub fn is_asked_within(&self) -> Option<&'static str> {
        let is_meant = |what: &str| {
            what.split(' ')
                .any(|it| it == self.resource || Some(it) == self.name.as_deref())
        };
        let mut all = WITHIN.iter();
        let found = all.find(|(process, verb, what, _)| {
            *process == self.process && *verb == self.verb && is_meant(what)
        });
        found.map(|(.., why)| *why)
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = self.process.name();
        let name = self.name.as_ref().map(|name| format!(" {name}"));
        let name = name.unwrap_or_default();
        let (verb, scope) = (self.verb, self.scope);
        write!(f, "{process}: {verb} {}{name} ({scope:?})", self.resource())
    }
}

/// All that the processes are granted.
pub fn atoms(installation: &Installation) -> BTreeSet<Atom> {
    let all = Process::ALL.into_iter().flat_map(|process| {
        let rights = installation.rights(process).into_iter();
        rights.flat_map(move |right| Atom::of(process, &right))
    });
    all.collect()
}

/// A role without one part of its rights; others as they are.
pub fn without(role: &Value, atom: &Atom) -> Value {
    let (kind, name) = match atom.scope {
        Scope::Cluster => ("ClusterRole", atom.process.name()),
        Scope::Users => ("ClusterRole", atom.process.role_for_users().unwrap()),
        Scope::Kite => ("Role", atom.process.name()),
        Scope::Images => ("Role", "kite-clone-images"),
    };
    let mut role = role.clone();
    if role["kind"] != kind || role["metadata"]["name"] != name {
        return role;
    }
    let taken = json!([atom.group, atom.resource, atom.name, atom.verb]);
    let mut left = Vec::new();
    let mut is_found = false;
    for rule in role["rules"].as_array().unwrap() {
        let all = |field: &str| rule[field].as_array().cloned().unwrap_or_default();
        let names = match all("resourceNames") {
            names if names.is_empty() => vec![Value::Null],
            names => names,
        };
        for (resource, verb) in all("resources").iter().flat_map(|resource| {
            all("verbs")
                .into_iter()
                .map(move |verb| (resource.clone(), verb))
        }) {
            for name in &names {
                let group = &rule["apiGroups"][0];
                if json!([group, resource, name, verb]) == taken {
                    is_found = true;
                    continue;
                }
                let mut part = json!({
                    "apiGroups": [group], "resources": [resource], "verbs": [verb],
                });
                if !name.is_null() {
                    part["resourceNames"] = json!([name]);
                }
                left.push(part);
            }
        }
    }
    assert!(is_found, "{atom} is in no role");
    role["rules"] = left.into();
    role
}

/// A process, a verb, resources or names, and something about them.
type Row = (Process, &'static str, &'static str, &'static str);

/// Rights that are asked for while another request is judged: what is refused without
/// them shows that they are needed.
const WITHIN: &[Row] = &[
    (
        Process::Controller,
        "bind",
        "clusterroles",
        "the API server, where a binding is written",
    ),
    (
        Process::Controller,
        "create",
        "datavolumes/source",
        "CDI, where a disk is to be cloned",
    ),
    (
        Process::Controller,
        "update",
        "kitevirtualmachines/finalizers kiteimages/finalizers",
        "OwnerReferencesPermissionEnforcement, where an object gets an owner",
    ),
];
