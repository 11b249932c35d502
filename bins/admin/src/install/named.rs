//! What the settings of the cluster name that an installation gives rights to.

use kite_core::{crd::KitePlatform, names};
use kite_render::install::NOT_THE_CONTROLLERS;
use kube::{Api, Client};

use super::{Error, object::ObjectName};

/// The Secret in Kite's namespace that the `KitePlatform` of the cluster names for the web
/// page's certificate, if it does: one of
/// [`certificate_secrets`](kite_render::install::Installation::certificate_secrets).
///
/// # Errors
/// The settings cannot be read. That there are none is none.
pub async fn named_certificate(client: &Client) -> Result<Option<String>, Error> {
    let platforms = Api::<KitePlatform>::all(client.clone());
    let platform = platforms.get_opt(names::PLATFORM).await;
    let platform = match platform {
        // Before the first installation there is not even the kind.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        platform => platform,
    };
    let platform = platform.map_err(|error| Error::of(&ObjectName::platform(), error))?;
    let exposure = platform.map(|it| it.spec.exposure).unwrap_or_default();
    let named = exposure.certificate.secret_name;
    // The certificate of a Gateway is its listener's.
    let named = named.filter(|_| exposure.gateway.is_none());
    Ok(named.filter(|it| !NOT_THE_CONTROLLERS.contains(&it.as_str())))
}
