//! External addresses of Services and Ingresses.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{INGRESS, Key, Kind, SERVICE};
use crate::actors::objects::{Objects, ignore_missing, is_deleting, text};
use crate::actors::rules::{Gate, Stage};

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[SERVICE, INGRESS];

/// Plays a provider of load balancers: Services of type `LoadBalancer`, and
/// Ingresses with a class, get an address. One that is no `LoadBalancer` any
/// more loses it.
#[derive(Clone, Debug)]
pub struct LoadBalancers {
    address: String,
}

impl LoadBalancers {
    /// Hands out `address`, to all of them.
    pub fn at(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
        }
    }
}

impl Default for LoadBalancers {
    /// Hands out the loopback address.
    fn default() -> Self {
        Self::at("127.0.0.1")
    }
}

#[async_trait]
impl Actor for LoadBalancers {
    fn name(&self) -> &'static str {
        "load-balancer-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![SERVICE, INGRESS])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        if change.gone {
            Vec::new()
        } else {
            vec![change.key()]
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(object) = objects.get(key).await?.filter(|o| !is_deleting(o)) else {
            return Ok(Next::Done);
        };
        let wanted = if key.kind == SERVICE {
            text(&object, "/spec/type") == "LoadBalancer"
        } else {
            !text(&object, "/spec/ingressClassName").is_empty()
        };
        let has = object.data["status"]["loadBalancer"]["ingress"]
            .as_array()
            .is_some_and(|all| !all.is_empty());
        if wanted == has {
            return Ok(Next::Done);
        }
        let mut status = match &object.data["status"] {
            Value::Null => json!({}),
            status => status.clone(),
        };
        if wanted {
            match context.gate(Stage::LOAD_BALANCER_ADDRESS, &object, "") {
                Gate::Open => {}
                Gate::Wait(rest) => return Ok(Next::After(rest)),
                Gate::Held | Gate::Fail(_) => return Ok(Next::Held),
            }
            let mut ingress = json!({"ip": self.address});
            if key.kind == SERVICE {
                ingress["ipMode"] = json!("VIP");
            }
            status["loadBalancer"] = json!({"ingress": [ingress]});
        } else {
            status["loadBalancer"] = json!({});
        }
        ignore_missing(objects.set_status(key, &object, status).await)?;
        Ok(Next::Done)
    }
}
