//! `Kite-Written`: a client reads its own writes on every replica.
//!
//! Whoever writes waits until the copies of *that* replica have the write. The next
//! request may reach another one, whose copies are behind by as long as an event
//! travels. So an answer to a write says how far the copies were, per kind, in a
//! header and, where a browser's session is in cookies, in a cookie; a request that
//! brings it is answered by copies that are as far. Nothing is kept in a process.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use aide::openapi::{Components, Parameter, ReferenceOr};
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use parking_lot::Mutex;
use schemars::json_schema;

use crate::{
    auth::cookie::{self, Role},
    caches::Kind,
    openapi::request_header,
    problem::Problem,
    state::ApiState,
    web::header::refused,
};

/// On answers to writes, and on the requests that are to see them.
const WRITTEN: HeaderName = HeaderName::from_static("kite-written");

/// What the OpenAPI document calls it, as a header of answers and of requests.
pub(crate) const COMPONENT: &str = "Kite-Written";
/// What it looks like: kinds, and the version of each.
pub(crate) const PATTERN: &str = r"^[a-z]+\.[0-9]+(_[a-z]+\.[0-9]+)*$";
/// How long a browser remembers: far longer than an event travels.
const FRESH: Duration = Duration::from_secs(60);

tokio::task_local! {
    /// What the request that is being answered has written.
    static WRITES: Arc<Mutex<Written>>;
}

/// Notes that the request that is being answered has written an object of `kind`,
/// and what version a copy must have seen to know of it.
pub(crate) fn note(kind: Kind, version: u64) {
    // What is written beside requests is read by nobody in particular.
    let _ = WRITES.try_with(|writes| writes.lock().add(kind, version));
}

/// How far copies must be: the version of the last write, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written(BTreeMap<Kind, u64>);

impl Written {
    fn add(&mut self, kind: Kind, version: u64) {
        let latest = self.0.entry(kind).or_default();
        *latest = version.max(*latest);
    }

    /// Adds what another one has.
    fn merge(&mut self, other: &Self) {
        for (kind, version) in &other.0 {
            self.add(*kind, *version);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Kind, u64)> {
        self.0.iter().map(|(kind, version)| (*kind, *version))
    }

    /// Reads what [`Display`](fmt::Display) writes.
    fn parse(text: &str) -> Option<Self> {
        let mut written = Self::default();
        for pair in text.split('_') {
            let (kind, version) = pair.split_once('.')?;
            let is = |text: &str, of: fn(&u8) -> bool| {
                !text.is_empty() && text.bytes().all(|it| of(&it))
            };
            if !is(kind, u8::is_ascii_lowercase) || !is(version, u8::is_ascii_digit) {
                return None;
            }
            // What is more than any version is as good as the last one.
            let version = version.parse().unwrap_or(u64::MAX);
            // A replica of another version may know more kinds.
            if let Some(kind) = Kind::ALL.into_iter().find(|it| it.as_str() == kind) {
                written.add(kind, version);
            }
        }
        Some(written)
    }

    /// What a request says, by header and, in a browser, by cookie.
    fn of_request(headers: &HeaderMap, secure: bool) -> Result<Self, Problem> {
        let mut written = Self::default();
        if let Some(value) = headers.get(&WRITTEN) {
            let told = value.to_str().ok().and_then(Self::parse);
            written = told.ok_or_else(|| {
                refused(
                    headers,
                    &WRITTEN,
                    COMPONENT,
                    "write what an answer had in this header, or leave it out",
                )
            })?;
        }
        // Browsers send cookies without being told, so a bad one is nobody's mistake.
        for text in cookie::tokens(headers, Role::Written, secure) {
            written.merge(&Self::parse(&text).unwrap_or_default());
        }
        Ok(written)
    }
}

impl fmt::Display for Written {
    /// In letters that may stand in a cookie.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, version)) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { "_" };
            write!(f, "{separator}{}.{version}", kind.as_str())?;
        }
        Ok(())
    }
}

/// Puts what the document says of it in requests among the parts to which operations
/// refer.
pub(crate) fn add_components(components: &mut Components) {
    let brought = request_header(
        COMPONENT,
        "What an answer to a write had in this header: what was written then is seen by \
         whichever replica answers. Browsers bring it by a cookie.",
        json_schema!({ "type": "string", "pattern": PATTERN }),
    );
    components
        .parameters
        .insert(COMPONENT.to_owned(), ReferenceOr::Item(brought));
}

/// The header as operations refer to it.
pub(crate) fn reference() -> ReferenceOr<Parameter> {
    ReferenceOr::ref_(&format!("#/components/parameters/{COMPONENT}"))
}

/// Lets a request wait, within bounds, for copies that have what its client has
/// written, and tells it what it writes.
pub(crate) async fn keep_up(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Response {
    let secure = state.settings().secure_cookies;
    let mut before = match Written::of_request(request.headers(), secure) {
        Ok(written) => written,
        Err(problem) => return problem.into_response(),
    };
    let behind = state.caches().reach(&before).await;
    if !behind.is_empty() {
        // Late news are better than none: the write stands and will show. Anybody can
        // send a header, so the log does not warn of it.
        let kinds: Vec<_> = behind.iter().map(|kind| kind.as_str()).collect();
        tracing::debug!(?kinds, "answered by copies that lack what was written");
        state.metrics().answered_late(&behind);
        // What was waited for in vain once is not waited for for ever.
        before.0.retain(|kind, _| !behind.contains(kind));
    }
    let in_cookies = !cookie::tokens(request.headers(), Role::Access, secure).is_empty();
    let writes = Arc::new(Mutex::new(Written::default()));
    let mut response = WRITES.scope(Arc::clone(&writes), next.run(request)).await;
    let mut written = std::mem::take(&mut *writes.lock());
    if written.0.is_empty() {
        return response;
    }
    written.merge(&before);
    let headers = response.headers_mut();
    let text = written.to_string();
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.insert(WRITTEN, value);
    }
    let is_browser = in_cookies || headers.contains_key(header::SET_COOKIE);
    if is_browser && !cookie::ends_session(headers, secure) {
        let cookie = cookie::set(Role::Written, &text, FRESH, secure);
        headers.extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
    }
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut written = Written::default();
        for (kind, version) in [(Kind::Vms, 7), (Kind::Tokens, 9), (Kind::Vms, 5)] {
            written.add(kind, version);
        }
        let text = written.to_string();
        assert_eq!(Written::parse(&text), Some(written));
        let all = Written(Kind::ALL.map(|kind| (kind, u64::MAX)).into());
        assert_eq!(Written::parse(&all.to_string()), Some(all));
    }

    #[test]
    fn what_nobody_was_told_is_not_read() {
        for text in [
            "", "vms", "vms.", "vms.x", "vms.-1", "vms.+1", "vms.1_", ".1", "Vms.1", "v ms.1",
        ] {
            assert_eq!(Written::parse(text), None, "{text}");
        }
        let last = Written::parse("vms.99999999999999999999");
        assert_eq!(last, Some(Written([(Kind::Vms, u64::MAX)].into())));
        // But perhaps by a replica of another version.
        assert_eq!(Written::parse("pods.1"), Some(Written::default()));
    }
}
