//! Where Kite is as people see it, and where they may be sent.

use aide::OperationInput;
use axum::{extract::FromRef, extract::FromRequestParts};
use http::{HeaderMap, header, request::Parts, uri::Authority};
use kite_rest::{
    Bounds,
    cookie::{self, Role},
};
use std::{convert::Infallible, net::IpAddr};

use crate::{
    providers::Failure,
    state::Accounts,
    token::{ACCESS, Halves},
};

/// How long a path may be that people are sent back to.
pub(crate) const LOCAL_PATH: Bounds = Bounds::between(1, 512);

/// What the browser that comes by tells of itself.
pub(crate) struct Visit {
    /// Whether it shows pages; scripts get problem documents.
    pub(super) shows_pages: bool,
    host: Option<String>,
    /// The cookies of sign-ins that it began.
    pub(super) flows: Vec<String>,
    /// The sessions whose cookies it has, whether or not their tokens have ended.
    pub(super) sessions: Vec<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Visit
where
    Accounts: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let state = &Accounts::from_ref(state);
        let secure = state.settings().secure_cookies;
        let host = parts.headers.get(header::HOST);
        let host = host.and_then(|host| host.to_str().ok().map(str::to_owned));
        let authority = || parts.uri.authority().map(ToString::to_string);
        Ok(Self {
            shows_pages: accepts_pages(&parts.headers),
            host: host.or_else(authority),
            flows: cookie::tokens(&parts.headers, Role::Flow, secure),
            sessions: cookie::tokens(&parts.headers, Role::Access, secure)
                .iter()
                .filter_map(|token| Some(Halves::parse(ACCESS, token)?.session_name()))
                .collect(),
        })
    }
}

impl OperationInput for Visit {}

fn accepts_pages(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|value| value.to_str().is_ok_and(|text| text.contains("text/html")))
}

/// The origin under which the provider shall send the browser back. What the
/// browser calls Kite chooses among those that are Kite's for certain; it is
/// believed as such only where it means this very machine.
pub(super) fn own_origin(state: &Accounts, visit: &Visit) -> Result<String, Failure> {
    let settings = state.settings();
    let url = state.platform_status().url;
    let url = url.map(|url| url.trim_end_matches('/').to_owned());
    let certain: Vec<String> = settings.origins.iter().cloned().chain(url).collect();
    choose(&certain, visit.host.as_deref(), settings.secure_cookies).ok_or_else(|| {
        Failure::Misconfigured(
            "it is not known under which address people reach this platform, to which the \
             provider would send them back: the operator sets baseDomain with web enabled in the \
             KitePlatform, or starts kite-api with --origin"
                .to_owned(),
        )
    })
}

fn choose(certain: &[String], host: Option<&str>, secure: bool) -> Option<String> {
    let is_at = |origin: &&String| {
        let place = origin.split_once("://").map(|(_, place)| place);
        place.is_some_and(|place| host.is_some_and(|host| place.eq_ignore_ascii_case(host)))
    };
    let here = || {
        let host = host.filter(|host| is_here(host))?;
        let scheme = if secure { "https" } else { "http" };
        Some(format!("{scheme}://{host}"))
    };
    let named = certain.iter().find(is_at).cloned();
    named.or_else(here).or_else(|| certain.first().cloned())
}

/// Whether a `Host` means this very machine.
fn is_here(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host().trim_matches(['[', ']']);
    let is_plain = !host.contains('@');
    let is_loopback = |ip: IpAddr| ip.is_loopback();
    is_plain && (name == "localhost" || name.parse().is_ok_and(is_loopback))
}

/// Whether people may be sent there: a path of the page's own. Browsers take a
/// backslash for a slash, and two slashes for another host.
pub(crate) fn is_local_path(path: &str) -> bool {
    LOCAL_PATH.hold(path.len())
        && path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|b| b.is_ascii_graphic() && b != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_sent_to_own_pages_only() {
        for path in ["/", "/books/one?tab=1#x", "/a//b", "/?to=https://evil.test"] {
            assert!(is_local_path(path), "{path}");
        }
        let long = format!("/{}", "a".repeat(512));
        for path in [
            "",
            "vms",
            "//evil.test",
            "/\\evil.test",
            "\\\\evil.test",
            "https://evil.test",
            "javascript:alert(1)",
            "/\t/evil.test",
            "/a\r\nSet-Cookie: b",
            "/앤",
            &long,
        ] {
            assert!(!is_local_path(path), "{path}");
        }
    }

    #[test]
    fn the_host_header_chooses_but_does_not_decide() {
        let certain = [
            "https://kite.test".to_owned(),
            "https://host.test".to_owned(),
        ];
        let at = |host| choose(&certain, Some(host), true);
        assert_eq!(at("HOST.test").as_deref(), Some("https://host.test"));
        assert_eq!(at("evil.test").as_deref(), Some("https://kite.test"));
        let alone = |host| choose(&[], Some(host), false);
        assert_eq!(alone("evil.test"), None);
        assert_eq!(alone("127.0.0.1.evil.test"), None);
        assert_eq!(alone("evil.test@127.0.0.1"), None);
        for host in ["127.0.0.1:8080", "localhost:8080", "[::1]:8080"] {
            assert_eq!(alone(host), Some(format!("http://{host}")));
        }
        assert_eq!(choose(&[], None, false), None);
    }
}
