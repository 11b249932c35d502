//! Which connections keep their places when places run out.
//!
//! A connection that says little costs its sender nothing. So a quarter of all places is
//! for those that have shown whose they are, by a session or a token, and another quarter
//! for those that have not: these are strangers. Where one comes for whom there is no
//! place left, the stranger goes who has been there for longest. So whoever comes is
//! served at once, and has the time in which all strangers' places are taken anew to show
//! who they are; who only holds a place loses it.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Connections by their numbers, which are given in the order in which they came.
#[derive(Debug, Default)]
struct Seats {
    next: u64,
    /// With what asks each to go.
    strangers: BTreeMap<u64, CancellationToken>,
    known: HashSet<u64>,
}

/// The connections of a server.
pub(crate) struct Guests {
    seats: Arc<Mutex<Seats>>,
    all: usize,
    /// Most strangers, and most that are known.
    most: usize,
}

/// A connection, until this is dropped.
pub(crate) struct Guest {
    pass: Pass,
    leave: CancellationToken,
}

/// By which a connection keeps its place. It is in the extensions of each request.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    seats: Arc<Mutex<Seats>>,
    number: u64,
    most: usize,
}

impl Guests {
    /// At most so many at a time. Where none shows whose it is, all places are for
    /// strangers.
    pub(crate) fn new(all: usize, some_are_known: bool) -> Self {
        let kept = if some_are_known { all / 4 } else { 0 };
        Self {
            seats: Arc::default(),
            all,
            most: all - kept,
        }
    }

    /// One more has come. Where that is one too many, another has been asked to go.
    pub(crate) fn come(&self) -> Guest {
        let leave = CancellationToken::new();
        let mut seats = self.seats.lock();
        let all = seats.strangers.len() + seats.known.len();
        let is_full = all >= self.all || seats.strangers.len() >= self.most;
        if is_full && let Some((_, oldest)) = seats.strangers.pop_first() {
            oldest.cancel();
        }
        let number = seats.next;
        seats.next += 1;
        seats.strangers.insert(number, leave.clone());
        drop(seats);
        let pass = Pass {
            seats: Arc::clone(&self.seats),
            number,
            most: self.most,
        };
        Guest { pass, leave }
    }
}

impl Guest {
    /// What goes with its requests.
    pub(crate) fn pass(&self) -> Pass {
        self.pass.clone()
    }

    /// Waits until it is to make room for another.
    pub(crate) async fn is_to_go(&self) {
        self.leave.cancelled().await;
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut seats = self.pass.seats.lock();
        seats.strangers.remove(&self.pass.number);
        seats.known.remove(&self.pass.number);
    }
}

impl Pass {
    /// The connection has shown whose it is: it stays, unless too many have. It is asked
    /// again with its next request then.
    pub(crate) fn show(&self) {
        let mut seats = self.seats.lock();
        if seats.known.len() < self.most && seats.strangers.remove(&self.number).is_some() {
            seats.known.insert(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::{
        Extension, Router,
        http::{Extensions, StatusCode},
        response::IntoResponse,
        routing::get,
    };
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::{Serving, serve_and_drain};

    fn is_asked_to_go(guest: &Guest) -> bool {
        guest.leave.is_cancelled()
    }

    #[test]
    fn the_oldest_stranger_goes_and_who_is_known_stays() {
        let guests = Guests::new(8, true);
        let mut all: Vec<_> = (0..6).map(|_| guests.come()).collect();
        assert!(!all.iter().any(is_asked_to_go));
        all[0].pass().show();
        all.push(guests.come());
        assert!(!all.iter().any(is_asked_to_go), "there is a place left");
        all.push(guests.come());
        let gone: Vec<_> = all.iter().map(is_asked_to_go).collect();
        assert_eq!(gone.iter().position(|gone| *gone), Some(1), "{gone:?}");
        // Too late.
        all[1].pass().show();
        for _ in 0..20 {
            all.push(guests.come());
        }
        let stay = all.iter().filter(|guest| !is_asked_to_go(guest)).count();
        assert_eq!(stay, 1 + 6);
        assert!(!is_asked_to_go(&all[0]));
    }

    #[test]
    fn who_is_known_leaves_places_for_strangers() {
        let guests = Guests::new(8, true);
        let mut all: Vec<_> = (0..8).map(|_| guests.come()).collect();
        all.retain(|guest| !is_asked_to_go(guest));
        for _ in 0..20 {
            for guest in &all {
                guest.pass().show();
            }
            all.push(guests.come());
            all.retain(|guest| !is_asked_to_go(guest));
            assert!(all.len() <= 8, "{}", all.len());
        }
        let seats = guests.seats.lock();
        assert_eq!((seats.known.len(), seats.strangers.len()), (6, 2));
        drop(seats);
        drop(all);
        let seats = guests.seats.lock();
        assert!(seats.known.is_empty() && seats.strangers.is_empty());
    }

    /// Marks answers to who is known.
    #[derive(Clone)]
    struct Known;

    fn is_known(answer: &Extensions) -> bool {
        answer.get::<Known>().is_some()
    }

    async fn serve(connections: usize) -> (SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let known = get(async || (StatusCode::OK, Extension(Known), "here").into_response());
        let router = Router::new()
            .route("/", get(async || "here"))
            .route("/known", known);
        tokio::spawn(serve_and_drain(
            listener,
            router,
            Serving::default()
                .connections(connections)
                .known_by(is_known),
            stop.clone(),
            std::future::ready(()),
        ));
        (address, stop)
    }

    /// Whether a connection is answered once more.
    async fn is_answered(client: &mut TcpStream, path: &str) -> bool {
        let asked = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        if client.write_all(asked.as_bytes()).await.is_err() {
            return false;
        }
        let mut answer = Vec::new();
        while !answer.ends_with(b"here") {
            if client.read_buf(&mut answer).await.unwrap_or(0) == 0 {
                return false;
            }
        }
        true
    }

    #[tokio::test]
    async fn strangers_who_hold_all_places_keep_nobody_out() {
        let (address, stop) = serve(8).await;
        let come = async |path: &str| {
            let mut client = TcpStream::connect(address).await.unwrap();
            assert!(is_answered(&mut client, path).await, "{path}");
            client
        };
        let mut strangers = Vec::new();
        for _ in 0..20 {
            strangers.push(come("/").await);
        }
        let mut known = come("/known").await;
        for _ in 0..20 {
            strangers.push(come("/").await);
            assert!(is_answered(&mut known, "/").await, "it was cut off");
        }
        // The newest are still there.
        for stranger in strangers.iter_mut().rev().take(6) {
            assert!(is_answered(stranger, "/").await);
        }
        // The others go as soon as they have heard of it.
        for stranger in strangers.iter_mut().rev().skip(6) {
            while is_answered(stranger, "/").await {}
        }
        stop.cancel();
    }
}
