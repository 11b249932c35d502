//! [`Orphans`]: passwords that no account named when it was last looked.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicU32, Ordering},
};

use parking_lot::Mutex;

/// Sweeps from one look to the next: all passwords are asked for.
const TURNS: u32 = 10;

/// Which passwords no account named when it was looked last. Only what is so twice is
/// removed: the change of an account may just be being taken back.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    turns: AtomicU32,
    pub(crate) seen: Mutex<HashSet<String>>,
}

impl Orphans {
    /// Whether this sweep is one that looks.
    pub(crate) fn is_turn(&self) -> bool {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        turn % TURNS == TURNS - 1
    }
}
