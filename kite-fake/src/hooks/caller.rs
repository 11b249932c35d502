//! Who makes the calls of one cluster.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use tower::Service;

use super::call::{HookCall, Said};
use super::local::{Answering, Local};

/// Knows who answers in the same process.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    locals: parking_lot::RwLock<Vec<(String, Arc<dyn Local>)>>,
}

impl Caller {
    /// What comes of calls that are made at once, in their order.
    pub(crate) async fn call_all(&self, calls: &[HookCall]) -> Vec<Said> {
        join_all(calls.iter().map(|call| self.call(call))).await
    }

    async fn call(&self, call: &HookCall) -> Said {
        let local = self.local(&with_port(&call.place.authority));
        let calling = async {
            match local {
                Some(local) => local.call(call).await,
                None => remote(call).await,
            }
        };
        match tokio::time::timeout(call.timeout, calling).await {
            Ok(said) => said,
            Err(_) => Err("context deadline exceeded".to_owned()),
        }
    }

    fn local(&self, authority: &str) -> Option<Arc<dyn Local>> {
        let locals = self.locals.read();
        let found = locals.iter().find(|(at, _)| at == authority);
        found.map(|(_, local)| Arc::clone(local))
    }

    /// Lets `service` answer the calls to `host`.
    pub(crate) fn answer_by<S, B>(&self, host: &str, service: S)
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: fmt::Display + Send,
        S::Future: Send,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: fmt::Display + Send,
    {
        let authority = with_port(host);
        let local: Arc<dyn Local> = Arc::new(Answering::new(service));
        let mut locals = self.locals.write();
        locals.retain(|(at, _)| *at != authority);
        locals.push((authority, local));
    }
}

#[cfg(feature = "webhooks")]
async fn remote(call: &HookCall) -> Said {
    super::https::call(call).await
}

#[cfg(not(feature = "webhooks"))]
async fn remote(call: &HookCall) -> Said {
    let place = &call.place.authority;
    std::future::ready(Err(format!(
        "nobody answers for {place} in this process (FakeCluster::answer_webhooks), and this \
         kite-fake was built without its feature `webhooks`, which calls others"
    )))
    .await
}

/// Host and port; 443 where none is named.
pub(super) fn with_port(host: &str) -> String {
    let (_, last) = host.rsplit_once(':').unwrap_or_default();
    let has_port = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    // Without brackets the colons are those of an address.
    let is_address = host.matches(':').count() > 1 && !host.starts_with('[');
    match (is_address, has_port) {
        (true, _) => format!("[{host}]:443"),
        (false, true) => host.to_owned(),
        (false, false) => format!("{host}:443"),
    }
}

#[cfg(test)]
mod tests {
    use super::with_port;

    #[test]
    fn a_host_has_a_port() {
        for (host, whole) in [
            ("hooks.default.svc", "hooks.default.svc:443"),
            ("hooks.default.svc:8443", "hooks.default.svc:8443"),
            ("[::1]:8443", "[::1]:8443"),
            ("[::1]", "[::1]:443"),
            ("::1", "[::1]:443"),
        ] {
            assert_eq!(with_port(host), whole);
        }
    }
}
