//! Requests for certificates: who asks is the server's to say, and who may decide and sign
//! goes by the signer (`plugin/pkg/admission/certificates`).

use serde_json::{Map, Value, json};

use super::{ApiServer, Call};
use crate::auth::Attributes;
use crate::builtin;
use crate::clock::rfc3339;
use crate::registry::Resource;
use crate::status::Status;

const GROUP: &str = "certificates.k8s.io";
/// Whose certificates name users to the API server.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Whose members may do everything.
const MASTERS: &str = "system:masters";

fn is_request(resource: &Resource) -> bool {
    resource.group == GROUP && resource.kind == "CertificateSigningRequest"
}

/// Writes down who asks for a certificate, whatever the client says of it.
pub(super) fn stamp(call: &Call, object: &mut Value) {
    if !is_request(&call.resource) {
        return;
    }
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    for member in ["username", "uid", "groups", "extra"] {
        spec.remove(member);
    }
    let who = &call.identity;
    let mut put = |member: &str, value: Value, there: bool| {
        if there {
            spec.insert(member.to_owned(), value);
        }
    };
    put("username", json!(who.name), !who.name.is_empty());
    put("uid", json!(who.uid), !who.uid.is_empty());
    put("groups", json!(who.groups), !who.groups.is_empty());
    let extra: Map<String, Value> = who
        .extra
        .iter()
        .map(|(name, values)| (name.clone(), json!(values)))
        .collect();
    let there = !extra.is_empty();
    put("extra", Value::Object(extra), there);
}

/// Dates the conditions that a signer, or who decides, brings without times.
pub(super) fn date(call: &Call, new: &mut Value, old: &Value) {
    if call.target.subresource.is_some() && is_request(&call.resource) {
        builtin::date_conditions(new, old, &rfc3339(call.now));
    }
}

impl ApiServer {
    /// Refuses what only those may do who may use the signer.
    pub(super) fn admit_certificate(
        &self,
        call: &Call,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if !is_request(&call.resource) {
            return Ok(());
        }
        let refuse = |why: &str| {
            let name = new["metadata"]["name"].as_str().unwrap_or_default();
            let resource = &call.resource;
            Err(Status::forbidden(
                &resource.group,
                &resource.plural,
                name,
                why,
            ))
        };
        let signer = |of: &Value| of["spec"]["signerName"].as_str().map(str::to_owned);
        match (call.target.subresource.as_deref(), old) {
            (None, None) if signer(new).as_deref() == Some(CLIENT_SIGNER) => {
                match builtin::organizations(&new["spec"]["request"]) {
                    Ok(groups) if groups.iter().any(|group| group == MASTERS) => refuse(&format!(
                        "use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
                    )),
                    Ok(_) => Ok(()),
                    Err(why) => refuse(&format!("failed to parse CSR: {why}")),
                }
            }
            (Some("approval"), Some(old)) => {
                let signer = signer(old).unwrap_or_default();
                if self.may_use(call, "approve", &signer) {
                    return Ok(());
                }
                refuse(&format!(
                    "user not permitted to approve requests with signerName {}",
                    json!(signer)
                ))
            }
            (Some("status"), Some(old)) => {
                let same = |member: &str| new["status"].get(member) == old["status"].get(member);
                let signer = signer(old).unwrap_or_default();
                if same("certificate") && same("conditions") || self.may_use(call, "sign", &signer)
                {
                    return Ok(());
                }
                refuse(&format!(
                    "user not permitted to sign requests with signerName {}",
                    json!(signer)
                ))
            }
            _ => Ok(()),
        }
    }

    /// Whether somebody may use a signer, or all signers of its domain.
    fn may_use(&self, call: &Call, verb: &str, signer: &str) -> bool {
        let (domain, _) = signer.split_once('/').unwrap_or((signer, ""));
        [signer.to_owned(), format!("{domain}/*")]
            .into_iter()
            .any(|name| {
                let wanted = Attributes {
                    verb: verb.to_owned(),
                    group: GROUP.to_owned(),
                    resource: "signers".to_owned(),
                    name,
                    ..Attributes::default()
                };
                self.decide(&call.identity, &wanted).allowed
            })
    }
}
