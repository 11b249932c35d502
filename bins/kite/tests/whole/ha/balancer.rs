//! What stands before replicas, as a Service does: each connection goes to the next
//! replica that is ready. Who was sent to one that is gone is hung up on.

use std::{
    collections::HashMap,
    io::{Read as _, Write as _},
    net::SocketAddr,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Handle,
};
use tokio_util::sync::CancellationToken;

/// How often it asks whether replicas are ready: about what it takes in a cluster until
/// everybody knows that a Pod has ended or is about to.
pub const LOOK: Duration = Duration::from_secs(1);

/// One place for a replica.
#[derive(Clone)]
struct Place {
    address: SocketAddr,
    /// Where to ask whether it is ready; without one it always is.
    admin: Option<String>,
    is_ready: bool,
    is_withdrawn: bool,
}

#[derive(Default)]
struct State {
    places: Vec<Place>,
    next: usize,
    /// To which replica the connection of a client goes.
    taken: HashMap<SocketAddr, usize>,
    is_away: bool,
    cut: CancellationToken,
}

/// A balancer; clones are the same one.
#[derive(Clone)]
pub struct Balancer {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Balancer {
    /// One without replicas.
    pub fn start(runtime: &Handle) -> Self {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let balancer = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
        };
        runtime.spawn(balancer.clone().accept(listener));
        let looking = Arc::downgrade(&balancer.state);
        thread::spawn(move || {
            while let Some(state) = looking.upgrade() {
                look(&state);
                drop(state);
                thread::sleep(LOOK);
            }
        });
        balancer
    }

    /// Puts a replica into the place `index`.
    pub fn put(&self, index: usize, address: SocketAddr, admin: Option<String>) {
        let place = Place {
            address,
            admin,
            is_ready: true,
            is_withdrawn: false,
        };
        let mut state = self.state.lock().unwrap();
        if index < state.places.len() {
            state.places[index] = place;
        } else {
            state.places.push(place);
        }
    }

    /// Sends nobody to a replica any more, though it is ready: it is about to end.
    pub fn withdraw(&self, index: usize) {
        let mut state = self.state.lock().unwrap();
        let place = &mut state.places[index];
        (place.is_ready, place.is_withdrawn) = (false, true);
    }

    /// To which replica the connection goes that comes from `client`.
    pub fn taken_by(&self, client: SocketAddr) -> Option<usize> {
        self.state.lock().unwrap().taken.get(&client).copied()
    }

    /// How many replicas are ready.
    pub fn ready(&self) -> usize {
        let state = self.state.lock().unwrap();
        state.places.iter().filter(|it| it.is_ready).count()
    }

    /// Cuts everything, and takes nothing any more.
    pub fn go_away(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_away = true;
        std::mem::take(&mut state.cut).cancel();
    }

    /// Takes connections again.
    pub fn come_back(&self) {
        self.state.lock().unwrap().is_away = false;
    }

    async fn accept(self, listener: TcpListener) {
        loop {
            let Ok((stream, client)) = listener.accept().await else {
                continue;
            };
            let chosen = self.choose(client);
            if let Some((index, address, cut)) = chosen {
                tokio::spawn(self.clone().carry(stream, client, index, address, cut));
            }
        }
    }

    fn choose(&self, client: SocketAddr) -> Option<(usize, SocketAddr, CancellationToken)> {
        let mut state = self.state.lock().unwrap();
        if state.is_away {
            return None;
        }
        let count = state.places.len();
        let first = state.next;
        let index = (first..first + count)
            .map(|it| it % count)
            .find(|it| state.places[*it].is_ready)?;
        state.next = index + 1;
        state.taken.insert(client, index);
        Some((index, state.places[index].address, state.cut.clone()))
    }

    async fn carry(
        self,
        mut stream: TcpStream,
        client: SocketAddr,
        index: usize,
        address: SocketAddr,
        cut: CancellationToken,
    ) {
        let _ = stream.set_nodelay(true);
        if let Ok(mut replica) = TcpStream::connect(address).await {
            let _ = replica.set_nodelay(true);
            tokio::select! {
                _ = copy_bidirectional(&mut stream, &mut replica) => {}
                () = cut.cancelled() => {}
            }
        } else {
            let mut state = self.state.lock().unwrap();
            let place = &mut state.places[index];
            if place.address == address {
                place.is_ready = false;
            }
        }
        self.state.lock().unwrap().taken.remove(&client);
    }
}

fn look(state: &Mutex<State>) {
    let places = state.lock().unwrap().places.clone();
    for (index, place) in places.iter().enumerate() {
        let Some(admin) = &place.admin else { continue };
        let is_ready = get(admin, "/readyz").is_some_and(|(status, _)| status == 200);
        let mut state = state.lock().unwrap();
        let now = &mut state.places[index];
        if now.address == place.address {
            now.is_ready = is_ready && !now.is_withdrawn;
        }
    }
}

/// A page of an admin port: status and text. None if nobody answers.
pub fn get(admin: &str, path: &str) -> Option<(u16, String)> {
    let address: SocketAddr = admin.parse().ok()?;
    let patience = Duration::from_secs(3);
    let mut stream = std::net::TcpStream::connect_timeout(&address, patience).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer))
}
