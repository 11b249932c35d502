//! What stands between a process and the API server: every request of a client
//! is counted, and writes are fenced and rate-limited.
//!
//! This is done at the client rather than at [`Cluster`](kite_cluster::Cluster)
//! so that nothing gets around it: statuses, Events and subresources are writes
//! like all others, and the lists and watches of controllers are counted too.
//!
//! ```no_run
//! use kite_runtime::{leader::Leadership, wire::{ClientLayer, RateLimiter}};
//!
//! # async fn example() -> Result<(), kube::Error> {
//! let leadership = Leadership::candidate();
//! let client = ClientLayer::default()
//!     .fenced_by(leadership.clone())
//!     .rate_limited(RateLimiter::per_second(200.0, 400))
//!     .wrap(kube::Client::try_default().await?);
//! # Ok(())
//! # }
//! ```

mod call;
mod metrics;
mod rate_limiter;

use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header::RETRY_AFTER};
use kite_cluster::NotLeader;
use kube::{Client, client::Body};
use tower::{BoxError, service_fn};

pub use self::{
    call::{Call, Verb},
    metrics::RequestMetrics,
    rate_limiter::RateLimiter,
};
use crate::leader::Leadership;

/// How long the API server may take to begin an answer, of a watch too. Without a
/// bound one lost connection would hold up an object, or all of a kind, for ever.
/// Shorter than whatever is undertaken a second time because nothing came of it.
const SILENCE: Duration = Duration::from_secs(25);

/// The longest wait that an API server is granted by `Retry-After`.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// What is done with every request of a client.
#[derive(Clone, Debug, Default)]
pub struct ClientLayer {
    leadership: Option<Leadership>,
    limiter: Option<RateLimiter>,
    metrics: Option<RequestMetrics>,
}

impl ClientLayer {
    /// Lets writes through only while this process leads: others fail with
    /// [`NotLeader`] before they are sent, and what is under way when leadership
    /// ends is broken off.
    #[must_use]
    pub fn fenced_by(mut self, leadership: Leadership) -> Self {
        self.leadership = Some(leadership);
        self
    }

    /// Sends writes no faster than `limiter`.
    #[must_use]
    pub fn rate_limited(mut self, limiter: RateLimiter) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// Counts requests into `metrics`.
    #[must_use]
    pub fn counted(mut self, metrics: RequestMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// A client whose requests pass through this on their way to `client`'s. To
    /// be called within a tokio runtime.
    pub fn wrap(self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let valid_until = *client.valid_until();
        let service = service_fn(move |request: Request<Body>| {
            let layer = self.clone();
            let client = client.clone();
            async move { layer.pass(client, request).await }
        });
        Client::new(service, namespace).with_valid_until(valid_until)
    }

    async fn pass(
        self,
        client: Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        let Some(metrics) = &self.metrics else {
            return self.send(client, request).await;
        };
        let timer = metrics.start(Call::of(request.method(), request.uri()));
        let answer = self.send(client, request).await;
        timer.end(answer.as_ref().ok().map(Response::status));
        answer
    }

    async fn send(
        &self,
        client: Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            return hand_on(client, request).await;
        }
        let Some(leadership) = &self.leadership else {
            self.wait().await;
            return self.listen(hand_on(client, request).await);
        };
        let lost = leadership.lost();
        tokio::pin!(lost);
        tokio::select! {
            biased;
            () = &mut lost => return Err(NotLeader::NotSent.into()),
            () = self.wait() => {}
        }
        // Asked again right before the request is sent: a wait may be long, and
        // the process may have slept.
        let mut sent = false;
        let sending = async {
            sent = true;
            hand_on(client, request).await
        };
        let answer = tokio::select! {
            biased;
            () = lost => None,
            answer = sending => Some(answer),
        };
        match answer {
            Some(answer) => self.listen(answer),
            None if sent => Err(NotLeader::LeadershipLost.into()),
            None => Err(NotLeader::NotSent.into()),
        }
    }

    async fn wait(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.wait().await;
        }
    }

    /// Slows down when the API server asks for it.
    fn listen(&self, answer: Result<Response<Body>, BoxError>) -> Result<Response<Body>, BoxError> {
        if let (Some(limiter), Ok(answer)) = (&self.limiter, &answer)
            && let Some(wait) = asked_to_wait(answer)
        {
            tracing::debug!(?wait, "the API server asks for a pause");
            limiter.hold(wait.min(LONGEST_HOLD));
        }
        answer
    }
}

async fn hand_on(client: Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let Ok(answer) = tokio::time::timeout(SILENCE, client.send(request)).await else {
        return Err(Timeout.into());
    };
    // The outer client finds kube's error in the box and gives it back as it was.
    answer.map_err(BoxError::from)
}

/// An answer did not even begin: its connection may be one of a machine that is
/// gone. What came of the request is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server has not answered for {} seconds", SILENCE.as_secs())]
pub struct Timeout;

/// How long an overloaded API server asks its clients to wait.
fn asked_to_wait(answer: &Response<Body>) -> Option<Duration> {
    let is_overloaded = matches!(
        answer.status(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    if !is_overloaded {
        return None;
    }
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use k8s_openapi::api::core::v1::Node;
    use kite_cluster::{Cluster as _, ClusterError, KubeCluster, ObjectKey};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_says_nothing_is_not_waited_for_for_ever() {
        let silent = service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, BoxError>>()
        });
        let client = ClientLayer::default().wrap(Client::new(silent, "default"));
        let cluster = KubeCluster::new(client);
        let begun = Instant::now();
        let error = cluster
            .get::<Node>(&ObjectKey::cluster("a"))
            .await
            .unwrap_err();
        assert!(
            matches!(&error, ClusterError::Unavailable { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("not answered"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
