//! What a registry says in headers: where tokens are, and where more is.

use http::{HeaderMap, header};
use url::{Host, Url};

/// What a registry asks for before it answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bearer {
    /// Where a token is given.
    pub(super) realm: String,
    /// For whom it is.
    pub(super) service: Option<String>,
}

/// The token that is asked for; none where it is something else, such as a password.
pub(super) fn bearer(headers: &HeaderMap) -> Option<Bearer> {
    let all = headers.get_all(header::WWW_AUTHENTICATE);
    all.iter().filter_map(|it| it.to_str().ok()).find_map(|it| {
        let (scheme, parameters) = it.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        Some(Bearer {
            realm: parameter(parameters, "realm")?,
            service: parameter(parameters, "service"),
        })
    })
}

/// One of `name="value", other="value"`.
fn parameter(all: &str, wanted: &str) -> Option<String> {
    let mut rest = all;
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',']);
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value.trim().to_owned());
        }
        rest = left;
    }
    None
}

/// Whether a token of `registry` may be asked for at `place`: at the registry, or at a host of
/// the same domain, as `auth.docker.io` is for `registry-1.docker.io`.
pub(super) fn is_related(place: &Url, registry: &Url) -> bool {
    match (place.host(), registry.host()) {
        (Some(Host::Domain(place)), Some(Host::Domain(registry))) => {
            place == registry || domain(place).is_some_and(|it| Some(it) == domain(registry))
        }
        (place, registry) => place == registry,
    }
}

/// The last two labels, of hosts that have more; of two labels the host itself.
fn domain(host: &str) -> Option<(&str, &str)> {
    let mut labels = host.trim_end_matches('.').rsplit('.');
    Some((labels.next()?, labels.next()?))
}

/// Whether there is more, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum More {
    /// There is none.
    None,
    /// It is there.
    At(Url),
    /// It is elsewhere, where nobody is asked: a token is for one place.
    Elsewhere,
}

/// What follows.
pub(super) fn next(headers: &HeaderMap, from: &Url) -> More {
    let links = headers.get_all(header::LINK).iter();
    let links = links.filter_map(|it| it.to_str().ok());
    let next = links.flat_map(|it| it.split(',')).find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameter(parameters.trim_start_matches([' ', ';']), "rel")
            .is_some_and(|rel| rel.eq_ignore_ascii_case("next"));
        is_next.then(|| from.join(target).ok())
    });
    match next {
        None => More::None,
        Some(Some(next)) if next.origin() == from.origin() && next.path() == from.path() => {
            More::At(next)
        }
        Some(_) => More::Elsewhere,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn a_token_is_asked_for_where_the_registry_says() {
        let of = |value: &str| bearer(&headers(header::WWW_AUTHENTICATE, value));
        let full = r#"Bearer realm="https://quay.io/v2/auth",service="quay.io",scope="repository:a:pull,push""#;
        let found = of(full).unwrap();
        assert_eq!(found.realm, "https://quay.io/v2/auth");
        assert_eq!(found.service.as_deref(), Some("quay.io"));
        let bare = of("bearer service=x, realm=https://a.test/t").unwrap();
        assert_eq!(
            (&*bare.realm, bare.service.as_deref()),
            ("https://a.test/t", Some("x"))
        );
        for none in [
            "Basic realm=\"x\"",
            "Bearer",
            "Bearer service=\"x\"",
            "Bearer realm=\"x",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn a_token_is_asked_for_at_the_same_domain_only() {
        let url = |text: &str| Url::parse(text).unwrap();
        for (place, registry, may) in [
            ("https://quay.io/v2/auth", "https://quay.io/v2/", true),
            (
                "https://auth.docker.io/token",
                "https://registry-1.docker.io/v2/",
                true,
            ),
            (
                "https://gitlab.com/jwt/auth",
                "https://registry.gitlab.com/v2/",
                true,
            ),
            ("https://evil.test/token", "https://quay.io/v2/", false),
            ("https://10.0.0.1/token", "https://10.0.0.2/v2/", false),
            ("https://10.0.0.2/token", "https://10.0.0.2/v2/", true),
            ("https://io/token", "https://quay.io/v2/", false),
        ] {
            assert_eq!(
                is_related(&url(place), &url(registry)),
                may,
                "{place} {registry}"
            );
        }
    }

    #[test]
    fn more_is_looked_for_at_the_same_place_only() {
        let from = Url::parse("https://quay.io/v2/a/tags/list?n=2").unwrap();
        let of = |link: &str| next(&headers(header::LINK, link), &from);
        let right = "https://quay.io/v2/a/tags/list?last=b&n=2";
        let at = || More::At(Url::parse(right).unwrap());
        assert_eq!(of(r#"</v2/a/tags/list?last=b&n=2>; rel="next""#), at());
        assert_eq!(of(&format!("<{right}>; rel=next")), at());
        for other in [
            r#"<https://evil.test/v2/a/tags/list?last=b>; rel="next""#,
            r#"<http://quay.io/v2/a/tags/list?last=b>; rel="next""#,
            r#"</v2/b/tags/list?last=b>; rel="next""#,
        ] {
            assert_eq!(of(other), More::Elsewhere, "{other}");
        }
        for none in [r#"</v2/a/tags/list?last=b>; rel="prev""#, "nonsense"] {
            assert_eq!(of(none), More::None, "{none}");
        }
    }
}
