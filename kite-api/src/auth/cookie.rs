//! The session cookie.

use axum_extra::extract::cookie::{Cookie, SameSite};
use http::{HeaderMap, HeaderValue, header};
use std::time::Duration;

/// Its name.
const NAME: &str = "kite_session";

/// The token in the request's cookie, if there is one.
pub(super) fn token(headers: &HeaderMap) -> Option<String> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == NAME).then(|| value.to_owned()))
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
    let mut cookie = Cookie::new(NAME, token);
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
            "kite_session=abc; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age=60"
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
        assert_eq!(token(&headers).as_deref(), Some("yes"));
    }
}
