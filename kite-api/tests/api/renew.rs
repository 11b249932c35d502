//! A VM that is kept for another week.

use kite_core::crd::AccessLevel;
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn a_vm_is_kept_for_a_week() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let body = json!({"name": "web", "cpu": 1, "memory": "1Gi", "disk": "5Gi", "image": "debian-12"});
    assert_eq!(world.post("/api/v1/vms", &ann, body).await.status, 201);
    let renewed = world.post("/api/v1/vms/web/renew", &ann, json!({})).await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    assert!(renewed.body["expiresAt"].is_string(), "{renewed:?}");
}
