//! Recordings out of a directory or an object store, as the gateway carries them
//! there.

use std::io;

use anyhow::Context as _;
use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, future, stream::BoxStream};
use kite_api::{Recorded, Recordings};
use kite_gateway::recording::store_at;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, path::Path};
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

    fn names(&self, from: &str) -> BoxStream<'_, io::Result<(String, u64)>> {
        // Stores that can begin there, and leave out what is before.
        let from = self.prefix.clone().join(from);
        let found = self.store.list_with_offset(Some(&self.prefix), &from);
        let name = |meta: ObjectMeta| {
            let name = meta.location.filename()?.to_owned();
            let is_here = meta.location == self.prefix.clone().join(name.as_str());
            is_here.then_some((name, meta.size))
        };
        found
            .map_err(io::Error::from)
            .try_filter_map(move |meta| future::ready(Ok(name(meta))))
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

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

    #[tokio::test]
    async fn all_from_a_name_on_are_listed() {
        let directory = tempfile::tempdir().unwrap();
        for name in [
            "20260101T0_a.cast",
            "20260102T0_b.cast",
            "20260103T0_c.cast",
        ] {
            std::fs::write(directory.path().join(name), "{}\n").unwrap();
        }
        std::fs::create_dir(directory.path().join("20260104T_other")).unwrap();
        std::fs::write(directory.path().join("20260104T_other/d.cast"), "").unwrap();
        let url = Url::from_directory_path(directory.path()).unwrap();
        let recordings = StoredRecordings::at(&url).unwrap();
        let mut names: Vec<_> = recordings.names("20260102T").try_collect().await.unwrap();
        names.sort_unstable();
        let expected = ["20260102T0_b.cast", "20260103T0_c.cast"];
        assert_eq!(names, expected.map(|name| (name.to_owned(), 3)));
    }

    #[test]
    fn a_store_that_is_not_known_is_named() {
        let url = Url::parse("gopher://somewhere/recordings").unwrap();
        let error = StoredRecordings::at(&url).err().unwrap().to_string();
        assert!(error.contains("gopher://somewhere"), "{error}");
    }
}
