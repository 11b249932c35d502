//! What a request for a volume may say.

use kite_core::{
    crd::{KiteVolume, KiteVolumeSpec, OnAccountDeletion},
    names::VM_NAME_MAX,
    quantity::Bytes,
};
use kite_rest::{Bounds, Form, Input, OneOf, as_map, change_to_json};
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

const MEANING: [(&str, &str); 1] = [(
    "name",
    "Name of the volume, unique among its owner's: lower-case letters, digits and hyphens.",
)];
const BOUNDS: [(&str, Bounds); 1] = [("name", Bounds::between(1, VM_NAME_MAX))];

/// A volume that somebody wants to have.
pub(crate) struct NewVolume {
    pub(super) name: String,
    pub(super) spec: KiteVolumeSpec,
}

impl Input for NewVolume {
    const NAME: &'static str = "NewVolume";
    const MEANING: &'static [(&'static str, &'static str)] = &MEANING;
    const BOUNDS: &'static [(&'static str, Bounds)] = &BOUNDS;

    fn example() -> Option<Value> {
        Some(json!({"name": "data", "size": "20Gi"}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let name = form.required("name");
        let size = form.required("size");
        let description = form.optional("description");
        let fate: Option<OneOf<OnAccountDeletion>> = form.optional("onAccountDeletion");
        Some(Self {
            name: name?,
            spec: KiteVolumeSpec {
                description,
                on_account_deletion: fate.map(|OneOf(it)| it).unwrap_or_default(),
                ..KiteVolumeSpec::new(size?)
            },
        })
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(KiteVolumeSpec::json_schema(generator))
    }
}

/// What somebody wants to change of a volume.
pub(crate) struct Edit(pub(super) Map<String, Value>);

impl Input for Edit {
    const NAME: &'static str = "VolumeEdit";
    const MEANING: &'static [(&'static str, &'static str)] = &MEANING;
    const BOUNDS: &'static [(&'static str, Bounds)] = &BOUNDS;

    fn example() -> Option<Value> {
        Some(json!({"size": "40Gi"}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        form.fixed("name", "cannot be changed: create another volume");
        let size: Option<Bytes> = form.changed("size");
        let description = form.change::<String>("description");
        let fate: Option<OneOf<OnAccountDeletion>> = form.changed("onAccountDeletion");
        Some(Self(as_map([
            size.map(|it| ("size", json!(it))),
            change_to_json("description", description),
            fate.map(|OneOf(it)| ("onAccountDeletion", json!(it))),
        ])))
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(KiteVolumeSpec::json_schema(generator))
    }
}

/// A volume that the API server takes, to try single fields with.
pub(super) fn model() -> KiteVolume {
    KiteVolume::new("kite-model", KiteVolumeSpec::new(Bytes::from_gib(1)))
}
