//! Who may write sessions in VMs, and what.

use k8s_openapi::api::core::v1::Namespace;
use kite_core::{
    cluster::{Cluster as _, KubeCluster},
    crd::KiteConnection,
};
use kite_render::install::Process;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{World, small};

const NAMESPACE: &str = "kite-user-ann";
const OTHERS: [&str; 3] = ["ann", "root", "system:serviceaccount:kite:kite-controller"];

fn session(number: i64, more: &Value) -> KiteConnection {
    let mut spec = json!({
        "vm": {"name": "web", "uid": "1"}, "owner": "ann", "login": "web", "kind": "Ssh",
        "client": "SSH-2.0-OpenSSH_9.2", "peer": "192.0.2.1", "instance": "a",
        "number": number, "openedAt": "2026-01-01T00:00:00Z", "recordings": ["a.cast"],
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let spec = serde_json::from_value(spec).unwrap();
    KiteConnection::new(&format!("c-a-{number}"), spec)
}

async fn world() -> World {
    let world = World::new();
    world.apply(&small(), false).await;
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    let cluster = KubeCluster::new(world.client.clone());
    cluster.create(&namespace).await.unwrap();
    world
}

impl World {
    fn sessions_as(&self, who: &str) -> Api<KiteConnection> {
        Api::namespaced(self.fake.client_as(who), NAMESPACE)
    }
}

async fn edit(
    sessions: &Api<KiteConnection>,
    name: &str,
    spec: Value,
) -> Result<KiteConnection, String> {
    let patch = Patch::Merge(json!({ "spec": spec }));
    let edited = sessions.patch(name, &PatchParams::default(), &patch).await;
    edited.map_err(|error| error.to_string())
}

#[tokio::test]
async fn who_does_not_carry_a_session_writes_nothing_of_it_but_that_it_is_to_end() {
    let world = world().await;
    let params = PostParams::default();
    for who in OTHERS {
        let sessions = world.sessions_as(who);
        let forged = session(9, &json!({}));
        let made = sessions.create(&params, &forged);
        let refused = made.await.unwrap_err().to_string();
        assert!(refused.contains("kite-connections"), "{who}: {refused}");
    }
    for (number, process) in [(1, Process::Gateway), (2, Process::Api)] {
        let sessions = world.sessions_as(&process.username("kite"));
        sessions
            .create(&params, &session(number, &json!({})))
            .await
            .unwrap();
    }
    let ended = json!({"at": "2026-01-01T00:00:01Z", "why": "over"});
    for who in OTHERS {
        let sessions = world.sessions_as(who);
        for spec in [
            json!({"recordings": ["a.cast", "b.cast"]}),
            json!({"peer": "203.0.113.9"}),
            json!({"client": null}),
            json!({"server": "elsewhere"}),
            json!({ "ended": ended.clone() }),
        ] {
            let refused = edit(&sessions, "c-a-1", spec.clone()).await.unwrap_err();
            assert!(
                refused.contains("kite-connections"),
                "{who} {spec}: {refused}"
            );
        }
    }
    let end = json!({"by": "ops", "reason": "maintenance", "at": "2026-01-01T00:00:00Z"});
    edit(&world.sessions_as("root"), "c-a-1", json!({ "end": end }))
        .await
        .unwrap();
    let gateway = world.sessions_as(&Process::Gateway.username("kite"));
    let more = json!({"recordings": ["a.cast", "b.cast"], "ended": ended});
    edit(&gateway, "c-a-1", more).await.unwrap();
}

#[tokio::test]
async fn who_does_not_keep_a_session_does_not_take_it_away() {
    let world = world().await;
    let params = PostParams::default();
    let gateway = world.sessions_as(&Process::Gateway.username("kite"));
    for number in [1, 2, 3] {
        let session = session(number, &json!({}));
        gateway.create(&params, &session).await.unwrap();
    }
    let gone = DeleteParams::default();
    for who in OTHERS {
        let sessions = world.sessions_as(who);
        let refused = sessions.delete("c-a-1", &gone).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("kite-connections"), "{who}: {refused}");
    }
    let api = world.sessions_as(&Process::Api.username("kite"));
    api.delete("c-a-1", &gone).await.unwrap();
    // With the namespace, and by an administrator of the cluster.
    let cluster = "system:serviceaccount:kube-system:namespace-controller";
    let cluster = world.sessions_as(cluster);
    cluster.delete("c-a-2", &gone).await.unwrap();
    let masters: Api<KiteConnection> = Api::namespaced(world.client.clone(), NAMESPACE);
    masters.delete("c-a-3", &gone).await.unwrap();
}

#[tokio::test]
async fn what_is_written_of_a_session_is_text_and_its_recordings_stay() {
    let world = world().await;
    let gateway = world.sessions_as(&Process::Gateway.username("kite"));
    let params = PostParams::default();
    for bad in [
        json!({"client": "\u{1b}[31mforged"}),
        json!({"client": "caf\u{e9}"}),
        json!({"peer": "192.0.2.1\n"}),
        json!({"recordings": ["../../etc/passwd.cast"]}),
        json!({"recordings": [".cast"]}),
        json!({"ended": {"at": "2026-01-01T00:00:01Z", "why": "\u{7}"}}),
        json!({"end": {"by": "x", "reason": "\u{9b}31m", "at": "2026-01-01T00:00:01Z"}}),
    ] {
        let refused = gateway.create(&params, &session(9, &bad)).await;
        let refused = refused.unwrap_err().to_string();
        let field = bad.as_object().unwrap().keys().next().unwrap();
        assert!(
            refused.contains(&format!("spec.{field}")),
            "{bad}: {refused}"
        );
    }
    // What people write is not all ASCII.
    let end = json!({"end": {"by": "x", "reason": "점검", "at": "2026-01-01T00:00:01Z"}});
    gateway.create(&params, &session(1, &end)).await.unwrap();
    for recordings in [json!(null), json!([]), json!(["b.cast"])] {
        let refused = edit(&gateway, "c-a-1", json!({ "recordings": recordings })).await;
        let refused = refused.unwrap_err();
        assert!(refused.contains("never taken away"), "{refused}");
    }
    let more = json!({"recordings": ["a.cast", "b.cast"]});
    edit(&gateway, "c-a-1", more).await.unwrap();
}
