#![allow(clippy::unwrap_used)]
use std::{
    future::{Ready, ready},
    net::IpAddr,
    sync::mpsc,
};

use axum::response::IntoResponse as _;
use http::{StatusCode, header};
use parking_lot::Mutex;
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::task::JoinHandle;

use super::*;
use crate::counts::Counts;

/// A pool, and work for it that goes on until it is let go: hashes that take as long
/// as the test wants.
struct Pool {
    passwords: Arc<Passwords>,
    metrics: Counts,
    hold: Option<mpsc::Sender<()>>,
    held: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Pool {
    async fn new(concurrency: usize) -> Self {
        Self::on(concurrency, 1 << 30).await
    }

    async fn on(concurrency: usize, memory: usize) -> Self {
        let metrics = Counts::default();
        let passwords = Passwords::new(concurrency, memory, metrics.hashing().clone());
        let (hold, let_go) = mpsc::channel();
        Self {
            passwords: Arc::new(passwords.await.unwrap()),
            metrics,
            hold: Some(hold),
            held: Arc::new(Mutex::new(let_go)),
        }
    }

    fn begin(&self) -> JoinHandle<Result<(), Problem>> {
        self.begin_on(self.passwords.own)
    }

    fn begin_on(&self, memory: usize) -> JoinHandle<Result<(), Problem>> {
        let (passwords, held) = (Arc::clone(&self.passwords), Arc::clone(&self.held));
        let work = move || while held.lock().recv().is_ok() {};
        tokio::spawn(async move { passwords.bounded(memory, work).await })
    }

    fn let_go(&mut self) {
        self.hold = None;
    }

    fn metric(&self, name: &str) -> usize {
        let mut registry = Registry::default();
        let of_api = registry.sub_registry_with_prefix("kite_api");
        self.metrics.register(of_api);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    }

    async fn until(&self, what: &str, check: impl Fn(&Self) -> bool) {
        for _ in 0..1000 {
            if check(self) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("never: {what}");
    }
}

type Known = Ready<Result<Option<PasswordHash>, Problem>>;

fn nobody() -> Known {
    ready(Ok(None))
}

fn somebody(hash: &PasswordHash) -> Known {
    ready(Ok(Some(hash.clone())))
}

const RUNNING: &str = "kite_api_passwords_hashing ";
const MOST: &str = "kite_api_passwords_hashing_most ";
const REFUSED: &str = "kite_api_passwords_refused_total ";

#[tokio::test]
async fn only_so_many_run_so_many_wait_and_the_rest_comes_again() {
    let mut pool = Pool::new(2).await;
    let begun: Vec<_> = (0..2 * PLACES).map(|_| pool.begin()).collect();
    pool.until("two run", |pool| pool.metric(RUNNING) == 2)
        .await;
    pool.until("all places are taken", |pool| {
        pool.passwords.waiting.available_permits() == 0
    })
    .await;
    for refused in [
        pool.passwords.hash("horse".to_owned()).await.err(),
        pool.passwords
            .verify(Source::default(), nobody(), "horse".to_owned())
            .await
            .err(),
    ] {
        let refused = refused.unwrap();
        assert_eq!(refused.kind(), ProblemKind::Unavailable);
        let answer = refused.into_response();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.headers()[header::RETRY_AFTER], "2");
    }
    assert_eq!(pool.metric(REFUSED), 2);
    pool.let_go();
    for work in begun {
        work.await.unwrap().unwrap();
    }
    // Neither more at once, nor fewer than may.
    assert_eq!((pool.metric(MOST), pool.metric(RUNNING)), (2, 0));
    let hash = pool.passwords.hash("correct horse".to_owned()).await;
    let hash = hash.unwrap();
    let fits = pool.passwords.verify(
        Source::default(),
        somebody(&hash),
        "correct horse".to_owned(),
    );
    assert!(fits.await.unwrap());
}

#[tokio::test]
async fn a_request_that_was_given_up_makes_no_room_while_its_hash_runs() {
    let mut pool = Pool::new(1).await;
    let given_up = pool.begin();
    pool.until("it runs", |pool| pool.metric(RUNNING) == 1)
        .await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    let next = pool.begin();
    pool.until("the next one waits for it alone", |pool| {
        pool.passwords.waiting.available_permits() == PLACES - 1
    })
    .await;
    assert_eq!(pool.passwords.running.available_permits(), 0);
    assert_eq!(pool.metric(RUNNING), 1);
    pool.let_go();
    next.await.unwrap().unwrap();
    assert_eq!((pool.metric(MOST), pool.metric(RUNNING)), (1, 0));
}

#[tokio::test]
async fn as_many_run_as_there_is_memory_for() {
    const MIB: usize = 1 << 20;
    let mut pool = Pool::on(64, 70 * MIB).await;
    let most = pool.passwords.running.available_permits();
    assert_eq!(most, 3, "of 19 MiB each, however many processors there are");
    let dear = pool.begin_on(64 * MIB);
    pool.until("it runs", |pool| pool.metric(RUNNING) == 1)
        .await;
    let own = pool.begin();
    let cheap = pool.begin_on(4096);
    pool.until("both wait", |pool| {
        pool.passwords.running.available_permits() == 0
    })
    .await;
    // There is room for the cheap one, and it came later.
    assert_eq!(pool.metric(RUNNING), 1);
    pool.let_go();
    for work in [dear, own, cheap] {
        work.await.unwrap().unwrap();
    }
    assert!(pool.metric(MOST) <= 2, "never all three");
}

#[tokio::test]
async fn what_takes_more_than_there_is_runs_alone() {
    let mut pool = Pool::on(4, 1 << 20).await;
    let dear = pool.begin_on(64 << 20);
    pool.until("it runs", |pool| pool.metric(RUNNING) == 1)
        .await;
    let next = pool.begin();
    pool.let_go();
    dear.await.unwrap().unwrap();
    next.await.unwrap().unwrap();
    assert_eq!(pool.metric(MOST), 1);
    let hash = pool.passwords.hash("correct horse".to_owned()).await;
    assert!(hash.is_ok());
}

#[tokio::test]
async fn who_looks_for_a_hash_takes_no_place() {
    let pool = Pool::new(1).await;
    let looking = (0..LOOKUPS).map(|_| {
        let passwords = Arc::clone(&pool.passwords);
        tokio::spawn(async move {
            let never = std::future::pending();
            passwords
                .verify(Source::default(), never, "horse".to_owned())
                .await
        })
    });
    let looking: Vec<_> = looking.collect();
    pool.until("all look", |pool| {
        pool.passwords.lookups.available_permits() == 0
    })
    .await;
    // No more look, and who needs no look has a place and a turn.
    let refused = pool
        .passwords
        .verify(Source::default(), nobody(), "horse".to_owned())
        .await;
    assert_eq!(refused.unwrap_err().kind(), ProblemKind::Unavailable);
    assert!(pool.passwords.hash("horse".to_owned()).await.is_ok());
    for one in looking {
        one.abort();
    }
    pool.until("others look", |pool| {
        pool.passwords.lookups.available_permits() == LOOKUPS
    })
    .await;
    let answer = pool
        .passwords
        .verify(Source::default(), nobody(), "horse".to_owned())
        .await;
    assert!(!answer.unwrap());
}

#[tokio::test]
async fn nobody_has_the_dummy_password() {
    let passwords = Passwords::new(1, 1 << 30, Hashing::default())
        .await
        .unwrap();
    assert!(
        !passwords
            .verify(
                Source::default(),
                nobody(),
                "nobody has this password".to_owned()
            )
            .await
            .unwrap()
    );
    let hash = passwords.hash("correct horse".to_owned()).await.unwrap();
    let verify = |text: &str| passwords.verify(Source::default(), somebody(&hash), text.to_owned());
    assert!(verify("correct horse").await.unwrap());
    assert!(!verify("wrong horse").await.unwrap());
}

#[tokio::test]
async fn who_looks_from_one_network_keeps_out_nobody_else() {
    let pool = Pool::new(1).await;
    let strange: IpAddr = "198.51.100.7".parse().unwrap();
    let home: IpAddr = "192.0.2.1".parse().unwrap();
    let looking = (0..LOOKUPS).map(|_| {
        let passwords = Arc::clone(&pool.passwords);
        tokio::spawn(async move {
            let never = std::future::pending();
            let looked = passwords.verify(Source::from(Some(strange)), never, "horse".to_owned());
            looked.await.unwrap_err().kind()
        })
    });
    let looking: Vec<_> = looking.collect();
    pool.until("all but those of a share are refused", |_| {
        looking.iter().filter(|it| it.is_finished()).count() == LOOKUPS - LOOKUPS_EACH
    })
    .await;
    let answer = pool
        .passwords
        .verify(Source::from(Some(home)), nobody(), "horse".to_owned());
    assert!(!answer.await.unwrap());
    for one in looking {
        one.abort();
    }
}

#[tokio::test]
async fn behind_a_shared_address_all_may_look_and_who_has_a_session_looks_beside_them() {
    let pool = Pool::new(1).await;
    let node: IpAddr = "192.0.2.1".parse().unwrap();
    let shared = Source {
        is_shared: true,
        ..Source::from(Some(node))
    };
    let looking = (0..LOOKUPS).map(|_| {
        let passwords = Arc::clone(&pool.passwords);
        tokio::spawn(async move {
            let never = std::future::pending();
            passwords.verify(shared, never, "horse".to_owned()).await
        })
    });
    let looking: Vec<_> = looking.collect();
    pool.until("all look", |pool| {
        pool.passwords.lookups.available_permits() == 0
    })
    .await;
    let refused = pool
        .passwords
        .verify(shared, nobody(), "horse".to_owned())
        .await;
    assert_eq!(refused.unwrap_err().kind(), ProblemKind::Unavailable);
    let signed_in = Source {
        session: Some("own"),
        ..shared
    };
    let answer = pool
        .passwords
        .verify(signed_in, nobody(), "horse".to_owned());
    assert!(!answer.await.unwrap());
    for one in looking {
        one.abort();
    }
}
