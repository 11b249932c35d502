//! Where a client is.

use std::net::{IpAddr, SocketAddr};

use axum::extract::ConnectInfo;
use http::{Extensions, HeaderMap};

/// The address of the client of a request with these headers and extensions, where so many
/// trusted `proxies` append to `X-Forwarded-For`; see [`address_of`].
pub fn address_in(headers: &HeaderMap, extensions: &Extensions, proxies: usize) -> Option<IpAddr> {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map(|ConnectInfo(peer)| *peer);
    address_of(headers, peer, proxies)
}

/// The address of the client, as far as it can be trusted: the peer of the
/// connection, or what the outermost trusted proxy wrote down.
pub fn address_of(headers: &HeaderMap, peer: Option<SocketAddr>, proxies: usize) -> Option<IpAddr> {
    if proxies == 0 {
        return peer.map(|peer| peer.ip());
    }
    // Each proxy appends the address it heard from, so the entries that trusted
    // proxies wrote are at the end; whatever stands before is the client's word.
    headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(','))
        .collect::<Vec<_>>()
        .iter()
        .rev()
        .nth(proxies - 1)
        .and_then(|text| text.trim().parse().ok())
        .or_else(|| peer.map(|peer| peer.ip()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_what_trusted_proxies_wrote_is_believed() {
        let peer = Some("10.0.0.1:5000".parse().unwrap());
        let mut headers = HeaderMap::new();
        headers.insert(
            "x-forwarded-for",
            "1.1.1.1, 2.2.2.2, 3.3.3.3".parse().unwrap(),
        );
        let address = |proxies| address_of(&headers, peer, proxies).unwrap().to_string();
        assert_eq!(address(0), "10.0.0.1");
        assert_eq!(address(1), "3.3.3.3");
        assert_eq!(address(2), "2.2.2.2");
        assert_eq!(address(9), "10.0.0.1");
    }
}
