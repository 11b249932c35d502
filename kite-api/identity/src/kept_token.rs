//! Tokens that are kept in their objects, sealed, for who asks for them again with the
//! same `Idempotency-Key`.

use kite_core::cluster::Object;
use kite_rest::Problem;
use kube::ResourceExt as _;

use crate::{seal::Seal, state::Accounts};

/// Annotation of an invite with its token.
pub(crate) const INVITE_TOKEN: &str = "hy3ons.github.io/invite-token";
/// Annotation of an API token's object with the token.
pub(crate) const API_TOKEN: &str = "hy3ons.github.io/api-token";
/// The annotations in which tokens are kept, sealed, for who asks for them again.
pub const SEALED_TOKENS: [&str; 2] = [INVITE_TOKEN, API_TOKEN];

/// Puts a token into its object, sealed, so that a repeated request gets it too.
pub(crate) async fn seal_token<K: Object>(
    state: &Accounts,
    annotation: &str,
    token: &str,
    object: &mut K,
) -> Result<(), Problem> {
    let seal = Seal::of_cluster(state).await?;
    let sealed = seal.seal(&object.name_any(), token.as_bytes())?;
    let annotations = object.annotations_mut();
    annotations.insert(annotation.to_owned(), sealed);
    Ok(())
}

/// The token that was put into an object. None if none was, or if the key is gone with
/// which it was sealed: it is good as before, and can be told to nobody.
pub(crate) async fn sealed_token<K: Object>(
    state: &Accounts,
    annotation: &str,
    object: &K,
) -> Result<Option<String>, Problem> {
    let Some(sealed) = object.annotations().get(annotation) else {
        return Ok(None);
    };
    let seal = Seal::if_any(state).await?;
    let token = seal.and_then(|seal| seal.open(&object.name_any(), sealed).ok());
    Ok(token.and_then(|token| String::from_utf8(token).ok()))
}
