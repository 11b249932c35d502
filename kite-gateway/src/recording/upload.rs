//! Carries recordings that are whole to an object store.

use std::path::Path;
use std::time::Duration;

use object_store::{ObjectStoreExt as _, WriteMultipart};
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

use super::{Recordings, Remote, WHOLE, files};

/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(30);
/// How long the last files may take when the gateway ends; what is left is carried
/// by the next process that has the directory.
const LAST: Duration = Duration::from_secs(20);
/// Parts of a file that are under way at a time.
const PARALLEL: usize = 2;

/// Why a recording is not there yet.
#[derive(Debug, thiserror::Error)]
enum UploadError {
    #[error("{0}")]
    File(#[from] std::io::Error),
    #[error("{0}")]
    Store(#[from] object_store::Error),
}

/// Carries recordings until the gateway ends, and what came last then.
pub(crate) struct Uploader {
    recordings: Recordings,
    remote: Remote,
}

impl Uploader {
    /// For recordings that are to be carried somewhere.
    pub(crate) fn of(recordings: &Recordings) -> Option<Self> {
        let remote = recordings.inner.store.clone()?;
        Some(Self {
            recordings: recordings.clone(),
            remote,
        })
    }

    /// Carries until `ended`, and then what is left, for twenty seconds at most.
    pub(crate) async fn run(self, ended: CancellationToken) {
        let too_late = async {
            ended.cancelled().await;
            tokio::time::sleep(LAST).await;
        };
        let is_done = tokio::select! {
            is_done = self.carry_until(&ended) => is_done,
            () = too_late => false,
        };
        if !is_done {
            tracing::warn!("recordings stay in the directory until the next start");
        }
    }

    /// Whether all are there in the end.
    async fn carry_until(&self, ended: &CancellationToken) -> bool {
        loop {
            let is_last = ended.is_cancelled();
            let is_done = self.carry_all().await;
            if is_last {
                return is_done;
            }
            let next = self.recordings.inner.ended.notified();
            tokio::select! {
                () = next => {}
                () = tokio::time::sleep(RETRY), if !is_done => {}
                () = ended.cancelled() => {}
            }
        }
    }

    /// Whether all are there.
    async fn carry_all(&self) -> bool {
        let directory = &self.recordings.inner.directory;
        let metrics = &self.recordings.inner.metrics;
        let files = match files(directory, WHOLE) {
            Ok(files) => files,
            Err(error) => {
                metrics.upload_failures.inc();
                tracing::error!(%error, "recordings cannot be listed");
                return false;
            }
        };
        metrics
            .waiting
            .set(i64::try_from(files.len()).unwrap_or(i64::MAX));
        let mut is_done = true;
        for file in files {
            if let Err(error) = self.carry(&file).await {
                is_done = false;
                metrics.upload_failures.inc();
                tracing::warn!(file = %file.display(), %error, "a recording cannot be uploaded");
            } else {
                metrics.waiting.dec();
            }
        }
        is_done
    }

    async fn carry(&self, path: &Path) -> Result<(), UploadError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Remote { store, prefix } = &self.remote;
        let upload = store.put_multipart(&prefix.clone().join(&*name)).await?;
        let mut writer = WriteMultipart::new(upload);
        let mut file = File::open(path).await?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut buffer).await?;
            if read == 0 {
                break;
            }
            writer.wait_for_capacity(PARALLEL).await?;
            writer.write(buffer.get(..read).unwrap_or_default());
        }
        writer.finish().await?;
        // It is there: here it is not needed any more.
        tokio::fs::remove_file(path).await?;
        Ok(())
    }
}
