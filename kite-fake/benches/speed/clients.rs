//! The same through `kube::Client`, as tests use it.

use std::time::{Duration, Instant};

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use kube::{Api, Client};

use crate::figures::Table;
use crate::objects::{filled, name, object};

async fn timed(client: Client) -> Duration {
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let mut least = Duration::MAX;
    for _ in 0..5 {
        let begin = Instant::now();
        for i in 0..1000 {
            assert!(maps.get(&name(i)).await.unwrap().data.is_some());
        }
        least = least.min(begin.elapsed() / 1000);
    }
    least
}

pub async fn through_kube(table: &mut Table) {
    let cluster = filled(1000);
    let ours = timed(cluster.client()).await;
    let (service, mut handle) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
    let body = object(0).to_string().into_bytes();
    let answering = tokio::spawn(async move {
        while let Some((_, send)) = handle.next_request().await {
            send.send_response(Response::new(Body::from(body.clone())));
        }
    });
    let theirs = timed(Client::new(service, "default")).await;
    answering.abort();
    table.times(
        "get through kube::Client",
        ours,
        None,
        "tower-test",
        Some(theirs),
    );
}
