//! `Kite-Written`: a client reads its own writes on every replica.
//!
//! Whoever writes waits until the copies of *that* replica have the write. The next
//! request may reach another one, whose copies are behind by as long as an event
//! travels. So an answer to a write says how far the copies were, per kind, in a
//! header and, where a browser's session is in cookies, in a cookie; a request that
//! brings it is answered by copies that are as far. Nothing is kept in a process.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use parking_lot::Mutex;

use crate::{
    cookie::{self, Role},
    header::refused,
    headers::WRITTEN as NAME,
    problem::Problem,
};

/// On answers to writes, and on the requests that are to see them.
const WRITTEN: HeaderName = HeaderName::from_static("kite-written");

/// How long a browser remembers: far longer than an event travels.
const FRESH: Duration = Duration::from_secs(60);

tokio::task_local! {
    /// What the request that is being answered has written.
    static WRITES: Arc<Mutex<Written>>;
}

/// Notes that the request that is being answered has written an object of `kind`,
/// and what version a copy must have seen to know of it.
pub(crate) fn note(kind: &'static str, version: u64) {
    // What is written beside requests is read by nobody in particular.
    let _ = WRITES.try_with(|writes| writes.lock().add(kind, version));
}

/// The watched copies that an application answers from, and how it is served.
pub trait Copies: Send + Sync {
    /// The kinds of which there are copies, each a few lowercase letters, as `written` has
    /// them.
    fn kinds(&self) -> &'static [&'static str];

    /// Waits, within bounds, until the copies have seen what is `written`. The kinds whose
    /// copies have not.
    fn reach(&self, written: &Written) -> impl Future<Output = Vec<&'static str>> + Send;

    /// Whether clients come by TLS, so that cookies are for that alone.
    fn is_secure(&self) -> bool;

    /// A request is answered by copies of these kinds that lack what its client has written.
    fn answered_late(&self, behind: &[&'static str]);
}

/// How far copies must be: the version of the last write, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written(BTreeMap<&'static str, u64>);

impl Written {
    fn add(&mut self, kind: &'static str, version: u64) {
        let latest = self.0.entry(kind).or_default();
        *latest = version.max(*latest);
    }

    /// Adds what another one has.
    fn merge(&mut self, other: &Self) {
        for (kind, version) in &other.0 {
            self.add(kind, *version);
        }
    }

    /// The version that the copy of each kind must have seen.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(kind, version)| (*kind, *version))
    }

    /// Reads what [`Display`](fmt::Display) writes, of the kinds that are known here.
    fn parse(text: &str, known: &[&'static str]) -> Option<Self> {
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
            if let Some(kind) = known.iter().find(|it| **it == kind) {
                written.add(kind, version);
            }
        }
        Some(written)
    }

    /// What a request says, by header and, in a browser, by cookie.
    fn of_request(
        headers: &HeaderMap,
        known: &[&'static str],
        secure: bool,
    ) -> Result<Self, Problem> {
        let mut written = Self::default();
        if let Some(value) = headers.get(&WRITTEN) {
            let told = value.to_str().ok().and_then(|it| Self::parse(it, known));
            written = told.ok_or_else(|| {
                refused(
                    headers,
                    &WRITTEN,
                    NAME,
                    "write what an answer had in this header, or leave it out",
                )
            })?;
        }
        // Browsers send cookies without being told, so a bad one is nobody's mistake.
        for text in cookie::tokens(headers, Role::Written, secure) {
            written.merge(&Self::parse(&text, known).unwrap_or_default());
        }
        Ok(written)
    }
}

impl fmt::Display for Written {
    /// In letters that may stand in a cookie.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, version)) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { "_" };
            write!(f, "{separator}{kind}.{version}")?;
        }
        Ok(())
    }
}

/// Lets a request wait, within bounds, for copies that have what its client has
/// written, and tells it what it writes.
pub async fn keep_up<S: Copies>(State(copies): State<S>, request: Request, next: Next) -> Response {
    let secure = copies.is_secure();
    let before = Written::of_request(request.headers(), copies.kinds(), secure);
    let mut before = match before {
        Ok(written) => written,
        Err(problem) => return problem.into_response(),
    };
    let behind = copies.reach(&before).await;
    if !behind.is_empty() {
        // Late news are better than none: the write stands and will show. Anybody can
        // send a header, so the log does not warn of it.
        tracing::debug!(kinds = ?behind, "answered by copies that lack what was written");
        copies.answered_late(&behind);
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

    const KNOWN: [&str; 3] = ["tokens", "users", "vms"];

    fn parse(text: &str) -> Option<Written> {
        Written::parse(text, &KNOWN)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut written = Written::default();
        for (kind, version) in [("vms", 7), ("tokens", 9), ("vms", 5)] {
            written.add(kind, version);
        }
        let text = written.to_string();
        assert_eq!(parse(&text), Some(written));
        let all = Written(KNOWN.map(|kind| (kind, u64::MAX)).into());
        assert_eq!(parse(&all.to_string()), Some(all));
    }

    #[test]
    fn what_nobody_was_told_is_not_read() {
        for text in [
            "", "vms", "vms.", "vms.x", "vms.-1", "vms.+1", "vms.1_", ".1", "Vms.1", "v ms.1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let last = parse("vms.99999999999999999999");
        assert_eq!(last, Some(Written([("vms", u64::MAX)].into())));
        // But perhaps by a replica of another version.
        assert_eq!(parse("pods.1"), Some(Written::default()));
    }
}
