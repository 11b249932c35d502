#![allow(clippy::unwrap_used)]

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;

const MAX: MaxStartups = MaxStartups {
    start: 100,
    rate: 30,
    full: 512,
};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn bounds_are_written_as_in_openssh() {
    let parsed = |text: &str| text.parse::<MaxStartups>();
    assert_eq!(parsed("100:30:512").unwrap(), MAX);
    assert_eq!(MAX.to_string(), "100:30:512");
    let all = parsed("10").unwrap();
    assert_eq!((all.start, all.rate, all.full), (10, 100, 10));
    for bad in [
        "",
        "a",
        "10:30",
        "10:0:20",
        "10:101:20",
        "20:30:10",
        "0",
        "-1",
        "1:2:3:4",
    ] {
        let error = parsed(bad).unwrap_err().to_string();
        assert!(error.contains("100:30:512"), "{bad}: {error}");
    }
}

/// For many bounds and every number of open connections.
#[test]
fn the_chance_grows_from_none_to_certain() {
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..500 {
        let start = random.random_range(0..300);
        let max = MaxStartups {
            start,
            rate: random.random_range(1..=100),
            full: start + random.random_range(1..400),
        };
        let mut before = 0;
        for open in 0..=max.full + 2 {
            let percent = max.dropped_percent(open);
            assert!((before..=100).contains(&percent), "{max} {open}");
            assert_eq!(percent == 0, open < max.start, "{max} {open}");
            if open >= max.full {
                assert_eq!(percent, 100, "{max} {open}");
            } else if max.rate < 100 {
                assert!(percent < 100, "{max} {open}: there is a chance until full");
            }
            if open == max.start && open < max.full {
                assert_eq!(percent, max.rate, "{max}");
            }
            before = percent;
        }
    }
}

/// Connections come and go at random: none of the bounds is ever passed, and when
/// all are gone nothing is remembered.
#[tokio::test(start_paused = true)]
async fn no_bound_is_passed_whoever_comes() {
    let startups = Startups::new(MAX, 10, 32);
    let mut random = StdRng::seed_from_u64(2);
    let mut open: Vec<(IpAddr, Standing, Startup)> = Vec::new();
    let mut most = 0;
    for _ in 0..8_000 {
        if random.random_range(0..10) == 0 && !open.is_empty() {
            let (.., startup) = open.swap_remove(random.random_range(0..open.len()));
            if random.random() {
                startup.end();
            }
            tokio::time::advance(COUNTED / 4).await;
            continue;
        }
        let address = if random.random() {
            IpAddr::from([192, 0, 2, random.random_range(0..60)])
        } else {
            let [a, b, c] = [(); 3].map(|()| random.random_range(0..6));
            IpAddr::from([0x2001, 0xdb8, a, b << 8 | c, 0, 0, 0, random.random()])
        };
        let standing = [
            Standing::Stranger,
            Standing::Known,
            Standing::Many,
            Standing::Trusted,
        ][random.random_range(0..4)];
        let roll = random.random_range(0..100);
        let Ok(startup) = startups.begin(address, standing, roll) else {
            continue;
        };
        open.push((address, standing, startup));
        most = most.max(open.len());
        assert!(open.len() <= 512 + 32);
        if open.len() > 512 {
            assert!(
                open.iter()
                    .any(|(_, standing, _)| *standing == Standing::Trusted)
            );
        }
        let bounded = |of: Network| {
            let here = open.iter().filter(|(address, standing, _)| {
                matches!(standing, Standing::Stranger | Standing::Known)
                    && networks(*address).iter().any(|(network, _)| *network == of)
            });
            here.count()
        };
        for (network, times) in networks(address) {
            assert!(bounded(network) <= 10 * times as usize, "{network:?}");
        }
    }
    assert!(
        most >= 512,
        "only {most} at a time: too few to try the bounds"
    );
    drop(open);
    tokio::time::advance(COUNTED).await;
    let mut counts = startups.counts.lock();
    counts.forget(Instant::now());
    assert_eq!((counts.total, counts.by_network.len()), (0, 0));
    assert!(counts.ended.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_address_has_so_many_handshakes_in_a_second() {
    let startups = Startups::new(MAX, 10, 0);
    let begin = |text: &str| startups.begin(ip(text), Standing::Stranger, 99);
    for _ in 0..10 {
        drop(begin("192.0.2.1").unwrap());
    }
    let refused = || begin("192.0.2.1").err();
    assert_eq!(refused(), Some(Refusal::AddressStartups));
    assert!(begin("192.0.2.2").is_ok(), "another address");
    tokio::time::advance(COUNTED / 2).await;
    assert_eq!(refused(), Some(Refusal::AddressStartups));
    tokio::time::advance(COUNTED / 2).await;
    // Logins are no handshakes in vain.
    for _ in 0..50 {
        begin("192.0.2.1").unwrap().end();
    }
}

#[test]
fn who_is_trusted_has_places_of_their_own() {
    let startups = Startups::new(MAX, 1000, 2);
    let begin = |standing| startups.begin(ip("192.0.2.1"), standing, 99);
    let _all: Vec<_> = (0..512).map(|_| begin(Standing::Known).unwrap()).collect();
    for standing in [Standing::Stranger, Standing::Known, Standing::Many] {
        assert_eq!(begin(standing).err(), Some(Refusal::Startups));
    }
    let _first = begin(Standing::Trusted).unwrap();
    let _second = begin(Standing::Trusted).unwrap();
    assert_eq!(begin(Standing::Trusted).err(), Some(Refusal::Startups));
}

#[test]
fn chance_drops_strangers_and_nobody_who_is_known() {
    let startups = Startups::new(MAX, 1000, 0);
    let begin = |standing, roll| startups.begin(ip("192.0.2.1"), standing, roll);
    let _some: Vec<_> = (0..100)
        .map(|_| begin(Standing::Stranger, 0).unwrap())
        .collect();
    for standing in [Standing::Stranger, Standing::Many] {
        assert_eq!(begin(standing, 29).err(), Some(Refusal::Startups));
        assert!(begin(standing, 31).is_ok());
    }
    assert!(begin(Standing::Known, 0).is_ok());
    assert!(begin(Standing::Trusted, 0).is_ok());
}

#[test]
fn a_site_is_bounded_beside_its_networks() {
    let startups = Startups::new(MAX, 10, 0);
    let mut open = Vec::new();
    let mut begin = |text: &str| {
        let begun = startups.begin(ip(text), Standing::Stranger, 99);
        begun.map(|startup| open.push(startup)).is_ok()
    };
    // One /64 after the other, of one /56 and then of one /48.
    let taken = (0..8)
        .flat_map(|net| (0..20).map(move |host| format!("2001:db8:0:{net:x}::{host:x}")))
        .filter(|text| begin(text));
    assert_eq!(taken.count(), 20, "of a /56");
    let taken = (0..8)
        .flat_map(|net| (0..20).map(move |host| format!("2001:db8:0:{net:x}00::{host:x}")))
        .filter(|text| begin(text));
    assert_eq!(taken.count(), 20, "of a /48, which had twenty");
    assert!(begin("2001:db8:1::1"), "another site");
}
