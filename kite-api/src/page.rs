//! The web page: what `build.rs` made of `ui/`, part of the binary.

mod file;

use std::sync::LazyLock;

use axum::{
    Router,
    extract::{OriginalUri, Request},
    response::{IntoResponse as _, Response},
    routing::get,
};
use http::{HeaderMap, Method, Uri, header};

use self::file::{Caching, File, Served};
use crate::{layers::not_found, state::ApiState};

/// The files of the UI; none where it was not built.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/ui.rs"));

/// What is shown where the UI was not built: how to get it.
static FALLBACK: File = File {
    path: "/index.html",
    plain: include_bytes!("../ui/fallback.html"),
    brotli: None,
    gzip: None,
};

/// The icon, also without the UI.
static ICON: LazyLock<Served> = LazyLock::new(|| {
    static FILE: File = File {
        path: "/icon.svg",
        plain: include_bytes!("../ui/public/icon.svg"),
        brotli: None,
        gzip: None,
    };
    Served::new(&FILE)
});

static INDEX: LazyLock<Served> =
    LazyLock::new(|| Served::new(find("/index.html").unwrap_or(&FALLBACK)));

/// Files by their names that tell their content apart.
static ASSETS: LazyLock<Vec<Served>> = LazyLock::new(|| {
    FILES
        .iter()
        .filter(|file| file.path.starts_with("/assets/"))
        .map(Served::new)
        .collect()
});

fn find(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

/// The page at `/` and its files. Other paths of the page are answered by
/// [`fallback`].
pub(crate) fn routes() -> Router<ApiState> {
    Router::new()
        .route("/", get(index))
        .route("/assets/{*file}", get(asset))
        .route("/icon.svg", get(icon))
}

async fn index(headers: HeaderMap) -> Response {
    INDEX.answer(&headers, Caching::Ask)
}

async fn icon(headers: HeaderMap) -> Response {
    ICON.answer(&headers, Caching::Ask)
}

async fn asset(uri: Uri, headers: HeaderMap) -> Response {
    match ASSETS.iter().find(|asset| asset.path() == uri.path()) {
        Some(asset) => asset.answer(&headers, Caching::Forever),
        None => not_found(OriginalUri(uri)).await.into_response(),
    }
}

/// The page for whoever opens one of its addresses, which it makes sense of by
/// itself; a problem for all others.
pub(crate) async fn fallback(uri: OriginalUri, request: Request) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_api = uri.path() == "/api" || uri.path().starts_with("/api/");
    let wants_page = request
        .headers()
        .get(header::ACCEPT)
        .is_some_and(|accept| contains(accept.as_bytes(), b"text/html"));
    if is_read && !is_api && wants_page {
        return index(request.headers().clone()).await;
    }
    not_found(uri).await.into_response()
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most bytes, compressed, before the first page is shown.
    const FIRST_LOAD: usize = 250_000;

    /// The files that the first page names, and it.
    fn first_load() -> impl Iterator<Item = &'static File> {
        let index = find("/index.html");
        let html = index.map_or("", |file| {
            std::str::from_utf8(file.plain).unwrap_or_default()
        });
        let named = html.split('"').filter_map(find);
        index.into_iter().chain(named)
    }

    #[test]
    fn the_first_load_is_small() {
        if FILES.is_empty() {
            assert!(
                std::env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
                "KITE_REQUIRE_CLIENTS is set and the UI was not built"
            );
            return;
        }
        let sizes: Vec<_> = first_load()
            .map(|file| (file.path, file.gzip.map_or(file.plain.len(), <[u8]>::len)))
            .collect();
        let total: usize = sizes.iter().map(|(_, size)| size).sum();
        assert!(sizes.len() > 2, "a script and a style sheet: {sizes:?}");
        assert!(total < FIRST_LOAD, "{total} bytes: {sizes:?}");
    }

    #[test]
    fn every_script_and_style_is_packed_and_named_by_its_content() {
        for file in FILES.iter().filter(|file| file.path != "/icon.svg") {
            let name = file.path.rsplit('/').next().unwrap_or_default();
            assert!(file.brotli.is_some() && file.gzip.is_some(), "{name}");
            assert!(name == "index.html" || name.contains('-'), "{name}");
        }
    }
}
