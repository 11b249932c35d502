//! What a request for a snapshot may say.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::crd::{KiteSnapshot, KiteSnapshotSpec, Quiesce};
use kite_rest::{Bounds, Form, Input, LABEL, OneOf, as_map, change_to_json, require_future};
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

const MEANING: [(&str, &str); 1] = [(
    "name",
    "Name of the snapshot, unique among its owner's: lower-case letters, digits and hyphens.",
)];
const BOUNDS: [(&str, Bounds); 1] = [("name", LABEL)];
const OTHERWISE: &str = "leave it out if the snapshot is to be kept for as long as its VM";

/// A snapshot that somebody wants to have.
pub(crate) struct NewSnapshot {
    pub(super) name: String,
    pub(super) spec: KiteSnapshotSpec,
}

impl Input for NewSnapshot {
    const NAME: &'static str = "NewSnapshot";
    const MEANING: &'static [(&'static str, &'static str)] = &MEANING;
    const BOUNDS: &'static [(&'static str, Bounds)] = &BOUNDS;

    fn example() -> Option<Value> {
        Some(json!({"name": "before-the-update", "vm": "web", "description": "before 13"}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let name = form.required("name");
        let vm = form.required("vm");
        let quiesce: Option<OneOf<Quiesce>> = form.optional("quiesce");
        let keep_until: Option<Time> = form.optional("keepUntil");
        require_future(form, "keepUntil", keep_until.as_ref(), OTHERWISE);
        let protected = form.optional("protected");
        let description = form.optional("description");
        Some(Self {
            name: name?,
            spec: KiteSnapshotSpec {
                vm: vm?,
                quiesce: quiesce.map(|OneOf(it)| it).unwrap_or_default(),
                keep_until,
                protected: protected.unwrap_or_default(),
                description,
                ..KiteSnapshotSpec::default()
            },
        })
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(KiteSnapshotSpec::json_schema(generator))
    }
}

/// What somebody wants to change of a snapshot.
pub(crate) struct Edit(pub(super) Map<String, Value>);

impl Input for Edit {
    const NAME: &'static str = "SnapshotEdit";
    const MEANING: &'static [(&'static str, &'static str)] = &MEANING;
    const BOUNDS: &'static [(&'static str, Bounds)] = &BOUNDS;

    fn example() -> Option<Value> {
        Some(json!({"protected": true, "keepUntil": null}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let fixed = "cannot be changed: take another snapshot";
        for field in ["name", "vm", "quiesce"] {
            form.fixed(field, fixed);
        }
        let keep_until = form.change::<Time>("keepUntil");
        let protected: Option<bool> = form.changed("protected");
        let description = form.change::<String>("description");
        Some(Self(as_map([
            change_to_json("keepUntil", keep_until),
            protected.map(|it| ("protected", json!(it))),
            change_to_json("description", description),
        ])))
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(KiteSnapshotSpec::json_schema(generator))
    }
}

/// A snapshot that the API server takes, to try single fields with.
pub(super) fn model() -> KiteSnapshot {
    let spec = KiteSnapshotSpec {
        vm: "kite-model".to_owned(),
        ..KiteSnapshotSpec::default()
    };
    KiteSnapshot::new("kite-model", spec)
}
