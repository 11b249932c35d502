//! Objects by name, also those that another replica made a moment ago.

use std::sync::Arc;

use kite_core::cluster::{Cluster, ClusterError, ClusterExt as _, Object, ObjectKey};

use crate::{cache::Cache, problem::Problem};

/// The object with this key. A copy may be behind what another replica has written, whose
/// answer its client has already: of what is not in it the API server is asked.
///
/// # Errors
/// The problem of a refusal by the API server, where that was asked. That the object is
/// missing, or its namespace, is none.
pub async fn present<K: Object>(
    cluster: &impl Cluster,
    copy: &Cache<K>,
    key: &ObjectKey,
) -> Result<Option<Arc<K>>, Problem> {
    if let Some(object) = copy.get(key) {
        return Ok(Some(object));
    }
    if !is_name(&key.name) {
        return Ok(None);
    }
    match cluster.get_opt::<K>(key).await {
        Ok(found) => Ok(found.map(Arc::new)),
        // Rights in a user's namespace come with it: it is not there yet.
        Err(ClusterError::Forbidden { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether something can be called so. Whatever else stands in a path of ours must not
/// become part of a path at the API server.
fn is_name(name: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'.';
    name.bytes().all(inner) && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_are_no_paths() {
        for name in ["web", "web-1", "v1.example"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "..",
            ".",
            "a/b",
            "a/../../b",
            "a?b",
            "a%2fb",
            "A",
            "-a",
            "ä",
        ] {
            assert!(!is_name(name), "{name}");
        }
    }
}
