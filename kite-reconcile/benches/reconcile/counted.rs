//! Counts what one client asks of the API server.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Instant,
};

use http::{Method, Request};
use kite_fake::FakeCluster;
use kube::{Client, client::Body};

/// How many requests there were, by verb and resource (`apply services`,
/// `apply kitevirtualmachines/status`).
pub type Counts = BTreeMap<(String, String), u64>;

#[derive(Default)]
struct State {
    counts: Counts,
    last_write: Option<Instant>,
}

/// The requests of one client so far.
#[derive(Clone, Default)]
pub struct Requests(Arc<Mutex<State>>);

impl Requests {
    /// A client in process of `cluster` whose requests are counted here.
    pub fn client(&self, cluster: &FakeCluster) -> Client {
        let requests = self.clone();
        let service = tower::ServiceBuilder::new()
            .map_request(move |request: Request<Body>| {
                requests.note(&request);
                request
            })
            .service(cluster.service());
        Client::new(service, "default")
    }

    fn note(&self, request: &Request<Body>) {
        let (verb, resource) = describe(request);
        let mut state = self.0.lock().unwrap();
        if !is_read(&verb) {
            state.last_write = Some(Instant::now());
        }
        *state.counts.entry((verb, resource)).or_default() += 1;
    }

    /// All of them.
    pub fn counts(&self) -> Counts {
        self.0.lock().unwrap().counts.clone()
    }

    /// Those since `before` was taken.
    pub fn since(&self, before: &Counts) -> Counts {
        let mut counts = self.counts();
        for (key, count) in &mut counts {
            *count -= before.get(key).copied().unwrap_or_default();
        }
        counts.retain(|_, count| *count > 0);
        counts
    }

    /// When something was last written.
    pub fn last_write(&self) -> Option<Instant> {
        self.0.lock().unwrap().last_write
    }
}

pub fn is_read(verb: &str) -> bool {
    matches!(verb, "get" | "list" | "watch")
}

pub fn total(counts: &Counts) -> u64 {
    counts.values().sum()
}

pub fn writes(counts: &Counts) -> u64 {
    let writes = counts.iter().filter(|((verb, _), _)| !is_read(verb));
    writes.map(|(_, count)| count).sum()
}

fn describe(request: &Request<Body>) -> (String, String) {
    let path: Vec<&str> = request.uri().path().split('/').skip(1).collect();
    let rest = match path.as_slice() {
        ["api", _version, rest @ ..] | ["apis", _, _version, rest @ ..] => rest,
        other => other,
    };
    let rest = match rest {
        ["namespaces", _, below @ ..] if !below.is_empty() => below,
        rest => rest,
    };
    let has_name = rest.len() > 1;
    let resource = match rest {
        [resource, _, subresource, ..] => format!("{resource}/{subresource}"),
        [resource, ..] => (*resource).to_owned(),
        [] => String::new(),
    };
    let query = request.uri().query().unwrap_or_default();
    let verb = match *request.method() {
        Method::GET if query.contains("watch=true") => "watch",
        Method::GET if has_name => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PATCH if query.contains("fieldManager") => "apply",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    };
    (verb.to_owned(), resource)
}
