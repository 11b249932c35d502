//! Second factors are sealed for the uid of their user, with a key of the cluster.

use k8s_openapi::api::core::v1::Secret;
use kite_api::Seal;
use kite_core::{crd::KiteSecondFactor, names};
use kube::{Api, Client, ResourceExt as _, api::DynamicObject};
use serde_json::json;

use super::document::Backup;

/// With what second factors were sealed, and with what they are to be.
pub(super) struct Seals {
    former: Option<Seal>,
    now: Option<Seal>,
}

impl Seals {
    /// Of a backup, and of the cluster as it is.
    pub(super) async fn find(client: &Client, backup: &Backup) -> Result<Self, kube::Error> {
        let secrets = Api::<Secret>::namespaced(client.clone(), &backup.namespace);
        let now = secrets.get_opt(names::SEAL_SECRET).await?;
        let kept = backup.entries.iter().map(|it| &it.object);
        let former = kept
            .filter(|it| it.namespace().as_deref() == Some(&backup.namespace))
            .find(|it| it.name_any() == names::SEAL_SECRET)
            .and_then(|it| it.clone().try_parse::<Secret>().ok());
        let seal = |secret: Option<Secret>| Seal::of_secret(&secret?).ok();
        Ok(Self {
            former: seal(former),
            now: seal(now),
        })
    }

    /// Seals a second factor for the new uid of its user; what is there already stays if
    /// it says the same. Without the right keys nothing is given.
    pub(super) fn renew(
        &self,
        factor: &mut DynamicObject,
        former_uid: &str,
        there: Option<&DynamicObject>,
    ) -> Option<()> {
        let wanted: KiteSecondFactor = factor.clone().try_parse().ok()?;
        let (uid, sealed) = (&wanted.spec.user_uid, &wanted.spec.sealed_secret);
        let now = self.now.as_ref()?;
        if uid == former_uid && now.is_latest(uid, sealed) {
            return Some(());
        }
        let mut seals = self.former.iter().chain([now]);
        let secret = seals.find_map(|seal| seal.open(former_uid, sealed).ok())?;
        let there = there.and_then(|it| it.clone().try_parse::<KiteSecondFactor>().ok());
        let same = there
            .map(|it| it.spec.sealed_secret)
            .filter(|it| now.is_latest(uid, it))
            .filter(|it| now.open(uid, it).is_ok_and(|opened| opened == secret));
        let sealed = match same {
            Some(same) => same,
            None => now.seal(uid, &secret).ok()?,
        };
        factor.data["spec"]["sealedSecret"] = json!(sealed);
        Some(())
    }
}
