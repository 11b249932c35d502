//! The layer and the service.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response, header};
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tokio::time::Instant;
use tower::ServiceExt as _;

use super::call::Call;
use super::mode::Fault;
use super::rival::{self, Deed};
use super::shared::{Injected, Participant};
use super::{BoxError, answers, watches};
use crate::protobuf;

/// Body of an answer.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Marks a request that is not counted and to which nothing happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uncounted;

/// Puts faults in front of a service, for one participant: see
/// [`Faults::layer`](super::Faults::layer).
#[derive(Clone, Debug)]
pub struct FaultLayer(pub(super) Arc<Participant>);

impl FaultLayer {
    /// Whether the participant crashed and has no new client yet.
    pub fn is_down(&self) -> bool {
        *self.0.down.borrow()
    }

    /// Waits until the participant crashes. Whoever runs it drops it then, and
    /// starts it anew with a new client.
    pub async fn crashed(&self) {
        let mut down = self.0.down.subscribe();
        // The sender lives as long as this.
        let _ = down.wait_for(|down| *down).await;
    }

    /// The participant is gone by order.
    pub(crate) fn kill(&self) {
        if !self.is_down() {
            self.0.crash(None);
        }
    }

    /// The participant is gone as `other` is, with which it shared a process.
    pub(crate) fn crash_with(&self, other: &Self) {
        if !self.is_down() {
            self.0.crash(other.0.past());
        }
    }

    /// Whether watch events are held back.
    pub fn is_holding(&self) -> bool {
        let hold = self.0.control.borrow().hold;
        hold.is_some_and(|hold| hold.lasts(Instant::now()))
    }

    /// Lets late watch events through.
    pub fn release(&self) {
        self.0.control.send_modify(|control| control.hold = None);
    }
}

impl<S> tower::Layer<S> for FaultLayer {
    type Service = FaultService<S>;

    fn layer(&self, inner: S) -> FaultService<S> {
        FaultService {
            inner,
            participant: Arc::clone(&self.0),
            life: self.0.new_client(),
        }
    }
}

/// A service behind a [`FaultLayer`]; clones share the participant's life.
#[derive(Clone, Debug)]
pub struct FaultService<S> {
    inner: S,
    participant: Arc<Participant>,
    life: u64,
}

/// Has a watch answered in JSON, whose events can be told apart and merged, where the
/// client takes that, too; the answer where it does not.
fn ask_for_json(parts: &mut Parts) -> Option<Response<Bytes>> {
    let accept = parts.headers.get(header::ACCEPT)?.to_str().ok()?;
    if !accept.contains(protobuf::MEDIA_TYPE) {
        return None;
    }
    let others = accept.split(',').map(str::trim);
    let others: Vec<&str> = others
        .filter(|clause| !clause.starts_with(protobuf::MEDIA_TYPE))
        .collect();
    if others.is_empty() {
        return Some(answers::not_streamable());
    }
    let others = HeaderValue::from_str(&others.join(", ")).ok()?;
    parts.headers.insert(header::ACCEPT, others);
    None
}

/// A participant that is gone never hears of anything again.
async fn never<T>() -> T {
    std::future::pending().await
}

impl<S, RB> FaultService<S>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<RB>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    RB: Body<Data = Bytes> + Send + 'static,
    RB::Error: Into<BoxError>,
{
    async fn answer(self, parts: Parts, body: Bytes) -> Result<Response<ResponseBody>, BoxError> {
        let participant = &self.participant;
        if participant.is_dead(self.life) {
            return never().await;
        }
        let call = Call::of(&participant.name, &parts, &body);
        let is_counted = parts.extensions.get::<Uncounted>().is_none() && call.verb != "watch";
        let (number, fault) = if is_counted {
            participant.faults.decide(&call)
        } else {
            (0, None)
        };
        let answer = match fault {
            None => self.forward(&call, parts, body).await,
            Some(fault) => self.inject(number, fault, &call, parts, body).await,
        };
        if participant.is_dead(self.life) {
            return never().await;
        }
        answer
    }

    /// Sends the request on.
    async fn forward(
        &self,
        call: &Call,
        mut parts: Parts,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, BoxError> {
        if call.verb == "list" {
            self.look_back(call, &mut parts);
        }
        if call.verb == "watch"
            && let Some(refused) = ask_for_json(&mut parts)
        {
            return Ok(refused.map(|body| Full::new(body).map_err(Into::into).boxed_unsync()));
        }
        let starts_with_state = has_pair(&parts, "sendInitialEvents", "true");
        let request = Request::from_parts(parts, Full::new(body));
        let response = self.inner.clone().oneshot(request).await;
        let response = response.map_err(Into::into)?;
        let is_stream = call.verb == "watch" && response.status().is_success();
        let response = response.map(|body| body.map_err(Into::into).boxed_unsync());
        if !is_stream {
            return Ok(response);
        }
        let participant = Arc::clone(&self.participant);
        let life = self.life;
        Ok(response.map(|body| watches::filter(body, participant, life, starts_with_state)))
    }

    /// Has a list from the watch cache show the past, if it is to.
    fn look_back(&self, call: &Call, parts: &mut Parts) {
        if !has_pair(parts, "resourceVersion", "0") {
            return;
        }
        let Some(revision) = self.participant.stale_view(call) else {
            return;
        };
        let query = parts.uri.query().unwrap_or_default();
        let kept = query.split('&').filter(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            !["resourceVersion", "resourceVersionMatch", "limit", ""].contains(&name)
        });
        let mut pairs: Vec<String> = kept.map(str::to_owned).collect();
        pairs.push(format!("resourceVersion={revision}"));
        pairs.push("resourceVersionMatch=Exact".to_owned());
        let uri = format!("{}?{}", parts.uri.path(), pairs.join("&"));
        if let Ok(uri) = uri.parse() {
            parts.uri = uri;
        }
    }

    async fn inject(
        &self,
        number: u64,
        fault: Fault,
        call: &Call,
        parts: Parts,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let participant = &self.participant;
        let record = |mode, until| {
            participant.faults.record(Injected {
                number,
                request: call.clone(),
                mode,
                until,
            });
        };
        if let Some(deed) = Deed::of(fault) {
            // A rival that finds nothing to do leaves no trace.
            if !participant.faults.is_spared(call, deed) {
                let mut held = None;
                let first = || {
                    if fault == Fault::HiddenRecreate {
                        held = Some(participant.hold(true, true));
                    }
                };
                let done = rival::act(&self.inner, call, deed, number, &parts.headers, first).await;
                if let Some(done) = done {
                    let until = rival::revision(&self.inner, call, &parts.headers).await;
                    let did = if done == deed {
                        fault
                    } else {
                        Fault::RivalDeletes
                    };
                    record(did, until);
                }
                // Only a recreation is hidden.
                if let Some(held) = held.filter(|_| done != Some(deed)) {
                    participant.take_back(&held);
                }
            }
            return self.forward(call, parts, body).await;
        }
        let (fault, past) = match fault {
            // Without a past to show it is a crash as any other.
            Fault::StaleRestart => match rival::revision(&self.inner, call, &parts.headers).await {
                None => (Fault::CrashAfterCommit, None),
                past => (fault, past),
            },
            _ => (fault, None),
        };
        record(fault, None);
        match fault {
            Fault::CrashBeforeSend => {
                participant.crash(None);
                never().await
            }
            Fault::CrashAfterCommit | Fault::StaleRestart => {
                self.commit(call, parts, body).await;
                participant.crash(past);
                never().await
            }
            Fault::ResetBeforeSend => Err(answers::reset()),
            Fault::ResetAfterCommit => {
                self.commit(call, parts, body).await;
                Err(answers::reset())
            }
            Fault::Timeout => {
                self.commit(call, parts, body).await;
                Ok(whole(answers::timeout()))
            }
            Fault::Conflict => Ok(whole(answers::conflict(call))),
            Fault::TooManyRequests => Ok(whole(answers::too_many_requests())),
            Fault::ServerError => Ok(whole(answers::server_error())),
            Fault::WatchEnds => {
                participant.control.send_modify(|c| c.ends += 1);
                self.forward(call, parts, body).await
            }
            Fault::WatchExpires => {
                participant.control.send_modify(|c| c.expires += 1);
                self.forward(call, parts, body).await
            }
            Fault::WatchLags => {
                participant.hold(false, false);
                self.forward(call, parts, body).await
            }
            Fault::Coalesced => {
                participant.hold(true, false);
                self.forward(call, parts, body).await
            }
            Fault::RivalEdits
            | Fault::RivalDeletes
            | Fault::RivalRecreates
            | Fault::HiddenRecreate => self.forward(call, parts, body).await,
        }
    }

    /// Has the request carried out; nobody hears what came of it.
    async fn commit(&self, call: &Call, parts: Parts, body: Bytes) {
        if let Ok(answer) = self.forward(call, parts, body).await {
            tracing::debug!(code = answer.status().as_u16(), %call, "answer lost");
        }
    }
}

fn whole(response: Response<Bytes>) -> Response<ResponseBody> {
    response.map(|bytes| {
        Full::new(bytes)
            .map_err(|never| match never {})
            .boxed_unsync()
    })
}

fn has_pair(parts: &Parts, name: &str, value: &str) -> bool {
    let query = crate::rest::query::Query::parse(parts.uri.query().unwrap_or_default());
    query.text(name) == value
}

impl<S, B, RB> tower::Service<Request<B>> for FaultService<S>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<RB>>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    RB: Body<Data = Bytes> + Send + 'static,
    RB::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each request waits for the inner service by itself.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            service.answer(parts, body).await
        })
    }
}
