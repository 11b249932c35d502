//! Requests for certificates as those meet them who ask, decide and sign.
#![allow(clippy::unwrap_used)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::core_tests::{ALICE, Client, RBAC};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Asks for `/O=dev/CN=jane`.
const JANE: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIHWMH8CAQAwHTEMMAoGA1UECgwDZGV2MQ0wCwYDVQQDDARqYW5lMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEHrMx6DulRIUFbZ2Iif3b8XKBqUdm2gDyNVyEF9LK
ZZz58/osOk0xfIw5gJeZ/AAnJn3QF4VEPJcC6A6TWhe8X6AAMAoGCCqGSM49BAMC
A0cAMEQCID0CJS3Z9960kOxXhrccQfMPGTtQPBCTkvRacCa53YhEAiAJZsXzt5HE
R/uYOK/cfUPNv9QSqQKEEqvdfDKDv5QPvw==
-----END CERTIFICATE REQUEST-----
";
/// Asks for `/O=system:masters/CN=root`.
const ROOT: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIHiMIGKAgEAMCgxFzAVBgNVBAoMDnN5c3RlbTptYXN0ZXJzMQ0wCwYDVQQDDARy
b290MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEHrMx6DulRIUFbZ2Iif3b8XKB
qUdm2gDyNVyEF9LKZZz58/osOk0xfIw5gJeZ/AAnJn3QF4VEPJcC6A6TWhe8X6AA
MAoGCCqGSM49BAMCA0cAMEQCIG5yTKf1nOrc+biluuJn7CiQnqVYYMHfs1lzBqOB
AS0MAiBiQ8cxiSgxfyzilaVQ2WSTLQYC8eNFnV2R8EdU1nXuJQ==
-----END CERTIFICATE REQUEST-----
";

fn request(name: &str, pem: &str, spec: &Value) -> Value {
    let mut object = json!({"metadata": {"name": name}, "spec": {
        "request": STANDARD.encode(pem), "signerName": "example.org/any",
        "usages": ["client auth"]}});
    for (member, value) in spec.as_object().into_iter().flatten() {
        object["spec"][member] = value.clone();
    }
    object
}

fn condition(kind: &str) -> Value {
    json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "r"}]}})
}

#[test]
fn who_asks_is_written_down_by_the_server() {
    let client = Client::new();
    let lies = json!({"username": "somebody", "uid": "9", "extra": {"a": ["b"]},
        "groups": ["system:masters"]});
    let (code, made) = client.ask("POST", REQUESTS, &request("r", JANE, &lies), ALICE);
    assert_eq!(code, 201, "{made}");
    let spec = &made["spec"];
    assert_eq!(spec["username"], "alice");
    assert_eq!(spec["groups"], json!(["system:authenticated"]));
    assert!(spec["uid"].is_null() && spec["extra"].is_null());
    assert_eq!(made["status"], json!({}));
    assert!(made["metadata"]["managedFields"].is_null());
    // What is not known of a name is nothing.
    let (_, made) = client.ask(
        "POST",
        REQUESTS,
        &request("of.Me:1", JANE, &Value::Null),
        &[("impersonate-user", "bob"), ("impersonate-extra-team", "a")],
    );
    assert_eq!(made["spec"]["extra"], json!({"team": ["a"]}));
}

#[test]
fn each_path_changes_its_own_part() {
    let client = Client::new();
    client.create(REQUESTS, &request("r", JANE, &Value::Null));
    let at = |below: &str| format!("{REQUESTS}/r{below}");
    let patch = |below: &str, body: &Value| client.send("PATCH", &at(below), body);

    let (code, told) = patch("/status", &condition("Approved"));
    assert_eq!(code, 422);
    assert_eq!(
        told["message"],
        "CertificateSigningRequest.certificates.k8s.io \"r\" is invalid: status.conditions: Forbidden: updates may not add a condition of type \"Approved\""
    );
    let (_, approved) = patch("/approval", &condition("Approved"));
    let kept = &approved["status"]["conditions"][0];
    assert_eq!(kept["lastUpdateTime"], kept["lastTransitionTime"]);
    assert!(kept["lastUpdateTime"].is_string());

    let certificate = |text: &str| json!({"status": {"certificate": STANDARD.encode(text)}});
    let (code, told) = patch("/status", &certificate("x"));
    assert_eq!(code, 422);
    assert_eq!(
        told["details"]["causes"][0]["message"],
        "Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block"
    );
    // On the path of a decision a certificate is let fall, and so it is on the object's.
    for below in ["/approval", ""] {
        let (code, left) = patch(below, &certificate("x"));
        assert_eq!((code, &left["status"]), (200, &approved["status"]));
    }
    let (code, told) = patch("/approval", &json!({"status": {"conditions": []}}));
    assert_eq!(code, 422);
    assert_eq!(
        told["details"]["causes"][0]["message"],
        "Forbidden: updates may not remove a condition of type \"Approved\""
    );
    let (_, told) = patch(
        "/status",
        &json!({"status": {"conditions": [{"type": "Approved", "status": "True"},
            {"type": "Failed", "status": "False"}]}}),
    );
    assert_eq!(
        told["details"]["causes"][0]["message"],
        "Unsupported value: \"False\": supported values: \"True\""
    );
    assert_eq!(client.send("POST", &at("/approval"), &Value::Null).0, 405);
    let (_, table) = client.ask(
        "GET",
        REQUESTS,
        &Value::Null,
        &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")],
    );
    let cells = &table["rows"][0]["cells"];
    assert_eq!(cells[2], "example.org/any");
    assert_eq!(
        (&cells[4], &cells[5]),
        (&json!("<none>"), &json!("Approved"))
    );
}

#[test]
fn what_is_asked_for_is_checked() {
    let client = Client::new();
    let refused = |pem: &str, spec: &Value| {
        let told = client.refused(REQUESTS, &request("r", pem, spec), 422);
        let (_, why) = told.split_once("is invalid: ").unwrap();
        why.to_owned()
    };
    assert_eq!(
        refused(JANE, &json!({"expirationSeconds": 599})),
        "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)"
    );
    assert_eq!(
        refused(JANE, &json!({"usages": ["signing", "signing"]})),
        "spec.usages[1]: Duplicate value: \"signing\""
    );
    assert_eq!(
        refused(JANE, &json!({"usages": null})),
        "spec.usages: Required value"
    );
    assert_eq!(
        refused(JANE, &json!({"signerName": "kubernetes.io/legacy-unknown"})),
        "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this API version"
    );
    let damaged = "-----BEGIN CERTIFICATE REQUEST-----\nYQ==\n-----END CERTIFICATE REQUEST-----";
    assert!(
        refused(damaged, &Value::Null).ends_with("asn1: syntax error: truncated tag or length")
    );
    let of_masters = request(
        "r",
        ROOT,
        &json!({"signerName": "kubernetes.io/kube-apiserver-client"}),
    );
    assert_eq!(
        client.refused(REQUESTS, &of_masters, 403),
        "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    );
}

#[test]
fn rights_on_the_signer_are_asked_for() {
    let client = Client::with_rbac();
    client.create(REQUESTS, &request("r", JANE, &Value::Null));
    let grant = |name: &str, rules: &Value| {
        client.create(
            &format!("{RBAC}/clusterroles"),
            &json!({"metadata": {"name": name}, "rules": rules}),
        );
        client.create(&format!("{RBAC}/clusterrolebindings"), &json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "name": "alice"}]}));
    };
    let of = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": ["certificates.k8s.io"], "resources": resources, "verbs": verbs});
    grant(
        "paths",
        &json!([of(
            &[
                "certificatesigningrequests/approval",
                "certificatesigningrequests/status"
            ],
            &["patch"]
        )]),
    );
    let approve = || {
        let at = format!("{REQUESTS}/r/approval");
        client.ask("PATCH", &at, &condition("Approved"), ALICE)
    };
    let (code, told) = approve();
    assert_eq!(code, 403);
    assert_eq!(
        told["message"],
        "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to approve requests with signerName \"example.org/any\""
    );
    let mut rule = of(&["signers"], &["approve"]);
    rule["resourceNames"] = json!(["example.org/*"]);
    grant("signer", &json!([rule]));
    assert_eq!(approve().0, 200);
    let failed = json!({"status": {"conditions": [{"type": "Approved", "status": "True"},
        {"type": "Failed", "status": "True"}]}});
    let (code, told) = client.ask("PATCH", &format!("{REQUESTS}/r/status"), &failed, ALICE);
    assert_eq!(code, 403);
    assert_eq!(
        told["message"],
        "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to sign requests with signerName \"example.org/any\""
    );
}
