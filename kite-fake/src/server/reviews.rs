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
        let status = match call.resource.kind.as_str() {
            "SelfSubjectReview" => {
                object["metadata"]["creationTimestamp"] = rfc3339(call.now).into();
                json!({"userInfo": call.identity.to_json()})
            }
            "TokenReview" => self.token_review(&object["spec"]),
            "SelfSubjectRulesReview" => {
                let namespace = object["spec"]["namespace"].as_str().unwrap_or_default();
                rules_status(
                    &auth::rules_for(&self.store, &call.identity, namespace),
                    self.rbac,
                )
            }
            "SelfSubjectAccessReview" => {
                self.access_review(call, &object["spec"], &call.identity.clone())?
            }
            "SubjectAccessReview" | "LocalSubjectAccessReview" => {
                let identity = subject(&object["spec"]);
                self.access_review(call, &object["spec"], &identity)?
            }
            other => return Err(Status::unsupported(&format!("the review {other}"))),
        };
        if call.resource.group == "authorization.k8s.io" {
            object = rules::track_from(call, &options, &json!({"spec": {}}), object);
        }
        object["status"] = status;
        Ok(Outcome {
            body: Produced::Value(object),
            code: 201,
        })
    }

    fn token_review(&self, spec: &Value) -> Value {
        match spec["token"]
            .as_str()
            .and_then(|t| self.tokens.find(t, self.now))
        {
            Some(identity) => json!({"authenticated": true, "user": identity.to_json()}),
            None => json!({"user": {}, "error": "[invalid bearer token]"}),
        }
    }

    fn access_review(
        &self,
        call: &Call,
        spec: &Value,
        identity: &Identity,
    ) -> Result<Value, Status> {
        let wanted = wish(call, spec)?;
        let decision = self.decide(identity, &wanted);
        let mut status = Map::new();
        status.insert("allowed".into(), decision.allowed.into());
        if !decision.reason.is_empty() {
            status.insert("reason".into(), decision.reason.into());
        }
        Ok(Value::Object(status))
    }
}

/// What a review asks about.
fn wish(call: &Call, spec: &Value) -> Result<Attributes, Status> {
    let text = |v: &Value, f: &str| v[f].as_str().unwrap_or_default().to_owned();
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if resource.is_object() == path.is_object() {
        let field = "spec.resourceAttributes";
        let why = if resource.is_object() {
            "cannot be specified in combination with resourceAttributes"
        } else {
            "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        };
        return Err(Status::invalid(
            &call.resource.group,
            "",
            "",
            vec![Cause::new(
                "FieldValueInvalid",
                format!(
                    "Invalid value: {}: {why}",
                    if resource.is_object() { path } else { resource }
                ),
                if resource.is_object() {
                    "spec.nonResourceAttributes"
                } else {
                    field
                },
            )],
        ));
    }
    if path.is_object() {
        return Ok(Attributes {
            verb: text(path, "verb"),
            path: text(path, "path"),
            ..Attributes::default()
        });
    }
    Ok(Attributes {
        verb: text(resource, "verb"),
        group: text(resource, "group"),
        resource: text(resource, "resource"),
        subresource: text(resource, "subresource"),
        name: text(resource, "name"),
        namespace: text(resource, "namespace"),
        path: String::new(),
    })
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

fn rules_status(rules: &[Value], rbac: bool) -> Value {
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let (paths, resources): (Vec<&Value>, Vec<&Value>) =
        rules.iter().partition(|r| r["nonResourceURLs"].is_array());
    let resources: Vec<&Value> = if rbac { resources } else { vec![&everything] };
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}
