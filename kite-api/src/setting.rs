//! [`Setting`]: a field of a custom resource's spec, as bodies write it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    crd::{PowerState, SnapshotSchedule, SshLogin, VolumeAttachment},
    quantity::Bytes,
    span::Span,
};
use kite_rest::{Change, Field, Form, OneOf, SshKeys, Whole};
use serde::Serialize;
use serde_json::{Value, json};

/// The type of a field of a spec.
pub(crate) trait Setting: Sized + Serialize {
    /// What stands for it in a body.
    type Written: Field;

    fn of(written: Self::Written) -> Self;

    /// What is left where an edit takes it away, by null; none if none may.
    fn removed() -> Option<Self> {
        None
    }

    /// Reads it from a body that must have it. `None` only if an error was noted.
    fn required(form: &mut Form, name: &'static str) -> Option<Self> {
        form.required(name).map(Self::of)
    }

    /// Reads it from a body that may lack it.
    fn optional(form: &mut Form, name: &'static str) -> Option<Self> {
        form.optional(name).map(Self::of)
    }

    /// Reads what an edit does to it.
    fn changed(form: &mut Form, name: &'static str) -> Change<Self> {
        if Self::removed().is_some() {
            return form.change(name).map(Self::of);
        }
        let changed = form.changed(name).map(Self::of);
        changed.map_or(Change::Keep, Change::Set)
    }

    /// What a merge patch writes for it.
    fn patch(&self) -> Value {
        json!(self)
    }

    /// What it is after an edit.
    fn after(self, change: Change<Self>) -> Self {
        match change {
            Change::Keep => self,
            Change::Clear => Self::removed().unwrap_or(self),
            Change::Set(changed) => changed,
        }
    }
}

/// What is written as it is kept.
macro_rules! plain {
    ($($Type:ty),*) => {
        $(
            impl Setting for $Type {
                type Written = Self;

                fn of(written: Self) -> Self {
                    written
                }
            }
        )*
    };
}

plain!(u32, bool, String, Bytes);

/// Words of which one is written.
macro_rules! words {
    ($($Type:ty),*) => {
        $(
            impl Setting for $Type {
                type Written = OneOf<Self>;

                fn of(OneOf(word): OneOf<Self>) -> Self {
                    word
                }
            }
        )*
    };
}

words!(PowerState, SshLogin);

/// What may be absent.
macro_rules! removable {
    ($($Type:ty),*) => {
        $(
            impl Setting for Option<$Type> {
                type Written = $Type;

                fn of(written: $Type) -> Self {
                    Some(written)
                }

                fn removed() -> Option<Self> {
                    Some(None)
                }
            }
        )*
    };
}

removable!(String, Time, Span);

/// Public keys, of which there may be none.
impl Setting for Vec<String> {
    type Written = SshKeys;

    fn of(SshKeys(keys): SshKeys) -> Self {
        keys
    }

    fn removed() -> Option<Self> {
        Some(Self::new())
    }
}

/// A schedule, of which each edit is the whole.
impl Setting for Option<Box<SnapshotSchedule>> {
    type Written = Whole<SnapshotSchedule>;

    fn of(Whole(schedule): Whole<SnapshotSchedule>) -> Self {
        Some(Box::new(schedule))
    }

    fn removed() -> Option<Self> {
        Some(None)
    }

    /// The zone of the one before is none of this one's.
    fn patch(&self) -> Value {
        let mut patch = json!(self);
        if let Some(fields) = patch.as_object_mut() {
            fields.entry("timeZone").or_insert(Value::Null);
        }
        patch
    }
}

/// Volumes, of which there may be none.
impl Setting for Vec<VolumeAttachment> {
    type Written = Whole<Self>;

    fn of(Whole(volumes): Whole<Self>) -> Self {
        volumes
    }

    fn removed() -> Option<Self> {
        Some(Self::new())
    }
}
