//! Requests for another protocol that come without a connection.
//!
//! A client in process calls the server as a function, and there is nothing that
//! could be upgraded to a WebSocket. So such a request gets a connection of its
//! own: HTTP over a pipe in memory. The client sees what it would see of a
//! socket.

use bytes::Bytes;
use http::{Request, Response, header};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;

use super::{FakeService, ResponseBody};
use crate::status::Status;

/// Bytes on their way, each way.
const PIPE: usize = 64 * 1024;

/// Whether a request asks for an upgrade and has no connection to be upgraded.
pub(super) fn is_needed<B>(request: &Request<B>) -> bool {
    request.headers().contains_key(header::UPGRADE)
        && request.extensions().get::<OnUpgrade>().is_none()
}

/// Asks `service` over a pipe.
pub(super) async fn ask<B>(service: FakeService, request: Request<B>) -> Response<ResponseBody>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match over_pipe(service, request).await {
        Ok(response) => response,
        Err(error) => {
            let status = Status::internal(format!("a pipe in memory failed: {error}"));
            crate::server::status_response(&status).map(whole)
        }
    }
}

fn whole(bytes: Bytes) -> ResponseBody {
    Full::new(bytes).boxed_unsync()
}

async fn over_pipe<B>(
    service: FakeService,
    request: Request<B>,
) -> Result<Response<ResponseBody>, Box<dyn std::error::Error + Send + Sync>>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (ours, theirs) = tokio::io::duplex(PIPE);
    tokio::spawn(async move {
        let serving = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(theirs), TowerToHyperService::new(service))
            .with_upgrades();
        if let Err(error) = serving.await {
            tracing::debug!(%error, "a pipe ended");
        }
    });
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(ours)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a pipe ended");
        }
    });
    let (mut parts, body) = request.into_parts();
    if !parts.headers.contains_key(header::HOST) {
        let host = header::HeaderValue::from_static("kubernetes.default.svc");
        parts.headers.insert(header::HOST, host);
    }
    // A server takes the path alone, as nobody here is a proxy.
    let path = parts.uri.path_and_query().cloned();
    parts.uri = path.map_or_else(|| "/".parse(), |path| path.as_str().parse())?;
    let body = body.collect().await.map_err(Into::into)?.to_bytes();
    let request = Request::from_parts(parts, Full::<Bytes>::new(body));
    let mut response = sender.send_request(request).await?;
    let upgrade = response.extensions_mut().remove::<OnUpgrade>();
    let (mut parts, body) = response.into_parts();
    if let Some(upgrade) = upgrade {
        parts.extensions.insert(upgrade);
        return Ok(Response::from_parts(parts, whole(Bytes::new())));
    }
    let body = body.collect().await?.to_bytes();
    Ok(Response::from_parts(parts, whole(body)))
}
