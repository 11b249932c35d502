//! `ConfigMap` and Secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::go_json;
use crate::members::{copy, default, flag, has, members, set, text, unset};
use crate::names::config_key;
use crate::schema::{FieldError, Validation};

/// Most bytes of all values together.
const MAX_SIZE: usize = 1024 * 1024;

/// What errors show instead of a Secret's content.
const REDACTED: &str = "<secret contents redacted>";

const IMMUTABLE: &str = "field is immutable when `immutable` is set";

/// `stringData` becomes `data`; the type is `Opaque` if nothing else.
pub(in crate::builtin) fn default_secret(secret: &mut Value) {
    if let Some(Value::Object(texts)) = unset(secret, "stringData") {
        let mut data = match unset(secret, "data") {
            Some(Value::Object(data)) => data,
            _ => Map::new(),
        };
        for (key, text) in texts {
            let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
            data.insert(key, Value::from(encoded));
        }
        if !data.is_empty() {
            set(secret, "data", data);
        }
    }
    default(secret, "type", "Opaque");
}

fn bytes_of(secret: &Value, key: &str) -> Option<Vec<u8>> {
    let text = secret.get("data")?.get(key)?.as_str()?;
    STANDARD.decode(text).ok()
}

/// Checks a Secret's keys, size, and what its type demands.
pub(in crate::builtin) fn validate_secret(secret: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let mut size = 0;
    for (key, value) in members(secret, "data") {
        for wrong in config_key(key) {
            let key_value = Value::from(key.as_str());
            errors.push(FieldError::invalid(
                format!("data[{key}]"),
                &key_value,
                wrong,
            ));
        }
        // Base64 holds three bytes in four characters.
        size += value.as_str().map_or(0, |text| {
            text.len() / 4 * 3 - text.bytes().rev().take_while(|b| *b == b'=').count()
        });
    }
    if size > MAX_SIZE {
        errors.push(FieldError::too_long("data", MAX_SIZE as u64));
    }
    let present = |key: &str| secret.get("data").is_some_and(|data| has(data, key));
    let mut need = |key: &str| {
        if !present(key) {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    };
    match text(secret, "type") {
        "kubernetes.io/tls" => {
            need("tls.crt");
            need("tls.key");
            let certificate = bytes_of(secret, "tls.crt").unwrap_or_default();
            if present("tls.crt") && !String::from_utf8_lossy(&certificate).contains("-----BEGIN ")
            {
                found
                    .warnings
                    .push("tls: failed to find any PEM data in certificate input".to_owned());
            }
        }
        "kubernetes.io/basic-auth" if !present("username") && !present("password") => {
            need("username");
            need("password");
        }
        "kubernetes.io/ssh-auth" => need("ssh-privatekey"),
        "kubernetes.io/dockercfg" => json_key(secret, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => json_key(secret, ".dockerconfigjson", errors),
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            let account = secret["metadata"]["annotations"][ACCOUNT].as_str();
            if account.unwrap_or_default().is_empty() {
                errors.push(FieldError::required(
                    format!("metadata.annotations[{ACCOUNT}]"),
                    "",
                ));
            }
        }
        _ => {}
    }
}

/// A key that must hold JSON.
fn json_key(secret: &Value, key: &str, errors: &mut Vec<FieldError>) {
    let field = format!("data[{key}]");
    match bytes_of(secret, key) {
        None => errors.push(FieldError::required(field, "")),
        Some(bytes) => {
            if let Err(error) = serde_json::from_slice::<Map<String, Value>>(&bytes) {
                let wrong = go_json::fault(&bytes).unwrap_or_else(|| error.to_string());
                errors.push(FieldError::invalid(field, &json!(REDACTED), wrong));
            }
        }
    }
}

/// A Secret keeps its type; an immutable one keeps everything.
pub(in crate::builtin) fn validate_secret_update(new: &Value, old: &Value, found: &mut Validation) {
    if text(new, "type") != text(old, "type") {
        found.errors.push(FieldError::invalid(
            "type",
            &new["type"],
            "field is immutable",
        ));
    }
    immutable(new, old, &["data"], found);
}

/// An update may leave the type out.
pub(in crate::builtin) fn prepare_secret_update(new: &mut Value, old: &Value, _: &str) {
    if text(new, "type").is_empty() {
        copy(new, old, "type");
    }
}

/// An immutable `ConfigMap` keeps everything.
pub(in crate::builtin) fn validate_config_map_update(
    new: &Value,
    old: &Value,
    found: &mut Validation,
) {
    immutable(new, old, &["data", "binaryData"], found);
}

fn immutable(new: &Value, old: &Value, fields: &[&str], found: &mut Validation) {
    if !flag(old, "immutable") {
        return;
    }
    if !flag(new, "immutable") {
        found
            .errors
            .push(FieldError::forbidden("immutable", IMMUTABLE));
    }
    for field in fields {
        if new.get(*field) != old.get(*field) {
            found.errors.push(FieldError::forbidden(*field, IMMUTABLE));
        }
    }
}

/// Checks a `ConfigMap`'s keys and size.
pub(in crate::builtin) fn validate_config_map(map: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let mut size = 0;
    for (key, value) in members(map, "data") {
        let key_value = Value::from(key.as_str());
        for wrong in config_key(key) {
            errors.push(FieldError::invalid(
                format!("data[{key}]"),
                &key_value,
                wrong,
            ));
        }
        if map.get("binaryData").is_some_and(|data| has(data, key)) {
            errors.push(FieldError::invalid(
                format!("data[{key}]"),
                &key_value,
                "duplicate of key present in binaryData",
            ));
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in members(map, "binaryData") {
        for wrong in config_key(key) {
            let key_value = Value::from(key.as_str());
            errors.push(FieldError::invalid(
                format!("binaryData[{key}]"),
                &key_value,
                wrong,
            ));
        }
        size += value.as_str().map_or(0, |text| text.len() / 4 * 3);
    }
    if size > MAX_SIZE {
        errors.push(FieldError::too_long("[]", MAX_SIZE as u64));
    }
}
