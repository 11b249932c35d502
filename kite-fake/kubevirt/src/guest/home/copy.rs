//! A disk that has what another one has now.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::super::file::{Body, Space};
use super::{Dir, Home, Node};

impl Home {
    /// A disk of its own with all files that this one has now, as from a snapshot.
    #[must_use]
    pub fn copied(&self) -> Self {
        let root = self.root.lock();
        let space = Arc::new(self.space.alike());
        Self {
            root: Arc::new(Mutex::new(root.copied(&space))),
            entries: Arc::new(AtomicU64::new(self.entries.load(Ordering::Relaxed))),
            space,
        }
    }
}

impl Dir {
    fn copied(&self, space: &Arc<Space>) -> Self {
        let copy = |(name, node): (&String, &Node)| (name.clone(), node.copied(space));
        Self {
            mode: self.mode,
            mtime: self.mtime,
            entries: self.entries.iter().map(copy).collect(),
        }
    }
}

impl Node {
    fn copied(&self, space: &Arc<Space>) -> Self {
        match self {
            Self::Dir(dir) => Self::Dir(dir.copied(space)),
            Self::File(body) => Self::File(Arc::new(Body::copied(body, Arc::clone(space)))),
        }
    }
}
