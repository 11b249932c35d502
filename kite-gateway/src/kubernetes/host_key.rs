//! The gateway's own host key, the same on every replica.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kite_core::cluster::ClusterError;
use kite_core::crd::KitePlatform;
use kite_core::labels;
use kite_core::names::key_secret;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use russh::keys::ssh_key::{self, LineEnding};
use russh::keys::{Algorithm, PrivateKey, PublicKey};

/// Why there is no host key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostKeyError {
    /// The API server did not give or take the Secret.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The Secret is there but holds no usable key. It is not replaced: clients
    /// would take a new key for an attack.
    #[error(
        "Secret {namespace}/{name}: {why}; put an OpenSSH private key under \
         \"ssh_host_ed25519_key\" (and its public half under \"ssh_host_ed25519_key.pub\"), or \
         delete the Secret to have one made"
    )]
    Unusable {
        /// The Secret's namespace.
        namespace: String,
        /// The Secret's name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// No key can be made.
    #[error("a host key cannot be made: {0}")]
    Make(#[from] ssh_key::Error),
}

/// Reads the host key from the Secret `name`, and makes the Secret with a new
/// ed25519 key if there is none. When several replicas start at once, the API
/// server lets one create it and the others read that one's key.
///
/// # Errors
///
/// [`HostKeyError`] when the API server cannot be asked or the Secret holds no
/// usable key.
pub async fn host_key(
    client: Client,
    namespace: &str,
    name: &str,
) -> Result<PrivateKey, HostKeyError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let failed = |error: kube::Error| {
        HostKeyError::Cluster(ClusterError::from_kube(
            format!("Secret {namespace}/{name}"),
            error,
        ))
    };
    if let Some(secret) = secrets.get_opt(name).await.map_err(failed)? {
        return read(&secret, namespace, name);
    }
    // It goes on without it: who restarts it to have another key deletes the Secret.
    for known in known_keys(client).await {
        tracing::warn!(
            secret = %format_args!("{namespace}/{name}"),
            %known,
            "the host key that users were told of is gone, and another is made, which their \
             clients refuse: put the Secret back from a backup, and restart all gateways"
        );
    }
    let fresh = new_secret(namespace, name)?;
    match secrets.create(&PostParams::default(), &fresh).await {
        Ok(secret) => read(&secret, namespace, name),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let secret = secrets.get(name).await.map_err(failed)?;
            read(&secret, namespace, name)
        }
        Err(error) => Err(failed(error)),
    }
}

/// The fingerprints that users were told of; none where that cannot be looked at, as what
/// follows does not rest on it.
async fn known_keys(client: Client) -> Vec<String> {
    let platforms = Api::<KitePlatform>::all(client);
    let found = platforms.list(&ListParams::default()).await;
    let statuses = found.into_iter().flatten().filter_map(|it| it.status);
    let keys = statuses.flat_map(|it| it.gateway_host_keys);
    keys.map(|it| it.fingerprint).collect()
}

fn new_secret(namespace: &str, name: &str) -> Result<Secret, HostKeyError> {
    let mut key = PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519)?;
    key.set_comment("kite-gateway");
    let private = key.to_openssh(LineEnding::LF)?.as_bytes().to_vec();
    let public = key.public_key().to_openssh()?.into_bytes();
    Ok(Secret {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            labels: Some(labels::managed()),
            ..ObjectMeta::default()
        },
        data: Some(
            [
                (key_secret::HOST_PRIVATE.to_owned(), ByteString(private)),
                (key_secret::HOST_PUBLIC.to_owned(), ByteString(public)),
            ]
            .into(),
        ),
        immutable: Some(true),
        ..Secret::default()
    })
}

fn read(secret: &Secret, namespace: &str, name: &str) -> Result<PrivateKey, HostKeyError> {
    let unusable = |why: String| HostKeyError::Unusable {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        why,
    };
    let none = BTreeMap::new();
    let data = secret.data.as_ref().unwrap_or(&none);
    let bytes = data
        .get(key_secret::HOST_PRIVATE)
        .ok_or_else(|| unusable("it has no key \"ssh_host_ed25519_key\"".to_owned()))?;
    let key = PrivateKey::from_openssh(&bytes.0).map_err(|error| unusable(error.to_string()))?;
    // People compare what the gateway shows with what is told of the public half.
    let told = data.get(key_secret::HOST_PUBLIC).map(|line| {
        let line = std::str::from_utf8(&line.0).unwrap_or_default();
        PublicKey::from_openssh(line.trim())
    });
    match told {
        Some(Ok(told)) if told.key_data() != key.public_key().key_data() => {
            let why = "\"ssh_host_ed25519_key.pub\" is the public half of another key";
            Err(unusable(why.to_owned()))
        }
        Some(Err(error)) => Err(unusable(format!("\"ssh_host_ed25519_key.pub\": {error}"))),
        Some(Ok(_)) => Ok(key),
        None => {
            tracing::warn!(
                secret = %format_args!("{namespace}/{name}"),
                "the gateway's host key has no public half beside it, so its fingerprint is not \
                 shown to users: put it under \"ssh_host_ed25519_key.pub\""
            );
            Ok(key)
        }
    }
}
