//! A replica of the API some of whose requests to the cluster are held until a test
//! lets them on: what happens in between is told step by step.

use std::sync::Arc;

use ::http::Request;
use axum::Router;
use kite_api::{ApiState, ApiStateBuilder, router};
use kube::client::Body;
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use crate::world::World;

pub struct Gate {
    held: Arc<Semaphore>,
    let_on: Arc<Semaphore>,
}

impl Gate {
    /// A replica whose requests to the cluster are held where they are `meant`.
    pub async fn replica(
        world: &World,
        settings: impl FnOnce(ApiStateBuilder) -> ApiStateBuilder,
        meant: impl Fn(&Request<Body>) -> bool + Clone + Send + Sync + 'static,
    ) -> (Router, Self) {
        let gate = Self {
            held: Arc::new(Semaphore::new(0)),
            let_on: Arc::new(Semaphore::new(0)),
        };
        let (held, let_on) = (Arc::clone(&gate.held), Arc::clone(&gate.let_on));
        let service = world.service();
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_meant = meant(&request);
            let (held, let_on) = (Arc::clone(&held), Arc::clone(&let_on));
            let service = service.clone();
            async move {
                if is_meant {
                    held.add_permits(1);
                    let_on.acquire().await.unwrap().forget();
                }
                service.oneshot(request).await
            }
        });
        let client = kube::Client::new(service, "default");
        let state = settings(ApiState::builder(client)).build().await.unwrap();
        state.synced().await;
        (router(state), gate)
    }

    /// Waits for a request that is held.
    pub async fn holds_one(&self) {
        self.held.acquire().await.unwrap().forget();
    }

    /// Lets `count` requests on, those that are held first.
    pub fn let_on(&self, count: usize) {
        self.let_on.add_permits(count);
    }
}
