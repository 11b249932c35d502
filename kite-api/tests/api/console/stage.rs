//! A VM that runs, the API on a port, and clients that speak `WebSocket` to it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use futures::{SinkExt as _, StreamExt as _};
use kite_api::ApiStateBuilder;
use kite_core::{
    cluster::{Cluster as _, ObjectKey},
    crd::{AccessLevel, KiteVirtualMachine, KiteVirtualMachineStatus, VmPhase},
    names,
};
use kite_fake::actors::kind::Kind;
use kite_fake_kubevirt::kinds::INSTANCE;
use kite_fake_kubevirt::kubevirt::{SUBRESOURCES, VmSubresources};
use kube::api::{DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Error, Message, client::IntoClientRequest as _, protocol::CloseFrame},
};

use crate::world::World;

/// ann's VM `web` runs, `idle` exists and has no instance.
pub struct Stage {
    pub world: World,
    /// ann's session.
    pub ann: String,
    pub address: SocketAddr,
}

impl Stage {
    pub async fn new() -> Self {
        Self::with(|builder| builder).await
    }

    pub async fn with(settings: impl FnOnce(ApiStateBuilder) -> ApiStateBuilder) -> Self {
        let world = World::with(settings).await;
        let clock = Arc::clone(world.fake.clock());
        let subresources = VmSubresources::new(world.fake.client(), clock);
        world.fake.extend(SUBRESOURCES, Arc::new(subresources));
        let ann = world.user("ann", AccessLevel::User).await;
        let address = serve(world.router.clone()).await;
        let stage = Self {
            world,
            ann,
            address,
        };
        for name in ["web", "idle"] {
            let body = json!({
                "name": name, "cpu": 1, "memory": "1Gi", "disk": "5Gi", "image": "debian-12",
            });
            let made = stage.world.post("/api/v1/vms", &stage.ann, body).await;
            assert_eq!(made.status, 201, "{made:?}");
        }
        stage.instance("web").await;
        stage.phase("web", VmPhase::Running).await;
        stage
    }

    /// An instance of the VM that runs, with nothing in it.
    pub async fn instance(&self, name: &str) {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {"name": name},
            "spec": {"domain": {"devices": {}}},
            "status": {"phase": "Running"},
        }))
        .unwrap();
        let api = self.api(&INSTANCE);
        let made = api.create(&PostParams::default(), &object).await.unwrap();
        if made.data["status"]["phase"] != "Running" {
            let status = kube::api::Patch::Merge(json!({"status": {"phase": "Running"}}));
            api.patch_status(name, &kube::api::PatchParams::default(), &status)
                .await
                .unwrap();
        }
    }

    /// The instance is gone.
    pub async fn unplug(&self, name: &str) {
        let api = self.api(&INSTANCE);
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    fn api(&self, kind: &Kind) -> kube::Api<DynamicObject> {
        kind.api(
            &self.world.fake.client(),
            Some(&names::user_namespace("ann")),
        )
    }

    /// What the controller says of the VM.
    pub async fn phase(&self, name: &str, phase: VmPhase) {
        let vm = self.world.vm("ann", name).await.unwrap();
        let mut seen = KiteVirtualMachine::new(name, vm.spec);
        seen.metadata.namespace = Some(names::user_namespace("ann"));
        seen.status = Some(KiteVirtualMachineStatus {
            phase: Some(phase),
            ..KiteVirtualMachineStatus::default()
        });
        let cluster = &self.world.cluster;
        let written = cluster
            .apply_status(kite_core::managers::CONTROLLER, &seen)
            .await;
        let vms = &self.world.state.caches().vms;
        vms.caught_up_with(&written.unwrap()).await;
    }

    /// Deletes ann's VM, as `kubectl` would.
    pub async fn delete(&self, name: &str) {
        let vm = self.world.vm("ann", name).await.unwrap();
        let key = ObjectKey::namespaced(names::user_namespace("ann"), name);
        let propagation = kube::api::PropagationPolicy::Background;
        self.world
            .cluster
            .delete::<KiteVirtualMachine>(&key, &vm.metadata.uid.unwrap(), propagation)
            .await
            .unwrap();
    }

    /// A ticket for ann's VM `web`.
    pub async fn ticket(&self, token: &str, kind: &str) -> String {
        let answer = self.ask(token, "web", kind).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.text("/ticket").to_owned()
    }

    pub async fn ask(&self, token: &str, vm: &str, kind: &str) -> crate::world::Answer {
        let path = format!("/api/v1/vms/{vm}/console?owner=ann");
        self.world.post(&path, token, json!({"kind": kind})).await
    }

    /// ann's console of `web`, which is open.
    pub async fn open(&self, kind: &str) -> Client {
        let ticket = self.ticket(&self.ann, kind).await;
        let mut client = Client::connect(self.address, &self.ann).await.unwrap();
        client.show(&ticket).await;
        if kind == "Terminal" {
            // Those of these tests are, and whoever is at one has to know.
            let told = Message::text(r#"{"ready":true,"recorded":true}"#);
            assert_eq!(client.next().await, told);
        } else {
            client.ready().await;
        }
        client
    }

    /// What happens to somebody who shows this ticket.
    pub async fn refusal(&self, address: SocketAddr, token: &str, ticket: &str) -> String {
        let mut client = Client::connect(address, token).await.unwrap();
        client.show(ticket).await;
        client.refused().await
    }
}

/// Serves a replica.
pub async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// A page in a browser.
pub struct Client(pub WebSocketStream<TcpStream>);

impl Client {
    /// Opens a WebSocket with the session's cookie, from Kite's own page.
    pub async fn connect(address: SocketAddr, token: &str) -> Result<Self, u16> {
        let origin = format!("http://{address}");
        Self::from_page(address, &[("origin", &origin), ("cookie", &cookie(token))]).await
    }

    /// The same with other headers; the status of the refusal.
    pub async fn from_page(address: SocketAddr, headers: &[(&str, &str)]) -> Result<Self, u16> {
        let url = format!("ws://{address}/api/v1/console");
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(address).await.unwrap();
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(Error::Http(answer)) => Err(answer.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn say(&mut self, text: Value) {
        self.0.send(Message::text(text.to_string())).await.unwrap();
    }

    pub async fn show(&mut self, ticket: &str) {
        self.say(json!({"ticket": ticket, "cols": 100, "rows": 30}))
            .await;
    }

    pub async fn send(&mut self, data: &[u8]) {
        self.0.send(Message::binary(data.to_vec())).await.unwrap();
    }

    /// The next message that says something.
    pub async fn next(&mut self) -> Message {
        loop {
            let next = tokio::time::timeout(Duration::from_secs(30), self.0.next()).await;
            match next.expect("a message").expect("no end").unwrap() {
                Message::Ping(_) | Message::Pong(_) => {}
                message => return message,
            }
        }
    }

    pub async fn ready(&mut self) {
        assert_eq!(self.next().await, Message::text(r#"{"ready":true}"#));
    }

    /// The type of the problem with which it is refused.
    pub async fn refused(&mut self) -> String {
        let Message::Text(text) = self.next().await else {
            panic!("no text");
        };
        let told: Value = serde_json::from_str(&text).unwrap();
        assert!(!told["error"]["detail"].as_str().unwrap().is_empty());
        let closed = self.closed().await;
        assert!([4500, 4401].contains(&u16::from(closed.code)), "{closed:?}");
        let kind = told["error"]["type"].as_str().unwrap();
        kind.trim_start_matches("urn:kite:problem:").to_owned()
    }

    /// Reads until `text` came, and gives what came.
    pub async fn until(&mut self, text: &str) -> Vec<u8> {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(text) {
            match self.next().await {
                Message::Binary(bytes) => seen.extend_from_slice(&bytes),
                other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&seen)),
            }
        }
        seen
    }

    /// The next words, whatever the console shows before them.
    pub async fn told(&mut self) -> Value {
        loop {
            match self.next().await {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Binary(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// How it ends, whatever comes before.
    pub async fn closed(&mut self) -> CloseFrame {
        loop {
            match self.next().await {
                Message::Close(frame) => return frame.expect("a reason"),
                Message::Binary(_) | Message::Text(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The code and the reason with which it ends.
    pub async fn end(&mut self) -> (u16, String) {
        let frame = self.closed().await;
        (frame.code.into(), frame.reason.to_string())
    }
}

pub fn cookie(token: &str) -> String {
    format!("kite_session={token}")
}
