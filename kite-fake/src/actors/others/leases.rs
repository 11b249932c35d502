//! Who else holds leases.

use std::time::Duration;

use async_trait::async_trait;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{Key, LEASE};
use crate::actors::objects::{Objects, ignore_missing, text};
use crate::actors::rules::{Gate, Stage};

/// Seconds that a lease lasts, as client-go has it by default.
const SECONDS: i64 = 15;

/// Plays another candidate in a leader election, or a kubelet with the lease of
/// its node: takes the lease when nobody holds it or its holder let it expire,
/// and renews it, as far as the rules of [`Stage::LEASE_RENEWED`] let it. A rule
/// that holds it lets the lease expire; one that fails it lets it be given up
/// at once.
///
/// ```
/// use kite_fake::actors::LeaseHolder;
///
/// let rival = LeaseHolder::new("shop", "shop-controller", "shop-controller-rival");
/// let node = LeaseHolder::new("kube-node-lease", "demo-node", "demo-node").every(10).lasting(40);
/// # let _ = (rival, node);
/// ```
#[derive(Clone, Debug)]
pub struct LeaseHolder {
    namespace: String,
    name: String,
    identity: String,
    every: Duration,
    seconds: i64,
}

impl LeaseHolder {
    /// `identity` wants the lease `name` in `namespace`. It renews it every two
    /// seconds, and it lasts 15.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            every: Duration::from_secs(2),
            seconds: SECONDS,
        }
    }

    /// Renews every so many seconds.
    #[must_use]
    pub fn every(mut self, seconds: u64) -> Self {
        self.every = Duration::from_secs(seconds.max(1));
        self
    }

    /// The lease lasts so many seconds.
    #[must_use]
    pub fn lasting(mut self, seconds: u32) -> Self {
        self.seconds = i64::from(seconds);
        self
    }

    fn key(&self) -> Key {
        Key::new(&LEASE, Some(&self.namespace), &self.name)
    }

    fn spec(&self, old: &Value, now: &str) -> Value {
        let mine = old["holderIdentity"] == *self.identity;
        let transitions = old["leaseTransitions"].as_i64().unwrap_or_default();
        let acquired = if mine {
            old["acquireTime"].clone()
        } else {
            json!(now)
        };
        let changes = i64::from(!mine && !old["holderIdentity"].is_null());
        json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.seconds,
            "acquireTime": acquired,
            "renewTime": now,
            "leaseTransitions": transitions + changes,
        })
    }
}

/// When a lease ends, if it is held.
fn ends_at(lease: &DynamicObject) -> Option<jiff::Timestamp> {
    if text(lease, "/spec/holderIdentity").is_empty() {
        return None;
    }
    let renewed: jiff::Timestamp = text(lease, "/spec/renewTime").parse().ok()?;
    let seconds = lease.data["spec"]["leaseDurationSeconds"].as_i64()?;
    renewed
        .checked_add(jiff::SignedDuration::from_secs(seconds))
        .ok()
}

#[async_trait]
impl Actor for LeaseHolder {
    fn name(&self) -> &'static str {
        "lease-holder"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![LEASE])
    }

    fn initial_keys(&self) -> Vec<Key> {
        vec![self.key()]
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let ours = text(&change.object, "/spec/holderIdentity") == self.identity;
        if key == self.key() && (change.gone || !ours) {
            vec![key]
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let clock = context.clock.now();
        let now = clock.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let Some(lease) = objects.get(key).await? else {
            let namespace = key.namespace.as_deref();
            let body = json!({
                "metadata": {"name": key.name, "namespace": key.namespace},
                "spec": self.spec(&Value::Null, &now),
            });
            objects.create(&LEASE, namespace, body).await?;
            return Ok(Next::Later(self.every));
        };
        let mine = text(&lease, "/spec/holderIdentity") == self.identity;
        let ends = ends_at(&lease);
        if !mine && ends.is_some_and(|ends| ends > clock) {
            let left = ends.map(|ends| ends.duration_since(clock));
            let left = left.and_then(|left| Duration::try_from(left).ok());
            return Ok(Next::Later(left.unwrap_or(self.every)));
        }
        match context.gate(Stage::LEASE_RENEWED, &lease, "") {
            Gate::Open => {}
            Gate::Wait(rest) => return Ok(Next::Later(rest)),
            Gate::Held => return Ok(Next::Held),
            Gate::Fail(_) => {
                if mine {
                    let patch = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
                    ignore_missing(objects.merge(key, Some(&lease), patch).await)?;
                }
                return Ok(Next::Held);
            }
        }
        let patch = json!({"spec": self.spec(&lease.data["spec"], &now)});
        ignore_missing(objects.merge(key, Some(&lease), patch).await)?;
        Ok(Next::Later(self.every))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_changes_hands_counts_it() {
        let holder = LeaseHolder::new("a", "l", "me");
        let first = holder.spec(&Value::Null, "T1");
        assert_eq!(first["leaseTransitions"], 0);
        let again = holder.spec(&first, "T2");
        assert_eq!(again["acquireTime"], "T1");
        assert_eq!(again["renewTime"], "T2");
        let other = json!({"holderIdentity": "you", "leaseTransitions": 3});
        assert_eq!(holder.spec(&other, "T3")["leaseTransitions"], 4);
    }
}
