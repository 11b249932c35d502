//! How a request gets to the server, and the answer back.

use bytes::Bytes;
use http::Request;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kite_fake::FakeCluster;

/// An answer, whose body may break off.
pub type Response = http::Response<UnsyncBoxBody<Bytes, String>>;

/// How requests are sent.
#[derive(Clone)]
pub enum Wire {
    /// Without a socket.
    InProcess,
    /// By a client that trusts the server's authority and sends what it is given.
    #[cfg(feature = "tls")]
    Tls(kube::Client),
}

impl Wire {
    /// Over TLS to a server that listens on loopback.
    #[cfg(feature = "tls")]
    pub async fn over_tls(cluster: &FakeCluster) -> Self {
        let served = cluster.serve_tls(([127, 0, 0, 1], 0).into()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        cluster.write_kubeconfig(&path, &served).unwrap();
        let file = kube::config::Kubeconfig::read_from(&path).unwrap();
        let options = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options).await;
        let mut config = config.unwrap();
        // Each request says who sends it.
        config.auth_info = kube::config::AuthInfo::default();
        config.default_retry = false;
        Self::Tls(kube::Client::try_from(config).unwrap())
    }

    pub async fn send(&self, cluster: &FakeCluster, request: Request<Full<Bytes>>) -> Response {
        match self {
            Self::InProcess => {
                let answer = cluster.public_service().answer(request).await;
                answer.map(|body| body.map_err(|never| never.to_string()).boxed_unsync())
            }
            #[cfg(feature = "tls")]
            Self::Tls(client) => {
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await.unwrap().to_bytes().to_vec();
                let request = Request::from_parts(parts, kube::client::Body::from(bytes));
                let answer = client.send(request).await.unwrap();
                answer.map(|body| body.map_err(|why| why.to_string()).boxed_unsync())
            }
        }
    }
}
