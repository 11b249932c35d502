//! Recordings out of a directory or an object store, as the gateway carries them
//! there.

use std::io;

use anyhow::Context as _;
use async_trait::async_trait;
use futures::StreamExt as _;
use kite_api::{Recorded, Recordings};
use kite_gateway::recording::store_at;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, path::Path};
use url::Url;

/// Reads recordings below a URL such as `file:///var/lib/kite/recordings` or
/// `s3://bucket/recordings`.
pub struct StoredRecordings {
    store: Box<dyn ObjectStore>,
    prefix: Path,
}

impl StoredRecordings {
    /// Below `url`, as [`store_at`] finds it.
    ///
    /// # Errors
    ///
    /// When this build does not know such a store, or its settings are missing.
    pub fn at(url: &Url) -> anyhow::Result<Self> {
        let (store, prefix) =
            store_at(url).with_context(|| format!("recordings cannot be read from {url}"))?;
        Ok(Self { store, prefix })
    }
}

#[async_trait]
impl Recordings for StoredRecordings {
    async fn read(&self, name: &str) -> io::Result<Option<Recorded>> {
        match self.store.get(&self.prefix.clone().join(name)).await {
            Ok(found) => Ok(Some(Recorded {
                length: found.meta.size,
                bytes: found
                    .into_stream()
                    .map(|bytes| bytes.map_err(io::Error::from))
                    .boxed(),
            })),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::TryStreamExt as _;

    use super::*;

    #[tokio::test]
    async fn what_is_in_a_directory_is_read_and_the_rest_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a_b.cast"), "{}\n").unwrap();
        let url = Url::from_directory_path(directory.path()).unwrap();
        let recordings = StoredRecordings::at(&url).unwrap();
        let found = recordings.read("a_b.cast").await.unwrap().unwrap();
        assert_eq!(found.length, 3);
        let bytes: Vec<_> = found.bytes.try_collect().await.unwrap();
        assert_eq!(bytes.concat(), b"{}\n");
        assert!(recordings.read("other.cast").await.unwrap().is_none());
    }

    #[test]
    fn a_store_that_is_not_known_is_named() {
        let url = Url::parse("gopher://somewhere/recordings").unwrap();
        let error = StoredRecordings::at(&url).err().unwrap().to_string();
        assert!(error.contains("gopher://somewhere"), "{error}");
    }
}
