//! Which path is answered by what.

use std::sync::Arc;

use aide::axum::ApiRouter;
use axum::{
    Router,
    extract::OriginalUri,
    middleware::{from_fn, from_fn_with_state},
    routing::{any, get},
};
use http::Method;
use kite_identity::openapi::LED_TO;
use kite_rest::{
    Problem, ProblemKind,
    audit::{Auditor, Operations, audit},
    held,
    query::{self, Queries},
    written,
};
use serde_json::Value;
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    capacity, certificate, connections, consoles, events, images, layers, notices, offers, openapi,
    page, password, platform, proof, reference, settings, snapshots, state::ApiState, vms, volumes,
};

/// What administrators see that is nobody's.
const OF_NOBODY: [&str; 6] = [
    "getCapacity",
    "getCertificate",
    "getImage",
    "getPlatform",
    "listAllImages",
    "listImageTags",
];

/// The API below `/api/v1`, `/health`, and the web page below `/`.
///
/// Everything that a server in the open needs is inside: limits, security
/// headers, request ids. To have the address of the client for throttling, serve
/// it with `into_make_service_with_connect_info::<SocketAddr>()`.
///
/// It is for the root of a host: serve it as it is, or `merge` it. Nesting it below a prefix
/// is not supported, as the page, its files, the path of the refresh cookie, `Location`
/// headers and the redirect URIs of sign-in providers begin at the root. What no path of
/// Kite's is like is answered by the page, as a fallback: an application that has a
/// [fallback](Router::fallback) of its own merges [`api_router`] instead, for axum panics
/// where two routers with one are merged.
pub fn router(state: ApiState) -> Router {
    let (router, names) = routes(&state);
    let router = router.merge(page::routes());
    surround(router.fallback(page::fallback), state, names)
}

/// The same without the web page, and without a fallback: what is neither `/health` nor
/// below `/api/v1` is left to the application that it is merged into.
///
/// This, too, is for the root. Nested below a prefix (`nest`, `nest_service`) it answers
/// requests with a bearer token or a [`Principal`](crate::Principal) like any others, and
/// with the same checks; but `Location` headers and addresses in messages lack the prefix,
/// browsers do not send the refresh cookie back (`Path=/api/v1/auth`), and nobody signs in
/// at providers.
///
/// ```no_run
/// use axum::{Router, routing::get};
/// use kite_api::{ApiState, api_router};
///
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let state = ApiState::builder(client).build().await?;
/// let app: Router = Router::new()
///     .route("/", get(async || "my own page"))
///     .merge(api_router(state));
/// # drop(app);
/// # Ok(())
/// # }
/// ```
pub fn api_router(state: ApiState) -> Router {
    let elsewhere = Router::new()
        .route("/api/v1", any(layers::not_found))
        .route("/api/v1/", any(layers::not_found))
        .route("/api/v1/{*path}", any(layers::not_found));
    let (router, names) = routes(&state);
    surround(router.merge(elsewhere), state, names)
}

/// The OpenAPI 3.1 document of the API. It is also served at
/// `/api/v1/openapi.json`, and to be read at `/api/v1/reference`.
pub fn openapi_document() -> Value {
    documented(operations().merge(platform::health_routes())).1
}

fn routes(state: &ApiState) -> (Router<ApiState>, Operations) {
    let synced = operations()
        .route_layer(from_fn_with_state(
            state.clone(),
            written::keep_up::<ApiState>,
        ))
        .route_layer(from_fn_with_state(state.clone(), layers::wait_for_sync));
    let (router, document) = documented(synced.merge(platform::health_routes()));
    let router = router
        .route("/health", get(platform::health))
        .merge(reference::routes(&document));
    (router, Operations::of(&document))
}

/// Everything that needs filled caches.
fn operations() -> ApiRouter<ApiState> {
    kite_rest::openapi::prepare();
    ApiRouter::new()
        .merge(kite_identity::routes())
        .merge(password::routes())
        .merge(notices::routes())
        .merge(vms::routes())
        .merge(snapshots::routes())
        .merge(volumes::routes())
        .merge(consoles::routes())
        .merge(connections::routes())
        .merge(images::routes())
        .merge(offers::routes())
        .merge(events::routes())
        .merge(settings::routes())
        .merge(capacity::routes())
        .merge(certificate::routes())
        .merge(platform::routes())
        .with_path_items(kite_rest::openapi::describe)
        .with_path_items(|path| kite_identity::proof::describe(path, &proof::OPERATIONS))
}

fn documented(api: ApiRouter<ApiState>) -> (Router<ApiState>, Value) {
    let mut document = openapi::begin();
    let router = ApiRouter::new()
        .nest("/api/v1", api)
        .finish_api(&mut document);
    let document = kite_rest::openapi::finish(&document);
    let queries = Arc::new(Queries::of(&document, &LED_TO));
    let router = router.route_layer(from_fn_with_state(queries, query::check));
    (router, document)
}

fn surround(router: Router<ApiState>, state: ApiState, names: Operations) -> Router {
    let proxies = state.settings().trusted_proxies;
    let auditor = Auditor::new(Arc::clone(state.audit()), names, proxies, &OF_NOBODY);
    router
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn(layers::reshape))
        .layer(from_fn(layers::require_text))
        .layer(CatchPanicLayer::custom(layers::answer_panic))
        .layer(from_fn_with_state(state.clone(), layers::limit_time))
        // Inside of what notes whose request it is.
        .layer(from_fn_with_state(state.answers().clone(), held::hold))
        .layer(from_fn_with_state(Arc::new(auditor), audit))
        .layer(from_fn_with_state(state.clone(), layers::secure))
        .layer(from_fn_with_state(state.clone(), layers::trace))
        .with_state(state)
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
