#![allow(clippy::unwrap_used)]

use super::*;

fn connection(number: i64, peer: &str) -> KiteConnection {
    let spec = json!({
        "vm": {"name": "web", "uid": "1"}, "owner": "ann", "login": "web", "kind": "Ssh",
        "instance": "a", "number": number, "peer": peer,
        "openedAt": format!("2026-01-01T00:{number:02}:00Z"),
        "ended": {"at": "2026-01-02T00:00:00Z", "why": "over", "bytesUp": 1, "bytesDown": 2},
    });
    let spec = serde_json::from_value(spec).unwrap();
    kite_core::connections::object("kite-user-ann", spec)
}

#[test]
fn what_is_counted_says_how_many_when_from_where_and_how_much() {
    let some = [3, 4, 5].map(|number| Arc::new(connection(number, "192.0.2.1")));
    let first = together(None, &some).unwrap();
    assert_eq!((first.count, first.bytes_up, first.bytes_down), (3, 3, 6));
    assert_eq!(first.first.0.to_string(), "2026-01-01T00:03:00Z");
    assert_eq!(first.last.0.to_string(), "2026-01-01T00:05:00Z");
    assert_eq!(first.peers, ["192.0.2.1"]);
    assert_eq!(first.counted.len(), 3);

    // One that has stood for others is counted with them.
    let mut bearer = connection(6, "192.0.2.2");
    bearer.spec.earlier = Some(first.clone());
    let name = bearer.name_any();
    let second = together(Some(&first), &[Arc::new(bearer)]).unwrap();
    assert_eq!((second.count, second.bytes_up), (7, 7));
    assert_eq!(second.first.0.to_string(), "2026-01-01T00:03:00Z");
    assert_eq!(second.last.0.to_string(), "2026-01-01T00:06:00Z");
    assert_eq!(second.peers, ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(second.counted, [name]);
}

#[test]
fn addresses_are_bounded() {
    let some: Vec<_> = (0..40)
        .map(|number| Arc::new(connection(number, &format!("192.0.2.{number}"))))
        .collect();
    let counted = together(None, &some).unwrap();
    assert_eq!(counted.count, 40);
    assert_eq!(counted.peers.len(), MOST_EARLIER_PEERS);
}
