//! Login names, and the commands that records tell of.

use kite_ssh_relay::fuzzing::Decisions;

use crate::audit::Purpose;
use crate::route::{LoginName, MAX_LOGIN_NAME};

/// A name that is taken may stand in a log, a label, a path and a URL as it is.
pub fn check(data: &[u8]) {
    let mut input = Decisions::new(data);
    let text = if input.byte().is_multiple_of(2) {
        String::from_utf8_lossy(input.bytes(usize::MAX)).into_owned()
    } else {
        let letters: Vec<char> = "abzAZ09-_.-_. /\\\0\n\r%:@ä".chars().collect();
        let length = usize::from(input.byte()) % (MAX_LOGIN_NAME + 4);
        (0..length).map(|_| input.one_of(&letters)).collect()
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match LoginName::parse(&text) {
        Some(name) => {
            assert_eq!(name.as_str(), text);
            assert_eq!(name.to_string(), text);
            assert!(text.chars().all(plain) && !text.is_empty());
            assert!(text.len() <= MAX_LOGIN_NAME);
        }
        None => assert!(
            text.is_empty() || text.len() > MAX_LOGIN_NAME || !text.chars().all(plain),
            "{text:?} was refused"
        ),
    }
    // Only a look at a command, which must not fail over any.
    let purpose = Purpose::of_command(text.as_bytes());
    assert!(matches!(purpose, Purpose::Command | Purpose::Transfer));
}
