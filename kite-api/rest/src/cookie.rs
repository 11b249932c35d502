//! The cookies of a browser's session: one with a short-lived token that goes with
//! every request, and one that renews it; the one that carries a sign-in at a
//! provider from its begin to its end; and one with what the browser wrote last.

use axum_extra::extract::cookie::{Cookie, SameSite};
use http::{HeaderMap, HeaderValue, header};
use std::time::Duration;

/// What a cookie is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Its token opens the session.
    Access,
    /// Its token renews the session.
    Refresh,
    /// It has what a sign-in at a provider must prove in the end.
    Flow,
    /// It says how far copies must be to show what was written; no secret.
    Written,
}

impl Role {
    /// The roles of the cookies that end with a session.
    const OF_SESSION: [Self; 3] = [Self::Access, Self::Refresh, Self::Written];

    /// Without TLS the plain name. With TLS browsers take the access cookie from
    /// the very host only (`__Host-`, RFC 6265bis §4.1.3.2): another host, whose domain
    /// lies below this one's, could else plant a session of its owner's in
    /// somebody's browser. `__Host-` demands the path `/`, so the refresh cookie,
    /// which is to go nowhere else, cannot have it: it counts only beside an access
    /// cookie of the same session.
    pub fn name(self, secure: bool) -> &'static str {
        match (self, secure) {
            (Self::Access, false) => "kite_session",
            (Self::Access, true) => "__Host-kite_session",
            (Self::Refresh, false) => "kite_refresh",
            (Self::Refresh, true) => "__Secure-kite_refresh",
            (Self::Flow, false) => "kite_oidc",
            (Self::Flow, true) => "__Host-kite_oidc",
            (Self::Written, false) => "kite_written",
            (Self::Written, true) => "__Host-kite_written",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Access | Self::Flow | Self::Written => "/",
            Self::Refresh => "/api/v1/auth",
        }
    }

    fn same_site(self) -> SameSite {
        match self {
            // A link from elsewhere leads to the page as one who is signed in, and a
            // provider leads back.
            Self::Access | Self::Flow => SameSite::Lax,
            Self::Refresh | Self::Written => SameSite::Strict,
        }
    }
}

/// The tokens in the request's cookies of this role. There may be several where
/// another host planted one. `secure` says whether Kite is served with TLS: then
/// no access cookie counts that a host below may have set.
pub fn tokens(headers: &HeaderMap, role: Role, secure: bool) -> Vec<String> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(found, _)| *found == role.name(secure))
        .map(|(_, value)| value.to_owned())
        .collect()
}

/// `Set-Cookie` that stores `token` for `lifetime`. Scripts cannot read it, and
/// browsers do not send it along when another site posts to Kite.
pub fn set(role: Role, token: &str, lifetime: Duration, secure: bool) -> Option<HeaderValue> {
    let mut cookie = Cookie::new(role.name(secure), token);
    cookie.set_path(role.path());
    cookie.set_http_only(true);
    cookie.set_same_site(role.same_site());
    cookie.set_secure(secure);
    let text = format!("{cookie}; Max-Age={}", lifetime.as_secs());
    HeaderValue::from_str(&text).ok()
}

/// `Set-Cookie`s that remove a session's cookies, those included that were set before Kite
/// was served with TLS.
pub fn clear(secure: bool) -> Vec<HeaderValue> {
    let names: &[bool] = if secure { &[true, false] } else { &[false] };
    names
        .iter()
        .flat_map(|secure| Role::OF_SESSION.map(|role| set(role, "", Duration::ZERO, *secure)))
        .flatten()
        .collect()
}

/// Whether an answer takes a session's cookies away.
pub fn ends_session(answer: &HeaderMap, secure: bool) -> bool {
    let begin = format!("{}=;", Role::Access.name(secure));
    let mut set = answer.get_all(header::SET_COOKIE).iter();
    set.any(|cookie| cookie.as_bytes().starts_with(begin.as_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_cookies_are_out_of_reach_of_scripts_and_other_sites() {
        let lifetime = Duration::from_secs(60);
        assert_eq!(
            set(Role::Access, "abc", lifetime, true).unwrap(),
            "__Host-kite_session=abc; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age=60"
        );
        assert_eq!(
            set(Role::Refresh, "abc", lifetime, true).unwrap(),
            "__Secure-kite_refresh=abc; HttpOnly; SameSite=Strict; Secure; Path=/api/v1/auth; \
             Max-Age=60"
        );
    }

    #[test]
    fn they_are_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; c=d"));
        headers.append(
            header::COOKIE,
            HeaderValue::from_static("x_kite_session=no; kite_session=yes; kite_refresh=r"),
        );
        headers.append(header::COOKIE, HeaderValue::from_static("kite_refresh=s"));
        assert_eq!(tokens(&headers, Role::Access, false), ["yes"]);
        assert_eq!(tokens(&headers, Role::Refresh, false), ["r", "s"]);
    }

    #[test]
    fn with_tls_a_cookie_that_another_host_may_have_set_counts_for_nothing() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("kite_session=no"));
        assert!(tokens(&headers, Role::Access, true).is_empty());
        let own = HeaderValue::from_static("kite_session=no; __Host-kite_session=yes");
        headers.append(header::COOKIE, own);
        assert_eq!(tokens(&headers, Role::Access, true), ["yes"]);
    }

    #[test]
    fn clearing_takes_the_cookies_from_before_tls_along() {
        assert_eq!(clear(false).len(), 3);
        let all = clear(true);
        assert_eq!(all.len(), 6);
        assert!(
            all.iter()
                .all(|it| it.to_str().unwrap().contains("Max-Age=0"))
        );
    }
}
