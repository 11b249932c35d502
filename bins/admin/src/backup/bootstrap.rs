//! The token that makes the first administrator, once there is one.

use k8s_openapi::api::core::v1::Secret;
use kite_core::{crd::KiteUser, names};
use kube::{
    Api, Client, Resource as _,
    api::{DeleteParams, DynamicObject, Preconditions},
};

use super::outcome::Outcome;
use crate::install::ObjectName;

/// Whether `user` is an administrator who can sign in.
pub(super) fn is_administrator(user: &DynamicObject) -> bool {
    let user = user.clone().try_parse::<KiteUser>();
    user.is_ok_and(|it| it.spec.can_administrate())
}

/// Deletes the token that an installation made, if there is one: whoever has it could
/// make another administrator.
pub(super) async fn withdraw(
    client: &Client,
    namespace: &str,
    dry_run: bool,
) -> Option<(ObjectName, Outcome)> {
    let name = ObjectName {
        kind: Secret::kind(&()).into_owned(),
        namespace: Some(namespace.to_owned()),
        name: names::BOOTSTRAP_SECRET.to_owned(),
    };
    let removed = remove(client, namespace, dry_run).await;
    let outcome = match removed {
        Ok(false) => return None,
        Ok(true) => Outcome::Removed {
            why: "an administrator is back, and whoever has its token could make another one"
                .to_owned(),
        },
        Err(error) => Outcome::refused(&error),
    };
    Some((name, outcome))
}

async fn remove(client: &Client, namespace: &str, dry_run: bool) -> Result<bool, kube::Error> {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let Some(found) = secrets.get_opt(names::BOOTSTRAP_SECRET).await? else {
        return Ok(false);
    };
    // Not the one that somebody may be using this moment.
    let params = DeleteParams {
        dry_run,
        ..DeleteParams::default()
    };
    let params = params.preconditions(Preconditions {
        uid: found.metadata.uid,
        resource_version: found.metadata.resource_version,
    });
    match secrets.delete(names::BOOTSTRAP_SECRET, &params).await {
        // It went, and the answer to that was lost.
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(true),
        deleted => deleted.map(|_| true),
    }
}
