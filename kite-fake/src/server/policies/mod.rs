//! `ValidatingAdmissionPolicy`: rules of the cluster's own over any write, in
//! the same language as the rules of definitions; and `MutatingAdmissionPolicy`, which
//! changes what is written.

#[cfg(feature = "cel")]
mod expressions;
#[cfg(not(feature = "cel"))]
#[path = "no_expressions.rs"]
mod expressions;
mod mutations;
#[cfg(feature = "cel")]
mod patches;

pub(super) use mutations::Invocation;

use std::sync::Arc;

use serde_json::Value;

use super::{ApiServer, Call};
use crate::registry::Resource;
use crate::rest::selector::LabelSelector;
use crate::status::{Cause, Status};
use crate::store::{GroupResource, Key};

const GROUP: &str = "admissionregistration.k8s.io";

/// A write that policies are asked about.
pub(super) struct Write<'a> {
    pub(super) call: &'a Call,
    /// The version of the resource that the policy's rules are about.
    pub(super) resource: Arc<Resource>,
    pub(super) operation: &'static str,
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
    pub(super) namespace: Value,
}

/// What a policy says of a write.
struct Verdict {
    message: String,
    reason: String,
}

impl ApiServer {
    /// Refuses what a policy refuses, and warns of what one warns of.
    pub(crate) fn ask_policies(
        &mut self,
        call: &Call,
        operation: &'static str,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if let Some(object) = object {
            self.refuse_unmutated(call, operation, object)?;
        }
        let stored = GroupResource::new(GROUP, "validatingadmissionpolicybindings");
        // Policies say nothing of policies, lest they lock themselves in.
        if call.resource.group == GROUP || self.store.range(&stored, None, None).next().is_none() {
            return Ok(());
        }
        let bindings: Vec<_> = self
            .store
            .range(&stored, None, None)
            .map(|(_, binding)| binding.clone())
            .collect();
        let write = self.write_of(call, operation, object, old);
        let mut denied: Option<(String, Verdict)> = None;
        for binding in bindings {
            let binding = binding.value();
            let name = binding["spec"]["policyName"].as_str().unwrap_or_default();
            let policies = GroupResource::new(GROUP, "validatingadmissionpolicies");
            let Some(policy) = self.store.get(&policies, &Key::new("", name)).cloned() else {
                continue;
            };
            let policy = policy.value();
            let equivalents = self.equivalents(call);
            let constraints = &policy["spec"]["matchConstraints"];
            let Some(matched) = write.fits(constraints, &equivalents) else {
                continue;
            };
            if binding["spec"]["matchResources"].is_object()
                && !write.fits_if_any(&binding["spec"]["matchResources"], &equivalents)
            {
                continue;
            }
            let (object, old) = (
                self.shown_as(&matched, call, object)?,
                self.shown_as(&matched, call, old)?,
            );
            let write = Write {
                call,
                resource: matched,
                operation,
                object: object.as_deref(),
                old: old.as_deref(),
                namespace: write.namespace.clone(),
            };
            let own = binding["metadata"]["name"].as_str().unwrap_or_default();
            let who = format!("ValidatingAdmissionPolicy '{name}' with binding '{own}'");
            let actions = binding["spec"]["validationActions"].as_array();
            let does = |action: &str| actions.is_some_and(|all| all.iter().any(|a| a == action));
            for verdict in self.verdicts(&write, policy, binding) {
                if does("Warn") {
                    let text = format!("Validation failed for {who}: {}", verdict.message);
                    self.warnings.push(text);
                }
                if does("Deny") && denied.is_none() {
                    denied = Some((who.clone(), verdict));
                }
            }
        }
        match denied {
            None => Ok(()),
            Some((who, verdict)) => Err(refusal(call, object.or(old), &who, &verdict)),
        }
    }

    /// A write as policies are asked about it.
    fn write_of<'a>(
        &self,
        call: &'a Call,
        operation: &'static str,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
    ) -> Write<'a> {
        let namespace = if call.resource.kind == "Namespace" && call.resource.group.is_empty() {
            object.or(old).cloned()
        } else {
            let namespaces = GroupResource::new("", "namespaces");
            let found = self.store.get(&namespaces, &Key::new("", call.namespace()));
            found.map(|namespace| namespace.value().clone())
        };
        Write {
            call,
            resource: Arc::clone(&call.resource),
            operation,
            object,
            old,
            namespace: namespace.unwrap_or(Value::Null),
        }
    }

    /// The other served versions of a request's resource.
    pub(super) fn equivalents(&self, call: &Call) -> Vec<Arc<Resource>> {
        let asked = &call.resource;
        let below = call.target.subresource.as_deref();
        self.registry
            .iter()
            .filter(|other| {
                other.plural == asked.plural
                    && other.collection() == asked.collection()
                    && (&other.group, &other.version) != (&asked.group, &asked.version)
                    && below.is_none_or(|name| other.subresource(name).is_some())
            })
            .cloned()
            .collect()
    }

    /// What a policy says, once for each set of parameters.
    fn verdicts(&self, write: &Write<'_>, policy: &Value, binding: &Value) -> Vec<Verdict> {
        let spec = &policy["spec"];
        if !spec["paramKind"].is_object() || !binding["spec"]["paramRef"].is_object() {
            return write.evaluate(&self.store, spec, &Value::Null);
        }
        let params = self.params(write, &spec["paramKind"], &binding["spec"]["paramRef"]);
        if params.is_empty() {
            if binding["spec"]["paramRef"]["parameterNotFoundAction"] == "Allow" {
                return Vec::new();
            }
            let message = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
            return fails_closed(spec, message.to_owned());
        }
        params
            .iter()
            .flat_map(|params| write.evaluate(&self.store, spec, params))
            .collect()
    }

    /// The objects that a binding takes parameters from.
    fn params(&self, write: &Write<'_>, kind: &Value, reference: &Value) -> Vec<Value> {
        let api = kind["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = api.split_once('/').unwrap_or(("", api));
        let kind = kind["kind"].as_str().unwrap_or_default();
        let Some(resource) = self.registry.by_kind(group, version, kind) else {
            return Vec::new();
        };
        let given = reference["namespace"].as_str().unwrap_or_default();
        let namespace = match (resource.namespaced, given) {
            (false, _) => "",
            (true, "") => write.call.namespace(),
            (true, given) => given,
        };
        let collection = resource.collection();
        if let Some(name) = reference["name"].as_str().filter(|name| !name.is_empty()) {
            let found = self.store.get(&collection, &Key::new(namespace, name));
            return found
                .map(|object| object.value().clone())
                .into_iter()
                .collect();
        }
        self.store
            .range(&collection, resource.namespaced.then_some(namespace), None)
            .map(|(_, object)| object.value().clone())
            .filter(|object| selects(&reference["selector"], &object["metadata"]["labels"]))
            .collect()
    }
}

fn refusal(call: &Call, object: Option<&Value>, who: &str, verdict: &Verdict) -> Status {
    let message = format!("{who} denied request: {}", verdict.message);
    let named = object.and_then(|object| object["metadata"]["name"].as_str());
    let name = call.target.name.as_deref().or(named).unwrap_or_default();
    let mut status = Status::forbidden(&call.resource.group, &call.resource.plural, name, &message)
        .with_causes([Cause::new("", message, "")]);
    (status.code, status.reason) = match verdict.reason.as_str() {
        "Forbidden" => (403, "Forbidden"),
        "Unauthorized" => (401, "Unauthorized"),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    status
}

/// An evaluation that failed counts as a refusal, unless the policy says otherwise.
fn fails_closed(spec: &Value, message: String) -> Vec<Verdict> {
    if spec["failurePolicy"] == "Ignore" {
        return Vec::new();
    }
    vec![Verdict {
        message,
        reason: String::new(),
    }]
}

/// Group, version and kind of a subresource's body, where it is not the object.
pub(super) fn own_kind(call: &Call) -> Option<(&'static str, &'static str, &'static str)> {
    match call.target.subresource.as_deref()? {
        "scale" => Some(("autoscaling", "v1", "Scale")),
        "eviction" => Some(("policy", "v1", "Eviction")),
        "binding" => Some(("", "v1", "Binding")),
        "token" => Some(("authentication.k8s.io", "v1", "TokenRequest")),
        "attach" => Some(("", "v1", "PodAttachOptions")),
        "exec" => Some(("", "v1", "PodExecOptions")),
        "portforward" => Some(("", "v1", "PodPortForwardOptions")),
        "proxy" => Some(match call.resource.plural.as_str() {
            "nodes" => ("", "v1", "NodeProxyOptions"),
            "services" => ("", "v1", "ServiceProxyOptions"),
            _ => ("", "v1", "PodProxyOptions"),
        }),
        _ => None,
    }
}

impl Write<'_> {
    /// The same as [`Write::fits`], where no rules mean any resource.
    fn fits_if_any(&self, wanted: &Value, equivalents: &[Arc<Resource>]) -> bool {
        let none = wanted["resourceRules"].as_array().is_none_or(Vec::is_empty);
        if none {
            return self.is_selected(wanted)
                && self
                    .ruled(wanted, "excludeResourceRules", equivalents)
                    .is_none();
        }
        self.fits(wanted, equivalents).is_some()
    }

    /// Whether a policy or binding is about this write, and in which version.
    fn fits(&self, wanted: &Value, equivalents: &[Arc<Resource>]) -> Option<Arc<Resource>> {
        let excluded = |wanted| self.ruled(wanted, "excludeResourceRules", equivalents);
        if !self.is_selected(wanted) || excluded(wanted).is_some() {
            return None;
        }
        self.ruled(wanted, "resourceRules", equivalents)
    }

    /// The version that rules are about: that of the request if they name it,
    /// else another of the same resource unless only exact matches count.
    fn ruled(
        &self,
        wanted: &Value,
        member: &str,
        equivalents: &[Arc<Resource>],
    ) -> Option<Arc<Resource>> {
        let rules = &wanted[member];
        if self.is_ruled(&self.resource, rules) {
            return Some(Arc::clone(&self.resource));
        }
        if wanted["matchPolicy"] == "Exact" {
            return None;
        }
        let mut others = equivalents.iter();
        others.find(|other| self.is_ruled(other, rules)).cloned()
    }

    fn is_selected(&self, wanted: &Value) -> bool {
        let labels = |object: Option<&Value>| {
            object.is_some_and(|o| selects(&wanted["objectSelector"], &o["metadata"]["labels"]))
        };
        let own = wanted["objectSelector"].is_null() || labels(self.object) || labels(self.old);
        // What lives in no namespace is not selected by one.
        let around = self.namespace.is_null()
            || selects(
                &wanted["namespaceSelector"],
                &self.namespace["metadata"]["labels"],
            );
        own && around
    }

    fn name(&self) -> &str {
        let object = self.object.or(self.old).unwrap_or(&Value::Null);
        let own = object["metadata"]["name"].as_str();
        self.call.target.name.as_deref().or(own).unwrap_or_default()
    }

    fn is_ruled(&self, resource: &Resource, rules: &Value) -> bool {
        let subresource = self.call.target.subresource.as_deref().unwrap_or_default();
        let name = self.name();
        let fits = |rule: &Value, member: &str, value: &str| {
            let mut all = rule[member].as_array().into_iter().flatten();
            all.any(|v| v == "*" || v == value)
        };
        let named = |rule: &Value| {
            let names = rule["resourceNames"].as_array();
            names.is_none_or(Vec::is_empty) || fits(rule, "resourceNames", name)
        };
        let resourced = |rule: &Value| {
            let all = rule["resources"].as_array().into_iter().flatten();
            all.filter_map(Value::as_str).any(|wanted| {
                let (plural, below) = wanted.split_once('/').unwrap_or((wanted, ""));
                (plural == "*" || plural == resource.plural)
                    && (below == subresource || below == "*")
            })
        };
        let scoped = |rule: &Value| match rule["scope"].as_str() {
            Some("Namespaced") => resource.namespaced,
            Some("Cluster") => !resource.namespaced,
            _ => true,
        };
        rules.as_array().into_iter().flatten().any(|rule| {
            fits(rule, "apiGroups", &resource.group)
                && fits(rule, "apiVersions", &resource.version)
                && fits(rule, "operations", self.operation)
                && resourced(rule)
                && scoped(rule)
                && named(rule)
        })
    }
}

/// Whether a label selector in its written form selects labels; an absent one
/// selects everything.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let mut terms: Vec<String> = Vec::new();
    for (name, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        terms.push(format!("{name}={}", value.as_str().unwrap_or_default()));
    }
    for expression in selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let key = expression["key"].as_str().unwrap_or_default();
        let values: Vec<&str> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        terms.push(match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    LabelSelector::parse(&terms.join(",")).is_ok_and(|selector| selector.matches_labels(labels))
}
