//! What every namespace has: the `ServiceAccount` `default` and the
//! `ConfigMap` with the cluster's certificate authority.

use async_trait::async_trait;
use serde_json::json;

use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{CONFIG_MAP, Key, Kind, NAMESPACE, SERVICE_ACCOUNT};
use crate::actors::objects::{Objects, ignore_missing, is_deleting};

const ACCOUNT: &str = "default";
pub(super) const AUTHORITY: &str = "kube-root-ca.crt";
/// Says what the `ConfigMap` is for.
const DESCRIPTION: &str = "kubernetes.io/description";
const TEXT: &str = "Certificates for Pods to verify the API server with.";

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[NAMESPACE, SERVICE_ACCOUNT, CONFIG_MAP];

/// Plays the service account controller and the publisher of the root
/// certificate: both objects are made in each active namespace, and made again
/// when they are deleted; the `ConfigMap` is put right when it is edited. An actor does not
/// know by whose authority the server is served, if by any: `ca.crt` is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamespaceDefaults;

#[async_trait]
impl Actor for NamespaceDefaults {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![NAMESPACE, SERVICE_ACCOUNT, CONFIG_MAP])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        if change.kind == NAMESPACE {
            return if change.gone { Vec::new() } else { vec![key] };
        }
        let is_lost = change.kind == SERVICE_ACCOUNT && key.name == ACCOUNT && change.gone;
        let is_authority = change.kind == CONFIG_MAP && key.name == AUTHORITY;
        if is_lost || is_authority {
            vec![Key::new(&NAMESPACE, None, key.space())]
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let namespace = objects.get(key).await?;
        if namespace.is_none_or(|namespace| is_deleting(&namespace)) {
            return Ok(Next::Done);
        }
        let within = Some(key.name.as_str());
        if objects
            .find(&SERVICE_ACCOUNT, within, ACCOUNT)
            .await?
            .is_none()
        {
            let account = json!({"metadata": {"name": ACCOUNT, "namespace": key.name}});
            objects.create(&SERVICE_ACCOUNT, within, account).await?;
        }
        let data = json!({"ca.crt": ""});
        let Some(map) = objects.find(&CONFIG_MAP, within, AUTHORITY).await? else {
            let map = json!({
                "metadata": {
                    "name": AUTHORITY,
                    "namespace": key.name,
                    "annotations": {DESCRIPTION: TEXT},
                },
                "data": data,
            });
            objects.create(&CONFIG_MAP, within, map).await?;
            return Ok(Next::Done);
        };
        let annotations = map.metadata.annotations.as_ref();
        let is_described = annotations.is_some_and(|all| all.contains_key(DESCRIPTION));
        if (is_described && map.data["data"] == data) || is_deleting(&map) {
            return Ok(Next::Done);
        }
        let mut body = json!(*map);
        body["metadata"]["annotations"][DESCRIPTION] = json!(TEXT);
        body["data"] = data;
        let key = Key::of(&CONFIG_MAP, &map);
        ignore_missing(objects.replace(&key, body).await)?;
        Ok(Next::Done)
    }
}
