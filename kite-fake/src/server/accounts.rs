//! Admission of Pods by `ServiceAccount`: which one a Pod runs as, and where
//! its token lies (`plugin/pkg/admission/serviceaccount`).

use serde_json::{Value, json};

use super::ApiServer;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::{GroupResource, Key};

/// Where containers find the token.
const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How long a token in a Pod lives, in seconds.
const TOKEN_SECONDS: i64 = 3607;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl ApiServer {
    /// Whether every new Pod runs as a `ServiceAccount` that is there.
    pub fn use_service_accounts(&mut self, on: bool) {
        self.service_accounts = on;
    }

    /// Gives a Pod its account, the account's pull secrets and its token.
    pub(super) fn set_account(
        &mut self,
        resource: &Resource,
        pod: &mut Value,
    ) -> Result<(), Status> {
        let namespace = text(&pod["metadata"]["namespace"]).to_owned();
        if text(&pod["spec"]["serviceAccountName"]).is_empty() {
            pod["spec"]["serviceAccountName"] = "default".into();
        }
        let name = text(&pod["spec"]["serviceAccountName"]).to_owned();
        pod["spec"]["serviceAccount"] = name.as_str().into();
        let accounts = GroupResource::new("", "serviceaccounts");
        let key = Key::new(namespace.as_str(), name.as_str());
        let Some(account) = self.store.get(&accounts, &key) else {
            return Err(Status::forbidden(
                &resource.group,
                &resource.plural,
                text(&pod["metadata"]["name"]),
                &format!(
                    "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
                ),
            ));
        };
        let account = account.value();
        let own = &pod["spec"]["automountServiceAccountToken"];
        let mounts = own
            .as_bool()
            .or_else(|| account["automountServiceAccountToken"].as_bool())
            .unwrap_or(true);
        let secrets = &account["imagePullSecrets"];
        let pulls_as_account = pod["spec"]["imagePullSecrets"]
            .as_array()
            .is_none_or(Vec::is_empty);
        if pulls_as_account && secrets.as_array().is_some_and(|s| !s.is_empty()) {
            pod["spec"]["imagePullSecrets"] = secrets.clone();
        }
        if mounts {
            let volume = format!("kube-api-access-{}", self.ids.suffix());
            mount(&mut pod["spec"], &volume);
        }
        Ok(())
    }
}

/// Mounts the token into all containers that have nothing in its place.
fn mount(spec: &mut Value, volume: &str) {
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mounts = container.get("volumeMounts").and_then(Value::as_array);
            let taken = mounts
                .into_iter()
                .flatten()
                .any(|mount| mount["mountPath"] == PLACE);
            if taken {
                continue;
            }
            push(
                &mut container["volumeMounts"],
                json!({"name": volume, "readOnly": true, "mountPath": PLACE}),
            );
            mounted = true;
        }
    }
    if !mounted {
        return;
    }
    let source = json!({
        "name": volume,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
            ],
        },
    });
    push(&mut spec["volumes"], source);
}

fn push(list: &mut Value, element: Value) {
    match list.as_array_mut() {
        Some(elements) => elements.push(element),
        None => *list = json!([element]),
    }
}
