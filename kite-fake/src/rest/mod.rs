//! What a request says: its path, its query, its media types.
//!
//! Pure parsing, shared by every verb; errors are ready to be sent.

pub mod media;
pub mod options;
pub mod path;
pub mod query;
pub mod selector;
pub mod strict;
pub(crate) mod yaml;
