//! Requests for certificates (`certificates.k8s.io`): what may be asked for, and who may say
//! what of it on which of its paths.

mod der;
mod pem;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::builtin::check;
use crate::fields::Reset;
use crate::members::{copy, has, list, list_mut, number, object_mut, set, text, unset};
use crate::names;
use crate::schema::{FieldError, Validation};

/// What a certificate may be for.
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// What is decided on `/approval`.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];
/// What is there to stay.
const LASTING: [&str; 3] = ["Approved", "Denied", "Failed"];

/// The signer that only requests of old versions have.
const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// Shortest life of a certificate, in seconds.
const SHORTEST: i64 = 600;

/// The path of a request, which says what may be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    Object,
    Status,
    Approval,
}

/// The organizations of the subject of a request; `spec.request` is given in base64.
///
/// # Errors
/// Why it is no request.
pub(crate) fn organizations(request: &Value) -> Result<Vec<String>, String> {
    parsed(request).map(|request| request.organizations)
}

fn parsed(request: &Value) -> Result<der::Request, String> {
    let bytes = bytes(request);
    // Only the first block counts.
    let block = pem::blocks(&bytes).into_iter().next();
    match block.filter(|block| block.label == "CERTIFICATE REQUEST") {
        Some(block) => der::request(&block.bytes),
        None => Err("PEM block type must be CERTIFICATE REQUEST".to_owned()),
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default();
    STANDARD.decode(text).unwrap_or_default()
}

/// What nobody owns by a path.
pub(in crate::builtin) fn reset(subresource: &str) -> Reset {
    match subresource {
        "status" => Reset::Parts(&["spec"], ["status", "conditions"]),
        "approval" => Reset::Parts(&["spec"], ["status", "certificate"]),
        _ => Reset::Members(&["spec", "status"]),
    }
}

/// A request itself never changes, and what came of it only on paths of its own.
pub(in crate::builtin) fn prepare_update(new: &mut Value, old: &Value, subresource: &str) {
    copy(new, old, "spec");
    let given = unset(new, "status").unwrap_or_default();
    match subresource {
        "status" => {
            set(new, "status", given);
            keep_decisions(new, old);
        }
        "approval" => {
            copy(new, old, "status");
            copy(object_mut(new, "status"), &given, "conditions");
        }
        _ => copy(new, old, "status"),
    }
}

fn conditions(of: &Value) -> &[Value] {
    list(&of["status"], "conditions")
}

fn of_type<'a>(request: &'a Value, wanted: &'a str) -> impl Iterator<Item = &'a Value> {
    let all = conditions(request).iter();
    all.filter(move |condition| text(condition, "type") == wanted)
}

/// A signer keeps the decisions as they were, where as many are there as before.
fn keep_decisions(new: &mut Value, old: &Value) {
    for decision in DECISIONS {
        let before: Vec<Value> = of_type(old, decision).cloned().collect();
        if before.len() != of_type(new, decision).count() {
            continue;
        }
        let mut before = before.into_iter();
        for condition in list_mut(object_mut(new, "status"), "conditions") {
            if text(condition, "type") == decision
                && let Some(kept) = before.next()
            {
                *condition = kept;
            }
        }
    }
}

/// Times of conditions that came without: now, or when the condition came to be what it is.
pub(crate) fn date_conditions(new: &mut Value, old: &Value, now: &str) {
    for condition in list_mut(object_mut(new, "status"), "conditions") {
        if !has(condition, "lastUpdateTime") {
            set(condition, "lastUpdateTime", now);
        }
        if has(condition, "lastTransitionTime") {
            continue;
        }
        let same = conditions(old).iter().find(|before| {
            text(before, "type") == text(condition, "type")
                && text(before, "status") == text(condition, "status")
                && has(before, "lastTransitionTime")
        });
        let since = same.map_or(json!(now), |before| before["lastTransitionTime"].clone());
        set(condition, "lastTransitionTime", since);
    }
}

pub(in crate::builtin) fn validate_new(request: &Value, found: &mut Validation) {
    validate(request, None, found);
}

pub(in crate::builtin) fn validate_update(new: &Value, old: &Value, found: &mut Validation) {
    validate_change(new, old, Endpoint::Object, found);
}

pub(in crate::builtin) fn validate_status(new: &Value, old: &Value, found: &mut Validation) {
    validate_change(new, old, Endpoint::Status, found);
}

pub(in crate::builtin) fn validate_approval(new: &Value, old: &Value, found: &mut Validation) {
    validate_change(new, old, Endpoint::Approval, found);
}

/// Checks a request; what was wrong of it before may stay so.
fn validate(request: &Value, old: Option<&Value>, found: &mut Validation) {
    let spec = &request["spec"];
    let errors = &mut found.errors;
    if let Err(why) = parsed(&spec["request"]) {
        errors.push(FieldError::invalid("spec.request", &spec["request"], why));
    }
    usages(spec, old.map(|old| &old["spec"]), errors);
    let signer = text(spec, "signerName");
    let was_legacy = old.is_some_and(|old| text(&old["spec"], "signerName") == LEGACY);
    if signer == LEGACY && !was_legacy {
        let wrong = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid(
            "spec.signerName",
            &json!(signer),
            wrong,
        ));
    } else {
        signer_name(signer, "spec.signerName", errors);
    }
    if let Some(seconds) = number(spec, "expirationSeconds").filter(|n| *n < SHORTEST) {
        errors.push(FieldError::invalid(
            "spec.expirationSeconds",
            &json!(seconds),
            "may not specify a duration less than 600 seconds (10 minutes)",
        ));
    }
    validate_conditions(request, old, errors);
    let certificate = &request["status"]["certificate"];
    let before = old.map(|old| &old["status"]["certificate"]);
    // One that was bad, or has not changed, is let through.
    let tolerated = before.is_some_and(|before| before == certificate || chain(before).is_err());
    if !tolerated && let Err(why) = chain(certificate) {
        let shown = json!("<certificate data>");
        errors.push(FieldError::invalid("status.certificate", &shown, why));
    }
}

fn usages(spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let all = list(spec, "usages");
    let is_known = |usage: &Value| usage.as_str().is_some_and(|u| USAGES.contains(&u));
    let place = |i: usize| format!("spec.usages[{i}]");
    if all.is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    let before = old.map_or(&[][..], |old| list(old, "usages"));
    if before.iter().all(is_known) {
        for (i, usage) in all.iter().enumerate().filter(|(_, usage)| !is_known(usage)) {
            errors.push(FieldError::not_supported(place(i), usage, USAGES));
        }
    }
    let is_twice = |of: &[Value], i: usize| of.iter().take(i).any(|u| Some(u) == of.get(i));
    if !(0..before.len()).any(|i| is_twice(before, i)) {
        for (i, usage) in all.iter().enumerate().filter(|(i, _)| is_twice(all, *i)) {
            errors.push(FieldError::duplicate(place(i), usage));
        }
    }
}

/// The name of a signer: a domain of several labels, a slash, and names joined by dots.
fn signer_name(signer: &str, path: &str, errors: &mut Vec<FieldError>) {
    const LONGEST_DOMAIN: usize = 253;
    const LONGEST: u64 = 571;
    if signer.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let parts: Vec<&str> = signer.split('/').collect();
    let [domain, name] = parts.as_slice() else {
        let wrong =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid(path, &json!(signer), wrong));
        return;
    };
    if domain.len() > LONGEST_DOMAIN {
        errors.push(FieldError::too_long(path, 253));
    }
    labels(domain, names::label, path, errors);
    if !domain.contains('.') {
        let wrong = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(path, &json!(domain), wrong));
    }
    labels(name, names::subdomain, path, errors);
    if u64::try_from(signer.len()).is_ok_and(|length| length > LONGEST) {
        errors.push(FieldError::too_long(path, LONGEST));
    }
}

/// What is wrong with the first bad part of a name.
fn labels(of: &str, rule: fn(&str) -> Vec<String>, path: &str, errors: &mut Vec<FieldError>) {
    let bad = of.split('.').find_map(|label| {
        let wrongs = rule(label);
        (!wrongs.is_empty()).then_some((label, wrongs))
    });
    let (label, wrongs) = bad.unwrap_or_default();
    let told = wrongs.iter();
    let told = told.map(|wrong| format!("validating label {}: {wrong}", json!(label)));
    check::invalid(path, &json!(of), told, errors);
}

fn validate_conditions(request: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let before = old.map_or(&[][..], conditions);
    let is = |of: &[Value], wanted: &str| of.iter().any(|c| text(c, "type") == wanted);
    let both = |of: &[Value]| DECISIONS.iter().all(|decision| is(of, decision));
    let may_be_nameless = is(before, "");
    let may_be_twice = before
        .iter()
        .enumerate()
        .any(|(i, c)| is(before.get(..i).unwrap_or_default(), text(c, "type")));
    let all = conditions(request);
    for (i, condition) in all.iter().enumerate() {
        let path = format!("status.conditions[{i}]");
        let kind = text(condition, "type");
        let earlier = all.get(..i).unwrap_or_default();
        if kind.is_empty() && !may_be_nameless {
            errors.push(FieldError::required(format!("{path}.type"), ""));
        }
        let supported: &[&str] = if LASTING.contains(&kind) {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        if check::required(condition, "status", &path, errors) {
            check::one_of(condition, "status", supported, &path, errors);
        }
        let other = DECISIONS.iter().find(|decision| **decision != kind);
        let opposed = DECISIONS.contains(&kind) && other.is_some_and(|other| is(earlier, other));
        if opposed && !both(before) {
            errors.push(FieldError::invalid(
                "status.conditions",
                &json!(kind),
                "Approved and Denied conditions are mutually exclusive",
            ));
        }
        if is(earlier, kind) && !may_be_twice {
            errors.push(FieldError::duplicate(format!("{path}.type"), &json!(kind)));
        }
    }
}

/// Checks the certificates that a signer made.
fn chain(certificate: &Value) -> Result<(), String> {
    let bytes = bytes(certificate);
    if bytes.is_empty() {
        return Ok(());
    }
    let blocks = pem::blocks(&bytes);
    if blocks.is_empty() {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    for block in blocks {
        if block.label != "CERTIFICATE" {
            return Err(format!(
                "only CERTIFICATE PEM blocks are allowed, found {}",
                json!(block.label)
            ));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        if der::certificates(&block.bytes)? == 0 {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
    }
    Ok(())
}

fn validate_change(new: &Value, old: &Value, endpoint: Endpoint, found: &mut Validation) {
    validate(new, Some(old), found);
    let counts = |kind| (of_type(new, kind).count(), of_type(old, kind).count());
    let errors = &mut found.errors;
    let mut refuse = |field: &str, why: String| errors.push(FieldError::forbidden(field, why));
    for kind in LASTING {
        let (after, before) = counts(kind);
        if after < before {
            let why = format!("updates may not remove a condition of type {}", json!(kind));
            refuse("status.conditions", why);
        }
    }
    for kind in DECISIONS {
        let (after, before) = counts(kind);
        if after > before && endpoint != Endpoint::Approval {
            let why = format!("updates may not add a condition of type {}", json!(kind));
            refuse("status.conditions", why);
        }
    }
    let (after, before) = (&new["status"]["certificate"], &old["status"]["certificate"]);
    if bytes(after) != bytes(before) {
        if endpoint != Endpoint::Status {
            let why = "updates may not set certificate content";
            refuse("status.certificate", why.to_owned());
        } else if !bytes(before).is_empty() {
            let why = "updates may not modify existing certificate content";
            refuse("status.certificate", why.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(signer: &str) -> Vec<String> {
        let mut errors = Vec::new();
        signer_name(signer, "s", &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn signers_have_a_domain_and_a_name() {
        assert!(messages("example.org/my.signer").is_empty());
        assert_eq!(messages(""), ["s: Required value"]);
        assert_eq!(
            messages("a/b/c"),
            [
                "s: Invalid value: \"a/b/c\": must be a fully qualified domain and path of the form 'example.com/signer-name'"
            ]
        );
        assert_eq!(
            messages("org/x"),
            [
                "s: Invalid value: \"org\": should be a domain with at least two segments separated by dots"
            ]
        );
        assert!(messages("Example.org/x").iter().any(|text| {
            text.starts_with("s: Invalid value: \"Example.org\": validating label \"Example\": a lowercase RFC 1123 label")
        }));
    }

    #[test]
    fn a_certificate_is_one() {
        let encoded = |text: &str| json!(STANDARD.encode(text));
        assert_eq!(chain(&Value::Null), Ok(()));
        assert_eq!(
            chain(&encoded("x")),
            Err("must contain at least one CERTIFICATE PEM block".to_owned())
        );
        assert_eq!(
            chain(&encoded("-----BEGIN KEY-----\nYQ==\n-----END KEY-----\n")),
            Err("only CERTIFICATE PEM blocks are allowed, found \"KEY\"".to_owned())
        );
        assert_eq!(
            chain(&encoded(
                "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"
            )),
            Err("x509: malformed certificate".to_owned())
        );
    }
}
