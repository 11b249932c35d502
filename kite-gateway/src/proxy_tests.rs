#![allow(clippy::unwrap_used)]

use super::*;

/// What is read of `bytes`, and what is left for the connection.
async fn read(bytes: &[u8]) -> (Result<Option<SocketAddr>, ProxyError>, Vec<u8>) {
    let mut stream = bytes;
    let result = read_header(&mut stream).await;
    (result, stream.to_vec())
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    header.extend_from_slice(&[command, family]);
    header.extend_from_slice(&u16::try_from(body.len()).unwrap().to_be_bytes());
    header.extend_from_slice(body);
    header
}

#[tokio::test]
async fn version_1() {
    for (line, expected) in [
        (
            "PROXY TCP4 192.0.2.1 10.0.0.1 4711 22\r\n",
            Some("192.0.2.1:4711"),
        ),
        (
            "PROXY TCP6 2001:db8::1 ::1 4711 22\r\n",
            Some("[2001:db8::1]:4711"),
        ),
        ("PROXY UNKNOWN\r\n", None),
        ("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    ] {
        let (result, left) = read(format!("{line}SSH-2.0-x").as_bytes()).await;
        assert_eq!(
            result.unwrap(),
            expected.map(|a| a.parse().unwrap()),
            "{line}"
        );
        assert_eq!(left, b"SSH-2.0-x");
    }
}

#[tokio::test]
async fn version_2() {
    let mut v4 = vec![192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x67, 0, 22];
    v4.extend_from_slice(b"an extension");
    let mut bytes = v2(0x21, 0x11, &v4);
    bytes.extend_from_slice(b"SSH");
    let (result, left) = read(&bytes).await;
    assert_eq!(result.unwrap(), Some("192.0.2.1:4711".parse().unwrap()));
    assert_eq!(left, b"SSH");
    let mut v6 = [0; 36];
    v6[15] = 1;
    v6[33] = 7;
    let (result, _) = read(&v2(0x21, 0x21, &v6)).await;
    assert_eq!(result.unwrap(), Some("[::1]:7".parse().unwrap()));
    for local in [v2(0x20, 0, &[]), v2(0x21, 0x31, &[0; 216])] {
        assert_eq!(read(&local).await.0.unwrap(), None);
    }
}

#[tokio::test]
async fn what_is_malformed_is_refused() {
    let endless = [b"PROXY TCP4 ".as_slice(), &[b'1'; 200]].concat();
    let long = [v2(0x21, 0x11, &[])[..14].to_vec(), vec![0xff; 70_000]].concat();
    for bytes in [
        &b"SSH-2.0-OpenSSH\r\n"[..],
        b"",
        b"PROXY TCP4 192.0.2.1 10.0.0.1 4711\r\n",
        b"PROXY TCP4 2001:db8::1 ::1 4711 22\r\n",
        b"PROXY TCP4 192.0.2.1 10.0.0.1 99999 22\r\n",
        b"PROXY TCP4 192.0.2.1 10.0.0.1 1 22 3\r\n",
        b"PROXY UDP 192.0.2.1 10.0.0.1 1 22\r\n",
        b"PRIXY UNKNOWN\r\n",
        b"\r\n\r\n\0\r\nQUIT\r\x21\x11\0\x0c............",
        &v2(0x31, 0x11, &[0; 12]),
        &v2(0x21, 0x11, &[0; 9]),
        &v2(0x21, 0x21, &[0; 33]),
        &endless,
        &long,
    ] {
        assert!(read(bytes).await.0.is_err(), "{bytes:?}");
    }
}

#[tokio::test]
async fn noise_never_panics() {
    let mut state = 11_u32;
    for round in 0..5_000 {
        let start: &[u8] = match round % 3 {
            0 => b"PROXY TCP4 ",
            1 => SIGNATURE,
            _ => b"",
        };
        let mut bytes = start.to_vec();
        for _ in 0..state % 64 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bytes.push(state.to_le_bytes()[3] % 64);
        }
        state = state.wrapping_add(1);
        let _ = read(&bytes).await;
    }
}
