//! What an API server makes of the manifests.

use kite_core::crd::{KitePlatform, SignUp};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::stage::{all, apply, apply_all, builder, json_of, named, version};

/// Where a stored object differs from what was applied, in what was applied.
fn differences(path: &str, applied: &Value, stored: &Value, found: &mut Vec<String>) {
    match (applied, stored) {
        (Value::Object(applied), Value::Object(stored)) => {
            for (name, value) in applied {
                let stored = stored.get(name).unwrap_or(&Value::Null);
                differences(&format!("{path}.{name}"), value, stored, found);
            }
        }
        (Value::Array(applied), Value::Array(stored)) if applied.len() == stored.len() => {
            for (index, (value, stored)) in applied.iter().zip(stored).enumerate() {
                differences(&format!("{path}[{index}]"), value, stored, found);
            }
        }
        _ if applied == stored => {}
        // A number is the same with a point and without: the API server writes 1.0 as 1.
        (Value::Number(applied), Value::Number(stored)) if applied.as_f64() == stored.as_f64() => {}
        _ => found.push(format!("{path}: {applied} is stored as {stored}")),
    }
}

#[tokio::test]
async fn applied_twice_it_changes_nothing_the_second_time() {
    for (name, installation) in all() {
        let cluster = builder().build().unwrap();
        let client = cluster.client();
        for manifest in installation.manifests() {
            let what = format!("{name}: {}", named(&manifest));
            let stored = apply(&client, &manifest).await;
            let stored = stored.unwrap_or_else(|error| panic!("{what}: {error}"));
            let mut found = Vec::new();
            let stored = serde_json::to_value(&stored).unwrap();
            differences("", &json_of(&manifest), &stored, &mut found);
            assert!(found.is_empty(), "{what}: {found:#?}");
        }
        for manifest in installation.manifests() {
            let what = format!("{name}: {}", named(&manifest));
            // The API server itself writes that a CRD is established.
            let before = version(&client, &manifest).await;
            let stored = apply(&client, &manifest).await.unwrap();
            let after = stored.metadata.resource_version;
            assert_eq!(before, after, "{what} was changed");
        }
    }
}

fn nothing_empty(path: &str, value: &Value) {
    match value {
        Value::Null => panic!("{path} is null"),
        Value::Object(fields) => {
            for (name, value) in fields {
                nothing_empty(&format!("{path}.{name}"), value);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| nothing_empty(path, item)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn no_manifest_has_what_others_write() {
    for (name, installation) in all() {
        for manifest in installation.manifests() {
            let value = json_of(&manifest);
            let what = format!("{name}: {}", named(&manifest));
            nothing_empty(&what, &value);
            assert_eq!(value.get("status"), None, "{what}");
            assert_eq!(value["metadata"].get("creationTimestamp"), None, "{what}");
            assert_ne!(value["kind"], "Secret", "{what}");
        }
    }
}

#[test]
fn nothing_comes_before_what_it_needs() {
    for (name, installation) in all() {
        let manifests = installation.manifests();
        let last = |kind: &str| manifests.iter().rposition(|it| it.kind() == kind).unwrap();
        let first_of = |wanted: &dyn Fn(&str, Option<&str>) -> bool| {
            manifests
                .iter()
                .position(|it| wanted(&it.api_version(), it.metadata().namespace.as_deref()))
                .unwrap()
        };
        let namespaced = first_of(&|_, namespace| namespace.is_some());
        assert!(last("Namespace") < namespaced, "{name}");
        let kites = first_of(&|api, _| api == "hy3ons.github.io/v1");
        assert!(last("CustomResourceDefinition") < kites, "{name}");
        assert!(last("ServiceAccount") < last("Deployment"), "{name}");
        assert!(last("RoleBinding") < last("Deployment"), "{name}");
        for object in &manifests[kites..] {
            assert_eq!(object.api_version(), "hy3ons.github.io/v1", "{name}");
        }
    }
}

#[tokio::test]
async fn settings_of_administrators_outlive_the_next_apply() {
    let cluster = builder().build().unwrap();
    let client = cluster.client();
    let installation = kite_render::install::Profile::K3s.installation();
    apply_all(&client, &installation).await;
    let platforms: Api<KitePlatform> = Api::all(client.clone());
    let edit = json!({"spec": {"signUp": "Open", "gateway": {"publicHost": "ssh.example.org"}}});
    let params = PatchParams {
        field_manager: Some("kite-api".to_owned()),
        ..PatchParams::default()
    };
    let edit = Patch::Merge(&edit);
    platforms.patch("default", &params, &edit).await.unwrap();
    apply_all(&client, &installation).await;
    let platform = platforms.get("default").await.unwrap().spec;
    assert_eq!(platform.sign_up, SignUp::Open);
    let host = platform.gateway.public_host.as_deref();
    assert_eq!(
        (host, platform.gateway.public_port),
        (Some("ssh.example.org"), 2222)
    );
    assert_eq!(
        platform.exposure.ingress_class_name.as_deref(),
        Some("traefik")
    );
}
