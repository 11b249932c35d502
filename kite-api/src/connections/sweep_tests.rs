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

fn connection(vm: &str, number: i64, ended: Option<Timestamp>) -> Arc<KiteConnection> {
    let ended = ended.map(|at| json!({"at": at.to_string(), "why": "over"}));
    let spec = json!({
        "vm": {"name": vm, "uid": vm}, "owner": "ann", "login": vm, "kind": "Ssh",
        "instance": "a", "number": number, "openedAt": "2020-01-01T00:00:00Z", "ended": ended,
    });
    let spec = serde_json::from_value(spec).unwrap();
    Arc::new(kite_core::connections::object("kite-user-ann", spec))
}

#[test]
fn the_newest_of_each_vm_are_kept_for_a_month_and_what_lasts_always() {
    let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
    let mut all = vec![connection("web", 0, None), connection("db", 0, None)];
    let many = i64::try_from(MOST_OF_VM).unwrap() + 3;
    all.extend((1..=many).map(|n| connection("web", n, Some(now - n.minutes()))));
    all.push(connection("db", 1, Some(now - (KEPT_HOURS - 1).hours())));
    all.push(connection("db", 2, Some(now - (KEPT_HOURS + 1).hours())));
    let mut old: Vec<_> = too_old(&all, now)
        .iter()
        .map(|it| (it.spec.vm.name.as_str(), it.spec.number))
        .collect();
    old.sort_unstable();
    let web = |n| ("web", n);
    assert_eq!(old, [("db", 2), web(many - 2), web(many - 1), web(many)]);
}
