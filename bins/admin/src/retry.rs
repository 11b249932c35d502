//! Requests that are tried again while what keeps them from an answer passes: an API
//! server has just been told of a kind, restarts, or has too much to do.
//!
//! All commands go through one such client. A request is repeated if it was surely not
//! carried out, or if it does no harm twice: reads, applies, deletions of one object (by
//! its uid). Of others nobody knows what came of them when an answer is lost: who sends
//! one looks, as `create` does.

use std::{
    fmt, io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header, request::Parts};
use kube::{Api, Client, ResourceExt as _, api::PostParams, client::Body, core::Status};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::causes::causes;

/// How long a request is tried.
const LONGEST: Duration = Duration::from_secs(60);
/// How long an API server is looked for that has not answered once: a wrong address, or
/// a cluster that is off, does not come by waiting.
const FIRST_CONTACT: Duration = Duration::from_secs(10);
/// After how long people are told why nothing happens, and how often.
const TOLD_AFTER: Duration = Duration::from_secs(3);
const TOLD_EVERY: Duration = Duration::from_secs(15);
/// Longest pause that is taken at the API server's word.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How often a creation is tried of which nobody knows what came.
const CREATIONS: usize = 3;

/// What people are told while a request is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What the API server said, or why it said nothing.
    pub why: String,
    /// How long it is tried for at most.
    pub left: Duration,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (why, seconds) = (self.why.trim(), self.left.as_secs().max(1));
        write!(f, "{why}: trying again for {seconds} s at most")
    }
}

/// A client over `client`, which must not repeat anything itself. Tells why it waits if
/// that takes some seconds.
pub fn retrying(client: Client, told: impl Fn(&Notice) + Send + Sync + 'static) -> Client {
    let namespace = client.default_namespace().to_owned();
    let shared = Arc::new(Shared {
        client,
        told: Box::new(told),
        told_at: Mutex::new(None),
        has_answered: AtomicBool::new(false),
        silent_since: Mutex::new(None),
    });
    let service = tower::service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { shared.send(request).await }
    });
    Client::new(service, namespace)
}

/// What all requests of a client have in common.
struct Shared {
    client: Client,
    told: Box<dyn Fn(&Notice) + Send + Sync>,
    told_at: Mutex<Option<Instant>>,
    has_answered: AtomicBool,
    /// Since when there has been no answer at all.
    silent_since: Mutex<Option<Instant>>,
}

impl Shared {
    async fn send(&self, request: Request<Body>) -> kube::Result<Response<Body>> {
        if is_stream(&request) {
            return self.client.send(request).await;
        }
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let is_harmless = is_harmless(&parts, &body);
        let started = Instant::now();
        let mut pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(200))
            .with_max_delay(Duration::from_secs(5))
            .with_jitter()
            .without_max_times()
            .build();
        loop {
            let request = Request::from_parts(parts.clone(), Body::from(body.clone()));
            let answer = self.once(request).await;
            let since = self.note(&answer, started);
            let Some(trouble) = Trouble::of(&answer) else {
                return give(answer);
            };
            let left = self.longest(&answer).saturating_sub(since.elapsed());
            let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
            let pause = trouble.pause.unwrap_or(pause).min(LONGEST_PAUSE);
            if pause > left || !(trouble.is_undone || is_harmless) {
                return give(answer);
            }
            if started.elapsed() + pause >= TOLD_AFTER {
                self.tell(trouble.why, left);
            }
            sleep(pause).await;
        }
    }

    /// Sends it, and reads the answer to its end: that may break off, too.
    async fn once(&self, request: Request<Body>) -> kube::Result<Response<Bytes>> {
        let response = self.client.send(request).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect_bytes().await?;
        Ok(Response::from_parts(parts, body))
    }

    /// Since when what was just seen has been so.
    fn note(&self, answer: &kube::Result<Response<Bytes>>, started: Instant) -> Instant {
        let Ok(mut silent) = self.silent_since.lock() else {
            return started;
        };
        if answer.is_ok() {
            self.has_answered.store(true, Ordering::Relaxed);
            *silent = None;
            return started;
        }
        // Who comes later does not wait anew.
        *silent.get_or_insert(started)
    }

    fn longest(&self, answer: &kube::Result<Response<Bytes>>) -> Duration {
        if answer.is_ok() || self.has_answered.load(Ordering::Relaxed) {
            LONGEST
        } else {
            FIRST_CONTACT
        }
    }

    fn tell(&self, why: String, left: Duration) {
        let Ok(mut told_at) = self.told_at.lock() else {
            return;
        };
        if told_at.is_none_or(|at| at.elapsed() >= TOLD_EVERY) {
            *told_at = Some(Instant::now());
            (self.told)(&Notice { why, left });
        }
    }
}

fn give(answer: kube::Result<Response<Bytes>>) -> kube::Result<Response<Body>> {
    answer.map(|response| response.map(Body::from))
}

/// Whether the answer has no end of its own: a watch, a log that is followed, or a
/// connection that becomes another.
fn is_stream(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let has = |pair: &str| query.split('&').any(|it| it == pair);
    has("watch=true") || has("follow=true") || request.headers().contains_key(header::UPGRADE)
}

/// Whether a request does nothing more if it is carried out twice.
fn is_harmless(parts: &Parts, body: &[u8]) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    if query.split('&').any(|it| it == "dryRun=All") {
        return true;
    }
    let body = || serde_json::from_slice::<Value>(body).unwrap_or_default();
    if parts.method == Method::GET || parts.method == Method::HEAD {
        return true;
    }
    if parts.method == Method::DELETE {
        let body = body();
        return body["preconditions"]["uid"].is_string() || !body["dryRun"].is_null();
    }
    if parts.method == Method::PATCH {
        // With the version that it rests on it would be refused the second time.
        let content = parts.headers.get(header::CONTENT_TYPE);
        let content = content.and_then(|it| it.to_str().ok()).unwrap_or_default();
        let is_merged = content.starts_with("application/apply-patch")
            || content.starts_with("application/merge-patch");
        return is_merged && body()["metadata"]["resourceVersion"].is_null();
    }
    // A question that is asked by creating it.
    parts.method == Method::POST && parts.uri.path().ends_with("reviews")
}

/// Why there is no answer, if that may pass.
struct Trouble {
    why: String,
    /// It was surely not carried out.
    is_undone: bool,
    /// How long the API server says to wait.
    pause: Option<Duration>,
}

impl Trouble {
    fn of(answer: &kube::Result<Response<Bytes>>) -> Option<Self> {
        let response = match answer {
            Ok(response) => response,
            Err(error) => {
                return is_passing(error).then(|| Self {
                    why: format!("the API server does not answer ({})", causes(error)),
                    is_undone: is_unsent(error),
                    pause: None,
                });
            }
        };
        let status = response.status();
        if !is_passing_status(status) {
            return None;
        }
        let body = response.body();
        let said = serde_json::from_slice::<Status>(body).map(|it| it.message);
        let said = said.unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned());
        let seconds = response.headers().get(header::RETRY_AFTER);
        let seconds = seconds.and_then(|it| it.to_str().ok()?.parse().ok());
        let said: String = said.trim().chars().take(300).collect();
        Some(Self {
            why: format!("the API server says {}: {said}", status.as_u16()),
            is_undone: status == StatusCode::TOO_MANY_REQUESTS,
            pause: seconds.map(Duration::from_secs),
        })
    }
}

fn is_passing_status(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || (status.is_server_error()
            && status != StatusCode::NOT_IMPLEMENTED
            && status != StatusCode::HTTP_VERSION_NOT_SUPPORTED)
}

/// The errors that led to an error, itself first.
fn chain<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// Whether a connection failed as it does when a server restarts, and not because of a
/// wrong name, certificate or credentials.
fn is_passing(error: &kube::Error) -> bool {
    chain(error).any(|cause| {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return matches!(
                error.kind(),
                io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::NotConnected
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::TimedOut
                    | io::ErrorKind::HostUnreachable
                    | io::ErrorKind::NetworkUnreachable
            ) || is_passing_of_names(error);
        }
        cause
            .downcast_ref::<hyper::Error>()
            .is_some_and(|it| it.is_incomplete_message() || it.is_closed() || it.is_canceled())
    })
}

/// Whether whoever is asked for names is not to be had for now, which has no kind of its own:
/// it is known by the words of glibc and of musl. That there is no such name is another error.
fn is_passing_of_names(error: &io::Error) -> bool {
    let said = error.to_string();
    said.starts_with("failed to lookup address information")
        && (said.ends_with("Temporary failure in name resolution") || said.ends_with("Try again"))
}

/// Whether there was no connection for it to be sent on.
fn is_unsent(error: &kube::Error) -> bool {
    chain(error).any(|cause| {
        let client = cause.downcast_ref::<hyper_util::client::legacy::Error>();
        client.is_some_and(hyper_util::client::legacy::Error::is_connect)
    })
}

/// Whether nobody knows what came of a request.
pub(crate) fn is_in_doubt(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            StatusCode::from_u16(status.code).is_ok_and(|code| code.is_server_error())
        }
        error => is_passing(error) && !is_unsent(error),
    }
}

/// Creates an object under its name, and gives what is there then. Where an answer is
/// lost it looks whether the object is there; of a name that nobody else gives it is this
/// one. Where it was there before, the error says so (409).
pub(crate) async fn create<K>(api: &Api<K>, object: &K) -> kube::Result<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + fmt::Debug + Serialize + DeserializeOwned,
{
    let mut tries = 0;
    let mut is_lost = false;
    loop {
        tries += 1;
        let error = match api.create(&PostParams::default(), object).await {
            Ok(created) => return Ok(created),
            Err(error) => error,
        };
        // What was lost has come through after all.
        let has_come = is_lost && matches!(&error, kube::Error::Api(it) if it.code == 409);
        if !has_come && !is_in_doubt(&error) {
            return Err(error);
        }
        is_lost = true;
        if let Some(there) = api.get_opt(&object.name_any()).await? {
            return Ok(there);
        }
        if tries == CREATIONS {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_asked_for_now_passes_and_a_wrong_one_does_not() {
        for (said, passes) in [
            ("Temporary failure in name resolution", true),
            ("Try again", true),
            ("Name or service not known", false),
            ("Name does not resolve", false),
        ] {
            let said = format!("failed to lookup address information: {said}");
            let error = kube::Error::Service(Box::new(io::Error::other(said.clone())));
            assert_eq!(is_passing(&error), passes, "{said}");
        }
    }
}
