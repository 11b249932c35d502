//! What Kite's processes have made for themselves in its namespace, which lasts where the
//! namespace was there before: the next installation must not find old keys and tokens.

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Secret};
use kite_core::names;
use kite_render::install::PART_OF;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams},
};

use super::{
    Error, MADE_HERE,
    object::ObjectName,
    remove::{Removal, Removed, kind},
};

/// Secrets that Kite makes, or has cert-manager make.
const SECRETS: [&str; 5] = [
    names::BOOTSTRAP_SECRET,
    names::SEAL_SECRET,
    names::GATEWAY_HOST_KEY_SECRET,
    names::UPLOADED_CERTIFICATE,
    names::PLATFORM_CERTIFICATE,
];
/// Secrets that Kubernetes makes.
const OF_ACCOUNTS: &str = "kubernetes.io/service-account-token";

impl<T: FnMut(&ObjectName, Removed)> Removal<'_, T> {
    /// Deletes the Secrets and the volumes of Kite's processes in `namespace`, and waits
    /// until they are gone.
    pub(super) async fn clear_own(&mut self, namespace: &str) -> Result<(), Error> {
        self.clear_found(async |this| this.own(namespace).await)
            .await
    }

    async fn own(&self, namespace: &str) -> Result<Vec<(ApiResource, DynamicObject)>, Error> {
        let mut all = Vec::new();
        let kind_of_secrets = kind::<Secret>();
        let secrets: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &kind_of_secrets);
        for name in SECRETS {
            let found = secrets.get_opt(name).await;
            let found = found.map_err(|error| Error::of(&of::<Secret>(namespace, name), error))?;
            all.extend(found.map(|it| (kind_of_secrets.clone(), it)));
        }
        let claims = kind::<PersistentVolumeClaim>();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &claims);
        let own = ListParams::default().labels(&format!("{}={}", PART_OF.0, PART_OF.1));
        let found = api
            .list(&own)
            .await
            .map_err(|error| Error::of(&of::<PersistentVolumeClaim>(namespace, "(all)"), error))?;
        all.extend(found.items.into_iter().map(|it| (claims.clone(), it)));
        Ok(all)
    }
}

fn of<K: kube::Resource<DynamicType = ()>>(namespace: &str, name: &str) -> ObjectName {
    ObjectName {
        kind: K::kind(&()).into_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    }
}

/// What others have put into `namespace` and is left there: Secrets, such as those of
/// sign-in providers and of a registry, and volumes. Nothing where the namespace is gone,
/// or goes.
pub(super) async fn left(client: &Client, namespace: &str) -> Result<Vec<ObjectName>, Error> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let name = ObjectName {
        kind: "Namespace".to_owned(),
        namespace: None,
        name: namespace.to_owned(),
    };
    let found = namespaces.get_opt(namespace).await;
    let stays = found
        .map_err(|error| Error::of(&name, error))?
        .is_some_and(|it| !it.annotations().contains_key(MADE_HERE));
    if !stays {
        return Ok(Vec::new());
    }
    let mut left = Vec::new();
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let all = ListParams::default();
    let secrets = match secrets.list(&all).await {
        Ok(secrets) => secrets.items,
        // Whoever may not see them has made none.
        Err(kube::Error::Api(status)) if status.code == 403 => Vec::new(),
        Err(error) => return Err(Error::of(&of::<Secret>(namespace, "(all)"), error)),
    };
    for secret in secrets {
        let name = secret.name_any();
        if secret.type_.as_deref() != Some(OF_ACCOUNTS) && !SECRETS.contains(&&*name) {
            left.push(of::<Secret>(namespace, &name));
        }
    }
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let claims = match claims.list(&all).await {
        Ok(claims) => claims.items,
        Err(kube::Error::Api(status)) if status.code == 403 => Vec::new(),
        Err(error) => {
            return Err(Error::of(
                &of::<PersistentVolumeClaim>(namespace, "(all)"),
                error,
            ));
        }
    };
    for claim in claims {
        if claim.labels().get(PART_OF.0).map(String::as_str) != Some(PART_OF.1) {
            left.push(of::<PersistentVolumeClaim>(namespace, &claim.name_any()));
        }
    }
    Ok(left)
}
