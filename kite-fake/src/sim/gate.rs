//! Where the requests of a participant wait until it is their turn.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tower::ServiceExt as _;

use crate::fault::{BoxError, Call, Uncounted};

tokio::task_local! {
    /// On whose behalf the present task runs.
    pub(super) static ERRAND: Errand;
}

/// On whose behalf a request is sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Errand {
    /// A list or watch of a cache. These never wait.
    Cache,
    /// The reconcile of this object.
    Reconcile(String),
    /// A task that a reconcile or the participant started.
    Other,
}

#[derive(Debug)]
struct Waiting {
    errand: Errand,
    call: Call,
    go: oneshot::Sender<()>,
}

/// What a request got.
#[derive(Debug)]
pub(super) struct Answered {
    /// The object whose reconcile sent it, if one did.
    pub(super) object: Option<String>,
    pub(super) call: Call,
    pub(super) is_refused: bool,
    /// The status code, or what was wrong with the connection.
    pub(super) result: String,
}

#[derive(Debug, Default)]
struct Desk {
    waiting: Vec<Waiting>,
    answered: Vec<Answered>,
}

/// The requests of one life of a participant.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(Arc<Mutex<Desk>>);

impl Requests {
    /// Those that wait, the same order whatever the order of their arrival:
    /// who sends them, and for each of those as they were sent.
    pub(super) fn waiting(&self) -> Vec<(Errand, Call)> {
        let mut desk = self.0.lock();
        // Nobody waits any more for what was dropped.
        desk.waiting.retain(|waiting| !waiting.go.is_closed());
        desk.waiting.sort_by(|a, b| a.errand.cmp(&b.errand));
        let all = desk.waiting.iter();
        all.map(|w| (w.errand.clone(), w.call.clone())).collect()
    }

    /// Lets the n-th of [`waiting`](Self::waiting) go.
    pub(super) fn release(&self, at: usize) -> Option<Call> {
        let mut desk = self.0.lock();
        if at >= desk.waiting.len() {
            return None;
        }
        let waiting = desk.waiting.remove(at);
        // It may have been dropped just now.
        let _ = waiting.go.send(());
        Some(waiting.call)
    }

    pub(super) fn answered(&self) -> Vec<Answered> {
        std::mem::take(&mut self.0.lock().answered)
    }
}

/// A service whose requests wait in [`Requests`].
#[derive(Clone, Debug)]
pub(super) struct Gate<S> {
    pub(super) inner: S,
    pub(super) requests: Requests,
    pub(super) participant: Arc<str>,
}

impl<S, RB> Gate<S>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<RB>, Error = BoxError> + Clone,
{
    async fn pass(self, request: Request<Bytes>) -> Result<Response<RB>, BoxError> {
        let errand = ERRAND.try_with(Clone::clone).unwrap_or(Errand::Other);
        let (mut parts, body) = request.into_parts();
        if errand == Errand::Cache {
            parts.extensions.insert(Uncounted);
            let request = Request::from_parts(parts, Full::new(body));
            return self.inner.oneshot(request).await;
        }
        let call = Call::of(&self.participant, &parts, &body);
        let object = match &errand {
            Errand::Reconcile(object) => Some(object.clone()),
            Errand::Cache | Errand::Other => None,
        };
        let (go, gone) = oneshot::channel();
        self.requests.0.lock().waiting.push(Waiting {
            errand,
            call: call.clone(),
            go,
        });
        if gone.await.is_err() {
            // This life is over.
            return std::future::pending().await;
        }
        let request = Request::from_parts(parts, Full::new(body));
        let answer = self.inner.oneshot(request).await;
        let (is_refused, result) = match &answer {
            Ok(response) => {
                let status = response.status();
                let is_refused = status.is_client_error() || status.is_server_error();
                (is_refused, status.as_u16().to_string())
            }
            Err(error) => (true, error.to_string()),
        };
        self.requests.0.lock().answered.push(Answered {
            object,
            call,
            is_refused,
            result,
        });
        answer
    }
}

impl<S, B, RB> tower::Service<Request<B>> for Gate<S>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<RB>, Error = BoxError>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    RB: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<RB>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<RB>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let gate = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            gate.pass(Request::from_parts(parts, body)).await
        })
    }
}
