//! Where recordings go, as it is written: a directory, and object stores by their URL.

use std::{io, path::PathBuf, sync::Arc};

use object_store::{ObjectStore, path::Path};
use url::Url;

use super::Recordings;

/// Why recordings cannot go where they are to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Into the directory.
    #[error("{} cannot be written to: {error}", .directory.display())]
    Directory {
        /// Which one.
        directory: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// On to the object store.
    #[error("{url} cannot be used: {error}")]
    Store {
        /// Which one.
        url: Box<Url>,
        /// Why not.
        error: object_store::Error,
    },
}

impl OpenError {
    /// Which of two names is meant, such as those of the options of a program: that of the
    /// directory, or that of the store.
    #[must_use]
    pub fn which<'a>(&self, directory: &'a str, store: &'a str) -> &'a str {
        match self {
            Self::Directory { .. } => directory,
            Self::Store { .. } => store,
        }
    }
}

impl Recordings {
    /// Recordings [in a directory](Recordings::to) and, where there is a URL, [carried
    /// on](Recordings::upload_to) to the [store](store_at) that it names.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written to, or the store cannot be used.
    pub fn open(directory: impl Into<PathBuf>, upload: Option<&Url>) -> Result<Self, OpenError> {
        let directory = directory.into();
        let recordings = Self::to(&directory);
        let recordings = recordings.map_err(|error| OpenError::Directory { directory, error })?;
        let Some(url) = upload else {
            return Ok(recordings);
        };
        let (store, prefix) = store_at(url).map_err(|error| OpenError::Store {
            url: Box::new(url.clone()),
            error,
        })?;
        Ok(recordings.upload_to(Arc::from(store), prefix))
    }
}

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
