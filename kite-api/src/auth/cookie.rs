//! The session cookie.

use axum_extra::extract::cookie::{Cookie, SameSite};
use http::{HeaderMap, HeaderValue, header};
use std::time::Duration;

/// Its name where Kite is served without TLS.
const NAME: &str = "kite_session";
/// Its name where it is served with TLS. Browsers take a cookie with this prefix
/// from the very host only (RFC 6265bis §4.1.3.2): a VM, whose domain lies below
/// Kite's own, could else plant a session of its owner's in somebody's browser.
const NAME_OF_HOST: &str = "__Host-kite_session";

fn name(secure: bool) -> &'static str {
    if secure { NAME_OF_HOST } else { NAME }
}

/// The token in the request's cookie, if there is one. `secure` says whether Kite
/// is served with TLS: then no cookie counts that a host below may have set.
pub(super) fn token(headers: &HeaderMap, secure: bool) -> Option<String> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(found, value)| (found == name(secure)).then(|| value.to_owned()))
}

/// `Set-Cookie` that stores `token` for `lifetime`. Scripts cannot read it, and
/// browsers do not send it along when another site posts to Kite.
pub(super) fn set(token: &str, lifetime: Duration, secure: bool) -> Option<HeaderValue> {
    header_value(token, lifetime, secure)
}

/// `Set-Cookie` that removes it.
pub(super) fn clear(secure: bool) -> Option<HeaderValue> {
    header_value("", Duration::ZERO, secure)
}

fn header_value(token: &str, lifetime: Duration, secure: bool) -> Option<HeaderValue> {
    let mut cookie = Cookie::new(name(secure), token);
    cookie.set_path("/");
    cookie.set_http_only(true);
    cookie.set_same_site(SameSite::Lax);
    cookie.set_secure(secure);
    let text = format!("{cookie}; Max-Age={}", lifetime.as_secs());
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_cookie_is_out_of_reach_of_scripts_and_other_sites() {
        let text = set("abc", Duration::from_secs(60), true).unwrap();
        assert_eq!(
            text,
            "__Host-kite_session=abc; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age=60"
        );
    }

    #[test]
    fn it_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; c=d"));
        headers.append(
            header::COOKIE,
            HeaderValue::from_static("x_kite_session=no; kite_session=yes"),
        );
        assert_eq!(token(&headers, false).as_deref(), Some("yes"));
    }

    #[test]
    fn with_tls_a_cookie_that_another_host_may_have_set_counts_for_nothing() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("kite_session=no"));
        assert_eq!(token(&headers, true), None);
        let own = HeaderValue::from_static("kite_session=no; __Host-kite_session=yes");
        headers.append(header::COOKIE, own);
        assert_eq!(token(&headers, true).as_deref(), Some("yes"));
    }
}
