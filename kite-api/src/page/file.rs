//! A file in the binary, as it is served.

use axum::response::{IntoResponse as _, Response};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

/// A file that was packed when Kite was built.
pub(super) struct File {
    pub(super) path: &'static str,
    pub(super) plain: &'static [u8],
    pub(super) brotli: Option<&'static [u8]>,
    pub(super) gzip: Option<&'static [u8]>,
}

/// How long browsers may keep a file.
#[derive(Clone, Copy)]
pub(super) enum Caching {
    /// They ask each time whether their copy is still good.
    Ask,
    /// As long as they like: another content has another name.
    Forever,
}

/// A file with the tag that tells whether a browser's copy is still good.
pub(super) struct Served {
    file: &'static File,
    tag: String,
}

impl Served {
    pub(super) fn new(file: &'static File) -> Self {
        let digest = Sha256::digest(file.plain);
        let tag = URL_SAFE_NO_PAD.encode(&digest[..12]);
        Self { file, tag }
    }

    pub(super) fn path(&self) -> &'static str {
        self.file.path
    }

    /// The file, packed as the browser likes it.
    pub(super) fn answer(&self, request: &HeaderMap, caching: Caching) -> Response {
        let (encoding, body) = self.packed(request);
        let etag = format!("\"{}{}\"", self.tag, encoding.map_or("", suffix));
        let mut response = if is_known(request, &etag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let mut response = body.into_response();
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, content_type(self.file.path));
            if let Some(encoding) = encoding {
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
            }
            response
        };
        let headers = response.headers_mut();
        if let Ok(etag) = HeaderValue::from_str(&etag) {
            headers.insert(header::ETAG, etag);
        }
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        let caching = match caching {
            Caching::Ask => "no-cache",
            Caching::Forever => "public, max-age=31536000, immutable",
        };
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
        response
    }

    fn packed(&self, request: &HeaderMap) -> (Option<&'static str>, &'static [u8]) {
        match (self.file.brotli, self.file.gzip) {
            (Some(body), _) if accepts(request, "br") => (Some("br"), body),
            (_, Some(body)) if accepts(request, "gzip") => (Some("gzip"), body),
            _ => (None, self.file.plain),
        }
    }
}

/// Differs for each packing, as strong tags have to.
fn suffix(encoding: &str) -> &'static str {
    if encoding == "br" { "-br" } else { "-gz" }
}

/// Whether the client takes `encoding`; `q=0` says that it does not.
fn accepts(request: &HeaderMap, encoding: &str) -> bool {
    lines(request, &header::ACCEPT_ENCODING).any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let named = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case(encoding));
        let refused = parts
            .filter_map(|part| part.strip_prefix("q="))
            .any(|weight| weight.parse::<f32>().is_ok_and(|weight| weight <= 0.0));
        named && !refused
    })
}

fn is_known(request: &HeaderMap, etag: &str) -> bool {
    lines(request, &header::IF_NONE_MATCH)
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

/// The items of a header that is a list.
fn lines<'a>(request: &'a HeaderMap, name: &http::HeaderName) -> impl Iterator<Item = &'a str> {
    request
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim)
}

fn content_type(path: &str) -> HeaderValue {
    let suffix = path.rsplit('.').next().unwrap_or_default();
    HeaderValue::from_static(match suffix {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_packing_that_the_client_takes_is_sent() {
        static FILE: File = File {
            path: "/assets/a.js",
            plain: b"plain",
            brotli: Some(b"b"),
            gzip: Some(b"g"),
        };
        let served = Served::new(&FILE);
        for (accepted, encoding) in [
            ("gzip, deflate, br", Some("br")),
            ("gzip", Some("gzip")),
            ("br;q=0, gzip;q=0.5", Some("gzip")),
            ("identity", None),
        ] {
            let mut request = HeaderMap::new();
            request.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
            let answer = served.answer(&request, Caching::Forever);
            let got = answer.headers().get(header::CONTENT_ENCODING);
            assert_eq!(got.and_then(|value| value.to_str().ok()), encoding);
        }
    }
}
