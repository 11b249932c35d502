//! Webhooks that answer in the test's own process.

use std::fmt;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use tower::Service;

use crate::cluster::FakeCluster;

impl FakeCluster {
    /// Lets `service` answer the calls that configurations and definitions make to `host`,
    /// in process: a name and a port as in the URL, or `name.namespace.svc` of a Service,
    /// whether there is one or not. The port is 443 if it is left out. An `axum::Router`
    /// will do, and so will a function:
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build()?;
    /// # runtime.block_on(async {
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use http_body_util::{BodyExt as _, Full};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kite_fake::FakeCluster;
    /// use kube::{Api, api::PostParams};
    /// use serde_json::{Value, json};
    ///
    /// let cluster = FakeCluster::builder().object(json!({
    ///     "apiVersion": "admissionregistration.k8s.io/v1",
    ///     "kind": "ValidatingWebhookConfiguration",
    ///     "metadata": {"name": "strict"},
    ///     "webhooks": [{
    ///         "name": "maps.example.com",
    ///         "clientConfig": {"service": {"name": "hooks", "namespace": "default", "path": "/maps"}},
    ///         "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
    ///             "resources": ["configmaps"]}],
    ///         "sideEffects": "None",
    ///         "admissionReviewVersions": ["v1"],
    ///     }],
    /// })).build()?;
    /// cluster.answer_webhooks("hooks.default.svc", tower::service_fn(
    ///     async |request: Request<Full<Bytes>>| {
    ///         let body = request.into_body().collect().await?.to_bytes();
    ///         let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    ///         let answer = json!({
    ///             "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
    ///             "response": {"uid": review["request"]["uid"], "allowed": false,
    ///                 "status": {"message": "no maps today"}},
    ///         });
    ///         Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(answer.to_string()))))
    ///     },
    /// ));
    ///
    /// let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    /// let mut map = ConfigMap::default();
    /// map.metadata.name = Some("a".into());
    /// let refused = maps.create(&PostParams::default(), &map).await.unwrap_err().to_string();
    /// assert!(refused.contains(
    ///     "admission webhook \"maps.example.com\" denied the request: no maps today"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn answer_webhooks<S, B>(&self, host: &str, service: S)
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: fmt::Display + Send,
        S::Future: Send,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: fmt::Display + Send,
    {
        self.caller().answer_by(host, service);
    }
}
