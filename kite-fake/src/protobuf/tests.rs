#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

/// A field of bytes.
fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    assert!(content.len() < 128);
    let mut out = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
    out.extend(content);
    out
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), bytes(1, &meta), bytes(2, raw)].concat()
}

#[test]
fn an_object_is_decoded_as_json_would_have_it() {
    let meta = [
        bytes(1, b"a"),
        bytes(2, b""),
        bytes(8, b""),
        vec![7 << 3, 0],
    ]
    .concat();
    let data = [bytes(1, b"k"), bytes(2, b"hi")].concat();
    let raw = [bytes(1, &meta), bytes(2, &data), vec![5 << 3, 0]].concat();
    assert_eq!(
        decode(&body("v1", "Secret", &raw)).unwrap(),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "aGk="}, "immutable": false})
    );
}

#[test]
fn special_messages_become_scalars() {
    // A Service with one port, whose target is a name.
    let target = [vec![8, 1], bytes(3, b"http")].concat();
    let port = [vec![3 << 3, 80], bytes(4, &target)].concat();
    let raw = bytes(2, &bytes(1, &port));
    let service = decode(&body("v1", "Service", &raw)).unwrap();
    assert_eq!(
        service["spec"]["ports"],
        json!([{"port": 80, "targetPort": "http"}])
    );
    // deletionTimestamp of a Pod, at the epoch plus one second.
    let raw = bytes(1, &bytes(9, &[8, 1]));
    let pod = decode(&body("v1", "Pod", &raw)).unwrap();
    assert_eq!(pod["metadata"]["deletionTimestamp"], "1970-01-01T00:00:01Z");
}

#[test]
fn what_is_no_message_is_refused() {
    for bad in [
        &b"{}"[..],
        b"k8s\0\x0a\x7f",
        &body("v1", "Nothing", b""),
        &body("v1", "Pod", &[0xff]),
    ] {
        assert!(decode(bad).is_err(), "{bad:?}");
    }
    // Lists and maps of themselves cannot exhaust the stack.
    assert!(MESSAGES.len() > 300);
}

#[test]
fn every_message_that_is_named_is_known() {
    for (name, message) in MESSAGES.iter() {
        for member in message.values() {
            if let Kind::Message(inner) = member.kind {
                assert!(
                    MESSAGES.contains_key(inner),
                    "{name}.{}: {inner}",
                    member.name
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(raw in prop::collection::vec(any::<u8>(), 0..100), kind in prop::sample::select(vec!["Pod", "Secret", "Node"])) {
        let _ = decode(&body("v1", kind, &raw));
        let _ = decode(&raw);
    }
}
