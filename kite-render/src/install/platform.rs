//! The `KitePlatform` of an installation.

use kite_core::{
    crd::{KitePlatform, KitePlatformSpec},
    names,
};
use serde_json::Value;

use super::Installation;

/// The platform's settings.
pub(super) fn platform(installation: &Installation) -> KitePlatform {
    let mut platform = KitePlatform::new(names::PLATFORM, installation.platform.clone());
    platform.metadata.labels = super::metadata::common(names::PLATFORM, None).labels;
    platform
}

/// The platform as it is applied: with nothing but what differs from the defaults.
/// What is not in it, administrators set without being in the installer's way: the next
/// apply does not take it back, nor is it a conflict.
pub(super) fn sparse(platform: &KitePlatform) -> Result<Value, serde_json::Error> {
    let defaults = serde_json::to_value(KitePlatformSpec::default())?;
    let mut object = serde_json::to_value(platform)?;
    if let Some(spec) = object.get_mut("spec") {
        take_away(spec, &defaults);
    }
    Ok(object)
}

/// Takes what is the same in `defaults` out of `value`.
fn take_away(value: &mut Value, defaults: &Value) {
    let (Value::Object(fields), Value::Object(defaults)) = (value, defaults) else {
        return;
    };
    fields.retain(|name, value| {
        let Some(default) = defaults.get(name) else {
            return true;
        };
        if value == default {
            return false;
        }
        take_away(value, default);
        true
    });
}
