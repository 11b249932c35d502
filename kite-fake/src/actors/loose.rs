//! Objects of any kind, read in one go.
//!
//! `DynamicObject` keeps what it does not know by serde's flattening, which
//! reads everything twice; and it keeps `managedFields`, the longest part of many
//! objects, which no controller looks at.

use std::borrow::Cow;
use std::fmt;

use kube::api::{Api, DynamicObject, ObjectMeta, TypeMeta};
use kube::core::{ApiResource, DynamicResourceScope};
use kube::{Client, Resource};
use serde::de::value::{CowStrDeserializer, MapAccessDeserializer};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::kind::{Key, Kind};

/// An object without its `managedFields`.
#[derive(Clone, Debug)]
pub(crate) struct Loose(pub(crate) DynamicObject);

/// The objects of the kind of `key`, in its namespace.
pub(super) fn beside(client: &Client, key: &Key) -> Api<Loose> {
    within(client, &key.kind, key.namespace.as_deref())
}

/// The objects of `kind` in `namespace`; all of them where it is `None` or the
/// kind is cluster-scoped.
pub(super) fn within(client: &Client, kind: &Kind, namespace: Option<&str>) -> Api<Loose> {
    match namespace {
        Some(namespace) if kind.namespaced => {
            Api::namespaced_with(client.clone(), namespace, &kind.resource())
        }
        _ => Api::all_with(client.clone(), &kind.resource()),
    }
}

impl Resource for Loose {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::kind(of)
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::group(of)
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::version(of)
    }

    fn api_version(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::api_version(of)
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

impl Serialize for Loose {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(object: D) -> Result<Self, D::Error> {
        object.deserialize_map(Object).map(Self)
    }
}

/// Reads an object.
struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = DynamicObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<DynamicObject, A::Error> {
        let (mut api_version, mut kind) = (None, None);
        let mut metadata = ObjectMeta::default();
        let mut data = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => api_version = Some(fields.next_value()?),
                "kind" => kind = Some(fields.next_value()?),
                "metadata" => metadata = fields.next_value_seed(Metadata)?,
                _ => drop(data.insert(key, fields.next_value::<Value>()?)),
            }
        }
        let types = api_version.zip(kind);
        Ok(DynamicObject {
            types: types.map(|(api_version, kind)| TypeMeta { api_version, kind }),
            metadata,
            data: Value::Object(data),
        })
    }
}

/// Reads metadata.
struct Metadata;

impl<'de> DeserializeSeed<'de> for Metadata {
    type Value = ObjectMeta;

    fn deserialize<D: Deserializer<'de>>(self, metadata: D) -> Result<ObjectMeta, D::Error> {
        metadata.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Metadata {
    type Value = ObjectMeta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<ObjectMeta, A::Error> {
        ObjectMeta::deserialize(MapAccessDeserializer::new(Without(fields)))
    }
}

/// Fields without `managedFields`.
struct Without<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Without<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.0.next_key::<Cow<'de, str>>()? {
            if key == "managedFields" {
                self.0.next_value::<IgnoredAny>()?;
            } else {
                let key = CowStrDeserializer::<A::Error>::new(key);
                return seed.deserialize(key).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn it_is_what_a_dynamic_object_is_without_managed_fields() {
        for types in [json!({}), json!({"apiVersion": "v1", "kind": "Pod"})] {
            let mut value = json!({
                "metadata": {
                    "name": "p",
                    "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
                    "labels": {"a": "b"},
                    "creationTimestamp": "2026-01-02T03:04:05Z",
                },
                "spec": {"x": [1, null]},
                "status": {},
            });
            value
                .as_object_mut()
                .unwrap()
                .extend(types.as_object().unwrap().clone());
            let text = value.to_string();
            let mut plain: DynamicObject = serde_json::from_str(&text).unwrap();
            let loose: Loose = serde_json::from_str(&text).unwrap();
            plain.metadata.managed_fields = None;
            assert_eq!(loose.0, plain);
            assert_eq!(json!(loose), json!(plain));
        }
    }
}
