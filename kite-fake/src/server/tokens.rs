//! Tokens of service accounts: the subresource `token`.
//!
//! A token has the form of a real one, so that a client can read from it whose
//! it is and until when. It is signed where the feature `oidc` is on; the server itself
//! knows the tokens it gave.

use http::Method;
use serde_json::{Value, json};

use super::rules;
use super::subresources::done;
use super::{ApiServer, Call, Outcome, body};
use crate::auth::{ISSUER, Identity};
use crate::clock::rfc3339;
use crate::status::{Cause, Status};
use crate::store::{GroupResource, Key, Object};

/// How long a token lives if the request does not say, in seconds.
const DEFAULT_SECONDS: i64 = 3600;
/// Shortest and longest life of a token, in seconds.
const LEAST_SECONDS: i64 = 600;
const MOST_SECONDS: i64 = 1 << 32;

const KIND: &str = "TokenRequest";
const GROUP: &str = "authentication.k8s.io";

fn invalid(name: &str, field: &str, value: &Value, why: &str) -> Status {
    let message = format!("Invalid value: {value}: {why}");
    let cause = Cause::new("FieldValueInvalid", message, field);
    Status::invalid(GROUP, KIND, name, vec![cause])
}

impl ApiServer {
    /// POST of a request for a token.
    pub(super) fn token(&mut self, call: &Call) -> Result<Outcome, Status> {
        if call.method != Method::POST {
            return Err(Status::method_not_allowed());
        }
        let options = call.write_options("CreateOptions")?;
        let mut request = body::decode(call)?;
        if !request.is_object() {
            return Err(Status::bad_request("the body is no TokenRequest"));
        }
        for member in ["metadata", "spec"] {
            if !request[member].is_object() {
                request[member] = json!({});
            }
        }
        request["kind"] = KIND.into();
        request["apiVersion"] = format!("{GROUP}/v1").into();
        let spec = &mut request["spec"];
        if !spec["expirationSeconds"].is_number() {
            spec["expirationSeconds"] = DEFAULT_SECONDS.into();
        }
        let request = rules::track_from(call, &options, &json!({"spec": {}}), request);
        let key = call.key();
        let account = self
            .store
            .get(&call.resource.collection(), &key)
            .ok_or_else(|| call.not_found())?
            .clone();
        let mut request = self.admit_below(call, request, options.dry_run)?;
        for (member, wanted, what) in [
            ("name", &key.name, "name"),
            ("namespace", &key.namespace, "namespace"),
        ] {
            let given = request["metadata"][member].as_str().unwrap_or_default();
            if !given.is_empty() && given != wanted {
                let why = format!("must match the service account {what} if specified");
                let field = format!("metadata.{member}");
                return Err(invalid(&key.name, &field, &json!(given), &why));
            }
        }
        let seconds = lifetime(&request["spec"]["expirationSeconds"])?;
        let bound = self.bound_object(call, &request["spec"]["boundObjectRef"])?;
        let spec = &mut request["spec"];
        if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
            spec["audiences"] = json!([ISSUER]);
        }
        if spec.get("boundObjectRef").is_none() {
            spec["boundObjectRef"] = Value::Null;
        }
        let span = jiff::SignedDuration::from_secs(seconds);
        let expires = call.now.checked_add(span).unwrap_or(call.now);
        let (claims, identity) = self.claims(call, &account, bound.as_ref(), &request, expires);
        let token = self.signed(&claims);
        if !options.dry_run {
            let audiences = strings(&request["spec"]["audiences"]);
            self.tokens
                .insert_for(&token, identity, call.now, Some(expires), audiences);
        }
        let metadata = &mut request["metadata"];
        metadata["name"] = key.name.into();
        metadata["namespace"] = key.namespace.into();
        metadata["creationTimestamp"] = rfc3339(call.now).into();
        request["status"] = json!({"token": token, "expirationTimestamp": rfc3339(expires)});
        Ok(done(201, request))
    }

    /// The object with which a token ends.
    fn bound_object(
        &self,
        call: &Call,
        reference: &Value,
    ) -> Result<Option<(&'static str, Object)>, Status> {
        if !reference.is_object() {
            return Ok(None);
        }
        let text = |member: &str| reference[member].as_str().unwrap_or_default();
        let (plural, member, namespace) = match (text("apiVersion"), text("kind")) {
            ("v1", "Pod") => ("pods", "pod", call.namespace()),
            ("v1", "Secret") => ("secrets", "secret", call.namespace()),
            ("v1", "Node") => ("nodes", "node", ""),
            (version, kind) => {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                return Err(Status::bad_request(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        let collection = GroupResource::new("", plural);
        let object = self
            .store
            .get(&collection, &Key::new(namespace, text("name")))
            .ok_or_else(|| Status::not_found("", plural, text("name")))?;
        if plural == "pods"
            && object.value()["spec"]["serviceAccountName"].as_str() != Some(call.name())
        {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                call.name()
            )));
        }
        let uid = text("uid");
        if !uid.is_empty() && uid != object.meta("uid") {
            return Err(Status::conflict(
                "",
                text("kind"),
                text("name"),
                &format!(
                    "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
                ),
            ));
        }
        Ok(Some((member, object.clone())))
    }

    /// What a token says, and whom it stands for.
    fn claims(
        &mut self,
        call: &Call,
        account: &Object,
        bound: Option<&(&'static str, Object)>,
        request: &Value,
        expires: jiff::Timestamp,
    ) -> (Value, Identity) {
        let key = call.key();
        let subject = format!("system:serviceaccount:{}:{}", key.namespace, key.name);
        let id = self.ids.uid();
        let mut identity = Identity::user(&subject);
        account.meta("uid").clone_into(&mut identity.uid);
        let mut remember = |name: &str, value: String| {
            let name = format!("authentication.kubernetes.io/{name}");
            identity.extra.insert(name, vec![value]);
        };
        remember("credential-id", format!("JTI={id}"));
        let mut about = json!({
            "namespace": key.namespace,
            "serviceaccount": {"name": key.name, "uid": account.meta("uid")},
        });
        if let Some((member, object)) = bound {
            about[*member] = json!({"name": object.meta("name"), "uid": object.meta("uid")});
            if *member != "secret" {
                remember(&format!("{member}-name"), object.meta("name").to_owned());
                remember(&format!("{member}-uid"), object.meta("uid").to_owned());
            }
        }
        let now = call.now.as_second();
        let claims = json!({
            "aud": request["spec"]["audiences"],
            "exp": expires.as_second(),
            "iat": now,
            "iss": ISSUER,
            "jti": id,
            "kubernetes.io": about,
            "nbf": now,
            "sub": subject,
        });
        (claims, identity)
    }

    /// Answers a `TokenReview`.
    pub(super) fn token_review(&self, spec: &Value) -> Result<Value, Status> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request(
                "token is required for TokenReview in authentication",
            ));
        }
        let refused =
            |why: &str| json!({"user": {}, "error": format!("[invalid bearer token{why}]")});
        let Some(known) = self.valid_token(token) else {
            return Ok(refused(""));
        };
        let mut asked = strings(&spec["audiences"]);
        if asked.is_empty() {
            asked.push(ISSUER.to_owned());
        }
        let audiences = known.audiences_among(&asked);
        if audiences.is_empty() {
            // Who checks tokens without audiences says nothing of them.
            let why = match known.audiences.as_slice() {
                [] => String::new(),
                own => format!(
                    ", token audiences {} is invalid for the target audiences {}",
                    quoted(own),
                    quoted(&asked)
                ),
            };
            return Ok(refused(&why));
        }
        Ok(json!({
            "authenticated": true, "user": known.identity.to_json(), "audiences": audiences,
        }))
    }
}

/// The strings of a list.
fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Go's `%q` of strings.
fn quoted(texts: &[String]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| crate::go::quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

fn lifetime(seconds: &Value) -> Result<i64, Status> {
    let number = seconds.as_i64().unwrap_or(DEFAULT_SECONDS);
    let why = if number < LEAST_SECONDS {
        "may not specify a duration less than 10 minutes"
    } else if number > MOST_SECONDS {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(number);
    };
    Err(invalid("", "spec.expirationSeconds", seconds, why))
}
