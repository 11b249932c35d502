//! The web page: a few files that are part of the binary.

use std::sync::Arc;

use axum::{
    Router,
    response::{IntoResponse, Response},
    routing::get,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::state::ApiState;

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// Path, type and text of every file.
const FILES: [(&str, &str, &str); 13] = [
    ("/", HTML, include_str!("../ui/index.html")),
    ("/icon.svg", IMAGE, include_str!("../ui/icon.svg")),
    ("/style.css", STYLE, include_str!("../ui/style.css")),
    ("/vms.css", STYLE, include_str!("../ui/vms.css")),
    ("/app.js", SCRIPT, include_str!("../ui/app.js")),
    ("/page.js", SCRIPT, include_str!("../ui/page.js")),
    ("/forms.js", SCRIPT, include_str!("../ui/forms.js")),
    ("/entrance.js", SCRIPT, include_str!("../ui/entrance.js")),
    ("/sizes.js", SCRIPT, include_str!("../ui/sizes.js")),
    ("/vms.js", SCRIPT, include_str!("../ui/vms.js")),
    ("/create.js", SCRIPT, include_str!("../ui/create.js")),
    ("/delete.js", SCRIPT, include_str!("../ui/delete.js")),
    ("/users.js", SCRIPT, include_str!("../ui/users.js")),
];

/// The page at `/` and its files.
pub(crate) fn routes() -> Router<ApiState> {
    FILES
        .into_iter()
        .fold(Router::new(), |router, (path, content_type, body)| {
            let asset = Arc::new(Asset::new(content_type, body));
            router.route(
                path,
                get(async move |headers: HeaderMap| asset.answer(&headers)),
            )
        })
}

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

    fn answer(&self, request: &HeaderMap) -> Response {
        let known = request
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_is_named_is_served() {
        let named = FILES.iter().flat_map(|(_, _, text)| {
            text.split('"')
                .filter(|word| {
                    let file = word.strip_prefix('.').unwrap_or(word);
                    file.starts_with('/') && file.contains('.') && !file.contains(' ')
                })
                .map(|word| word.strip_prefix('.').unwrap_or(word))
        });
        let mut count = 0;
        for file in named {
            count += 1;
            assert!(FILES.iter().any(|(path, _, _)| *path == file), "{file}");
        }
        assert!(count > 20, "{count}");
    }
}
