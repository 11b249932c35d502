//! Webhooks that answer in the same process.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use bytes::Bytes;
use http::{Request, header};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use tower::{Service, ServiceExt as _};

use super::call::{HookCall, Replied, Said};

/// A call on its way.
pub(super) type Calling = Pin<Box<dyn Future<Output = Said> + Send>>;

/// Who answers calls without a connection.
pub(super) trait Local: Send + Sync + fmt::Debug {
    fn call(&self, call: &HookCall) -> Calling;
}

/// A tower service as one.
pub(super) struct Answering<S, B>(S, PhantomData<fn() -> B>);

impl<S, B> Answering<S, B> {
    pub(super) fn new(service: S) -> Self {
        Self(service, PhantomData)
    }
}

impl<S, B> fmt::Debug for Answering<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").finish_non_exhaustive()
    }
}

impl<S, B> Local for Answering<S, B>
where
    S: Service<Request<Full<Bytes>>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Error: fmt::Display + Send,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: fmt::Display + Send,
{
    fn call(&self, call: &HookCall) -> Calling {
        let service = self.0.clone();
        let request = request(call);
        Box::pin(async move {
            let request = request?;
            let response = service.oneshot(request).await.map_err(|e| e.to_string())?;
            replied(response).await
        })
    }
}

/// A call as a request.
pub(super) fn request(call: &HookCall) -> Result<Request<Full<Bytes>>, String> {
    Request::post(call.target())
        .header(header::HOST, &call.place.authority)
        .header(header::ACCEPT, "application/json, */*")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(call.body.clone()))
        .map_err(|error| error.to_string())
}

/// A response, once all of it is here.
pub(super) async fn replied<B>(response: http::Response<B>) -> Said
where
    B: Body,
    B::Error: fmt::Display,
{
    let (parts, body) = response.into_parts();
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let body = body.collect().await.map_err(|error| error.to_string())?;
    Ok(Replied {
        code: parts.status.as_u16(),
        content_type: content_type.unwrap_or_default().to_owned(),
        body: body.to_bytes(),
    })
}
