//! Resources that are answered, not stored: who am I, may I, may they.

use serde_json::{Map, Value, json};

use super::rules;
use super::{ApiServer, Call, Outcome, Produced, body};
use crate::auth::{self, Attributes, Identity};
use crate::clock::rfc3339;
use crate::status::{Cause, Status};

impl ApiServer {
    /// POST of a review.
    pub(crate) fn review(&mut self, call: &Call) -> Result<Outcome, Status> {
        let options = call.write_options("CreateOptions")?;
        let sent = body::decode(call)?;
        body::check_type(call, &sent)?;
        let mut object = body::fill_type(&call.resource, sent);
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        let group = &call.resource.group;
        if group == "authorization.k8s.io" || call.resource.kind == "TokenReview" {
            object = rules::track_from(call, &options, &json!({"spec": {}}), object);
        }
        let mut object = self.admit_review(call, object, options.dry_run)?;
        let status = match call.resource.kind.as_str() {
            "SelfSubjectReview" => {
                object["metadata"]["creationTimestamp"] = rfc3339(call.now).into();
                json!({"userInfo": call.identity.to_json()})
            }
            "TokenReview" => self.token_review(&object["spec"])?,
            "SelfSubjectRulesReview" => {
                let namespace = object["spec"]["namespace"].as_str().unwrap_or_default();
                if namespace.is_empty() {
                    return Err(Status::bad_request("no namespace on request"));
                }
                let status = rules_status(
                    &auth::rules_for(&self.store, &call.identity, namespace),
                    self.rbac,
                );
                // Only the answer comes back.
                object["metadata"] = json!({});
                object["spec"] = json!({});
                status
            }
            "SelfSubjectAccessReview" => {
                validate(call, &object, false)?;
                self.access_review(&object["spec"], &call.identity.clone())
            }
            "SubjectAccessReview" | "LocalSubjectAccessReview" => {
                if call.resource.namespaced {
                    let given = object["metadata"]["namespace"].as_str().unwrap_or_default();
                    if !given.is_empty() && given != call.namespace() {
                        return Err(Status::bad_request(
                            "the namespace of the provided object does not match the namespace sent on the request",
                        ));
                    }
                    object["metadata"]["namespace"] = call.namespace().into();
                }
                validate(call, &object, true)?;
                let identity = subject(&object["spec"]);
                self.access_review(&object["spec"], &identity)
            }
            other => return Err(Status::unsupported(&format!("the review {other}"))),
        };
        object["status"] = status;
        Ok(Outcome {
            body: Produced::Value(object),
            code: 201,
        })
    }

    fn access_review(&self, spec: &Value, identity: &Identity) -> Value {
        let wanted = wish(spec);
        let decision = self.decide(identity, &wanted);
        let mut status = Map::new();
        status.insert("allowed".into(), decision.allowed.into());
        if !decision.reason.is_empty() {
            status.insert("reason".into(), decision.reason.into());
        }
        Value::Object(status)
    }
}

/// Checks a review; `of_others` where it names a user.
fn validate(call: &Call, review: &Value, of_others: bool) -> Result<(), Status> {
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut causes = Vec::new();
    let mut refuse = |field: &str, value: &str, why: &str| {
        causes.push(Cause::new(
            "FieldValueInvalid",
            format!("Invalid value: {value}: {why}"),
            field,
        ));
    };
    let path_text = || {
        format!(
            "{{\"Path\":{},\"Verb\":{}}}",
            json!(path["path"].as_str().unwrap_or_default()),
            json!(path["verb"].as_str().unwrap_or_default())
        )
    };
    match (resource.is_object(), path.is_object()) {
        (true, true) => refuse(
            "spec.nonResourceAttributes",
            &path_text(),
            "cannot be specified in combination with resourceAttributes",
        ),
        (false, false) => refuse(
            "spec.resourceAttributes",
            "null",
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => {}
    }
    if of_others {
        let nobody = spec["user"].as_str().unwrap_or_default().is_empty()
            && spec["groups"].as_array().is_none_or(Vec::is_empty);
        if nobody {
            refuse(
                "spec.user",
                "\"\"",
                "at least one of user or group must be specified",
            );
        }
    }
    let local = call.resource.namespaced;
    let metadata = &review["metadata"];
    let named = metadata.as_object().is_some_and(|members| {
        members
            .keys()
            .any(|m| m != "managedFields" && !(local && m == "namespace"))
    });
    if named {
        let why = if local {
            "must be empty except for namespace"
        } else {
            "must be empty"
        };
        refuse("metadata", &metadata.to_string(), why);
    }
    if local {
        let namespace = resource["namespace"].as_str().unwrap_or_default();
        if resource.is_object() && namespace != call.namespace() {
            refuse(
                "spec.resourceAttributes.namespace",
                &json!(namespace).to_string(),
                "must match metadata.namespace",
            );
        }
        if path.is_object() {
            refuse(
                "spec.nonResourceAttributes",
                &path_text(),
                "disallowed on this kind of request",
            );
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&call.resource.group, "", "", causes))
}

/// What a review asks about.
fn wish(spec: &Value) -> Attributes {
    let text = |v: &Value, f: &str| v[f].as_str().unwrap_or_default().to_owned();
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if path.is_object() {
        return Attributes {
            verb: text(path, "verb"),
            path: text(path, "path"),
            ..Attributes::default()
        };
    }
    Attributes {
        verb: text(resource, "verb"),
        group: text(resource, "group"),
        resource: text(resource, "resource"),
        subresource: text(resource, "subresource"),
        name: text(resource, "name"),
        namespace: text(resource, "namespace"),
        path: String::new(),
    }
}

fn subject(spec: &Value) -> Identity {
    let list = |f: &str| -> Vec<String> {
        spec[f]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    Identity {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: list("groups"),
        ..Identity::default()
    }
}

/// Rules on resources and on paths, apart.
fn rules_status(rules: &[Value], rbac: bool) -> Value {
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let every_path = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
    let all = [everything, every_path];
    let rules = if rbac { rules } else { &all };
    let filled =
        |rule: &Value, member: &str| rule[member].as_array().is_some_and(|v| !v.is_empty());
    let pick = |members: &[&str]| -> Vec<Value> {
        rules
            .iter()
            .filter(|rule| members.iter().skip(1).any(|m| filled(rule, m)))
            .map(|rule| {
                let kept = members.iter().filter(|m| filled(rule, m));
                let kept = kept.map(|m| ((*m).to_owned(), rule[*m].clone()));
                Value::Object(kept.collect())
            })
            .collect()
    };
    let resources = pick(&["verbs", "resources", "apiGroups", "resourceNames"]);
    let paths = pick(&["verbs", "nonResourceURLs"]);
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}
