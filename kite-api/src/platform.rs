//! What everybody may know: whether the API lives, and how the platform is set
//! up.

use aide::axum::{ApiRouter, routing::get_with};
use axum::extract::State;
use kite_core::crd::{GatewayHostKey, SignUp};
use kite_rest::{Answer, Problem, openapi::about};
use schemars::JsonSchema;
use serde::Serialize;

use crate::state::ApiState;

const TAG: &str = "platform";

/// What is answered when the caches are filled.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    ApiRouter::new().api_route(
        "/config",
        get_with(
            config,
            about(TAG, "getConfig", "How the platform is set up", &[]),
        ),
    )
}

/// What is answered while the process serves.
pub(crate) fn health_routes() -> ApiRouter<ApiState> {
    ApiRouter::new().api_route(
        "/health",
        get_with(
            health,
            about(TAG, "getHealth", "Whether the process serves", &[]),
        ),
    )
}

/// That the process serves.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    /// Always `ok`.
    status: &'static str,
}

/// `GET /api/v1/health`
pub(crate) async fn health() -> Answer<Health> {
    Answer::new(Health { status: "ok" })
}

/// What a sign-in page needs to know.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Config {
    /// Who may sign up.
    sign_up: SignUp,
    /// At which people sign in, beside local accounts.
    sign_in_providers: Vec<ProviderView>,
    /// Whether the first administrator is still to be made.
    bootstrap_open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Below which VMs get their domains.
    base_domain: Option<String>,
    /// Absent while no gateway is exposed.
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<Gateway>,
    /// Whether terminals in the browser are recorded.
    terminals_recorded: bool,
    /// Version of the server.
    version: &'static str,
}

/// A provider at which people sign in.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ProviderView {
    /// A browser signs in at `/api/v1/auth/oidc/<name>`.
    name: String,
    /// What people call it.
    display_name: String,
}

/// Where `ssh` connects to.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Gateway {
    /// Absent while neither a public host nor a base domain is set and the
    /// gateway has no address yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// Absent while Kubernetes has not picked a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    /// What its host key is known by. None while that is not made, or has no public
    /// half beside it.
    host_keys: Vec<GatewayHostKey>,
}

/// `GET /api/v1/config`
async fn config(State(state): State<ApiState>) -> Result<Answer<Config>, Problem> {
    let bootstrap_open = kite_identity::is_bootstrap_open(state.accounts()).await?;
    let platform = state.platform();
    let seen = state.platform_status();
    let terminals = state.consoles().terminals.as_ref();
    Ok(Answer::new(Config {
        sign_up: platform.sign_up,
        sign_in_providers: platform
            .sign_in_providers
            .iter()
            .map(|provider| ProviderView {
                name: provider.name.clone(),
                display_name: provider.title().to_owned(),
            })
            .collect(),
        bootstrap_open,
        gateway: platform.gateway.enabled.then(|| Gateway {
            host_keys: seen.gateway_host_keys,
            port: platform.gateway.port_of_users(seen.gateway_port),
            host: platform
                .host_of_users(&seen.gateway_addresses)
                .map(str::to_owned),
        }),
        base_domain: platform.base_domain,
        terminals_recorded: terminals.is_some_and(|terminals| terminals.are_recorded()),
        version: env!("CARGO_PKG_VERSION"),
    }))
}
