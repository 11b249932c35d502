//! The server as a tower service: what `kube::Client::new` takes.

mod pipe;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http::{HeaderValue, Request, Response, header};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::auth::Identity;
use crate::cluster::FakeCluster;
pub use crate::extension::{Extension, ResponseBody};
use crate::server::{Answer, ApiServer, MAX_BODY, NotYet, Watch};
use crate::status::Status;

/// Time before the end of a watch at which a BOOKMARK tells where it got to.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// How long a request waits for a state from the future.
const FRESH: Duration = Duration::from_secs(3);
/// Time between BOOKMARKs.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// A tower service over a [`FakeCluster`]; clones share the cluster.
#[derive(Debug, Clone)]
pub struct FakeService {
    cluster: FakeCluster,
    /// Who sends requests without credentials.
    sender: Option<Identity>,
}

impl FakeCluster {
    /// A client with full rights, in process: what production code takes.
    /// Needs a running tokio runtime.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use kube::Api;
    ///
    /// let cluster = kite_fake::FakeCluster::builder().build()?;
    /// let namespaces: Api<Namespace> = Api::all(cluster.client());
    /// assert!(namespaces.get_opt("kube-system").await?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// A client in process for a user, such as `alice` or
    /// `system:serviceaccount:<namespace>:<name>`. Needs a running tokio runtime.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// use k8s_openapi::api::core::v1::Secret;
    /// use kube::{Api, api::ListParams};
    ///
    /// let cluster = kite_fake::FakeCluster::builder().rbac(true).build()?;
    /// let secrets: Api<Secret> = Api::default_namespaced(cluster.client_as("alice"));
    /// let refused = secrets.list(&ListParams::default()).await.unwrap_err().to_string();
    /// assert!(refused.contains("User \"alice\" cannot list resource \"secrets\""));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn client_as(&self, user: &str) -> kube::Client {
        kube::Client::new(self.service_as(user), "default")
    }

    /// The tower service behind [`client_as`](Self::client_as), to put layers around:
    /// requests without credentials are this user's.
    pub fn service_as(&self, user: &str) -> FakeService {
        FakeService::new(self.clone(), Some(Identity::user(user)))
    }

    /// A client in process for who plays the rest of a cluster, so that policies and
    /// the log tell them from people. Needs a running tokio runtime.
    pub fn control_plane_client(&self) -> kube::Client {
        let service = FakeService::new(self.clone(), Some(Identity::control_plane()));
        kube::Client::new(service, "default")
    }

    /// The tower service behind [`client`](Self::client), to put layers around:
    /// requests without credentials are the administrator's.
    pub fn service(&self) -> FakeService {
        FakeService::new(self.clone(), Some(Identity::admin()))
    }

    /// The service as a socket offers it. `kubectl` sends no credentials without
    /// TLS, so unless RBAC decides, requests without any are the administrator's;
    /// with RBAC they are nobody's.
    pub fn public_service(&self) -> FakeService {
        let unnamed = (!self.server().rbac).then(Identity::admin);
        FakeService::new(self.clone(), unnamed)
    }
}

impl FakeService {
    pub(crate) fn new(cluster: FakeCluster, sender: Option<Identity>) -> Self {
        Self { cluster, sender }
    }

    /// Answers one request.
    pub async fn answer<B>(self, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if pipe::is_needed(&request) {
            return pipe::ask(self, request).await;
        }
        let (mut parts, body) = request.into_parts();
        parts.extensions.remove::<Identity>();
        if let Some(sender) = &self.sender {
            parts.extensions.insert(sender.clone());
        }
        let bytes = match Limited::new(body, MAX_BODY).collect().await {
            Ok(all) => all.to_bytes(),
            Err(_) => {
                return whole(crate::server::status_response(&Status::new(
                    413,
                    "RequestEntityTooLarge",
                    format!("Request entity too large: limit is {MAX_BODY}"),
                )));
            }
        };
        // Only such a request may have to be asked twice.
        let again = parts
            .uri
            .query()
            .filter(|query| query.contains("resourceVersion="))
            .map(|_| Request::from_parts(parts.clone(), bytes.clone()));
        let mut answer = self.cluster.answer(Request::from_parts(parts, bytes)).await;
        if let (Answer::NotYet(wait), Some(request)) = (&mut answer, again)
            && comes(wait).await
        {
            answer = self.cluster.answer(request).await;
        }
        while let Answer::Ask(ask) = answer {
            let said = self.cluster.caller().call_all(ask.calls()).await;
            answer = self.cluster.answer_asked(*ask, said).await;
        }
        match answer {
            Answer::Response(response) => whole(response),
            Answer::Ask(_) => whole(crate::server::status_response(&Status::internal(
                "a request was left waiting for webhooks",
            ))),
            Answer::NotYet(wait) => {
                let late = self.cluster.server().give_up(*wait);
                whole(late)
            }
            Answer::Watch(watch) => follow(self.cluster, watch),
            Answer::Extension(extension, request) => extension.handle(*request).await,
        }
    }
}

/// Whether a state from the future comes in time.
async fn comes(wait: &mut NotYet) -> bool {
    let reached = wait.changes.wait_for(|now| *now >= wait.revision);
    matches!(tokio::time::timeout(FRESH, reached).await, Ok(Ok(_)))
}

fn whole(response: Response<Bytes>) -> Response<ResponseBody> {
    response.map(|bytes| Full::new(bytes).boxed_unsync())
}

/// A watch as a stream of events.
fn follow(cluster: FakeCluster, watch: Box<Watch>) -> Response<ResponseBody> {
    let start = Instant::now();
    let media = HeaderValue::from_static(watch.content_type());
    let state = Follow {
        deadline: start + watch.timeout,
        next_bookmark: next_bookmark(start, start + watch.timeout),
        cluster,
        watch: Some(watch),
        over: false,
    };
    let frames = stream::unfold(state, |mut state| async move {
        let bytes = state.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), state))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

fn next_bookmark(now: Instant, deadline: Instant) -> Instant {
    let last = deadline.checked_sub(LAST_BOOKMARK).unwrap_or(deadline);
    let next = now + BOOKMARK_EVERY;
    if now < last { next.min(last) } else { deadline }
}

struct Follow {
    cluster: FakeCluster,
    /// Not here while the server looks at it, nor after the watch is over.
    watch: Option<Box<Watch>>,
    deadline: Instant,
    next_bookmark: Instant,
    over: bool,
}

impl Follow {
    /// The next events, joined; `None` when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.over {
            self.watch.as_mut()?.changes.borrow_and_update();
            self.convert().await?;
            let lines = self.lend(ApiServer::poll).await??;
            if !lines.is_empty() {
                return Some(join(lines));
            }
            let stop = self.cluster.stopped().clone();
            let changes = &mut self.watch.as_mut()?.changes;
            tokio::select! {
                biased;
                () = stop.cancelled() => self.over = true,
                told = changes.changed() => self.over = told.is_err(),
                () = tokio::time::sleep_until(self.next_bookmark.min(self.deadline)) => {
                    let now = Instant::now();
                    if now >= self.deadline {
                        self.over = true;
                        break;
                    }
                    self.next_bookmark = next_bookmark(now, self.deadline);
                    let line = self.lend(ApiServer::bookmark).await?;
                    if line.is_some() {
                        return line;
                    }
                }
            }
        }
        None
    }

    /// Has webhooks convert what the watch is to tell of, where it takes any.
    async fn convert(&mut self) -> Option<()> {
        if !self.watch.as_ref()?.is_converted() {
            return Some(());
        }
        let look = |server: &ApiServer, watch: &mut Watch, _| server.unconverted(watch);
        if let Some(converting) = self.lend(look).await? {
            let call = std::slice::from_ref(converting.call());
            let said = self.cluster.caller().call_all(call).await;
            if let Some(said) = said.first() {
                self.watch.as_mut()?.take_converted(&converting, said);
            }
        }
        Some(())
    }

    /// Has the server look at the watch: it goes there and comes back.
    async fn lend<R: Send + 'static>(
        &mut self,
        look: fn(&ApiServer, &mut Watch, Timestamp) -> R,
    ) -> Option<R> {
        let (mut watch, now) = (self.watch.take()?, self.cluster.now());
        let looked = self.cluster.ask(move |server| {
            let seen = look(server, &mut watch, now);
            (watch, seen)
        });
        let (watch, seen) = looked.await.ok()?;
        self.watch = Some(watch);
        Some(seen)
    }
}

fn join(mut lines: Vec<Bytes>) -> Bytes {
    if lines.len() == 1 {
        return lines.remove(0);
    }
    let mut out = BytesMut::with_capacity(lines.iter().map(Bytes::len).sum());
    for line in &lines {
        out.extend_from_slice(line);
    }
    out.freeze()
}

impl<B> tower::Service<Request<B>> for FakeService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}
