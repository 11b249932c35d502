#![allow(clippy::unwrap_used)]
use super::*;

const HOME: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));

fn elsewhere(n: u8) -> IpAddr {
    IpAddr::from([198, 51, 100, n])
}

fn fail(throttle: &Throttle, account: &str, address: Option<IpAddr>) -> Result<(), Duration> {
    throttle.attempt(account, address).map(drop)
}

#[tokio::test(start_paused = true)]
async fn waits_grow_and_end() {
    let throttle = Throttle::new(Limits::SIGN_IN);
    for _ in 0..5 {
        fail(&throttle, "ann", HOME).unwrap();
    }
    let mut last = Duration::ZERO;
    for _ in 0..8 {
        let wait = fail(&throttle, "ann", HOME).unwrap_err();
        assert!(wait > last, "{wait:?} after {last:?}");
        last = wait;
        tokio::time::advance(wait).await;
        fail(&throttle, "ann", HOME).unwrap();
    }
    assert!(fail(&throttle, "bob", HOME).is_ok(), "others do not wait");
}

#[tokio::test(start_paused = true)]
async fn attempts_at_once_are_no_way_around() {
    let throttle = Throttle::new(Limits::SIGN_IN);
    let attempts: Vec<_> = (0..50).map(|_| throttle.attempt("ann", HOME)).collect();
    assert_eq!(attempts.iter().filter(|attempt| attempt.is_ok()).count(), 5);
}

#[tokio::test(start_paused = true)]
async fn success_forgives() {
    let throttle = Throttle::new(Limits::SIGN_IN);
    for _ in 0..4 {
        fail(&throttle, "ann", HOME).unwrap();
    }
    throttle.attempt("ann", HOME).unwrap().succeeded();
    for _ in 0..5 {
        fail(&throttle, "ann", HOME).unwrap();
    }
    fail(&throttle, "ann", HOME).unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn time_forgives() {
    let throttle = Throttle::new(Limits::SIGN_IN);
    for _ in 0..100 {
        fail(&throttle, "ann", HOME).unwrap();
        tokio::time::advance(FORGIVEN_EVERY).await;
    }
}

#[tokio::test(start_paused = true)]
async fn guesses_from_everywhere_do_not_lock_the_owner_out() {
    let throttle = Throttle::new(Limits::SIGN_IN);
    throttle.attempt("ann", HOME).unwrap().succeeded();
    for n in 0..200 {
        let _ = fail(&throttle, "ann", Some(elsewhere(n)));
    }
    let stranger = fail(&throttle, "ann", Some(elsewhere(201))).unwrap_err();
    assert!(stranger <= Duration::from_secs(10));
    assert!(
        throttle.attempt("ann", HOME).is_ok(),
        "from the owner's address it works at once"
    );
}

#[tokio::test(start_paused = true)]
async fn one_address_cannot_try_one_password_on_everybody() {
    let throttle = Throttle::new(Limits::SIGN_IN);
    let looked_at = (0..1000)
        .filter(|n| fail(&throttle, &format!("user{n}"), HOME).is_ok())
        .count();
    assert_eq!(looked_at, 30);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let throttle = Throttle::new(Limits::SIGN_IN);
    for n in 0..MOST_COUNTERS + 100 {
        let _ = fail(&throttle, &format!("user{n}"), None);
    }
    assert!(throttle.state.lock().counters.len() <= MOST_COUNTERS);
}

/// Behind an address that many share.
fn shared() -> Source<'static> {
    Source {
        is_shared: true,
        ..Source::from(HOME)
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_next_to_somebody_who_guesses_gets_in() {
    let throttle = Throttle::new(Limits::SIGN_IN);
    throttle.attempt("ann", HOME).unwrap().succeeded();
    for n in 0..200 {
        let _ = fail(&throttle, &format!("user{n}"), HOME);
    }
    fail(&throttle, "bob", HOME).unwrap_err();
    let known = Source {
        is_known: true,
        ..Source::from(HOME)
    };
    for (account, source) in [("ann", Source::from(HOME)), ("cleo", known)] {
        let tries = (0..200).map(|_| throttle.attempt(account, source));
        assert_eq!(tries.flatten().count(), 5, "{account}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_guesses_at_a_name_next_to_its_owner_does_not_hold_up_their_browser() {
    let throttle = Throttle::new(Limits::SIGN_IN);
    let own = Source {
        is_known: true,
        ..Source::from(HOME)
    };
    throttle.attempt("ann", own).unwrap().succeeded();
    for _ in 0..200 {
        let _ = fail(&throttle, "ann", HOME);
    }
    fail(&throttle, "ann", HOME).unwrap_err();
    throttle.attempt("ann", own).unwrap().succeeded();
    // That forgives nobody else, and who passes for that browser waits as well.
    fail(&throttle, "ann", HOME).unwrap_err();
    let tries = (0..200).map(|_| throttle.attempt("ann", own));
    assert_eq!(tries.flatten().count(), 5);
}

#[tokio::test(start_paused = true)]
async fn who_has_a_session_waits_for_guesses_in_it_alone() {
    for source in [Source::from(HOME), shared()] {
        let throttle = Throttle::new(Limits::SIGN_IN);
        for _ in 0..200 {
            let _ = throttle.attempt("root", source);
        }
        assert!(throttle.attempt("root", source).is_err());
        let within = |session| Source {
            session: Some(session),
            ..source
        };
        throttle.attempt("root", within("own")).unwrap().succeeded();
        let tries = (0..200).map(|_| throttle.attempt("root", within("stolen")));
        assert_eq!(tries.flatten().count(), 5);
        assert!(throttle.attempt("root", within("own")).is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn behind_a_shared_address_nobody_waits_for_others_and_no_account_is_at_home() {
    let throttle = Throttle::new(Limits::SIGN_IN);
    for n in 0..200 {
        let guess = throttle.attempt(&format!("user{n}"), shared());
        assert!(guess.is_ok(), "{n}");
    }
    throttle.attempt("ann", shared()).unwrap().succeeded();
    let tries = (0..200).map(|_| throttle.attempt("ann", shared()));
    assert_eq!(tries.flatten().count(), 20);
    let wait = throttle.attempt("ann", shared()).err().unwrap();
    assert!(wait <= Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn of_shared_addresses_so_many_attempts_are_looked_at_at_a_time() {
    let throttle = Throttle::new(Limits::SIGN_IN);
    let held: Vec<_> = (0..10_000)
        .filter_map(|n| throttle.attempt(&format!("user{n}"), shared()).ok())
        .collect();
    // Some were refused by chance, and who comes again gets through.
    assert_eq!(held.len(), SHARED_AT_ONCE);
    assert!(throttle.attempt("ann", shared()).is_err());
    let session = Source {
        session: Some("own"),
        ..shared()
    };
    assert!(throttle.attempt("root", session).is_ok());
    assert!(throttle.attempt("ann", HOME).is_ok());
    drop(held);
    assert!(throttle.attempt("ann", shared()).is_ok());
}
