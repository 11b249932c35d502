//! Second factors are sealed for the uid of their user, and hashes of passwords for their
//! user and name, with a key of the cluster.

use k8s_openapi::api::core::v1::Secret;
use kite_api::Seal;
use kite_core::{crd::KitePassword, names};
use kube::{Api, Client, ResourceExt as _, api::DynamicObject};
use serde_json::json;

use super::{document::Backup, kinds::Kind};

/// With what they were sealed, and with what they are to be.
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

    /// Seals what is in `wanted`, which was `kept`, for its new place; what is there already
    /// stays if it says the same. Without the right keys nothing is given.
    pub(super) fn renew(
        &self,
        kind: Kind,
        kept: &DynamicObject,
        wanted: &mut DynamicObject,
        there: Option<&DynamicObject>,
    ) -> Option<()> {
        let field = match kind {
            Kind::Password => "sealedHash",
            _ => "sealedSecret",
        };
        let sealed = |it: &DynamicObject| it.data["spec"][field].as_str().map(str::to_owned);
        let (former, whose) = (place(kind, kept)?, place(kind, wanted)?);
        let wanted_seal = sealed(wanted)?;
        let now = self.now.as_ref()?;
        if whose == former && now.is_latest(&whose, &wanted_seal) {
            return Some(());
        }
        let mut seals = self.former.iter().chain([now]);
        let secret = seals.find_map(|seal| seal.open(&former, &wanted_seal).ok())?;
        let same = there
            .and_then(sealed)
            .filter(|it| now.is_latest(&whose, it))
            .filter(|it| now.open(&whose, it).is_ok_and(|opened| opened == secret));
        let renewed = match same {
            Some(same) => same,
            None => now.seal(&whose, &secret).ok()?,
        };
        wanted.data["spec"][field] = json!(renewed);
        Some(())
    }
}

/// For whom what is in an object is sealed.
fn place(kind: Kind, object: &DynamicObject) -> Option<String> {
    let spec = &object.data["spec"];
    if kind == Kind::Password {
        let user = spec["user"].as_str()?;
        return Some(KitePassword::place(user, &object.name_any()));
    }
    spec["userUid"].as_str().map(str::to_owned)
}
