//! Whether a request comes from Kite's own pages.

use http::{HeaderMap, Method, Uri, header};
use kite_rest::{Problem, ProblemKind};

/// Refuses a request that changes something on the authority of a cookie unless
/// the browser says that it comes from the same origin. `Sec-Fetch-Site` (W3C
/// Fetch Metadata) is asked first; browsers without it send `Origin`, which must
/// be `Host` or one of `allowed`. With neither, `must_prove` decides.
pub(crate) fn check_origin(
    method: &Method,
    headers: &HeaderMap,
    allowed: &[String],
    must_prove: bool,
) -> Result<(), Problem> {
    if method.is_safe() {
        return Ok(());
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let origin = text("origin");
    if origin.is_some_and(|origin| allowed.iter().any(|allowed| allowed == origin)) {
        return Ok(());
    }
    let same = match (text("sec-fetch-site"), origin) {
        // "none" is the person's own doing: a bookmark, the address bar.
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let host = text(header::HOST.as_str());
            let authority = origin
                .parse::<Uri>()
                .ok()
                .and_then(|uri| uri.authority().map(ToString::to_string));
            authority.is_some() && authority.as_deref() == host
        }
        (None, None) => !must_prove,
    };
    if same {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::CrossOrigin,
        "the request does not come from Kite's own page: open Kite and repeat it there; scripts \
         send the token in the Authorization header instead of a cookie",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(pairs: &[(&'static str, &'static str)], must_prove: bool) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert("host", http::HeaderValue::from_static("kite.test:8080"));
        for (name, value) in pairs {
            headers.insert(*name, http::HeaderValue::from_static(value));
        }
        let allowed = ["https://portal.test".to_owned()];
        check_origin(&Method::POST, &headers, &allowed, must_prove).is_ok()
    }

    #[test]
    fn only_the_own_origin_passes() {
        for (pairs, passes) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("origin", "http://kite.test:8080")], true),
            (&[("origin", "http://kite.test")], false),
            (&[("origin", "http://evil.test")], false),
            (&[("origin", "null")], false),
            (&[("origin", "https://portal.test")], true),
            (
                &[
                    ("sec-fetch-site", "cross-site"),
                    ("origin", "https://portal.test"),
                ],
                true,
            ),
            (
                &[
                    ("sec-fetch-site", "cross-site"),
                    ("origin", "http://kite.test:8080"),
                ],
                false,
            ),
        ] {
            assert_eq!(ask(pairs, true), passes, "{pairs:?}");
        }
    }

    #[test]
    fn who_says_nothing_must_prove_it_only_with_a_cookie() {
        assert!(!ask(&[], true));
        assert!(ask(&[], false));
    }
}
