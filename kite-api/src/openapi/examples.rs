//! What bodies have in the examples of the document.

use serde_json::{Value, json};

/// A public key.
pub(crate) const SSH_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKO9ldbqXUWB+gMw90VFK2ZXIlM5RvBXwnm/KM3V61Ut ann@laptop";
/// A password.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// What somebody may have.
pub(crate) fn quota() -> Value {
    json!({"vms": 10, "cpu": 16, "memory": "32Gi", "disk": "400Gi"})
}
