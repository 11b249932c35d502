//! [`File`]: a file in a guest.

use serde::{Deserialize, Serialize};

/// A file in the guest.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where.
    pub path: String,
    /// Mode in octal.
    pub permissions: String,
    /// What.
    pub content: String,
}
