//! What terminals print, on its way into a recording.

use std::time::Duration;

use bytes::Bytes;
use kite_ssh_relay::fuzzing::Decisions;
use serde_json::Value;

use crate::recording::cast::{Encoder, Event};

/// Each event is a line of the format, and together the lines have every
/// character that was printed, however the bytes were cut.
pub fn check(data: &[u8]) {
    let mut input = Decisions::new(data);
    let mut encoder = Encoder::default();
    let (mut printed, mut out, mut resizes) = (Vec::new(), Vec::new(), 0_usize);
    let mut at = Duration::ZERO;
    while !input.is_empty() {
        at += Duration::from_micros(u64::from(input.byte()) * 7919);
        let event = match input.byte() % 8 {
            0 => {
                resizes += 1;
                Event::Resize {
                    columns: input.byte().into(),
                    rows: u32::MAX - u32::from(input.byte()),
                }
            }
            1 => Event::Output(Bytes::from_static("ä€😀\u{fffd}\u{2028}".as_bytes())),
            2 => Event::Output(Bytes::from_static(b"\x1b]0;\x07\r\n\"\\\0\x7f")),
            kind => {
                let length = if kind < 5 { 1 } else { input.byte().into() };
                Event::Output(Bytes::copy_from_slice(input.bytes(length)))
            }
        };
        if let Event::Output(bytes) = &event {
            printed.extend_from_slice(bytes);
        }
        assert!(encoder.event(at, &event, &mut out).is_ok());
    }
    let lines = String::from_utf8_lossy(&out);
    let (mut seen, mut last, mut sizes) = (String::new(), 0.0, 0_usize);
    for line in lines.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        let time = event[0].as_f64().unwrap_or(-1.0);
        assert!(time >= last, "{line}");
        last = time;
        let text = event[2].as_str().unwrap_or_default();
        match event[1].as_str() {
            Some("o") => seen.push_str(text),
            Some("r") => {
                sizes += 1;
                assert!(text.split('x').all(|n| n.parse::<u32>().is_ok()), "{line}");
            }
            _ => assert_eq!(line, "an event"),
        }
    }
    assert_eq!(sizes, resizes);
    // The beginning of a character may wait for its end.
    let whole = String::from_utf8_lossy(&printed);
    let missing = whole.strip_prefix(seen.as_str());
    assert!(matches!(missing, Some("" | "\u{fffd}")), "{missing:?}");
}
