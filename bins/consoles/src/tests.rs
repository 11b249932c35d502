//! What of consoles' records arrives where the gateway's go.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use kite_api::console::ConsoleKind;

use super::*;

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Record>>>);

impl AuditSink for Kept {
    fn record(&self, record: &Record) {
        self.0.lock().unwrap().push(record.clone());
    }
}

#[test]
fn a_recorded_console_is_told_of_from_its_beginning_to_its_end() {
    let kept = Kept::default();
    let audit = GatewayAudit(kept.clone());
    let tell = |console, event| {
        audit.record(&ConsoleRecord {
            time: Timestamp::UNIX_EPOCH,
            console,
            address: Some([192, 0, 2, 7].into()),
            user: "ann".to_owned(),
            namespace: "kite-user-bob".to_owned(),
            vm: "web".to_owned(),
            uid: "u-1".to_owned(),
            owner: "bob".to_owned(),
            kind: ConsoleKind::Terminal,
            event,
        });
    };
    tell(7, ConsoleEvent::ConsoleOpened);
    // Another one, meanwhile.
    tell(8, ConsoleEvent::ConsoleOpened);
    let recording = "2026/web.cast".to_owned();
    tell(7, ConsoleEvent::ConsoleRecorded { recording });
    tell(
        7,
        ConsoleEvent::ConsoleEnded {
            bytes_up: 3,
            bytes_down: 5,
            seconds: 1.5,
            ended: "somebody ended it".to_owned(),
            code: 4410,
        },
    );
    let records = kept.0.lock().unwrap();
    let numbers: Vec<_> = records.iter().map(|it| it.connection).collect();
    assert_eq!(numbers, [7, 8, 7, 7]);
    for record in records.iter() {
        assert_eq!(record.time, Timestamp::UNIX_EPOCH);
        assert_eq!(record.peer.to_string(), "192.0.2.7:0");
    }
    let vm = VmKey {
        namespace: "kite-user-bob".to_owned(),
        name: "web".to_owned(),
    };
    let Event::Console {
        user, what, vm: of, ..
    } = &records[0].event
    else {
        panic!("{:?}", records[0]);
    };
    assert_eq!((user.as_str(), *what, of), ("ann", "opened", &vm));
    let Event::Recording {
        login,
        vm: of,
        name,
    } = &records[2].event
    else {
        panic!("{:?}", records[2]);
    };
    assert_eq!((login.as_str(), of), ("ann", &vm));
    assert_eq!(name, "2026/web.cast");
    let Event::Console {
        what,
        kind,
        uid,
        owner,
        bytes_up,
        bytes_down,
        why,
        ..
    } = &records[3].event
    else {
        panic!("{:?}", records[3]);
    };
    assert_eq!((*what, *kind), ("ended", "Terminal"));
    assert_eq!((uid.as_str(), owner.as_str()), ("u-1", "bob"));
    assert_eq!((*bytes_up, *bytes_down), (3, 5));
    assert_eq!(why.as_deref(), Some("somebody ended it"));
}
