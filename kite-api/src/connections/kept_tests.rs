#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use serde_json::json;

use super::*;

/// One of a VM that ended then.
fn connection(
    owner: &str,
    vm: &str,
    number: usize,
    done: Done,
    ended: Option<Timestamp>,
) -> Arc<KiteConnection> {
    let carried = i64::from(done != Done::Nothing);
    let ended = ended
        .map(|at| json!({"at": at.to_string(), "why": "over", "bytesUp": 0, "bytesDown": carried}));
    let recordings = match done {
        Done::Recorded => json!([format!("{number}.cast")]),
        Done::Used | Done::Nothing => json!([]),
    };
    let spec = json!({
        "vm": {"name": vm, "uid": vm}, "owner": owner, "login": vm, "kind": "Ssh",
        "instance": "a", "number": number, "openedAt": "2020-01-01T00:00:00Z",
        "recordings": recordings, "ended": ended,
    });
    let spec = serde_json::from_value(spec).unwrap();
    Arc::new(kite_core::connections::object(
        &format!("kite-user-{owner}"),
        spec,
    ))
}

fn now() -> Timestamp {
    "2026-06-01T00:00:00Z".parse().unwrap()
}

/// So many that ended in the last minutes, the first one last.
fn many(
    owner: &str,
    vm: &str,
    done: Done,
    numbers: std::ops::RangeInclusive<usize>,
) -> Vec<Arc<KiteConnection>> {
    numbers
        .map(|number| {
            let minutes = i64::try_from(number).unwrap();
            let ended = Some(now() - minutes.minutes());
            connection(owner, vm, number, done, ended)
        })
        .collect()
}

fn forgotten(all: Vec<Arc<KiteConnection>>) -> Vec<(String, usize)> {
    let Plan { old, merges } = plan(all, now());
    let merged = merges.into_iter().flat_map(|it| it.gone);
    let mut old: Vec<_> = old
        .into_iter()
        .chain(merged)
        .map(|it| {
            let number = usize::try_from(it.spec.number).unwrap();
            (it.spec.vm.name.clone(), number)
        })
        .collect();
    old.sort_unstable();
    old
}

#[test]
fn what_is_older_than_a_month_is_forgotten_and_what_lasts_never() {
    for done in [Done::Recorded, Done::Used, Done::Nothing] {
        let at = |hours: i64| Some(now() - hours.hours());
        let all = vec![
            connection("ann", "web", 0, done, None),
            connection("ann", "web", 1, done, at(KEPT_HOURS - 1)),
            connection("ann", "web", 2, done, at(KEPT_HOURS + 1)),
        ];
        assert_eq!(forgotten(all), [("web".to_owned(), 2)]);
    }
}

#[test]
fn logins_that_did_nothing_push_out_no_others() {
    let minutes = |number| Some(now() - 600.minutes() - i64::from(number).minutes());
    let mut all = vec![
        connection("ann", "web", 9_001, Done::Recorded, minutes(1)),
        connection("ann", "web", 9_002, Done::Used, minutes(2)),
        connection("ann", "db", 9_003, Done::Nothing, minutes(3)),
    ];
    all.extend(many("ann", "web", Done::Nothing, 1..=MOST_IDLE + 3));
    let web = |number| ("web".to_owned(), number);
    let too_many = [MOST_IDLE + 1, MOST_IDLE + 2, MOST_IDLE + 3].map(web);
    assert_eq!(forgotten(all), too_many);
}

#[test]
fn sessions_that_were_used_push_out_no_recorded_one() {
    let long_ago = Some(now() - (KEPT_HOURS - 1).hours());
    let mut all = vec![connection("ann", "web", 9_001, Done::Recorded, long_ago)];
    all.extend(many("ann", "web", Done::Used, 1..=MOST_USED + 1));
    all.extend(many("ann", "web", Done::Recorded, 2_000..=4_000));
    assert_eq!(forgotten(all), [("web".to_owned(), MOST_USED + 1)]);
}

#[test]
fn a_flood_of_one_owner_pushes_out_their_own() {
    let mut all = many("eve", "bad", Done::Recorded, 1..=MOST_IN_ALL + 10);
    all.extend(many("ann", "web", Done::Nothing, 1..=10));
    all.extend(many("bob", "db", Done::Recorded, 1..=90));
    let old = forgotten(all);
    // Those of the others stay, and of hers the newest.
    assert_eq!(old.len(), 110);
    assert!(old.iter().all(|(vm, _)| vm == "bad"));
    assert_eq!(old[0].1, MOST_IN_ALL - 99);
}

fn number(it: &KiteConnection) -> usize {
    usize::try_from(it.spec.number).unwrap()
}

/// The same from an address.
fn from(peer: &str, connection: &KiteConnection) -> Arc<KiteConnection> {
    let mut connection = connection.clone();
    connection.spec.peer = Some(peer.to_owned());
    Arc::new(connection)
}

#[test]
fn a_flood_from_one_address_pushes_out_nobody_s_from_another() {
    for (done, most) in [(Done::Used, MOST_USED), (Done::Nothing, MOST_IDLE)] {
        let long_ago = Some(now() - (KEPT_HOURS - 1).hours());
        let evidence = connection("ann", "web", 9_001, done, long_ago);
        let mut all = vec![from("198.51.100.9", &evidence)];
        let flood = many("ann", "web", done, 1..=most + 20);
        all.extend(flood.iter().map(|it| from("192.0.2.1", it)));
        let old = forgotten(all);
        assert_eq!(old.len(), 21, "the flood's own");
        assert!(
            old.iter()
                .all(|(_, number)| (most..=most + 20).contains(number))
        );
    }
}

#[test]
fn what_is_beyond_is_counted_by_the_oldest_that_is_kept_of_its_like() {
    let mut all = Vec::new();
    let flood = many("ann", "web", Done::Used, 1..=MOST_USED + 3);
    all.extend(flood.iter().map(|it| from("192.0.2.1", it)));
    let Plan { old, merges } = plan(all, now());
    assert!(old.is_empty());
    let [merge] = merges.as_slice() else {
        panic!("{merges:?}");
    };
    assert_eq!(number(&merge.into), MOST_USED);
    let gone: Vec<_> = merge.gone.iter().map(|it| number(it)).collect();
    assert_eq!(
        gone,
        [MOST_USED + 3, MOST_USED + 2, MOST_USED + 1],
        "the oldest first"
    );
}

/// Whoever comes from a new address each time is counted, and is in nobody's way who was
/// there before.
#[test]
fn a_flood_from_many_addresses_is_counted_together() {
    let long_ago = Some(now() - (KEPT_HOURS - 1).hours());
    let evidence = connection("ann", "web", 9_001, Done::Used, long_ago);
    let mut all = vec![from("198.51.100.9", &evidence)];
    let flood = many("ann", "web", Done::Used, 1..=3 * MOST_USED);
    let opened = |it: &Arc<KiteConnection>, number: usize| {
        let mut it = it.as_ref().clone();
        it.spec.opened_at.0 += i64::try_from(number).unwrap().minutes();
        from(&format!("2001:db8::{number:x}"), &it)
    };
    all.extend(flood.iter().enumerate().map(|(n, it)| opened(it, n + 1)));
    let Plan { old, merges } = plan(all, now());
    assert!(old.is_empty(), "{} are lost", old.len());
    let gone: Vec<_> = merges.iter().flat_map(|it| &it.gone).collect();
    assert_eq!(gone.len(), 2 * MOST_USED + 1);
    assert!(gone.iter().all(|it| it.spec.number != 9_001));
    assert_eq!(
        merges.len(),
        1,
        "those beyond the addresses that came first"
    );
}

#[test]
fn recordings_of_an_owner_push_out_no_address_that_recorded_nothing() {
    let long_ago = Some(now() - (KEPT_HOURS - 1).hours());
    let mut all = vec![connection("eve", "bad", 90_001, Done::Used, long_ago)];
    all.extend(many("eve", "bad", Done::Recorded, 1..=MOST_IN_ALL + 10));
    let old = forgotten(all);
    assert_eq!(old.len(), 11);
    assert!(old.iter().all(|(_, number)| *number != 90_001));
}

#[test]
fn parts_fill_up_what_there_is() {
    assert_eq!(part_of_each(vec![], 10), usize::MAX);
    assert_eq!(part_of_each(vec![4, 6], 10), usize::MAX);
    assert_eq!(part_of_each(vec![1, 20, 30], 11), 5);
    assert_eq!(part_of_each(vec![20, 20], 11), 5);
    assert_eq!(part_of_each(vec![9], 0), 0);
}
