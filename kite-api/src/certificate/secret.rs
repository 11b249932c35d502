//! The Secret of a certificate that was put in.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kite_core::{
    cluster::{ABSENT, Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    labels, names,
};
use kite_rest::{Problem, ProblemKind};
use kube::{
    ResourceExt as _,
    api::{ObjectMeta, PropagationPolicy},
};

use super::{CERTIFICATE, CertificateSource, KEY, NewCertificate, platform_now, source_of};
use crate::state::ApiState;

/// Annotation of a Secret that is about to be taken away.
const LEAVING: &str = "hy3ons.github.io/leaving";
/// How often something is tried again that others were faster than.
pub(super) const ATTEMPTS: usize = 4;

pub(super) fn secret_key(state: &ApiState) -> ObjectKey {
    state.own_key(names::UPLOADED_CERTIFICATE)
}

/// The Secret that an earlier request made. One of this name that somebody else made
/// is not touched.
pub(super) async fn find_own(state: &ApiState) -> Result<Option<Secret>, Problem> {
    let found = state
        .cluster()
        .get_opt::<Secret>(&secret_key(state))
        .await?;
    match found {
        Some(secret) if !is_own(&secret) => Err(Problem::new(
            ProblemKind::Conflict,
            format!(
                "the Secret {} is not Kite's: rename it or remove it",
                secret_key(state)
            ),
        )),
        found => Ok(found),
    }
}

pub(super) fn is_own(secret: &Secret) -> bool {
    let by = secret.labels().get(labels::MANAGED_BY);
    by.map(String::as_str) == Some(kite_core::managers::API.as_str())
}

/// Whether a request is about to take it away.
fn is_leaving(secret: &Secret) -> bool {
    secret.annotations().contains_key(LEAVING)
}

/// The Secret as Kite writes it.
fn secret_with(
    state: &ApiState,
    certificate: ByteString,
    key: ByteString,
    annotations: Option<BTreeMap<String, String>>,
) -> Secret {
    let by = kite_core::managers::API.as_str().to_owned();
    Secret {
        metadata: ObjectMeta {
            name: Some(names::UPLOADED_CERTIFICATE.to_owned()),
            namespace: Some(state.settings().namespace.clone()),
            annotations,
            labels: Some([(labels::MANAGED_BY.to_owned(), by)].into()),
            ..ObjectMeta::default()
        },
        type_: Some(names::TLS_SECRET_TYPE.to_owned()),
        data: Some([(CERTIFICATE.to_owned(), certificate), (KEY.to_owned(), key)].into()),
        ..Secret::default()
    }
}

pub(super) async fn write(
    state: &ApiState,
    new: &NewCertificate,
    earlier: Option<&Secret>,
) -> Result<Secret, Problem> {
    let data = |text: &str| ByteString(text.trim().as_bytes().to_vec());
    let mut secret = secret_with(state, data(&new.certificate), data(&new.key), None);
    secret.metadata.uid = earlier.and_then(kube::ResourceExt::uid);
    secret.metadata.resource_version = earlier.is_none().then(|| ABSENT.to_owned());
    let written = state
        .cluster()
        .apply(kite_core::managers::API, &secret)
        .await;
    written.map_err(|error| match error {
        ClusterError::Invalid { .. } => Problem::new(
            ProblemKind::Conflict,
            "the cluster refuses the Secret: look whether the certificate is whole",
        ),
        error => error.into(),
    })
}

/// Sees to it that what was written and named is there.
///
/// A request on another replica may take it away: it has the platform name nothing,
/// marks the Secret and deletes it ([`clear_away`]). Where that began before the name
/// was written, the Secret is written again. Where it began after, it stands.
pub(super) async fn keep(state: &ApiState, new: &NewCertificate) -> Result<(), Problem> {
    let mut is_again = false;
    for _ in 0..ATTEMPTS {
        let now = find_own(state).await?;
        match now {
            Some(now) if !is_leaving(&now) => {
                if !is_again || is_named(state).await? {
                    return Ok(());
                }
                clear_away(state).await?;
                return Err(taken_away());
            }
            now => {
                if !is_named(state).await? {
                    return Err(taken_away());
                }
                write(state, new, now.as_ref()).await?;
                is_again = true;
            }
        }
    }
    Err(taken_away())
}

fn taken_away() -> Problem {
    Problem::new(
        ProblemKind::Conflict,
        "somebody took the certificate away at the same time: put it in again if it shall stay",
    )
}

/// Whether the platform names what was put in, as the API server has it.
async fn is_named(state: &ApiState) -> Result<bool, Problem> {
    let spec = platform_now(state).await?;
    Ok(source_of(&spec).0 == CertificateSource::Uploaded)
}

/// Removes the Secret, unless the platform names it.
///
/// Another replica may be putting a certificate in: it writes the Secret, names it
/// and looks at it again ([`keep`]). So the Secret is marked before it is looked
/// whether somebody names it now. If they named it before, it stays. If they name it
/// later, they find it marked or gone and write it anew, and what is removed here is
/// only what was marked.
pub(super) async fn clear_away(state: &ApiState) -> Result<(), Problem> {
    for _ in 0..ATTEMPTS {
        let secret = state
            .cluster()
            .get_opt::<Secret>(&secret_key(state))
            .await?;
        let Some(secret) = secret.filter(is_own) else {
            return Ok(());
        };
        let marked = match mark(state, &secret).await {
            Ok(marked) => marked,
            // Somebody wrote it, or an answer was lost: it is looked at again.
            Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        if is_named(state).await? {
            return Ok(());
        }
        let gone = PropagationPolicy::Background;
        match state.cluster().delete_unchanged(&marked, gone).await {
            Ok(()) => return Ok(()),
            Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Problem::new(
        ProblemKind::Conflict,
        format!(
            "the Secret {} changes faster than it can be removed: try again",
            secret_key(state)
        ),
    ))
}

async fn mark(state: &ApiState, secret: &Secret) -> Result<Secret, ClusterError> {
    let mut data = secret.data.clone().unwrap_or_default();
    let mut take = |key: &str| data.remove(key).unwrap_or_default();
    let annotations = [(LEAVING.to_owned(), "true".to_owned())];
    let (certificate, key) = (take(CERTIFICATE), take(KEY));
    let mut marked = secret_with(state, certificate, key, Some(annotations.into()));
    marked.metadata.uid = secret.uid();
    marked.metadata.resource_version = secret.resource_version();
    state
        .cluster()
        .apply(kite_core::managers::API, &marked)
        .await
}
