//! The cloud-init user data of an instance.

use kite_fake::actors::ActorError;
use kite_fake::actors::kind::SECRET;
use kite_fake::actors::objects::Objects;
use serde_json::Value;

/// What an instance says of its user data.
pub(super) enum UserData {
    /// It has none.
    None,
    /// This.
    Text(String),
    /// It is in a Secret that is not there.
    Missing,
}

/// Name of the Secret that the user data of an instance is in.
pub(super) fn secret(spec: &Value) -> Option<&str> {
    source(spec)?["secretRef"]["name"].as_str()
}

/// The user data of an instance with this spec.
pub(super) async fn user_data(
    objects: Objects<'_>,
    spec: &Value,
    namespace: Option<&str>,
) -> Result<UserData, ActorError> {
    let Some(source) = source(spec) else {
        return Ok(UserData::None);
    };
    if let Some(inline) = source["userData"].as_str() {
        return Ok(UserData::Text(inline.to_owned()));
    }
    if let Some(inline) = source["userDataBase64"].as_str() {
        return Ok(decode(inline).map_or(UserData::None, UserData::Text));
    }
    let Some(name) = secret(spec) else {
        return Ok(UserData::None);
    };
    let secret = objects.find(&SECRET, namespace, name).await?;
    let data = secret.and_then(|secret| {
        let data = &secret.data["data"];
        let keys = ["userdata", "userData"];
        keys.iter().find_map(|key| decode(data[*key].as_str()?))
    });
    Ok(data.map_or(UserData::Missing, UserData::Text))
}

/// The source of an instance's cloud-init volume.
fn source(spec: &Value) -> Option<&Value> {
    let volumes = spec["volumes"].as_array()?;
    let mut sources = volumes
        .iter()
        .flat_map(|v| [&v["cloudInitNoCloud"], &v["cloudInitConfigDrive"]]);
    sources.find(|source| source.is_object())
}

fn decode(text: &str) -> Option<String> {
    let engine = base64::engine::general_purpose::STANDARD;
    let bytes = base64::Engine::decode(&engine, text).ok()?;
    String::from_utf8(bytes).ok()
}
