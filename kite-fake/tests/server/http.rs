//! The server on a socket.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use kite_fake::auth::Identity;
use kite_fake::service::{Extension, ResponseBody};
use kite_fake::{FakeCluster, serve::Served};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Message, handshake::derive_accept_key};

async fn start(rbac: bool) -> (FakeCluster, Served) {
    let cluster = FakeCluster::builder().rbac(rbac).build().unwrap();
    let served = cluster.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    (cluster, served)
}

async fn send(served: &Served, request: Request<Full<Bytes>>) -> Response<hyper::body::Incoming> {
    let stream = TcpStream::connect(served.address()).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap()
}

fn get(path: &str, token: &str) -> Request<Full<Bytes>> {
    let mut builder = Request::builder().uri(path).header(header::HOST, "fake");
    if !token.is_empty() {
        builder = builder.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    builder.body(Full::default()).unwrap()
}

async fn json_of(response: Response<hyper::body::Incoming>) -> Value {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn tokens_decide_who_asks() {
    let (cluster, served) = start(true).await;
    let path = "/api/v1/namespaces";
    assert_eq!(send(&served, get(path, "wrong")).await.status(), 401);
    assert_eq!(send(&served, get(path, "")).await.status(), 403);
    assert_eq!(send(&served, get("/version", "")).await.status(), 200);
    let list = send(&served, get(path, cluster.admin_token())).await;
    assert_eq!(list.status(), 200);
    assert_eq!(json_of(list).await["kind"], "NamespaceList");
    cluster.shut_down();
}

#[tokio::test]
async fn a_service_account_is_known_by_its_token() {
    let (cluster, served) = start(true).await;
    let post = |path: &str, body: Value| {
        Request::post(path)
            .header(header::HOST, "fake")
            .header(header::CONTENT_TYPE, "application/json")
            .header(
                header::AUTHORIZATION,
                format!("Bearer {}", cluster.admin_token()),
            )
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap()
    };
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    assert_eq!(send(&served, post(accounts, account)).await.status(), 201);
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = send(&served, post(&format!("{accounts}/robot/token"), request)).await;
    let token = json_of(answer).await["status"]["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let refused = send(&served, get("/api/v1/namespaces", &token)).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let message = json_of(refused).await["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("system:serviceaccount:default:robot"),
        "{message}"
    );
    cluster.shut_down();
}

#[tokio::test]
async fn watches_end_when_the_cluster_does() {
    let (cluster, served) = start(false).await;
    let response = send(
        &served,
        get("/api/v1/configmaps?watch=true", cluster.admin_token()),
    )
    .await;
    assert_eq!(response.status(), 200);
    cluster.shut_down();
    let end = tokio::time::timeout(Duration::from_secs(60), response.into_body().collect()).await;
    assert!(end.is_ok(), "the stream ends");
    tokio::time::timeout(Duration::from_secs(60), served.ended())
        .await
        .expect("the server ends");
}

#[tokio::test]
async fn a_body_is_bounded() {
    let (cluster, served) = start(false).await;
    let request = Request::post("/api/v1/namespaces/default/configmaps")
        .header(header::HOST, "fake")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(vec![b' '; 4 * 1024 * 1024])))
        .unwrap();
    assert_eq!(send(&served, request).await.status(), 413);
    cluster.shut_down();
}

#[derive(Debug)]
struct Echo;

#[async_trait]
impl Extension for Echo {
    async fn handle(&self, request: Request<Bytes>) -> Response<ResponseBody> {
        let user = request.extensions().get::<Identity>().unwrap().name.clone();
        let text = format!("{user} {}", request.uri().path());
        Response::new(Full::new(Bytes::from(text)).boxed_unsync())
    }
}

#[tokio::test]
async fn an_extension_answers_its_prefix() {
    let (cluster, served) = start(false).await;
    cluster.extend("/apis/sub.example.com/", Arc::new(Echo));
    let answer = send(
        &served,
        get("/apis/sub.example.com/v1/x", cluster.admin_token()),
    )
    .await;
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(bytes, "kubernetes-admin /apis/sub.example.com/v1/x");
    let unsupported = send(
        &served,
        get(
            "/api/v1/namespaces/default/pods/p/log",
            cluster.admin_token(),
        ),
    )
    .await;
    assert_eq!(unsupported.status(), StatusCode::NOT_IMPLEMENTED);
    let body = json_of(unsupported).await;
    assert!(
        body["message"].as_str().unwrap().contains("pods/log"),
        "{body}"
    );
    cluster.shut_down();
}

/// Says back what it is told over a WebSocket.
#[derive(Debug)]
struct Talk;

#[async_trait]
impl Extension for Talk {
    async fn handle(&self, mut request: Request<Bytes>) -> Response<ResponseBody> {
        let header = |name| request.headers()[&name].clone();
        let key = derive_accept_key(header(header::SEC_WEBSOCKET_KEY).as_bytes());
        let offered = header(header::SEC_WEBSOCKET_PROTOCOL);
        let protocol = offered
            .to_str()
            .unwrap()
            .split(',')
            .next()
            .unwrap()
            .to_owned();
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let io = TokioIo::new(upgrade.await.unwrap());
            let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
            while let Some(Ok(message)) = socket.next().await {
                if message.is_binary() {
                    socket.send(message).await.unwrap();
                }
            }
        });
        Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_ACCEPT, key)
            .header(header::SEC_WEBSOCKET_PROTOCOL, protocol)
            .body(Full::default().boxed_unsync())
            .unwrap()
    }
}

#[tokio::test]
async fn an_extension_may_talk_over_a_websocket() {
    let (cluster, served) = start(false).await;
    cluster.extend("/apis/sub.example.com/", Arc::new(Talk));
    let config = kube::Config::new(served.url().parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    let request = Request::get("/apis/sub.example.com/v1/x").body(Vec::new());
    let connection = client.connect(request.unwrap()).await.unwrap();
    let mut socket = connection.into_stream();
    for text in ["hello", "again"] {
        socket.send(Message::binary(text)).await.unwrap();
        let answer = socket.next().await.unwrap().unwrap();
        assert_eq!(answer.into_data(), text);
    }
    socket.close(None).await.unwrap();
    cluster.shut_down();
}

/// With the authority of the kubeconfig, and with no other.
#[cfg(feature = "tls")]
#[tokio::test]
async fn a_token_is_sent_over_tls_and_who_sends_none_is_nobody() {
    use kube::config::{KubeConfigOptions, Kubeconfig};
    use kube::{Api, Client, Config};

    let cluster = FakeCluster::builder().build().unwrap();
    let served = cluster.serve_tls(([127, 0, 0, 1], 0).into()).await.unwrap();
    let config = |text: &str| {
        let kubeconfig = Kubeconfig::from_yaml(text).unwrap();
        async {
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .unwrap()
        }
    };
    let text = cluster.kubeconfig(&served);
    let client = Client::try_from(config(&text).await).unwrap();
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client);
    assert!(namespaces.get_opt("default").await.unwrap().is_some());

    let mut nobody = config(&text).await;
    nobody.auth_info = kube::config::AuthInfo::default();
    let namespaces =
        Api::<k8s_openapi::api::core::v1::Namespace>::all(Client::try_from(nobody).unwrap());
    let refused = namespaces.get_opt("default").await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 401));

    let other = FakeCluster::builder().build().unwrap();
    let elsewhere = other.serve_tls(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut mistaken = config(&other.kubeconfig(&elsewhere)).await;
    mistaken.cluster_url = served.url().parse().unwrap();
    let client = Client::try_from(mistaken).unwrap();
    assert!(client.apiserver_version().await.is_err());
    cluster.shut_down();
    other.shut_down();
    served.ended().await;
    elsewhere.ended().await;
}
