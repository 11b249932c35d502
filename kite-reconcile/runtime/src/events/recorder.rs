//! Sends Events, and not too many.

use std::{collections::HashMap, fmt};

use k8s_openapi::api::events::v1::Event;
use kube::{Api, Client, ResourceExt as _, api::PostParams};
use tokio::sync::mpsc;

use super::{Events, Reporter};
use crate::wire::RateLimiter;

/// Events that may wait to be sent.
const WAITING: usize = 1024;
/// Events a second in the long run, and at once.
const RATE: (f64, u32) = (20.0, 200);
/// Events of one object: one in five minutes in the long run, 25 at once, which
/// is what client-go allows.
const RATE_OF_ONE: (f64, u32) = (1.0 / 300.0, 25);
/// Objects of which is remembered how many Events they had. With more, all of
/// them are forgotten.
const OBJECTS: usize = 4096;

/// Sends what was told to [`Events`] to the API server.
pub struct Recorder {
    client: Client,
    told: mpsc::Receiver<Event>,
    limiter: RateLimiter,
    objects: HashMap<String, RateLimiter>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("waiting", &self.told.len())
            .finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder that writes with `client` what `reporter` tells, and where it gets its
    /// Events from.
    pub fn new(client: Client, reporter: Reporter) -> (Events, Self) {
        let (sender, told) = mpsc::channel(WAITING);
        let recorder = Self {
            client,
            told,
            limiter: RateLimiter::per_second(RATE.0, RATE.1),
            objects: HashMap::new(),
        };
        (Events(Some((sender, reporter))), recorder)
    }

    /// Sends until nobody can tell anything any more.
    pub async fn run(mut self) {
        while let Some(event) = self.told.recv().await {
            if !self.is_bearable(&event) {
                tracing::debug!(event = %event.name_any(), "an Event is dropped: too many of one object");
                continue;
            }
            self.limiter.wait().await;
            self.send(&event).await;
        }
    }

    /// Whether the Event's object has not had too many of late.
    fn is_bearable(&mut self, event: &Event) -> bool {
        let regarding = event.regarding.as_ref();
        let uid = regarding.and_then(|object| object.uid.clone());
        if self.objects.len() >= OBJECTS {
            self.objects.clear();
        }
        let (rate, burst) = RATE_OF_ONE;
        self.objects
            .entry(uid.unwrap_or_default())
            .or_insert_with(|| RateLimiter::per_second(rate, burst))
            .try_take()
    }

    async fn send(&self, event: &Event) {
        let namespace = event.namespace().unwrap_or_default();
        let events = Api::<Event>::namespaced(self.client.clone(), &namespace);
        match events.create(&PostParams::default(), event).await {
            Ok(_) => {}
            // Told already: by another controller, or by a request whose answer
            // was lost. A namespace may be on its way out.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404 | 409) => {
                tracing::debug!(event = %event.name_any(), %status, "an Event is not taken");
            }
            Err(error) => tracing::warn!(event = %event.name_any(), %error, "an Event is lost"),
        }
    }
}
