//! Events that actors tell, as client-go's recorder does.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::actor::Context;
use super::kind::{EVENT, Key, Kind};
use super::objects::{Objects, uid};

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    /// Whether it is a `Warning`, not `Normal`.
    pub warning: bool,
    /// One word.
    pub reason: &'a str,
    /// A sentence.
    pub message: String,
}

/// Something that went as it should.
pub fn normal(reason: &str, message: impl Into<String>) -> Said<'_> {
    Said {
        warning: false,
        reason,
        message: message.into(),
    }
}

/// Something that did not.
pub fn warning(reason: &str, message: impl Into<String>) -> Said<'_> {
    Said {
        warning: true,
        reason,
        message: message.into(),
    }
}

/// Tells `said` of `object` in the name of `component`, if the rules want events
/// ([`Rules::with_events`](super::Rules::with_events)). The same event again
/// only counts. One that cannot be written is dropped, as the recorder does.
pub async fn tell(
    context: &Context,
    component: &'static str,
    (kind, object): (&Kind, &DynamicObject),
    said: Said<'_>,
) {
    if !context.rules.wants_events() {
        return;
    }
    let objects = Objects::new(context, component);
    let meta = &object.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    let now = context.now();
    let key = Key::new(
        &EVENT,
        Some(namespace),
        &name_of(name, uid(object), component, &said),
    );
    let told = match objects.get(&key).await {
        Ok(Some(event)) => {
            let count = event.data["count"].as_u64().unwrap_or(1) + 1;
            let patch = json!({"count": count, "lastTimestamp": now});
            objects.merge(&key, None, patch).await.map(drop)
        }
        Ok(None) => {
            let body = event(&key, kind, object, component, &said, &now);
            let created = objects.create(&EVENT, Some(namespace), body).await;
            created.map(drop)
        }
        Err(error) => Err(error),
    };
    if let Err(error) = told {
        tracing::debug!(%key, %error, "an event is dropped");
    }
}

fn name_of(name: &str, uid: &str, component: &str, said: &Said<'_>) -> String {
    let seed = format!("{uid}/{component}/{}/{}", said.reason, said.message);
    // FNV-1a: any hash will do that is the same everywhere.
    let hash = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{name}.{hash:016x}")
}

fn event(
    key: &Key,
    kind: &Kind,
    object: &DynamicObject,
    component: &str,
    said: &Said<'_>,
    now: &str,
) -> Value {
    let mut about = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": object.metadata.name,
        "uid": object.metadata.uid,
        "resourceVersion": object.metadata.resource_version,
    });
    if let Some(namespace) = &object.metadata.namespace {
        about["namespace"] = json!(namespace);
    }
    json!({
        "metadata": {"name": key.name, "namespace": key.namespace},
        "involvedObject": about,
        "reason": said.reason,
        "message": said.message,
        "type": if said.warning { "Warning" } else { "Normal" },
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_event_has_the_same_name() {
        let said = |message: &str| normal("Started", message.to_owned());
        let first = name_of("v", "u", "kubelet", &said("a"));
        assert_eq!(first, name_of("v", "u", "kubelet", &said("a")));
        assert_ne!(first, name_of("v", "u", "kubelet", &said("b")));
        assert_ne!(first, name_of("v", "other", "kubelet", &said("a")));
    }
}
