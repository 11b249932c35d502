//! What a controller watches beside its own kind.

use kite_cluster::Object;
use kube::{
    ResourceExt as _,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};

/// Listens for the controller of `K`.
pub trait Listener<K: Object>: Sized {
    /// A change of an object of kind `W` triggers what the mapper says; it gets the
    /// controller's cache. `config` is what suffices to be watched: a listener that
    /// watches more, as for its caches' sake, hands the rest over, too, so that a mapper
    /// looks for itself at what it is handed. `start` makes the mapper
    /// when the controller starts: what a mapper remembers is lost in a crash. An
    /// object that is gone should be handed over with a deletionTimestamp, as a
    /// `CacheWriter` of the caches tells of it: only then is it certain that
    /// whoever waits for a name hears that it is free.
    #[must_use]
    fn on<W, M>(self, config: watcher::Config, start: fn() -> M) -> Self
    where
        W: Object,
        M: Fn(&W, &Store<K>) -> Vec<ObjectRef<K>> + Send + Sync + 'static;

    /// Objects of kind `W` that one of `K` owns trigger their owner.
    #[must_use]
    fn owns<W: Object>(self) -> Self {
        self.on(watcher::Config::default(), || owners::<W, K>)
    }
}

/// Those of `store` that own `object`.
fn owners<W: Object, K: Object>(object: &W, store: &Store<K>) -> Vec<ObjectRef<K>> {
    let owners = object.owner_references().iter();
    let owners =
        owners.filter(|it| it.kind == K::kind(&()) && it.api_version == K::api_version(&()));
    let found = owners.filter_map(|owner| {
        // Beside the object, or in no namespace.
        let namespace = object.namespace();
        let beside = namespace.map(|it| ObjectRef::new(&owner.name).within(&it));
        let of_all = ObjectRef::new(&owner.name);
        let mut places = beside.into_iter().chain([of_all]);
        // A store finds what has no namespace by any: the reference is as the object is.
        let owner = places.find_map(|it| store.get(&it))?;
        Some(ObjectRef::from_obj(&*owner))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
    use kube::{Resource, runtime::reflector, runtime::watcher::Event};
    use serde_json::{Value, json};

    use super::*;

    fn object<K: Object>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    fn store<K: Object>(known: K) -> Store<K> {
        let (store, mut writer) = reflector::store();
        writer.apply_watcher_event(&Event::Apply(known));
        store
    }

    fn owned_by<K: Resource<DynamicType = ()>>(name: &str) -> Secret {
        object(json!({"metadata": {
            "name": "child", "namespace": "dev",
            "ownerReferences": [{
                "apiVersion": K::api_version(&()), "kind": K::kind(&()), "name": name, "uid": "1",
            }],
        }}))
    }

    #[test]
    fn an_owner_beside_the_object_and_one_in_no_namespace_are_found_as_they_are() {
        let maps = store(object::<ConfigMap>(json!({
            "metadata": {"name": "a", "namespace": "dev"},
        })));
        let found = owners(&owned_by::<ConfigMap>("a"), &maps);
        assert_eq!(found, [ObjectRef::new("a").within("dev")]);
        assert!(owners(&owned_by::<ConfigMap>("b"), &maps).is_empty());

        let nodes = store(object::<Node>(json!({"metadata": {"name": "a"}})));
        let found = owners(&owned_by::<Node>("a"), &nodes);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].namespace, None, "its own trigger names none");
        assert!(owners(&owned_by::<ConfigMap>("a"), &nodes).is_empty());
    }
}
