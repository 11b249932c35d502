//! A body for each that a request has, as somebody would write it.

use serde_json::{Value, json};

/// The example of the body that the document calls `name`.
pub(crate) fn of(name: &str) -> Option<Value> {
    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKO9ldbqXUWB+gMw90VFK2ZXIlM5RvBXwnm/KM3V61Ut ann@laptop";
    const PASSWORD: &str = "correct horse battery";
    let quota = || json!({"vms": 10, "cpu": 16, "memory": "32Gi", "disk": "400Gi"});
    Some(match name {
        "AccountEdit" => json!({"email": "ann@example.org", "sshPublicKeys": [KEY]}),
        "Bootstrap" => json!({
            "token": "what the Secret kite-bootstrap holds",
            "username": "root",
            "password": PASSWORD,
        }),
        "Claim" => json!({"name": "web", "sshPublicKeys": [KEY]}),
        "Code" => json!({"code": "123456"}),
        "Credentials" => json!({"username": "ann", "password": PASSWORD}),
        "Evidence" => json!({"password": PASSWORD, "code": "123456"}),
        "Everyone" => json!({"tokens": false}),
        "Link" => json!({"provider": "staff", "password": PASSWORD, "returnTo": "/account"}),
        "NewAccount" => json!({
            "username": "ann",
            "password": PASSWORD,
            "email": "ann@example.org",
        }),
        "NewCertificate" => json!({
            "certificate": "-----BEGIN CERTIFICATE-----\n…\n-----END CERTIFICATE-----\n",
            "privateKey": "-----BEGIN PRIVATE KEY-----\n…\n-----END PRIVATE KEY-----\n",
        }),
        "NewConsole" => json!({"kind": "Serial"}),
        "NewInvite" => json!({
            "email": "ann@example.org",
            "accessLevel": "User",
            "quota": quota(),
            "note": "For the course",
        }),
        "NewOffer" => json!({
            "name": "small",
            "cpu": 1,
            "memory": "1Gi",
            "disk": "10Gi",
            "image": "debian-12",
            "lifetime": "720h",
        }),
        "NewPassword" => json!({
            "currentPassword": PASSWORD,
            "newPassword": "another good horse",
            "keepTokens": true,
        }),
        "NewToken" => json!({"name": "ci", "scopes": ["vms:write"]}),
        "NewUser" => json!({
            "username": "ann",
            "password": PASSWORD,
            "accessLevel": "User",
            "quota": quota(),
        }),
        "NewVm" => json!({
            "name": "web",
            "cpu": 2,
            "memory": "4Gi",
            "disk": "20Gi",
            "image": "debian-12",
            "sshPublicKeys": [KEY],
            "idleTimeout": "2h",
        }),
        "NoticesSeen" => json!({"ids": ["0f3a5c1e9b7d24680f3a5c1e9b7d2468"], "more": 0}),
        "PlatformEdit" => json!({
            "signUp": "Open",
            "blockedNetworks": ["198.51.100.0/24"],
            "gateway": {"publicHost": "ssh.example.org"},
        }),
        "Proof" => json!({"password": PASSWORD}),
        "UserEdit" => json!({"quota": quota()}),
        "VmEdit" => json!({"cpu": 4, "memory": "8Gi", "idleTimeout": null}),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{openapi_document, web::Shape};

    #[test]
    fn every_body_has_an_example_that_fits_its_schema() {
        let document = openapi_document();
        let mut count = 0;
        let paths = document["paths"].as_object().unwrap().iter();
        for (path, operations) in paths {
            for (method, operation) in operations.as_object().unwrap() {
                let Some(body) = operation.get("requestBody") else {
                    continue;
                };
                let body = &body["content"]["application/json"];
                let example = body
                    .get("example")
                    .unwrap_or_else(|| panic!("{method} {path}"));
                let faults = Shape::new(&document, &body["schema"]).faults(example, "");
                assert_eq!(faults, [], "{method} {path}");
                count += 1;
            }
        }
        assert!(count > 20, "{count}");
    }
}
