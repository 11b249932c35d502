//! Object stores by their URL.

use object_store::{ObjectStore, path::Path};
use url::Url;

/// The object store that `url` names, such as `s3://bucket/recordings` or
/// `file:///var/lib/kite/recordings`, and the prefix in it. Settings and credentials
/// are taken from the environment, as by the provider's tools; nothing is asked of the
/// store yet. Which ones are known is a matter of `object_store`'s features.
///
/// # Errors
///
/// When this build does not know such a store, or its settings are missing.
pub fn store_at(url: &Url) -> Result<(Box<dyn ObjectStore>, Path), object_store::Error> {
    // As the stores know their own variables: AWS_REGION and the like.
    let environment = std::env::vars_os().filter_map(|(name, value)| {
        // What is no text is no setting of a store.
        Some((
            name.into_string().ok()?.to_lowercase(),
            value.into_string().ok()?,
        ))
    });
    object_store::parse_url_opts(url, environment)
}
