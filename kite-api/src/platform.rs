//! What everybody may know: whether the API lives, and how the platform is set
//! up.

use axum::{Json, extract::State};
use kite_core::crd::SignUp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{auth::bootstrap, problem::Problem, state::ApiState};

/// `GET /api/v1/health`
pub(crate) async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// What a sign-in page needs to know.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Config {
    sign_up: SignUp,
    /// Whether the first administrator is still to be made.
    bootstrap_open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_domain: Option<String>,
    /// Absent while no gateway is exposed.
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<Gateway>,
    version: &'static str,
}

/// Where `ssh` connects to.
#[derive(Serialize)]
struct Gateway {
    /// Absent while neither a public host nor a base domain is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    port: u16,
}

/// `GET /api/v1/config`
pub(crate) async fn config(State(state): State<ApiState>) -> Result<Json<Config>, Problem> {
    let bootstrap_open = bootstrap::is_open(&state).await?;
    let platform = state.platform();
    Ok(Json(Config {
        sign_up: platform.sign_up,
        bootstrap_open,
        gateway: platform.gateway.enabled.then(|| Gateway {
            port: platform
                .gateway
                .port_of_users(None)
                .unwrap_or(platform.gateway.public_port),
            host: platform
                .gateway
                .public_host
                .or_else(|| platform.base_domain.clone()),
        }),
        base_domain: platform.base_domain,
        version: env!("CARGO_PKG_VERSION"),
    }))
}
