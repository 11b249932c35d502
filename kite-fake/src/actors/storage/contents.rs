//! What is on volumes, as far as it is told apart: a text of who plays or tests, which goes
//! where a driver takes the data.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::actors::kind::Kind;

/// On a volume, and on the content of a snapshot: what is on it.
pub const CONTENTS: &str = "kite-fake/contents";
/// On a volume: the volume or the content of a snapshot that it was filled from, as
/// `<plural>/<name>`.
pub const FILLED_FROM: &str = "kite-fake/filled-from";
/// On a volume: where its data still come from, as [`FILLED_FROM`].
pub const COPYING_FROM: &str = "kite-fake/copying-from";
/// On a volume whose data still come from another one: what that had on it when they began to.
pub const ARRIVING: &str = "kite-fake/arriving";
/// On a volume, and on the content of a snapshot: why its data are lost for ever.
pub const BROKEN: &str = "kite-fake/broken";
/// On the content of a snapshot: how the volume was used when it was taken. `unused`; `still`
/// where everybody who used it had its file systems still ([`STILL`]); `in-use`.
pub const TAKEN: &str = "kite-fake/taken";
/// On a Pod: since when what runs in it writes nothing to its volumes.
pub const STILL: &str = "kite-fake/still";

/// An annotation of an object.
pub fn annotation<'a>(object: &'a DynamicObject, name: &str) -> Option<&'a str> {
    let annotations = object.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

/// Why no Pod can have a volume now.
pub(in crate::actors) fn obstacle(volume: &DynamicObject) -> Option<String> {
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    let told = |why: &str| {
        format!(
            "AttachVolume.Attach failed for volume {name:?} : rpc error: code = Internal desc = \
             volume {name} {why}"
        )
    };
    if let Some(why) = annotation(volume, BROKEN) {
        return Some(told(&format!("is faulted: {why}")));
    }
    annotation(volume, COPYING_FROM).map(|_| told("is not ready for workloads"))
}

/// What a new volume has on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filling(Option<Filled>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Filled {
    from: String,
    copying: bool,
    contents: Option<String>,
    broken: Option<String>,
}

impl Filling {
    /// Nothing, or what it gets later.
    pub fn none() -> Self {
        Self::default()
    }

    /// What is on `source`: a volume, or the content of a snapshot, as its kind says.
    pub fn copy(kind: &Kind, source: &DynamicObject) -> Self {
        let name = source.metadata.name.as_deref().unwrap_or_default();
        Self(Some(Filled {
            from: format!("{}/{name}", kind.plural),
            copying: false,
            contents: annotation(source, CONTENTS).map(str::to_owned),
            broken: annotation(source, BROKEN).map(str::to_owned),
        }))
    }

    /// The same, with the data still on their way.
    #[must_use]
    pub fn early(self) -> Self {
        Self(self.0.map(|filled| Filled {
            copying: true,
            ..filled
        }))
    }

    /// The annotations of a volume that has this on it.
    pub(super) fn annotations(&self) -> Value {
        let Some(filled) = &self.0 else {
            return Value::Null;
        };
        let mut annotations = json!({FILLED_FROM: filled.from});
        if filled.copying {
            annotations[COPYING_FROM] = json!(filled.from);
            if let Some(contents) = &filled.contents {
                annotations[ARRIVING] = json!(contents);
            }
            return annotations;
        }
        for (name, text) in [(CONTENTS, &filled.contents), (BROKEN, &filled.broken)] {
            if let Some(text) = text {
                annotations[name] = json!(text);
            }
        }
        annotations
    }
}
