#![allow(clippy::unwrap_used)]

use kite_core::crd::{ConnectedVm, ConnectionKind};

use super::*;

const LIMITS: ReportLimits = ReportLimits {
    per_second: 2,
    burst: 4,
    known: 6,
};

fn at(second: i64) -> Timestamp {
    Timestamp::constant(second, 0)
}

fn spec(number: u64) -> KiteConnectionSpec {
    KiteConnectionSpec {
        vm: ConnectedVm {
            name: "web".to_owned(),
            uid: "1".to_owned(),
        },
        owner: "ann".to_owned(),
        login: "web".to_owned(),
        kind: ConnectionKind::Ssh,
        peer: None,
        client: None,
        instance: "0".to_owned(),
        server: None,
        number: number.cast_signed(),
        opened_at: Time(at(0)),
        recordings: Vec::new(),
        end: None,
        ended: None,
        earlier: None,
    }
}

fn numbers(due: &[Due]) -> Vec<u64> {
    due.iter().map(|due| due.number).collect()
}

#[test]
fn what_is_over_soon_is_written_once_with_its_end() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    assert!(ledger.opened(1, "ns", spec(1), start));
    ledger.recorded(1, "a.cast", start);
    assert!(ledger.due(9, start + HOLD / 2).is_empty());
    ledger.ended(1, at(1), "closed by the user", start + HOLD / 2);
    // Its channel says a moment later what it carried.
    ledger.carried(1, 3, 5);
    let then = start + HOLD / 2 + SETTLE;
    let due = ledger.due(9, then);
    assert_eq!(numbers(&due), [1]);
    let ended = due[0].spec.ended.clone().unwrap();
    assert_eq!((ended.bytes_up, ended.bytes_down), (Some(3), Some(5)));
    assert_eq!(due[0].spec.recordings, ["a.cast"]);
    assert!(!ledger.sent(&due[0], Sent::Taken, then));
    assert!(ledger.is_empty());
}

#[test]
fn what_others_say_reaches_no_terminal_as_it_is() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    ledger.opened(1, "ns", spec(1), start);
    ledger.client_is(1, "SSH-2.0-\u{1b}[31mcaf\u{e9}");
    ledger.ended(
        1,
        at(1),
        "ended by \u{1b}]0;me\u{7} \u{9b}31m\nand so \u{e9}",
        start,
    );
    let due = ledger.due(9, start + SETTLE);
    assert_eq!(due[0].spec.client.as_deref(), Some("SSH-2.0-?[31mcaf?"));
    let ended = due[0].spec.ended.as_ref().unwrap();
    assert_eq!(ended.why, "ended by  ]0;me   31m and so \u{e9}");
}

#[test]
fn what_happens_while_a_write_is_under_way_is_in_the_next_one() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    ledger.opened(1, "ns", spec(1), start);
    let due = ledger.due(9, start + HOLD);
    ledger.ended(1, at(3), "over", start + HOLD);
    ledger.sent(&due[0], Sent::Taken, start + HOLD);
    let next = ledger.next(start + HOLD).unwrap();
    assert_eq!(next, start + HOLD + SETTLE);
    assert!(ledger.due(9, next)[0].spec.ended.is_some());
}

#[test]
fn writes_have_a_rate_and_the_longest_wait_comes_first() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    for number in 1..=6 {
        let then = start + Duration::from_millis(number);
        assert!(ledger.opened(number, "ns", spec(number), then));
    }
    assert!(!ledger.opened(7, "ns", spec(7), start), "too many");
    let then = start + HOLD + Duration::from_secs(1);
    let due = ledger.due(9, then);
    assert_eq!(numbers(&due), [1, 2, 3, 4], "the burst");
    for due in &due {
        ledger.sent(due, Sent::Taken, then);
    }
    assert!(ledger.due(9, then).is_empty());
    let next = ledger.next(then).unwrap();
    assert_eq!(next, then + Duration::from_millis(500));
    assert_eq!(numbers(&ledger.due(9, next)), [5]);
}

#[test]
fn who_is_connected_is_written_before_those_that_are_gone() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    for number in 1..=4 {
        ledger.opened(number, "ns", spec(number), start);
        ledger.ended(number, at(1), "over", start);
    }
    ledger.opened(5, "ns", spec(5), start);
    let then = start + HOLD;
    assert_eq!(numbers(&ledger.due(3, then)), [5, 1, 2]);
}

#[test]
fn whoever_is_connected_is_known_though_there_are_too_many_that_are_over() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    ledger.opened(1, "ns", spec(1), start);
    let due = ledger.due(9, start + HOLD);
    ledger.sent(&due[0], Sent::Taken, start + HOLD);
    // Others see the first as open: it is not given up.
    ledger.ended(1, at(9), "over", start + HOLD);
    // Nor is this, of which nobody knows whether it is seen.
    ledger.opened(2, "ns", spec(2), start);
    let due = ledger.due(9, start + HOLD);
    assert_eq!(numbers(&due), [2]);
    ledger.sent(&due[0], Sent::Lost, start + HOLD);
    ledger.ended(2, at(9), "over", start + HOLD);
    ledger.opened(3, "ns", spec(3), start);
    for number in 4..=6 {
        ledger.opened(number, "ns", spec(number), start);
        ledger.ended(number, at(9), "over", start + Duration::from_secs(number));
    }
    for number in 7..=9 {
        let all = ledger.opened(number, "ns", spec(number), start);
        assert!(!all, "one is left out");
        assert!(ledger.is_live(number));
        assert_eq!(ledger.entries.len(), LIMITS.known);
    }
    let mut left: Vec<_> = ledger.entries.keys().copied().collect();
    left.sort_unstable();
    assert_eq!(left, [1, 2, 3, 7, 8, 9]);
    assert!(!ledger.opened(10, "ns", spec(10), start));
    assert!(!ledger.is_live(10), "nobody who is connected makes room");
}

#[test]
fn what_changes_again_and_again_lets_others_go_first() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    ledger.opened(1, "ns", spec(1), start);
    let then = start + HOLD;
    let due = ledger.due(9, then);
    // While it is under way, and later.
    ledger.recorded(1, "a.cast", then);
    ledger.opened(2, "ns", spec(2), then - HOLD / 2);
    let next = then + HOLD / 2;
    ledger.sent(&due[0], Sent::Taken, next + SETTLE);
    let due = ledger.due(1, next + SETTLE);
    assert_eq!(numbers(&due), [2]);
    ledger.sent(&due[0], Sent::Taken, next + SETTLE);
    let due = ledger.due(9, next + SETTLE);
    ledger.sent(&due[0], Sent::Taken, next + SETTLE);
    ledger.opened(3, "ns", spec(3), next - HOLD + SETTLE);
    ledger.recorded(1, "b.cast", next + SETTLE * 2);
    assert_eq!(numbers(&ledger.due(1, next + SETTLE * 2)), [3]);
}

#[test]
fn what_is_lost_waits_and_what_is_refused_is_given_up_at_last() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    ledger.opened(1, "ns", spec(1), start);
    ledger.ended(1, at(9), "over", start);
    let mut now = start + HOLD;
    for _ in 0..2 * MOST_REFUSALS {
        let due = ledger.due(9, now);
        assert!(!ledger.sent(&due[0], Sent::Lost, now));
        now += Duration::from_secs(1);
    }
    for refusal in 1..=MOST_REFUSALS {
        let due = ledger.due(9, now);
        let is_given_up = ledger.sent(&due[0], Sent::Refused, now);
        assert_eq!(is_given_up, refusal == MOST_REFUSALS);
        assert!(ledger.due(9, now).is_empty());
        now += REFUSED;
    }
    assert!(ledger.is_empty());
}

#[test]
fn what_others_see_or_may_have_to_end_is_tried_for_as_long_as_it_takes() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    ledger.opened(1, "ns", spec(1), start);
    let refuse = |ledger: &mut Ledger, mut now: Instant| {
        for _ in 0..2 * MOST_REFUSALS {
            let due = ledger.due(9, now);
            assert!(!ledger.sent(&due[0], Sent::Refused, now));
            now += REFUSED;
        }
        now
    };
    // Nobody sees it, and it is open.
    let now = refuse(&mut ledger, start + HOLD);
    assert!(ledger.is_live(1));
    let due = ledger.due(9, now);
    ledger.sent(&due[0], Sent::Taken, now);
    // Seen as open, it has to be seen as ended.
    ledger.ended(1, at(9), "over", now);
    let now = refuse(&mut ledger, now + SETTLE);
    let due = ledger.due(9, now);
    ledger.sent(&due[0], Sent::Taken, now);
    assert!(ledger.is_empty());
    // So has one of which nobody knows whether it is seen.
    ledger.opened(2, "ns", spec(2), now);
    let due = ledger.due(9, now + HOLD);
    ledger.sent(&due[0], Sent::Lost, now + HOLD);
    ledger.ended(2, at(9), "over", now + HOLD);
    refuse(&mut ledger, now + HOLD + SETTLE);
    assert!(!ledger.is_empty());
}

#[test]
fn a_process_that_ends_gives_up_what_is_refused_whoever_sees_it() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    for number in 1..=2 {
        ledger.opened(number, "ns", spec(number), start);
    }
    let then = start + HOLD;
    for due in ledger.due(9, then) {
        ledger.sent(&due, Sent::Taken, then);
    }
    ledger.all_ended(at(9), "the server went down", then);
    assert_eq!(ledger.stalled_since(), Some(then));
    let mut later = then;
    for refusal in 1..=MOST_REFUSALS {
        later += Duration::from_secs(1);
        let due = ledger.last(1);
        assert_eq!(numbers(&due), [1]);
        let is_given_up = ledger.sent(&due[0], Sent::Refused, later);
        assert_eq!(is_given_up, refusal == MOST_REFUSALS);
        if refusal == 1 {
            let other = ledger.last(1);
            assert_eq!(numbers(&other), [2], "what was refused is last");
            assert_eq!(ledger.stalled_since(), Some(then));
            ledger.sent(&other[0], Sent::Taken, later);
            assert_eq!(ledger.stalled_since(), Some(later));
        }
    }
    assert!(ledger.is_empty());
}

#[test]
fn what_somebody_took_for_over_is_taken_back_while_it_lasts() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    ledger.opened(1, "ns", spec(1), start);
    let due = ledger.due(9, start + HOLD);
    ledger.sent(&due[0], Sent::Taken, start + HOLD);
    assert_eq!(ledger.next(start + HOLD), None);
    ledger.revived(1, start + HOLD);
    let due = ledger.due(9, start + HOLD);
    assert!(due[0].is_revived);
    ledger.sent(&due[0], Sent::Taken, start + HOLD);
    ledger.ended(1, at(9), "over", start + HOLD);
    ledger.revived(1, start + HOLD);
    let due = ledger.due(9, start + HOLD + SETTLE);
    assert!(!due[0].is_revived);
}

#[test]
fn what_has_no_place_is_forgotten_when_it_is_over() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    ledger.opened(1, "ns", spec(1), start);
    let due = ledger.due(9, start + HOLD);
    ledger.sent(&due[0], Sent::NoPlace, start + HOLD);
    assert_eq!(ledger.waiting(), 0);
    ledger.all_ended(at(9), "the server went down", start + HOLD);
    let due = ledger.last(9);
    ledger.sent(&due[0], Sent::NoPlace, start + HOLD);
    assert!(ledger.is_empty());
}

#[test]
fn what_is_deleted_while_it_is_open_is_written_again_less_and_less_soon() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    ledger.opened(1, "ns", spec(1), start);
    assert_eq!(ledger.told().count(), 0);
    let mut now = start + HOLD;
    let mut waits = Vec::new();
    for _ in 0..=MOST_DOUBLINGS + 2 {
        let due = ledger.due(9, now);
        assert_eq!(numbers(&due), [1]);
        ledger.sent(&due[0], Sent::Taken, now);
        assert_eq!(ledger.told().collect::<Vec<_>>(), [1]);
        ledger.deleted(1, false, now);
        let next = ledger.next(now).unwrap();
        // Lists meanwhile have no reason to expect it.
        assert_eq!(ledger.told().count(), 0);
        waits.push(next - now);
        now = next;
    }
    assert_eq!(waits[..3], [HOLD, HOLD * 2, HOLD * 4]);
    let [.., before, last] = waits[..] else {
        panic!("{waits:?}");
    };
    assert_eq!(before, last, "not for ever");
    // Its end does not wait for that.
    ledger.ended(1, at(9), "over", now - last);
    assert_eq!(numbers(&ledger.due(9, now - last + SETTLE)), [1]);
}

#[test]
fn what_was_forgotten_with_its_end_is_not_written_again() {
    let start = Instant::now();
    let mut ledger = Ledger::new(LIMITS, start);
    ledger.opened(1, "ns", spec(1), start);
    let due = ledger.due(9, start + HOLD);
    ledger.sent(&due[0], Sent::Taken, start + HOLD);
    ledger.ended(1, at(9), "over", start + HOLD);
    // The object did not tell of the end yet: that is told in any case.
    ledger.deleted(1, false, start + HOLD);
    let then = start + HOLD + SETTLE;
    let due = ledger.due(9, then);
    assert_eq!(numbers(&due), [1]);
    ledger.sent(&due[0], Sent::Lost, then);
    ledger.deleted(1, true, then);
    assert!(ledger.is_empty());
    assert!(!ledger.sent(&due[0], Sent::Taken, then));
}
