//! `MutatingAdmissionPolicy`: changes of the cluster's own to any write.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::{GROUP, Write, own_kind};
use crate::registry::Resource;
use crate::server::rules;
use crate::server::{ApiServer, Call};
use crate::status::{Cause, Status};
use crate::store::GroupResource;

static BINDINGS: LazyLock<GroupResource> =
    LazyLock::new(|| GroupResource::new(GROUP, "mutatingadmissionpolicybindings"));
static POLICIES: LazyLock<GroupResource> =
    LazyLock::new(|| GroupResource::new(GROUP, "mutatingadmissionpolicies"));

/// What came of a policy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Invoked {
    /// Its conditions do not hold, or cannot be evaluated.
    No,
    Unchanged,
    Changed,
}

/// A policy with a binding and one set of parameters that are about a write.
#[derive(Debug)]
pub(in crate::server) struct Invocation {
    policy: String,
    binding: String,
    spec: Value,
    params: Value,
    /// The version that the policy is about.
    matched: Arc<Resource>,
}

/// What went wrong with an invocation.
struct Failure {
    policy: String,
    binding: String,
    why: String,
    /// The reason of the refusal, where it is not the usual one.
    reason: &'static str,
}

impl Write<'_> {
    /// The same write with an object as it is by now.
    fn of<'a>(&'a self, object: &'a Value) -> Write<'a> {
        Write {
            call: self.call,
            resource: Arc::clone(&self.resource),
            operation: self.operation,
            object: Some(object),
            old: self.old,
            namespace: self.namespace.clone(),
        }
    }
}

impl ApiServer {
    /// Whether a policy that changes writes is bound.
    pub(in crate::server) fn has_mutations(&self) -> bool {
        self.store.count(&BINDINGS, None) > 0
    }

    /// Changes what is to be written as the policies say.
    pub(in crate::server) fn mutate_by_policies(
        &mut self,
        call: &Call,
        operation: &'static str,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        self.reinvocable.clear();
        // Policies say nothing of policies, lest they lock themselves in.
        if !self.has_mutations() || call.resource.group == GROUP {
            return Ok(());
        }
        let (invocations, mut failures) = self.invocations(call, operation, object, old);
        let is_scale = call.target.subresource.as_deref() == Some("scale");
        if let Some(first) = invocations.first().filter(|_| is_scale) {
            return Err(unsupported(call, &first.policy));
        }
        let mut changed = false;
        for invocation in invocations {
            let invoked = self.invoke(call, operation, &invocation, object, old, &mut failures)?;
            changed |= invoked == Invoked::Changed;
            // One whose conditions did not hold is not asked again.
            if invoked != Invoked::No && invocation.spec["reinvocationPolicy"] == "IfNeeded" {
                self.reinvocable.push(invocation);
            }
        }
        // What failed is told already.
        if changed && failures.is_empty() {
            self.invoke_again(call, operation, object, old, &mut failures)?;
        }
        told(call, object, &failures)
    }

    /// Has those policies change an object again that did so before, and want to see what
    /// others have made of it since; whether it is another one now.
    pub(in crate::server) fn mutate_again(
        &mut self,
        call: &Call,
        operation: &'static str,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<bool, Status> {
        let mut failures = Vec::new();
        let changed = self.invoke_again(call, operation, object, old, &mut failures)?;
        told(call, object, &failures)?;
        Ok(changed)
    }

    fn invoke_again(
        &mut self,
        call: &Call,
        operation: &'static str,
        object: &mut Value,
        old: Option<&Value>,
        failures: &mut Vec<Failure>,
    ) -> Result<bool, Status> {
        let reinvocable = std::mem::take(&mut self.reinvocable);
        let mut changed = false;
        for invocation in &reinvocable {
            let invoked = self.invoke(call, operation, invocation, object, old, failures)?;
            changed |= invoked == Invoked::Changed;
        }
        self.reinvocable = reinvocable;
        Ok(changed)
    }

    /// Refuses a request whose body is of a kind of its own, if a policy would change it:
    /// what that would come to is not known here.
    pub(super) fn refuse_unmutated(
        &self,
        call: &Call,
        operation: &'static str,
        object: &Value,
    ) -> Result<(), Status> {
        if !self.has_mutations() || !(own_kind(call).is_some() || operation == "CONNECT") {
            return Ok(());
        }
        let (invocations, _) = self.invocations(call, operation, object, None);
        match invocations.first() {
            Some(first) => Err(unsupported(call, &first.policy)),
            None => Ok(()),
        }
    }

    /// What is to be done about a write: policy by policy, in the order of names.
    fn invocations(
        &self,
        call: &Call,
        operation: &'static str,
        object: &Value,
        old: Option<&Value>,
    ) -> (Vec<Invocation>, Vec<Failure>) {
        let write = self.write_of(call, operation, Some(object), old);
        let equivalents = self.equivalents(call);
        let (mut found, mut failures) = (Vec::new(), Vec::new());
        for (key, policy) in self.store.range(&POLICIES, None, None) {
            let spec = &policy.value()["spec"];
            let Some(matched) = write.fits(&spec["matchConstraints"], &equivalents) else {
                continue;
            };
            for (own, binding) in self.store.range(&BINDINGS, None, None) {
                let bound = &binding.value()["spec"];
                let narrowed = &bound["matchResources"];
                if bound["policyName"] != key.name.as_str()
                    || narrowed.is_object() && !write.fits_if_any(narrowed, &equivalents)
                {
                    continue;
                }
                match self.all_params(&write, spec, bound) {
                    Ok(all) => found.extend(all.into_iter().map(|params| Invocation {
                        policy: key.name.clone(),
                        binding: own.name.clone(),
                        spec: spec.clone(),
                        params,
                        matched: Arc::clone(&matched),
                    })),
                    Err(why) if spec["failurePolicy"] != "Ignore" => failures.push(Failure {
                        policy: key.name.clone(),
                        binding: own.name.clone(),
                        why: format!("failed to configure binding: {why}"),
                        reason: "",
                    }),
                    Err(_) => {}
                }
            }
        }
        (found, failures)
    }

    /// Carries out the mutations of a policy.
    fn invoke(
        &mut self,
        call: &Call,
        operation: &'static str,
        invocation: &Invocation,
        object: &mut Value,
        old: Option<&Value>,
        failures: &mut Vec<Failure>,
    ) -> Result<Invoked, Status> {
        let Invocation {
            spec,
            params,
            matched,
            ..
        } = invocation;
        let mut fail = |why: String| {
            if spec["failurePolicy"] != "Ignore" {
                failures.push(Failure {
                    policy: invocation.policy.clone(),
                    binding: invocation.binding.clone(),
                    why,
                    reason: "Invalid",
                });
            }
        };
        let seen = self.shown_as(matched, call, Some(&*object))?;
        let mut seen = seen.map(std::borrow::Cow::into_owned).unwrap_or_default();
        let before = self.shown_as(matched, call, old)?;
        let namespace = self.write_of(call, operation, Some(object), old).namespace;
        let about = Write {
            call,
            resource: Arc::clone(matched),
            operation,
            object: None,
            old: before.as_deref(),
            namespace,
        };
        match about.of(&seen).meets(&self.store, spec, params) {
            Ok(true) => {}
            Ok(false) => return Ok(Invoked::No),
            Err(why) => {
                fail(why);
                return Ok(Invoked::No);
            }
        }
        let mut changed = false;
        for mutation in spec["mutations"].as_array().into_iter().flatten() {
            match about.of(&seen).mutated(&self.store, spec, mutation, params) {
                Ok(next) => {
                    let next = rules::settled(matched, next).map_err(Status::internal)?;
                    changed |= next != seen;
                    seen = next;
                }
                Err(why) => fail(why),
            }
        }
        if changed {
            let asked = &call.resource;
            let same = (&matched.group, &matched.version) == (&asked.group, &asked.version);
            *object = if same {
                seen
            } else {
                self.in_version_of(asked, seen)?
            };
            return Ok(Invoked::Changed);
        }
        Ok(Invoked::Unchanged)
    }

    /// The parameters of a binding, each for an invocation of its own.
    fn all_params(
        &self,
        write: &Write<'_>,
        policy: &Value,
        binding: &Value,
    ) -> Result<Vec<Value>, String> {
        let (kind, reference) = (&policy["paramKind"], &binding["paramRef"]);
        if !kind.is_object() || !reference.is_object() {
            return Ok(vec![Value::Null]);
        }
        let params = self.params(write, kind, reference);
        if params.is_empty() && reference["parameterNotFoundAction"] != "Allow" {
            return Err(
                "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
            );
        }
        Ok(params)
    }
}

fn told(call: &Call, object: &Value, failures: &[Failure]) -> Result<(), Status> {
    if failures.is_empty() {
        Ok(())
    } else {
        Err(refusal(call, object, failures))
    }
}

fn unsupported(call: &Call, policy: &str) -> Status {
    let below = call.target.subresource.as_deref().unwrap_or_default();
    Status::unsupported(&format!(
        "MutatingAdmissionPolicy '{policy}' on {}/{below}",
        call.resource.plural
    ))
}

fn refusal(call: &Call, object: &Value, failures: &[Failure]) -> Status {
    let resource = &call.resource;
    let named = object["metadata"]["name"].as_str();
    let name = call.target.name.as_deref().or(named).unwrap_or_default();
    let texts: Vec<String> = failures
        .iter()
        .map(|failure| {
            let Failure {
                policy,
                binding,
                why,
                ..
            } = failure;
            format!("policy '{policy}' with binding '{binding}' denied request: {why}")
        })
        .collect();
    let causes = texts.iter().map(|text| Cause::new("", text.as_str(), ""));
    let mut status = Status::forbidden(&resource.group, &resource.plural, name, "")
        .with_causes(causes.collect::<Vec<_>>());
    if let Some(first) = texts.first() {
        status.message.clone_from(first);
    }
    if let Some(first) = failures.first().filter(|first| !first.reason.is_empty()) {
        status.reason = first.reason;
    }
    status
}
