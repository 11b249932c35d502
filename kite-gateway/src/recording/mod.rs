//! Recordings of terminal sessions, as asciicast v2: what a terminal printed, and when.
//! What is typed is not recorded, as passwords are.
//!
//! A recording is written to a file line by line, so that a crash loses at most its
//! last moments. It is called `….cast.part` while the session lasts and `….cast` when
//! that has ended. With [`Recordings::upload_to`] files are carried from there to an
//! object store and removed here once they are there; what an earlier process left
//! behind is carried, too.
//!
//! Who is recorded is told so first. Where a recording is asked for and cannot be made,
//! the session ends: nobody goes on unrecorded.

pub(crate) mod cast;
mod metrics;
mod store;
mod upload;

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::ObjectStore;
use prometheus_client::registry::Registry;
use rand::RngExt as _;
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::cast::{Encoder, Env, Event, Header};
use self::metrics::Metrics;
pub use self::store::{OpenError, store_at};
use self::upload::Uploader;
use crate::route::{LoginName, VmKey};

/// What whoever is recorded reads first.
pub(crate) const RECORDED: &str = "kite: this session is recorded";
/// Events that wait for the disk; above it the session waits.
const WAITING: usize = 256;
/// Bytes of what is printed that wait for the disk.
const WAITING_BYTES: u32 = 64 * 1024;
/// How long the last recordings may take when the gateway ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// What a recording is called while it is made.
const PART: &str = "cast.part";
/// What it is called when it is whole.
const WHOLE: &str = "cast";

/// Where recordings go.
#[derive(Clone, Debug)]
pub struct Recordings {
    inner: Arc<Inner>,
    everything: bool,
}

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    store: Option<Remote>,
    /// A recording has ended.
    ended: Notify,
    writers: TaskTracker,
    metrics: Metrics,
}

#[derive(Clone, Debug)]
struct Remote {
    store: Arc<dyn ObjectStore>,
    prefix: object_store::path::Path,
}

/// A terminal that is to be recorded.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    pub(crate) term: String,
    pub(crate) columns: u32,
    pub(crate) rows: u32,
}

impl Recordings {
    /// Recordings in a directory, which is made if it is not there. It must be this
    /// process's alone: recordings that another left behind there are taken for whole.
    ///
    /// # Errors
    ///
    /// When the directory cannot be made or written to.
    pub fn to(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        std::fs::create_dir_all(&directory)?;
        let probe = directory.join(".kite-probe");
        std::fs::write(&probe, b"")?;
        std::fs::remove_file(&probe)?;
        for file in files(&directory, PART)? {
            std::fs::rename(&file, file.with_extension(""))?;
        }
        Ok(Self {
            inner: Arc::new(Inner {
                directory,
                store: None,
                ended: Notify::new(),
                writers: TaskTracker::new(),
                metrics: Metrics::default(),
            }),
            everything: false,
        })
    }

    /// Records what shells and commands without a terminal print, too; otherwise only
    /// what terminals do. What the subsystem `sftp` carries is never recorded.
    #[must_use]
    pub fn everything(self, is_recorded: bool) -> Self {
        Self {
            everything: is_recorded,
            ..self
        }
    }

    /// What stands for the terminal of a session that has none, if such are recorded.
    pub(crate) fn without_terminal(&self) -> Option<Terminal> {
        self.everything.then(|| Terminal {
            term: "dumb".to_owned(),
            columns: 80,
            rows: 24,
        })
    }

    /// Adds what is counted of recordings to a registry, each under `kite_recordings_`.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.inner.metrics.register(registry);
    }

    /// Carries each recording to an object store, below `prefix`, when it is whole.
    #[must_use]
    pub fn upload_to(self, store: Arc<dyn ObjectStore>, prefix: object_store::path::Path) -> Self {
        Self {
            inner: Arc::new(Inner {
                directory: self.inner.directory.clone(),
                store: Some(Remote { store, prefix }),
                ended: Notify::new(),
                writers: TaskTracker::new(),
                metrics: self.inner.metrics.clone(),
            }),
            everything: self.everything,
        }
    }

    /// Begins to record. It makes a file and writes its first line, on the thread that asks:
    /// nothing may pass before that.
    pub(crate) fn begin(
        &self,
        terminal: &Terminal,
        login: &LoginName,
        vm: &VmKey,
    ) -> io::Result<Recording> {
        let now = jiff::Timestamp::now();
        let header = Encoder::header(&Header {
            version: 2,
            width: terminal.columns,
            height: terminal.rows,
            timestamp: now.as_second(),
            title: format!("{login} on {vm}"),
            env: Env {
                term: terminal.term.clone(),
            },
        })?;
        let name = format!(
            "{}_{}_{}_{login}_{:08x}",
            now.strftime("%Y%m%dT%H%M%SZ"),
            plain(&vm.namespace),
            plain(&vm.name),
            rand::rng().random::<u32>()
        );
        let part = self.inner.directory.join(format!("{name}.{PART}"));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&part)?;
        file.write_all(&header)?;
        let file = File::from_std(file);
        let (sender, receiver) = mpsc::channel(WAITING);
        let inner = Arc::clone(&self.inner);
        self.inner.writers.spawn(async move {
            if let Err(error) = write(file, receiver).await {
                tracing::error!(file = %part.display(), %error, "a recording ends early");
            }
            let whole = part.with_extension("");
            if let Err(error) = tokio::fs::rename(&part, &whole).await {
                tracing::error!(file = %part.display(), %error, "a recording keeps its name");
            }
            inner.ended.notify_one();
        });
        Ok(Recording {
            name: format!("{name}.{WHOLE}"),
            started: Instant::now(),
            sender,
            room: Arc::new(Semaphore::new(WAITING_BYTES as usize)),
        })
    }

    /// Carries recordings to the object store, if there is one, until `over`; then
    /// waits for what was recorded last to be on the disk, for ten seconds at most,
    /// and carries that, for twenty. [`Gateway::serve`](crate::Gateway::serve) does so
    /// for its own; it is for one task.
    pub async fn keep(self, over: CancellationToken) {
        let written = CancellationToken::new();
        let carrying = async {
            if let Some(uploader) = Uploader::of(&self) {
                uploader.run(written.clone()).await;
            }
        };
        let finishing = async {
            over.cancelled().await;
            self.finish().await;
            written.cancel();
        };
        tokio::join!(carrying, finishing);
    }

    /// Waits until all that was recorded is on the disk.
    async fn finish(&self) {
        self.inner.writers.close();
        if tokio::time::timeout(PATIENCE, self.inner.writers.wait())
            .await
            .is_err()
        {
            tracing::error!("recordings are not on the disk in time");
        }
    }
}

/// A session that is recorded. It is whole when this is dropped.
#[derive(Debug)]
pub(crate) struct Recording {
    name: String,
    started: Instant,
    sender: mpsc::Sender<Noted>,
    /// Bytes that may still wait.
    room: Arc<Semaphore>,
}

/// An event, when it was, and its place among those that wait.
type Noted = (Duration, Event, Option<OwnedSemaphorePermit>);

/// Recording is not possible any more.
#[derive(Debug)]
pub(crate) struct Lost;

impl Recording {
    /// Its name in the directory, and in the object store.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What is printed. Waits where the disk is slower than the terminal.
    pub(crate) async fn printed(&self, data: &Bytes) -> Result<(), Lost> {
        let at = self.started.elapsed();
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room);
        let place = room.acquire_many_owned(length.min(WAITING_BYTES)).await;
        let event = (at, Event::Output(data.clone()), place.ok());
        self.sender.send(event).await.map_err(|_| Lost)
    }

    /// What is printed, if the disk keeps up: `false` if it has to wait.
    pub(crate) fn try_printed(&self, data: &Bytes) -> Result<bool, Lost> {
        let at = self.started.elapsed();
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room);
        let Ok(place) = room.try_acquire_many_owned(length.min(WAITING_BYTES)) else {
            return Ok(false);
        };
        let event = (at, Event::Output(data.clone()), Some(place));
        match self.sender.try_send(event) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Closed(_)) => Err(Lost),
        }
    }

    /// The terminal has another size.
    pub(crate) fn resized(&self, columns: u32, rows: u32) {
        let event = Event::Resize { columns, rows };
        // Not worth to wait for, and a disk that is slow is told of by what is printed.
        let _ = self.sender.try_send((self.started.elapsed(), event, None));
    }
}

/// Writes what comes, as much at a time as has come.
async fn write(mut file: File, mut events: mpsc::Receiver<Noted>) -> io::Result<()> {
    let (mut encoder, mut batch) = (Encoder::default(), Vec::new());
    while events.recv_many(&mut batch, WAITING).await > 0 {
        let mut lines = Vec::new();
        for (at, event, _) in &batch {
            encoder.event(*at, event, &mut lines)?;
        }
        file.write_all(&lines).await?;
        file.flush().await?;
        // Now there is room for others.
        batch.clear();
    }
    file.sync_all().await
}

/// A part of a file's name.
fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    text.chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .take(128)
        .collect()
}

/// The files of a directory whose name ends like this.
fn files(directory: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let ending = format!(".{ending}");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.ends_with(&ending)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
