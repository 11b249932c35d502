//! Puts Gateways and their routes into effect, as an implementation of the
//! Gateway API does.

use async_trait::async_trait;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{GATEWAY, GATEWAY_CLASS, HTTP_ROUTE, Key, SERVICE};
use crate::actors::objects::{Objects, ignore_missing, is_deleting, text};
use crate::actors::references::References;
use crate::actors::rules::{Failure, Gate, Stage};

/// Plays a controller of the Gateway API (`gateway.networking.k8s.io/v1`):
/// classes are accepted, Gateways get an address and are programmed, routes
/// tell for each parent whether they are accepted and whether what they lead to
/// is there. No request is routed.
#[derive(Debug, Default)]
pub struct Gateways {
    links: Mutex<References>,
}

#[async_trait]
impl Actor for Gateways {
    fn name(&self) -> &'static str {
        "gateway-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![GATEWAY_CLASS, GATEWAY, HTTP_ROUTE, SERVICE])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let mut links = self.links.lock();
        let mut keys = links.to(&key);
        if change.kind == HTTP_ROUTE && !change.gone {
            let mut targets: Vec<Key> = parents(&change.object)
                .map(|parent| gateway_of(parent, &key))
                .collect();
            targets.extend(backends(&change.object).map(|backend| service_of(backend, &key)));
            links.set(&key, targets);
        } else if change.kind == GATEWAY && !change.gone {
            let class = text(&change.object, "/spec/gatewayClassName");
            links.set(&key, vec![Key::new(&GATEWAY_CLASS, None, class)]);
        } else if change.gone {
            links.set(&key, Vec::new());
        }
        // A Gateway tells how many routes it has.
        if change.kind == HTTP_ROUTE {
            keys.extend(parents(&change.object).map(|parent| gateway_of(parent, &key)));
        }
        if change.kind != SERVICE {
            keys.push(key);
        }
        keys
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let found = objects.get(key).await?;
        let Some(object) = found.filter(|o| !is_deleting(o)) else {
            return Ok(Next::Done);
        };
        let told = Told {
            context,
            objects,
            key,
            object: &object,
        };
        if key.kind == GATEWAY_CLASS {
            told.class().await
        } else if key.kind == GATEWAY {
            told.gateway().await
        } else {
            told.route().await
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map_or(&[][..], Vec::as_slice).iter()
}

fn parents(route: &DynamicObject) -> impl Iterator<Item = &Value> {
    list(&route.data["spec"]["parentRefs"])
}

fn backends(route: &DynamicObject) -> impl Iterator<Item = &Value> {
    list(&route.data["spec"]["rules"]).flat_map(|rule| list(&rule["backendRefs"]))
}

fn gateway_of(parent: &Value, route: &Key) -> Key {
    let namespace = parent["namespace"].as_str().or(route.namespace.as_deref());
    Key::new(
        &GATEWAY,
        namespace,
        parent["name"].as_str().unwrap_or_default(),
    )
}

fn service_of(backend: &Value, route: &Key) -> Key {
    let namespace = backend["namespace"].as_str().or(route.namespace.as_deref());
    Key::new(
        &SERVICE,
        namespace,
        backend["name"].as_str().unwrap_or_default(),
    )
}

/// A condition in place of one in `old`.
fn condition(
    old: &Value,
    type_: &str,
    (holds, reason, message): (bool, &str, &str),
    generation: i64,
    now: &str,
) -> Value {
    let word = if holds { "True" } else { "False" };
    let before = list(old).find(|c| c["type"] == type_ && c["status"] == word);
    json!({
        "type": type_,
        "status": word,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": before.map_or(json!(now), |c| c["lastTransitionTime"].clone()),
    })
}

/// Whether a Gateway or route of namespace `of` is let in from `from`.
fn is_let_in(listener: &Value, of: Option<&str>, from: Option<&str>) -> bool {
    match listener["allowedRoutes"]["namespaces"]["from"].as_str() {
        // Namespaces by their labels are not looked at: they are let in.
        Some("All" | "Selector") => true,
        _ => of == from,
    }
}

struct Told<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    key: &'a Key,
    object: &'a DynamicObject,
}

impl Told<'_> {
    fn generation(&self) -> i64 {
        self.object.metadata.generation.unwrap_or_default()
    }

    async fn write(&self, status: Value) -> Result<(), ActorError> {
        let written = self.objects.set_status(self.key, self.object, status);
        ignore_missing(written.await)
    }

    /// What the rules say of it, and when that may change.
    fn passes(&self) -> Result<(Option<Failure>, Next), Next> {
        let round = self.generation().to_string();
        match self
            .context
            .gate(Stage::ROUTE_PROGRAMMED, self.object, &round)
        {
            Gate::Open => Ok((None, Next::Held)),
            Gate::Wait(rest) => Err(Next::After(rest)),
            Gate::Held => Err(Next::Held),
            Gate::Fail(why) => Ok((Some(why), Next::Held)),
        }
    }

    async fn class(&self) -> Result<Next, ActorError> {
        let old = &self.object.data["status"]["conditions"];
        let words = (true, "Accepted", "Handled by a played controller");
        let now = self.context.now();
        let accepted = condition(old, "Accepted", words, self.generation(), &now);
        let mut status = match &self.object.data["status"] {
            Value::Object(_) => self.object.data["status"].clone(),
            _ => json!({}),
        };
        status["conditions"] = json!([accepted]);
        self.write(status).await?;
        Ok(Next::Done)
    }

    async fn gateway(&self) -> Result<Next, ActorError> {
        let class = text(self.object, "/spec/gatewayClassName");
        if self
            .objects
            .find(&GATEWAY_CLASS, None, class)
            .await?
            .is_none()
        {
            // Nobody's, as long as there is no such class.
            return Ok(Next::Done);
        }
        let (failure, next) = match self.passes() {
            Ok(passed) => passed,
            Err(next) => return Ok(next),
        };
        let old = &self.object.data["status"];
        let (generation, now) = (self.generation(), self.context.now());
        let said = |old: &Value, type_: &str, words: (bool, &str, &str)| {
            condition(old, type_, words, generation, &now)
        };
        let accepted = (true, "Accepted", "Gateway accepted");
        let programmed = match &failure {
            Some(why) => (false, why.reason.as_str(), why.message.as_str()),
            None => (true, "Programmed", "Gateway programmed"),
        };
        let mut listeners = Vec::new();
        for listener in list(&self.object.data["spec"]["listeners"]) {
            let before = list(&old["listeners"]).find(|l| l["name"] == listener["name"]);
            let before = before.map_or(&Value::Null, |l| &l["conditions"]);
            listeners.push(json!({
                "name": listener["name"],
                "attachedRoutes": self.routes(listener).await?,
                "supportedKinds": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}],
                "conditions": [
                    said(before, "Accepted", (true, "Accepted", "Listener accepted")),
                    said(before, "Programmed", programmed),
                    said(before, "ResolvedRefs", (true, "ResolvedRefs", "Listener references have been resolved")),
                ],
            }));
        }
        let old_conditions = &old["conditions"];
        let mut status = json!({
            "conditions": [
                said(old_conditions, "Accepted", accepted),
                said(old_conditions, "Programmed", programmed),
            ],
            "listeners": listeners,
        });
        if failure.is_none() {
            let wanted = list(&self.object.data["spec"]["addresses"]).next();
            let address = wanted.cloned();
            let loopback = json!({"type": "IPAddress", "value": "127.0.0.1"});
            status["addresses"] = json!([address.unwrap_or(loopback)]);
        }
        self.write(status).await?;
        Ok(next)
    }

    /// How many routes a listener has.
    async fn routes(&self, listener: &Value) -> Result<usize, ActorError> {
        if !self.context.catalog.has(&HTTP_ROUTE) {
            return Ok(0);
        }
        let of = self.key.namespace.as_deref();
        let all = self.objects.list(&HTTP_ROUTE, None, "").await?;
        let attached = all.iter().filter(|route| {
            let key = Key::of(&HTTP_ROUTE, route);
            is_let_in(listener, of, key.namespace.as_deref())
                && parents(route).any(|parent| {
                    let section = parent["sectionName"].as_str();
                    gateway_of(parent, &key) == *self.key
                        && section.is_none_or(|section| listener["name"] == section)
                })
        });
        Ok(attached.count())
    }

    async fn route(&self) -> Result<Next, ActorError> {
        let (failure, next) = match self.passes() {
            Ok(passed) => passed,
            Err(next) => return Ok(next),
        };
        let missing = self.missing_backend().await?;
        let old = &self.object.data["status"];
        let (generation, now) = (self.generation(), self.context.now());
        let mut told = Vec::new();
        for parent in parents(self.object) {
            let key = gateway_of(parent, self.key);
            let Some(gateway) = self.objects.get(&key).await? else {
                continue;
            };
            let class = text(&gateway, "/spec/gatewayClassName");
            let Some(class) = self.objects.find(&GATEWAY_CLASS, None, class).await? else {
                continue;
            };
            let before = list(&old["parents"]).find(|p| p["parentRef"] == *parent);
            let before = before.map_or(&Value::Null, |p| &p["conditions"]);
            let section = parent["sectionName"].as_str();
            let mut listeners = list(&gateway.data["spec"]["listeners"])
                .filter(|l| section.is_none_or(|section| l["name"] == section))
                .peekable();
            let of = key.namespace.as_deref();
            let from = self.key.namespace.as_deref();
            let accepted = match &failure {
                Some(why) => (false, why.reason.as_str(), why.message.as_str()),
                None if listeners.peek().is_none() => (
                    false,
                    "NoMatchingParent",
                    "No listener matches this parentRef",
                ),
                None if !listeners.any(|l| is_let_in(l, of, from)) => (
                    false,
                    "NotAllowedByListeners",
                    "No listener allows routes of this namespace",
                ),
                None => (true, "Accepted", "Route is accepted"),
            };
            let resolved = match &missing {
                None => (true, "ResolvedRefs", "All references are resolved"),
                Some(why) => (false, "BackendNotFound", why.as_str()),
            };
            told.push(json!({
                "parentRef": parent,
                "controllerName": text(&class, "/spec/controllerName"),
                "conditions": [
                    condition(before, "Accepted", accepted, generation, &now),
                    condition(before, "ResolvedRefs", resolved, generation, &now),
                ],
            }));
        }
        self.write(json!({"parents": told})).await?;
        Ok(next)
    }

    /// A Service that the route leads to and that is not there.
    async fn missing_backend(&self) -> Result<Option<String>, ActorError> {
        for backend in backends(self.object) {
            let service = backend["kind"]
                .as_str()
                .is_none_or(|kind| kind == "Service");
            let key = service_of(backend, self.key);
            if service && self.objects.get(&key).await?.is_none() {
                let (space, name) = (key.space(), &key.name);
                return Ok(Some(format!("Service {space}/{name} not found")));
            }
        }
        Ok(None)
    }
}
