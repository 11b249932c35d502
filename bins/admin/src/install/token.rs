//! What the first administrator signs up with.

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kite_core::{
    crd::{AccessLevel, KiteUser},
    names,
};
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta},
};

use tokio::time::{Instant, sleep};

use super::{
    Error,
    apply::{ESTABLISHED, PAUSE},
    object::{ObjectName, is_absent},
};
use crate::retry::create;

/// How somebody becomes the first administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstAdmin {
    /// With this token, once.
    Token(String),
    /// There is one already.
    IsThere,
}

/// All accounts, once the API server that answers has heard of the kind: each of them does
/// so by itself.
async fn accounts(client: &Client) -> Result<Vec<KiteUser>, kube::Error> {
    let (users, started) = (Api::<KiteUser>::all(client.clone()), Instant::now());
    loop {
        match users.list(&ListParams::default()).await {
            Err(error) if is_absent(&error) && started.elapsed() < ESTABLISHED => {
                sleep(PAUSE).await;
            }
            listed => return listed.map(|listed| listed.items),
        }
    }
}

/// The token with which the first administrator signs up: one that is there, or a new
/// one in a Secret. None where there is an administrator.
///
/// # Errors
/// An [`Error`] if the API server refuses to say, or to take the Secret.
pub async fn first_admin(client: &Client, namespace: &str) -> Result<FirstAdmin, Error> {
    let users = accounts(client).await;
    let all = ObjectName {
        kind: "KiteUser".to_owned(),
        namespace: None,
        name: "(all)".to_owned(),
    };
    let users = users.map_err(|error| Error::of(&all, error))?;
    if users
        .iter()
        .any(|it| it.spec.access_level == AccessLevel::Admin)
    {
        return Ok(FirstAdmin::IsThere);
    }
    let object = ObjectName {
        kind: "Secret".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: names::BOOTSTRAP_SECRET.to_owned(),
    };
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let token = format!(
        "{:032x}{:032x}",
        rand::random::<u128>(),
        rand::random::<u128>()
    );
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(object.name.clone()),
            ..ObjectMeta::default()
        },
        data: Some(
            [(
                names::BOOTSTRAP_TOKEN_KEY.to_owned(),
                ByteString(token.into_bytes()),
            )]
            .into(),
        ),
        ..Secret::default()
    };
    let there = match create(&secrets, &secret).await {
        Err(kube::Error::Api(status)) if status.code == 409 => secrets.get(&object.name).await,
        created => created,
    };
    let there = there.map_err(|error| Error::of(&object, error))?;
    let token = there
        .data
        .and_then(|mut data| data.remove(names::BOOTSTRAP_TOKEN_KEY));
    let token = token.and_then(|token| String::from_utf8(token.0).ok());
    token.map(FirstAdmin::Token).ok_or_else(|| Error::Late {
        what: format!("{object} has no {}", names::BOOTSTRAP_TOKEN_KEY),
        seconds: 0,
        remedy: "remove it, and repeat this".to_owned(),
    })
}
