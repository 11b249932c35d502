//! The PROXY protocol, versions 1 and 2: a load balancer's word on where a
//! connection really comes from, in front of the connection's own bytes.
//!
//! Taken only from proxies that the operator named; from them it is required,
//! or anybody who reaches the port could be taken for the proxy.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest header of version 1, with its CR LF.
const MAX_V1: usize = 107;
/// Longest header of version 2 that is taken: addresses and extensions.
const MAX_V2: usize = 4096;
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Why a header is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProxyError {
    #[error("no PROXY protocol header, though it comes from a proxy")]
    Missing,
    #[error("malformed PROXY protocol header: {0}")]
    Malformed(&'static str),
    #[error("connection lost in the PROXY protocol header: {0}")]
    Io(#[from] io::Error),
}

/// Reads a header and not a byte more. `None` when the proxy speaks for itself
/// (health checks) or does not know the source.
pub(crate) async fn read_header(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<SocketAddr>, ProxyError> {
    let mut header = vec![stream.read_u8().await?];
    match header.first() {
        Some(b'P') => {
            while !header.ends_with(b"\r\n") {
                if header.len() >= MAX_V1 {
                    return Err(ProxyError::Malformed("the line does not end"));
                }
                header.push(stream.read_u8().await?);
            }
            parse_v1(&header)
        }
        Some(b'\r') => {
            let mut start = [0; 15];
            stream.read_exact(&mut start).await?;
            header.extend_from_slice(&start);
            let length = header.last_chunk().map_or(0, |b| u16::from_be_bytes(*b));
            if usize::from(length) > MAX_V2 {
                return Err(ProxyError::Malformed("too long"));
            }
            let mut rest = vec![0; usize::from(length)];
            stream.read_exact(&mut rest).await?;
            parse_v2(&header, &rest)
        }
        _ => Err(ProxyError::Missing),
    }
}

/// `PROXY TCP4 <source> <destination> <source port> <destination port>\r\n`
fn parse_v1(line: &[u8]) -> Result<Option<SocketAddr>, ProxyError> {
    let wrong = ProxyError::Malformed;
    let text = std::str::from_utf8(line).map_err(|_| wrong("not text"))?;
    let text = text.strip_suffix("\r\n").ok_or(wrong("no end of line"))?;
    let mut words = text.split(' ');
    if words.next() != Some("PROXY") {
        return Err(ProxyError::Missing);
    }
    let v4 = match words.next() {
        Some("TCP4") => true,
        Some("TCP6") => false,
        Some("UNKNOWN") => return Ok(None),
        _ => return Err(wrong("unknown protocol")),
    };
    let mut address = || -> Option<IpAddr> {
        let address: IpAddr = words.next()?.parse().ok()?;
        (address.is_ipv4() == v4).then_some(address)
    };
    let source = address().ok_or(wrong("bad source address"))?;
    address().ok_or(wrong("bad destination address"))?;
    let mut port = || words.next()?.parse::<u16>().ok();
    let source_port = port().ok_or(wrong("bad source port"))?;
    port().ok_or(wrong("bad destination port"))?;
    if words.next().is_some() {
        return Err(wrong("more than it should have"));
    }
    Ok(Some(SocketAddr::new(source, source_port)))
}

/// The signature, version and command, family and protocol, length; then
/// addresses, and extensions that are not looked at.
fn parse_v2(start: &[u8], rest: &[u8]) -> Result<Option<SocketAddr>, ProxyError> {
    let wrong = ProxyError::Malformed;
    let (signature, kind) = start.split_at_checked(12).ok_or(wrong("too short"))?;
    if signature != SIGNATURE {
        return Err(ProxyError::Missing);
    }
    let (Some(command), Some(family)) = (kind.first(), kind.get(1)) else {
        return Err(wrong("too short"));
    };
    match command {
        0x20 => return Ok(None),
        0x21 => {}
        _ => return Err(wrong("unknown version or command")),
    }
    // Source address, destination address, source port, destination port.
    let (address, port): (IpAddr, Option<&[u8]>) = match family >> 4 {
        1 => {
            let source = rest.first_chunk::<4>().ok_or(wrong("too short"))?;
            (Ipv4Addr::from(*source).into(), rest.get(8..10))
        }
        2 => {
            let source = rest.first_chunk::<16>().ok_or(wrong("too short"))?;
            (Ipv6Addr::from(*source).into(), rest.get(32..34))
        }
        _ => return Ok(None),
    };
    let port = port
        .and_then(|bytes| bytes.first_chunk::<2>())
        .ok_or(wrong("too short"))?;
    Ok(Some(SocketAddr::new(address, u16::from_be_bytes(*port))))
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
