//! Under whose names Kite's processes own the fields that they write.

use crate::cluster::FieldManager;

/// Kite's reconcilers.
pub const CONTROLLER: FieldManager = FieldManager::new("kite-controller");
/// Kite's HTTP API.
pub const API: FieldManager = FieldManager::new("kite-api");
/// Kite's SSH gateway.
pub const GATEWAY: FieldManager = FieldManager::new("kite-gateway");
