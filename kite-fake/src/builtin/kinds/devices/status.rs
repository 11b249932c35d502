//! What a claim of devices got, and who uses it.

use serde_json::Value;

use super::{MOST, configuration, each, each_once, pool, requests, toleration};
use crate::builtin::check;
use crate::members::{has, list, text};
use crate::schema::{FieldError, Validation};

/// Most users of a claim.
const MOST_USERS: usize = 256;

/// Checks who uses a claim, and what was allocated: that stays until it is given back.
pub(in crate::builtin) fn validate_status(new: &Value, old: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let (status, before) = (&new["status"], &old["status"]);
    let users = (status, "reservedFor", MOST_USERS);
    each_once(
        users,
        |it| &it["uid"],
        "status",
        errors,
        |user, path, errors| {
            for member in ["resource", "name", "uid"] {
                check::required(user, member, path, errors);
            }
        },
    );
    let reserved = list(status, "reservedFor");
    if !reserved.is_empty() {
        let refuse = |why: &str| FieldError::forbidden("status.reservedFor", why);
        let known = list(before, "reservedFor");
        if !has(status, "allocation") {
            errors.push(refuse("may not be specified when `allocated` is not set"));
        } else if has(&new["metadata"], "deletionTimestamp")
            && reserved.iter().any(|user| !known.contains(user))
        {
            errors.push(refuse(
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
            ));
        }
    }
    if !has(status, "allocation") {
        return;
    }
    if has(before, "allocation") {
        check::immutable(status, before, "allocation", "status", errors);
        return;
    }
    let devices = &status["allocation"]["devices"];
    let claimed = &new["spec"]["devices"];
    let path = "status.allocation.devices";
    each(
        devices,
        "results",
        MOST,
        path,
        errors,
        |one, path, errors| result(one, claimed, path, errors),
    );
    // Those of the class and those of the claim.
    each(
        devices,
        "config",
        2 * MOST,
        path,
        errors,
        |one, path, errors| {
            if check::required(one, "source", path, errors) {
                let sources = &["FromClaim", "FromClass"];
                check::one_of(one, "source", sources, path, errors);
            }
            requests::references(one, claimed, path, errors);
            configuration(one, path, errors);
        },
    );
}

/// Checks a device that was found for a request.
fn result(result: &Value, claimed: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let field = format!("{path}.request");
    requests::reference(text(result, "request"), claimed, &field, errors);
    check::driver(result, "driver", path, errors);
    pool(result, "pool", path, errors);
    check::label(text(result, "device"), &format!("{path}.device"), errors);
    for (i, one) in list(result, "tolerations").iter().enumerate() {
        toleration(one, &format!("{path}.tolerations[{i}]"), errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrongs(new: &Value, old: &Value) -> Vec<String> {
        let claim = |status: &Value| {
            json!({"status": status, "spec": {"devices": {"requests": [
                {"name": "a", "exactly": {"deviceClassName": "gpu"}}]}}})
        };
        let mut found = Validation::default();
        validate_status(&claim(new), &claim(old), &mut found);
        found.errors.iter().map(ToString::to_string).collect()
    }

    fn allocation(device: &str) -> Value {
        json!({"devices": {"results": [
            {"request": "a", "driver": "d", "pool": "n/p", "device": device}]}})
    }

    #[test]
    fn a_claim_that_is_used_has_devices() {
        let user = json!({"resource": "pods", "name": "p", "uid": "u"});
        let fine = json!({"reservedFor": [user], "allocation": allocation("x")});
        assert_eq!(wrongs(&fine, &json!({})), Vec::<String>::new());
        assert_eq!(
            wrongs(&json!({"reservedFor": [user, user, {}]}), &json!({})),
            [
                "status.reservedFor[2].resource: Required value",
                "status.reservedFor[2].name: Required value",
                "status.reservedFor[2].uid: Required value",
                "status.reservedFor[1]: Duplicate value: \"u\"",
                "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
            ]
        );
    }

    #[test]
    fn what_was_allocated_stays() {
        let of = |device: &str| json!({"allocation": allocation(device)});
        assert_eq!(wrongs(&of("x"), &of("x")), Vec::<String>::new());
        assert_eq!(wrongs(&json!({}), &of("x")), Vec::<String>::new());
        assert_eq!(
            wrongs(&of("y"), &of("x")),
            [
                "status.allocation: Invalid value: {\"devices\":{\"results\":[{\"device\":\"y\",\"driver\":\"d\",\"pool\":\"n/p\",\"request\":\"a\"}]}}: field is immutable"
            ]
        );
    }

    #[test]
    fn a_result_is_of_a_request() {
        let results = json!([{"request": "b", "driver": "d", "device": "x"}]);
        let config = json!([{"source": "FromPod", "opaque": {"driver": "d", "parameters": {}}}]);
        let status = json!({"allocation": {"devices": {"results": results, "config": config}}});
        assert_eq!(
            wrongs(&status, &json!({})),
            [
                "status.allocation.devices.results[0].request: Invalid value: \"b\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
                "status.allocation.devices.results[0].pool: Required value",
                "status.allocation.devices.config[0].source: Unsupported value: \"FromPod\": supported values: \"FromClaim\", \"FromClass\"",
            ]
        );
    }
}
