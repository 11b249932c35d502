//! The first lines of a connection (RFC 4253 §4.2): who speaks which version.

use std::ops::Range;

/// Bytes of a version's line with its end.
const LONGEST_LINE: usize = 255;
/// Bytes that a server may send before its version, of lines that are for people.
const MOST_BEFORE: usize = 8 * 1024;

/// Who sends the lines that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A client: its first line is its version.
    Client,
    /// A server, which may have something to say before.
    Server,
}

/// What a buffer begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// The line of the version has not ended.
    Part,
    /// The version.
    Version {
        /// Where it is in the buffer, without the end of its line: so it goes into the hash
        /// of the exchange.
        text: Range<usize>,
        /// Bytes with all that is before it: packets begin there.
        consumed: usize,
    },
}

/// Why a peer's first lines end its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VersionError {
    /// Something else than SSH, or a client that says something before.
    #[error("the peer does not speak SSH")]
    Other,
    /// SSH of another version.
    #[error("the peer does not speak version 2.0 of SSH")]
    Old,
    /// The line does not end, or has characters that no version has.
    #[error("a version of more than {LONGEST_LINE} bytes, or with control characters")]
    Malformed,
    /// A server's version does not come.
    #[error("more than {MOST_BEFORE} bytes before the server's version")]
    Endless,
}

/// Reads the version from what has come so far.
///
/// # Errors
/// The peer does not speak SSH 2.0. Of a client that is told by the first byte that differs,
/// so that nothing is waited for.
pub fn read(buffer: &[u8], peer: Peer) -> Result<Read, VersionError> {
    let mut start = 0;
    loop {
        let rest = &buffer[start..];
        let end = rest.iter().position(|byte| *byte == b'\n');
        let line = &rest[..end.unwrap_or(rest.len())];
        if begins(line, end.is_some()) {
            return version(line, start, end);
        }
        if peer == Peer::Client {
            return Err(VersionError::Other);
        }
        match end {
            Some(end) if start + end < MOST_BEFORE => start += end + 1,
            None if buffer.len() < MOST_BEFORE => return Ok(Read::Part),
            _ => return Err(VersionError::Endless),
        }
    }
}

/// Whether a line is one of a version, as far as it is there.
fn begins(line: &[u8], is_whole: bool) -> bool {
    let start = b"SSH-";
    line.starts_with(start) || !is_whole && start.starts_with(line)
}

fn version(line: &[u8], start: usize, end: Option<usize>) -> Result<Read, VersionError> {
    let Some(end) = end else {
        return if line.len() < LONGEST_LINE {
            Ok(Read::Part)
        } else {
            Err(VersionError::Malformed)
        };
    };
    let text = line.strip_suffix(b"\r").unwrap_or(line);
    if end + 1 > LONGEST_LINE || text.iter().any(u8::is_ascii_control) {
        return Err(VersionError::Malformed);
    }
    // 1.99 is a server of 2.0 that knows older clients, too (RFC 4253 §5.1).
    if !text.starts_with(b"SSH-2.0-") && !text.starts_with(b"SSH-1.99-") {
        return Err(VersionError::Old);
    }
    Ok(Read::Version {
        text: start..start + text.len(),
        consumed: start + end + 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(buffer: &[u8], peer: Peer) -> Result<Option<&[u8]>, VersionError> {
        match read(buffer, peer)? {
            Read::Part => Ok(None),
            Read::Version { text, consumed } => {
                assert!(consumed <= buffer.len() && buffer[consumed - 1] == b'\n');
                Ok(Some(&buffer[text]))
            }
        }
    }

    #[test]
    fn the_end_of_the_line_is_none_of_it() {
        for line in [&b"SSH-2.0-x y\r\nrest"[..], b"SSH-2.0-x y\nrest"] {
            assert_eq!(text(line, Peer::Client), Ok(Some(&b"SSH-2.0-x y"[..])));
        }
        assert_eq!(
            text(b"SSH-1.99-x\n", Peer::Server),
            Ok(Some(&b"SSH-1.99-x"[..]))
        );
        for part in [&b""[..], b"S", b"SSH-", b"SSH-2.0-x", b"SSH-2.0-x\r"] {
            assert_eq!(text(part, Peer::Client), Ok(None), "{part:?}");
            assert_eq!(text(part, Peer::Server), Ok(None), "{part:?}");
        }
    }

    #[test]
    fn only_a_server_may_say_something_before() {
        let lines = b"hello\r\nSS\n\nSSH-2.0-x\r\n";
        assert_eq!(text(lines, Peer::Server), Ok(Some(&b"SSH-2.0-x"[..])));
        assert_eq!(text(lines, Peer::Client), Err(VersionError::Other));
        for other in [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x03\x01", b"SSX", b"\n"] {
            assert_eq!(text(other, Peer::Client), Err(VersionError::Other));
        }
        assert_eq!(text(b"SSH\n", Peer::Client), Err(VersionError::Other));
    }

    #[test]
    fn other_versions_are_refused() {
        for old in [&b"SSH-1.5-x\n"[..], b"SSH-2.1-x\n", b"SSH-\n", b"SSH-2.0\n"] {
            assert_eq!(text(old, Peer::Client), Err(VersionError::Old));
        }
    }

    #[test]
    fn nothing_is_waited_for_without_end() {
        let long = |count| [&b"SSH-2.0-"[..], &vec![b'x'; count]].concat();
        assert_eq!(text(&long(246), Peer::Client), Ok(None));
        assert_eq!(text(&long(247), Peer::Client), Err(VersionError::Malformed));
        let whole = |count| [&long(count)[..], b"\n"].concat();
        assert!(text(&whole(246), Peer::Client).is_ok());
        assert_eq!(
            text(&whole(247), Peer::Client),
            Err(VersionError::Malformed)
        );
        assert_eq!(
            text(b"SSH-2.0-a\0b\n", Peer::Client),
            Err(VersionError::Malformed)
        );

        let before = vec![b'x'; MOST_BEFORE];
        assert_eq!(text(&before[1..], Peer::Server), Ok(None));
        assert_eq!(text(&before, Peer::Server), Err(VersionError::Endless));
        let lines = b"x\n".repeat(MOST_BEFORE);
        assert_eq!(text(&lines, Peer::Server), Err(VersionError::Endless));
    }
}
