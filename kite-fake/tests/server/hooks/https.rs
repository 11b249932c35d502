//! Webhooks that listen on a socket, with a certificate.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use super::{MAPS, World, map};

/// A certificate for `name` with its key, and the authority's.
fn certificate(name: &str) -> (rcgen::Certificate, KeyPair, rcgen::Certificate) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let own = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = certificate.signed_by(&own, &issuer).unwrap();
    (certificate, own, authority)
}

/// Listens with a certificate for `name`, and allows everything but a map named `no`.
/// Where, and the authority as a `caBundle`.
async fn listening(name: &str) -> (SocketAddr, String) {
    let (certificate, key, authority) = certificate(name);
    let address = listening_with(&certificate, &key).await;
    (address, STANDARD.encode(authority.pem()))
}

async fn listening_with(certificate: &rcgen::Certificate, key: &KeyPair) -> SocketAddr {
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let serving = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(check));
                let _ = serving.await;
            });
        }
    });
    address
}

async fn check(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    assert_eq!(request.uri().query(), Some("timeout=10s"));
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"],
            "allowed": review["request"]["name"] != "no",
            "status": {"message": format!("said at {path}")}}});
    Ok(Response::new(Full::new(Bytes::from(answer.to_string()))))
}

#[tokio::test]
async fn a_url_is_called() {
    let (address, bundle) = listening("127.0.0.1").await;
    let world = World::new();
    let client = json!({"url": format!("https://{address}/check"), "caBundle": bundle});
    world
        .validate("a.example.com", json!({"clientConfig": client}))
        .await;
    world.post(MAPS, map("yes")).await.expect(201);
    let told = world.post(MAPS, map("no")).await.expect(400);
    assert_eq!(
        told.message(),
        "admission webhook \"a.example.com\" denied the request: said at /check"
    );
}

#[tokio::test]
async fn a_certificate_may_be_its_own_authority() {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let address = listening_with(&certificate, &key).await;
    let bundle = STANDARD.encode(certificate.pem());
    for (host, code) in [("127.0.0.1", 201), ("localhost", 500)] {
        let world = World::new();
        let url = format!("https://{host}:{}/", address.port());
        let client = json!({"url": url, "caBundle": bundle});
        world
            .validate("a.example.com", json!({"clientConfig": client}))
            .await;
        world.post(MAPS, map("yes")).await.expect(code);
    }
}

#[tokio::test]
async fn a_service_is_called_at_an_endpoint() {
    let (address, bundle) = listening("hooks.default.svc").await;
    let world = World::new();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hooks"},
        "spec": {"ports": [{"name": "hooks", "port": 443, "targetPort": "hooks"}]}});
    world
        .post("/api/v1/namespaces/default/services", service)
        .await
        .expect(201);
    let client = json!({"service": {"name": "hooks", "namespace": "default", "path": "/check"},
        "caBundle": bundle});
    world
        .validate("a.example.com", json!({"clientConfig": client}))
        .await;
    let told = world.post(MAPS, map("yes")).await.expect(500);
    assert_eq!(
        told.message(),
        "Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: Post \"https://hooks.default.svc:443/check?timeout=10s\": no endpoints available for service \"hooks\""
    );
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
    "metadata": {"name": "hooks-1", "labels": {"kubernetes.io/service-name": "hooks"}},
    "addressType": "IPv4",
    "ports": [{"name": "hooks", "port": address.port()}],
    "endpoints": [
        {"addresses": ["192.0.2.1"], "conditions": {"ready": false}},
        {"addresses": ["127.0.0.1"], "conditions": {"ready": true}},
    ]});
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    world.post(slices, slice).await.expect(201);
    world.post(MAPS, map("yes")).await.expect(201);
    world.post(MAPS, map("no")).await.expect(400);
}

#[tokio::test]
async fn certificates_must_fit() {
    let (address, bundle) = listening("other.example.com").await;
    let (_, foreign) = listening("127.0.0.1").await;
    let url = format!("https://{address}/check");
    let failed = format!(
        "Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: Post \"{url}?timeout=10s\": tls: failed to verify certificate: x509: "
    );
    for (bundle, why) in [
        (
            Some(bundle),
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (Some(foreign), "certificate signed by unknown authority"),
        (None, "certificate signed by unknown authority"),
    ] {
        let world = World::new();
        let client = json!({"url": url, "caBundle": bundle});
        world
            .validate("a.example.com", json!({"clientConfig": client}))
            .await;
        let told = world.post(MAPS, map("yes")).await.expect(500);
        assert_eq!(
            told.message().strip_prefix(&failed),
            Some(why),
            "{}",
            told.message()
        );
    }
}

#[tokio::test]
async fn where_nobody_listens_the_policy_decides() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = json!({"url": format!("https://{address}/")});
    let world = World::new();
    world
        .validate("a.example.com", json!({"clientConfig": client}))
        .await;
    let told = world.post(MAPS, map("a")).await.expect(500);
    assert_eq!(
        told.message(),
        format!(
            "Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: Post \"https://{address}/?timeout=10s\": dial tcp {address}: connect: connection refused"
        )
    );
    let world = World::new();
    let open = json!({"clientConfig": client, "failurePolicy": "Ignore"});
    world.validate("a.example.com", open).await;
    world.post(MAPS, map("a")).await.expect(201);
}

#[tokio::test]
async fn a_service_that_leads_nowhere_is_told() {
    let (address, bundle) = listening("hooks.default.svc").await;
    let world = World::new();
    let services = "/api/v1/namespaces/default/services";
    let client = json!({"service": {"name": "hooks", "namespace": "default", "port": 9443},
        "caBundle": bundle});
    world
        .validate("a.example.com", json!({"clientConfig": client}))
        .await;
    let told = async |why: &str| {
        let told = world.post(MAPS, map("yes")).await.expect(500);
        let end = format!("Post \"https://hooks.default.svc:9443/?timeout=10s\": {why}");
        assert!(told.message().ends_with(&end), "{}", told.message());
    };
    told("service \"hooks\" not found").await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hooks"},
        "spec": {"type": "ExternalName", "externalName": "a.example.com"}});
    world.post(services, service).await.expect(201);
    told("unsupported service type \"ExternalName\"").await;
    let merge = "application/merge-patch+json";
    let path = format!("{services}/hooks");
    let ports = |port: u16| json!({"spec": {"type": "ClusterIP", "externalName": null, "ports": [{"port": port}]}});
    world
        .send("PATCH", &path, merge, ports(443))
        .await
        .expect(200);
    told("no service port 9443 found for service \"hooks\"").await;
    world
        .send("PATCH", &path, merge, ports(9443))
        .await
        .expect(200);
    told("no endpoints available for service \"hooks\"").await;
    // Endpoints of which nobody has made slices.
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "hooks"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": address.port()}]}]});
    let path = "/api/v1/namespaces/default/endpoints";
    world.post(path, endpoints).await.expect(201);
    let open = json!({"webhooks": [{"name": "a.example.com", "timeoutSeconds": 1}]});
    let path =
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/a.example.com";
    let strategic = "application/strategic-merge-patch+json";
    world.send("PATCH", path, strategic, open).await.expect(200);
    let told = world.post(MAPS, map("yes")).await.expect(500);
    assert!(
        !told.message().contains("no endpoints available"),
        "{}",
        told.message()
    );
}
