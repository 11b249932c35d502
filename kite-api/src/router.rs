//! Which path is answered by what.

use axum::{
    Router,
    extract::OriginalUri,
    middleware::{from_fn, from_fn_with_state},
    routing::{get, post},
};
use http::Method;
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    account,
    auth::{bootstrap, sign_in, sign_up},
    images, offers, page, platform,
    problem::{Problem, ProblemKind},
    state::ApiState,
    users, vms,
    web::layers,
};

/// The API below `/api/v1`, `/health`, and the web page below `/`.
///
/// Everything that a server in the open needs is inside: limits, security
/// headers, request ids. To have the address of the client for throttling, serve
/// it with `into_make_service_with_connect_info::<SocketAddr>()`.
pub fn router(state: ApiState) -> Router {
    let router = routes(&state).merge(page::routes());
    surround(router.fallback(page::fallback), state)
}

/// The same without the web page.
pub fn api_router(state: ApiState) -> Router {
    surround(routes(&state).fallback(not_found), state)
}

fn routes(state: &ApiState) -> Router<ApiState> {
    let synced = Router::new()
        .route("/config", get(platform::config))
        .route("/auth/bootstrap", post(bootstrap::bootstrap))
        .route("/auth/sign-up", post(sign_up::sign_up))
        .route("/auth/sign-in", post(sign_in::sign_in))
        .route("/auth/sign-out", post(sign_in::sign_out))
        .route("/me", get(account::get).patch(account::patch))
        .route("/me/password", post(account::change_password))
        .route(
            "/me/sessions",
            get(account::sessions).delete(account::end_others),
        )
        .route(
            "/me/sessions/{name}",
            axum::routing::delete(account::end_one),
        )
        .route("/vms", get(vms::list).post(vms::create))
        .route(
            "/vms/{name}",
            get(vms::get).patch(vms::patch).delete(vms::delete),
        )
        .route("/vms/{name}/start", post(vms::start))
        .route("/vms/{name}/stop", post(vms::stop))
        .route("/images", get(images::list))
        .route("/offers", get(offers::list))
        .route("/offers/{name}/claim", post(offers::claim))
        .route("/admin/offers", get(offers::list_all).post(offers::create))
        .route(
            "/admin/offers/{name}",
            axum::routing::delete(offers::delete),
        )
        .route("/admin/users", get(users::list).post(users::create))
        .route(
            "/admin/users/{name}",
            get(users::get).patch(users::patch).delete(users::delete),
        )
        .route_layer(from_fn_with_state(state.clone(), layers::wait_for_sync));
    Router::new()
        .route("/health", get(platform::health))
        .nest("/api/v1", synced.route("/health", get(platform::health)))
}

fn surround(router: Router<ApiState>, state: ApiState) -> Router {
    router
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn(layers::reshape))
        .layer(CatchPanicLayer::custom(layers::answer_panic))
        .layer(from_fn_with_state(state.clone(), layers::limit_time))
        .layer(from_fn_with_state(state.clone(), layers::secure))
        .layer(from_fn_with_state(state.clone(), layers::trace))
        .with_state(state)
}

pub(crate) async fn not_found(OriginalUri(uri): OriginalUri) -> Problem {
    Problem::new(
        ProblemKind::NotFound,
        format!("there is nothing at {}", uri.path()),
    )
}

async fn method_not_allowed(method: Method, OriginalUri(uri): OriginalUri) -> Problem {
    Problem::new(
        ProblemKind::MethodNotAllowed,
        format!(
            "{method} does nothing at {}: the Allow header names what does",
            uri.path()
        ),
    )
}
