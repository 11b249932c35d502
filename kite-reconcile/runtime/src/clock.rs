//! What time it is.

use std::sync::Arc;

use jiff::Timestamp;

/// Where the time comes from.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
