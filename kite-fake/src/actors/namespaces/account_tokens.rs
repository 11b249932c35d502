//! Secrets that hold the token of a service account.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{DynamicObject, PostParams};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{CONFIG_MAP, Key, Kind, SECRET, SERVICE_ACCOUNT};
use crate::actors::objects::{
    Deletion, Objects, api_error, ignore_missing, is_deleting, text, uid,
};
use crate::actors::references::References;

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[SECRET, SERVICE_ACCOUNT];
const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// The longest life of a token, in seconds: these are meant to stay.
const SECONDS: i64 = 1 << 32;

/// Plays the tokens controller: a Secret of the type `kubernetes.io/service-account-token`
/// gets the token of the account that its annotation names, and goes with the account.
#[derive(Debug, Default)]
pub struct AccountTokens {
    accounts: Mutex<References>,
}

fn annotation<'a>(secret: &'a DynamicObject, name: &str) -> &'a str {
    let annotations = secret.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(name))
        .map_or("", String::as_str)
}

#[async_trait]
impl Actor for AccountTokens {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(SEEN.to_vec())
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        if change.kind == SERVICE_ACCOUNT {
            return self.accounts.lock().to(&key);
        }
        if text(&change.object, "/type") != TYPE {
            return Vec::new();
        }
        let account = annotation(&change.object, ACCOUNT);
        let account = Key::new(&SERVICE_ACCOUNT, key.namespace.as_deref(), account);
        let named = if change.gone {
            Vec::new()
        } else {
            vec![account]
        };
        self.accounts.lock().set(&key, named);
        vec![key]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(secret) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        if text(&secret, "/type") != TYPE || is_deleting(&secret) {
            return Ok(Next::Done);
        }
        let namespace = key.namespace.as_deref();
        let name = annotation(&secret, ACCOUNT);
        let account = objects.find(&SERVICE_ACCOUNT, namespace, name).await?;
        let told = annotation(&secret, ACCOUNT_UID);
        let is_its = |account: &DynamicObject| told.is_empty() || told == uid(account);
        let Some(account) = account.filter(|it| is_its(it)) else {
            // Before it is deleted the server is asked.
            let account = objects
                .live()
                .find(&SERVICE_ACCOUNT, namespace, name)
                .await?;
            if !account.is_some_and(|it| is_its(&it)) {
                objects.delete(key, &secret, Deletion::default()).await?;
            }
            return Ok(Next::Done);
        };
        let mut data = json!({});
        if secret.data["data"]["token"].is_null() {
            let token = token(context, key, name, &secret).await?;
            data["token"] = json!(STANDARD.encode(token));
        }
        if secret.data["data"]["namespace"].is_null() {
            data["namespace"] = json!(STANDARD.encode(key.space()));
        }
        if secret.data["data"]["ca.crt"].is_null() {
            let map = objects
                .find(&CONFIG_MAP, namespace, super::AUTHORITY)
                .await?;
            let authority = map.map(|it| text(&it, "/data/ca.crt").to_owned());
            data["ca.crt"] = json!(STANDARD.encode(authority.unwrap_or_default()));
        }
        let is_whole = data.as_object().is_some_and(serde_json::Map::is_empty);
        if is_whole && !told.is_empty() {
            return Ok(Next::Done);
        }
        let mut patch = json!({"metadata": {"annotations": {ACCOUNT_UID: uid(&account)}}});
        if !is_whole {
            patch["data"] = data;
        }
        ignore_missing(objects.merge(key, Some(&secret), patch).await)?;
        Ok(Next::Done)
    }
}

/// Asks for a token of the account, bound to its Secret.
async fn token(
    context: &Context,
    key: &Key,
    account: &str,
    secret: &DynamicObject,
) -> Result<String, ActorError> {
    let reference =
        json!({"apiVersion": "v1", "kind": "Secret", "name": key.name, "uid": uid(secret)});
    let body = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": SECONDS, "boundObjectRef": reference},
    });
    let accounts = SERVICE_ACCOUNT.api(&context.client, key.namespace.as_deref());
    let params = PostParams::default();
    let answer = accounts
        .create_subresource::<_, Value>("token", account, &params, &body)
        .await;
    let answer = answer.map_err(api_error("asking for a token"))?;
    Ok(answer["status"]["token"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}
