//! [`Extension`]: what answers some paths in place of the server.

use std::convert::Infallible;
use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;

/// Body of an answer: whole, or a stream of watch events.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// Answers the paths below a prefix in place of the server, as an aggregated
/// API server does: see [`FakeCluster::extend`](crate::FakeCluster::extend). The request's extensions hold
/// the caller's [`Identity`](crate::auth::Identity), and what an upgrade needs.
#[async_trait]
pub trait Extension: Send + Sync + fmt::Debug + 'static {
    /// Answers one request.
    async fn handle(&self, request: Request<Bytes>) -> Response<ResponseBody>;
}
