use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    vec,
};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;
use url::{Host, Url};

/// Which servers can be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Those elsewhere, by HTTPS.
    #[default]
    Elsewhere,
    /// Those on this very machine too, by HTTP: for a demo.
    Here,
}

impl Reach {
    /// An address that requests may go to: with HTTPS and elsewhere, or on this very
    /// machine where that is allowed and who names it is there, too.
    pub(super) fn address(self, text: &str, by: &Url) -> Option<Url> {
        let url = Url::parse(text).ok()?;
        let has_login = !url.username().is_empty() || url.password().is_some();
        let is_plain = self == Self::Here && is_plain_and_here(&url) && is_plain_and_here(by);
        let is_far = url.scheme() == "https" && (self == Self::Here || !is_here(&url));
        ((is_far || is_plain) && !has_login).then_some(url)
    }
}

/// Whether it is an address with HTTP on this very machine.
fn is_plain_and_here(url: &Url) -> bool {
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    is_loopback && url.scheme() == "http"
}

/// Whether a URL says by itself that it leads to where nobody is to be asked. Of names it is
/// known when they are [resolved](NotHere).
fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(ip)) => is_near(ip.into()),
        Some(Host::Ipv6(ip)) => is_near(ip.into()),
        None => true,
    }
}

/// Whether it is this machine, its link, or nobody in particular.
fn is_near(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            ip.is_loopback()
                || ip.is_link_local()
                || ip.is_multicast()
                || ip.is_broadcast()
                // All of 0.0.0.0/8 is "this host".
                || ip.octets()[0] == 0
        }
        IpAddr::V6(ip) => {
            // What is left of IPv4-compatible addresses, and NAT64 of what is near.
            let embedded = match ip.segments() {
                [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
                    let [.., a, b, c, d] = ip.octets();
                    Some(IpAddr::from([a, b, c, d]))
                }
                _ => None,
            };
            ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_multicast()
                || ip.is_unicast_link_local()
                // Instance metadata of a cloud.
                || ip.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]
                || embedded.is_some_and(is_near)
        }
    }
}

/// Resolves names, but to no address that is near.
#[derive(Clone)]
pub(super) struct NotHere {
    names: GaiResolver,
    reach: Reach,
}

impl NotHere {
    pub(super) fn new(reach: Reach) -> Self {
        Self {
            names: GaiResolver::new(),
            reach,
        }
    }
}

impl Service<Name> for NotHere {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.names.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let text = name.to_string();
        let (found, reach) = (self.names.call(name), self.reach);
        Box::pin(async move {
            let found: Vec<SocketAddr> = found.await?.collect();
            far_of(found, reach, &text)
        })
    }
}

/// Those of the addresses of `name` that may be asked.
fn far_of(
    found: Vec<SocketAddr>,
    reach: Reach,
    name: &str,
) -> io::Result<vec::IntoIter<SocketAddr>> {
    let far: Vec<SocketAddr> = found
        .into_iter()
        .filter(|it| reach == Reach::Here || !is_near(it.ip()))
        .collect();
    if far.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{name} has no address but such of this machine or its link"),
        ));
    }
    Ok(far.into_iter())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_https_is_asked_and_what_is_on_this_machine_where_that_is_meant() {
        let far = Url::parse("https://login.example.org").unwrap();
        let here = Url::parse("http://127.0.0.1:8000").unwrap();
        for (text, by, elsewhere, local) in [
            ("https://keys.example.net/jwks", &far, true, true),
            ("https://10.0.0.7/jwks", &far, true, true),
            ("http://login.example.org/jwks", &far, false, false),
            ("http://127.0.0.1/jwks", &far, false, false),
            ("http://localhost:8000/jwks", &here, false, true),
            ("http://[::1]:8000/jwks", &here, false, true),
            ("http://login.example.org/jwks", &here, false, false),
            ("https://ann:secret@login.example.org/", &far, false, false),
            ("file:///etc/passwd", &here, false, false),
            ("jwks", &far, false, false),
            ("https://localhost/jwks", &far, false, true),
            ("https://a.localhost./jwks", &far, false, true),
            ("https://127.8.0.1/jwks", &far, false, true),
            ("https://169.254.169.254/latest", &far, false, true),
            ("https://0.0.0.0/jwks", &far, false, true),
            ("https://2130706433/jwks", &far, false, true),
            ("https://[::1]/jwks", &far, false, true),
            ("https://[::ffff:127.0.0.1]/jwks", &far, false, true),
            ("https://[::127.0.0.1]/jwks", &far, false, true),
            ("https://[64:ff9b::169.254.169.254]/jwks", &far, false, true),
            ("https://[fe80::1]/jwks", &far, false, true),
            ("https://[fd00:ec2::254]/jwks", &far, false, true),
        ] {
            for (reach, passes) in [(Reach::Elsewhere, elsewhere), (Reach::Here, local)] {
                let address = reach.address(text, by);
                assert_eq!(address.is_some(), passes, "{text} {reach:?}");
            }
        }
    }

    #[test]
    fn names_lead_to_no_address_that_is_near() {
        let addresses: Vec<SocketAddr> = ["127.0.0.1:443", "203.0.113.7:443", "[fe80::1]:443"]
            .map(|it| it.parse().unwrap())
            .into();
        let far = far_of(addresses.clone(), Reach::Elsewhere, "a").unwrap();
        assert_eq!(far.collect::<Vec<_>>(), [addresses[1]]);
        let all = far_of(addresses.clone(), Reach::Here, "a").unwrap();
        assert_eq!(all.collect::<Vec<_>>(), addresses);
        let error = far_of(vec![addresses[0]], Reach::Elsewhere, "a").unwrap_err();
        assert!(error.to_string().starts_with("a has no address"), "{error}");
    }
}
