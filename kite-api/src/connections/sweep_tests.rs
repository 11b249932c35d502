#![allow(clippy::unwrap_used)]

use super::*;

fn beats(version: Option<&str>) -> HashMap<String, Option<String>> {
    HashMap::from([("a".to_owned(), version.map(str::to_owned))])
}

#[test]
fn a_process_is_gone_after_looks_in_a_row_without_a_heartbeat() {
    let (mut state, start) = (Beats::default(), Instant::now());
    let mut now = start;
    let mut look = |state: &mut Beats, version: Option<&str>, after: Duration| {
        now += after;
        !state.look(beats(version), now).is_empty()
    };
    for _ in 0..LOOKS {
        assert!(!look(&mut state, Some("1"), INTERVAL));
    }
    assert!(look(&mut state, Some("1"), INTERVAL));
    // It is back.
    assert!(!look(&mut state, Some("2"), INTERVAL));
    for _ in 1..LOOKS {
        assert!(!look(&mut state, Some("2"), INTERVAL));
    }
    // While nobody could look it may have been there.
    assert!(!look(&mut state, Some("2"), INTERVAL * 3));
    for _ in 1..LOOKS {
        assert!(!look(&mut state, Some("2"), INTERVAL));
    }
    assert!(look(&mut state, Some("2"), INTERVAL));
    // One without any is no other.
    let mut state = Beats::default();
    for _ in 0..LOOKS {
        assert!(!look(&mut state, None, INTERVAL));
    }
    assert!(look(&mut state, None, INTERVAL));
}
