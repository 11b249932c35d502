//! The web page: three files that are part of the binary.

use std::sync::LazyLock;

use axum::{
    Router,
    response::{IntoResponse, Response},
    routing::get,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::state::ApiState;

/// A file with the tag that tells whether a browser's copy is still good.
struct Asset {
    content_type: &'static str,
    body: &'static str,
    etag: String,
}

impl Asset {
    fn new(content_type: &'static str, body: &'static str) -> Self {
        let digest = Sha256::digest(body.as_bytes());
        let tag = URL_SAFE_NO_PAD.encode(&digest[..12]);
        Self {
            content_type,
            body,
            etag: format!("\"{tag}\""),
        }
    }

    fn answer(&'static self, headers: &HeaderMap) -> Response {
        let known = headers
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|line| line.split(','))
            .any(|tag| {
                let tag = tag.trim();
                tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.etag
            });
        let mut response = if known {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            self.body.into_response()
        };
        let headers = response.headers_mut();
        if !known {
            headers.insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static(self.content_type),
            );
        }
        if let Ok(etag) = HeaderValue::from_str(&self.etag) {
            headers.insert(header::ETAG, etag);
        }
        // Ask every time: the files change together when Kite is updated.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }
}

static INDEX: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("text/html; charset=utf-8", include_str!("../ui/index.html")));
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "text/javascript; charset=utf-8",
        include_str!("../ui/app.js"),
    )
});
static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("text/css; charset=utf-8", include_str!("../ui/style.css")));
static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("image/svg+xml", include_str!("../ui/icon.svg")));

/// The page at `/` and its files.
pub(crate) fn routes() -> Router<ApiState> {
    Router::new()
        .route("/", get(async |headers: HeaderMap| INDEX.answer(&headers)))
        .route(
            "/app.js",
            get(async |headers: HeaderMap| SCRIPT.answer(&headers)),
        )
        .route(
            "/style.css",
            get(async |headers: HeaderMap| STYLE.answer(&headers)),
        )
        .route(
            "/icon.svg",
            get(async |headers: HeaderMap| ICON.answer(&headers)),
        )
}
