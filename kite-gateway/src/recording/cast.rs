//! The asciicast v2 format (<https://docs.asciinema.org/manual/asciicast/v2/>): a
//! line of JSON that tells of the terminal, and then one for each event.

use std::time::Duration;

use serde::Serialize;

/// What the first line tells.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Header {
    /// Always 2.
    pub(crate) version: u8,
    /// Columns.
    pub(crate) width: u32,
    /// Rows.
    pub(crate) height: u32,
    /// When it began, in seconds since 1970.
    pub(crate) timestamp: i64,
    /// Who was where.
    pub(crate) title: String,
    /// `TERM`.
    pub(crate) env: Env,
}

/// The environment that was recorded.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Env {
    /// The kind of terminal.
    #[serde(rename = "TERM")]
    pub(crate) term: String,
}

/// Something that happens in a recording.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The terminal printed.
    Output(bytes::Bytes),
    /// The terminal has another size.
    Resize {
        /// Columns.
        columns: u32,
        /// Rows.
        rows: u32,
    },
}

/// Writes lines. Keeps the beginning of a character whose rest has not come yet.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    rest: Vec<u8>,
}

impl Encoder {
    /// The first line.
    pub(crate) fn header(header: &Header) -> Result<Vec<u8>, serde_json::Error> {
        line(header)
    }

    /// Adds the line of an event to `out`; none while only a part of a character has
    /// come.
    pub(crate) fn event(
        &mut self,
        at: Duration,
        event: &Event,
        out: &mut Vec<u8>,
    ) -> Result<(), serde_json::Error> {
        let (kind, text) = match event {
            Event::Output(bytes) => ("o", self.text(bytes)),
            Event::Resize { columns, rows } => ("r", format!("{columns}x{rows}")),
        };
        if !text.is_empty() {
            // Microseconds, as players have them.
            let seconds = (at.as_secs_f64() * 1e6).round() / 1e6;
            out.extend(line(&(seconds, kind, text))?);
        }
        Ok(())
    }

    /// What has come, as text: bytes that are none become U+FFFD.
    fn text(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.rest.len());
        let mut done = 0;
        for chunk in self.rest.utf8_chunks() {
            text.push_str(chunk.valid());
            done += chunk.valid().len();
            let bad = chunk.invalid();
            // It may go on.
            if done + bad.len() == self.rest.len() && is_a_beginning(bad) {
                break;
            }
            if !bad.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                done += bad.len();
            }
        }
        self.rest.drain(..done);
        text
    }
}

/// Whether more bytes could make these a character.
fn is_a_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn line(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;

    fn encoded(encoder: &mut Encoder, event: &Event) -> String {
        let mut out = Vec::new();
        let at = Duration::from_millis(1500);
        encoder.event(at, event, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn output(encoder: &mut Encoder, bytes: &[u8]) -> String {
        encoded(encoder, &Event::Output(Bytes::copy_from_slice(bytes)))
    }

    #[test]
    fn lines_are_those_of_the_format() {
        let header = Header {
            version: 2,
            width: 80,
            height: 24,
            timestamp: 1_700_000_000,
            title: "ann on web".to_owned(),
            env: Env {
                term: "xterm".to_owned(),
            },
        };
        let line: Value = serde_json::from_slice(&Encoder::header(&header).unwrap()).unwrap();
        assert_eq!(
            line,
            json!({"version": 2, "width": 80, "height": 24, "timestamp": 1_700_000_000,
                "title": "ann on web", "env": {"TERM": "xterm"}})
        );
        let mut encoder = Encoder::default();
        assert_eq!(
            output(&mut encoder, b"\x1b[1mhi\r\n"),
            "[1.5,\"o\",\"\\u001b[1mhi\\r\\n\"]\n"
        );
        let resize = Event::Resize {
            columns: 100,
            rows: 50,
        };
        assert_eq!(encoded(&mut encoder, &resize), "[1.5,\"r\",\"100x50\"]\n");
    }

    #[test]
    fn characters_that_come_in_parts_are_put_together() {
        let mut encoder = Encoder::default();
        let text = "ä€😀".as_bytes();
        let mut seen = String::new();
        for byte in text {
            let line = output(&mut encoder, &[*byte]);
            if !line.is_empty() {
                let line: Value = serde_json::from_str(&line).unwrap();
                seen.push_str(line[2].as_str().unwrap());
            }
        }
        assert_eq!(seen, "ä€😀");
        // What never becomes a character holds up nothing.
        assert!(output(&mut encoder, b"a\xff\xe2\x82b\xe2").contains("a\u{fffd}\u{fffd}b\""));
        assert!(output(&mut encoder, b"\x28").contains("\u{fffd}("));
        assert!(encoder.rest.is_empty());
    }
}
