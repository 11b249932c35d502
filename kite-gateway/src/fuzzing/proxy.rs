//! Headers of the PROXY protocol.

use std::net::{IpAddr, SocketAddr};

use kite_ssh_relay::fuzzing::Decisions;

use crate::proxy::{ProxyError, read_header};

/// More than any header that is taken.
const MOST_READ: usize = 16 + 4096;

/// A header is read or refused, and what was understood is what was meant,
/// whatever comes behind it. Of that not a byte is touched.
pub fn check(data: &[u8]) {
    let (header, meant) = make(&mut Decisions::new(data));
    for behind in [b"SSH-2.0-x\r\n".as_slice(), b"\r\n\r\n\0", b"", b"PROXY"] {
        let stream = [&header, behind].concat();
        let mut rest = stream.as_slice();
        let outcome = read(&mut rest);
        let read = stream.len() - rest.len();
        assert!(read <= MOST_READ, "read {read} bytes");
        if let Some(meant) = meant {
            assert_eq!(outcome, Ok(Some(meant)));
            assert_eq!(rest, behind);
        }
    }
}

/// A future over bytes in memory never waits.
fn read(stream: &mut &[u8]) -> Result<Option<SocketAddr>, String> {
    use futures::FutureExt;
    let read = read_header(stream).now_or_never();
    match read {
        Some(outcome) => outcome.map_err(|error: ProxyError| error.to_string()),
        None => Err("waits for more than there is".to_owned()),
    }
}

/// A header, and the source that it names if it is a right one.
fn make(input: &mut Decisions<'_>) -> (Vec<u8>, Option<SocketAddr>) {
    match input.byte() % 4 {
        0 => (input.bytes(usize::MAX).to_vec(), None),
        1 => version_1(input),
        2 => version_2(input),
        _ => {
            // A right one with a few bytes changed.
            let (mut header, _) = if input.byte().is_multiple_of(2) {
                version_1(input)
            } else {
                version_2(input)
            };
            for _ in 0..=input.byte() % 4 {
                let at = usize::from(input.byte()) % header.len().max(1);
                if let Some(byte) = header.get_mut(at) {
                    *byte = input.byte();
                }
            }
            (header, None)
        }
    }
}

fn address(input: &mut Decisions<'_>, v4: bool) -> IpAddr {
    let mut octets = [0; 16];
    octets.fill_with(|| input.byte());
    if v4 {
        let [a, b, c, d, ..] = octets;
        IpAddr::from([a, b, c, d])
    } else {
        IpAddr::from(octets)
    }
}

fn port(input: &mut Decisions<'_>) -> u16 {
    u16::from_be_bytes([input.byte(), input.byte()])
}

fn version_1(input: &mut Decisions<'_>) -> (Vec<u8>, Option<SocketAddr>) {
    let v4 = input.byte().is_multiple_of(2);
    let (source, to) = (address(input, v4), address(input, v4));
    let (source_port, to_port) = (port(input), port(input));
    let family = if v4 { "TCP4" } else { "TCP6" };
    let line = format!("PROXY {family} {source} {to} {source_port} {to_port}\r\n");
    (
        line.into_bytes(),
        Some(SocketAddr::new(source, source_port)),
    )
}

fn version_2(input: &mut Decisions<'_>) -> (Vec<u8>, Option<SocketAddr>) {
    let v4 = input.byte().is_multiple_of(2);
    let (source, to) = (address(input, v4), address(input, v4));
    let (source_port, to_port) = (port(input), port(input));
    let mut body = Vec::new();
    for address in [source, to] {
        match address {
            IpAddr::V4(address) => body.extend(address.octets()),
            IpAddr::V6(address) => body.extend(address.octets()),
        }
    }
    body.extend(source_port.to_be_bytes());
    body.extend(to_port.to_be_bytes());
    body.extend(input.bytes(100));
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21".to_vec();
    header.push(if v4 { 0x11 } else { 0x21 });
    let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
    header.extend(length.to_be_bytes());
    header.extend(body);
    (header, Some(SocketAddr::new(source, source_port)))
}
