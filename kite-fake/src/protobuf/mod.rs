//! Bodies in Kubernetes' protobuf encoding, which typed clients such as
//! kubectl's `create` send to built-in kinds. Answers stay JSON.

pub(crate) mod wire;

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use wire::{Field, Payload, Reader};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";
/// Messages nested deeper than this are refused.
const MAX_DEPTH: usize = 64;

/// Scalars that Go keeps behind pointers: a zero among them was meant. Any
/// other zero is what an unset member looks like on the wire.
const POINTERS: [&str; 44] = [
    "activeDeadlineSeconds",
    "allowPrivilegeEscalation",
    "allowVolumeExpansion",
    "automountServiceAccountToken",
    "backoffLimit",
    "blockOwnerDeletion",
    "completions",
    "controller",
    "defaultMode",
    "deletionGracePeriodSeconds",
    "enableServiceLinks",
    "expirationSeconds",
    "failedJobsHistoryLimit",
    "force",
    "fsGroup",
    "gracePeriodSeconds",
    "hostUsers",
    "immutable",
    "leaseDurationSeconds",
    "leaseTransitions",
    "manualSelector",
    "minReplicas",
    "mode",
    "optional",
    "orphanDependents",
    "parallelism",
    "partition",
    "privileged",
    "progressDeadlineSeconds",
    "readOnlyRootFilesystem",
    "ready",
    "revisionHistoryLimit",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "serving",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "startingDeadlineSeconds",
    "successfulJobsHistoryLimit",
    "suspend",
    "terminating",
    "terminationGracePeriodSeconds",
    "ttlSecondsAfterFinished",
];

/// Messages that say something although they are empty.
const MEANT_EMPTY: [&str; 3] = ["emptyDir", "namespaceSelector", "podSelector"];

/// The type of a member.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Bytes,
    Integer,
    Flag,
    Double,
    Message(&'static str),
}

/// How often a member occurs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Arity {
    One,
    List,
    Map,
}

#[derive(Debug, Clone, Copy)]
struct Member {
    name: &'static str,
    kind: Kind,
    arity: Arity,
}

/// The members of a message by their numbers.
type Message = HashMap<u32, Member>;

static MESSAGES: LazyLock<HashMap<&'static str, Message>> = LazyLock::new(|| {
    include_str!("messages.txt")
        .lines()
        .filter_map(message)
        .collect()
});

/// Reads one line of the table.
fn message(line: &'static str) -> Option<(&'static str, Message)> {
    let (name, members) = line.split_once('|')?;
    let members = members.split(' ').filter_map(|text| {
        let mut parts = text.splitn(3, ':');
        let (number, name, kind) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
        let (arity, kind) = match (kind.strip_prefix('['), kind.strip_prefix('{')) {
            (Some(kind), _) => (Arity::List, kind),
            (_, Some(kind)) => (Arity::Map, kind),
            _ => (Arity::One, kind),
        };
        let kind = match kind {
            "s" => Kind::Text,
            "b" => Kind::Bytes,
            "i" => Kind::Integer,
            "B" => Kind::Flag,
            "d" => Kind::Double,
            message => Kind::Message(message),
        };
        Some((number, Member { name, kind, arity }))
    });
    Some((name, members.collect()))
}

/// Decodes a body into the object that it is.
///
/// # Errors
/// A text that says what is wrong with the body, or that its kind is unknown.
pub fn decode(body: &[u8]) -> Result<Value, String> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or("provided data does not appear to be a protobuf message")?;
    let (mut type_meta, mut raw) = (Value::Null, &[][..]);
    for field in Reader::new(envelope) {
        match field? {
            Field {
                number: 1,
                payload: Payload::Bytes(bytes),
            } => type_meta = object("runtime.TypeMeta", bytes, 0)?,
            Field {
                number: 2,
                payload: Payload::Bytes(bytes),
            } => raw = bytes,
            Field { .. } => {}
        }
    }
    let text = |name: &str| type_meta[name].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version
        .split_once('/')
        .unwrap_or(("core", &api_version));
    let package = group.split('.').next().unwrap_or_default();
    let own = format!("{package}.{version}.{kind}");
    let shared = format!("meta.v1.{kind}");
    let name = [own.as_str(), shared.as_str()]
        .into_iter()
        .find(|name| MESSAGES.contains_key(name));
    let name =
        name.ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    let mut value = object(name, raw, 0)?;
    value["apiVersion"] = api_version.as_str().into();
    value["kind"] = kind.as_str().into();
    Ok(value)
}

/// Decodes a message into a JSON object, or whatever it stands for in JSON.
fn object(name: &str, bytes: &[u8], depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err("the message nests too deeply".to_owned());
    }
    let message = MESSAGES
        .get(name)
        .ok_or_else(|| format!("unknown message {name}"))?;
    let mut members = Map::new();
    for field in Reader::new(bytes) {
        let field = field?;
        let Some(member) = message.get(&field.number) else {
            continue;
        };
        match member.arity {
            Arity::One => {
                let value = scalar(member, &field.payload, depth)?;
                if member.name == "." {
                    members.extend(value.as_object().cloned().unwrap_or_default());
                } else if is_meant(member, &value) {
                    members.insert(member.name.to_owned(), value);
                }
            }
            Arity::List => {
                let value = scalar(member, &field.payload, depth)?;
                if let Value::Array(list) = members.entry(member.name).or_insert_with(|| json!([]))
                {
                    list.push(value);
                }
            }
            Arity::Map => {
                let (key, value) = entry(member, &field.payload, depth)?;
                members.entry(member.name).or_insert_with(|| json!({}))[key] = value;
            }
        }
    }
    Ok(special(name, members))
}

/// One entry of a map: key in field 1, value in field 2.
fn entry(member: &Member, payload: &Payload<'_>, depth: usize) -> Result<(String, Value), String> {
    let Payload::Bytes(bytes) = payload else {
        return Err(format!("{} is not of its type", member.name));
    };
    let mut key = String::new();
    let mut value = match member.kind {
        Kind::Text | Kind::Bytes => json!(""),
        _ => Value::Null,
    };
    for field in Reader::new(bytes) {
        match field? {
            Field {
                number: 1,
                payload: Payload::Bytes(text),
            } => key = utf8(text)?,
            Field { number: 2, payload } => value = scalar(member, &payload, depth)?,
            Field { .. } => {}
        }
    }
    Ok((key, value))
}

fn scalar(member: &Member, payload: &Payload<'_>, depth: usize) -> Result<Value, String> {
    Ok(match (member.kind, payload) {
        (Kind::Text, Payload::Bytes(bytes)) => utf8(bytes)?.into(),
        (Kind::Bytes, Payload::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Kind::Message(name), Payload::Bytes(bytes)) => object(name, bytes, depth + 1)?,
        #[expect(
            clippy::cast_possible_wrap,
            reason = "protobuf writes negative integers as large ones"
        )]
        (Kind::Integer, Payload::Varint(number)) => (*number as i64).into(),
        (Kind::Flag, Payload::Varint(number)) => (*number != 0).into(),
        (Kind::Double, Payload::Fixed64(bits)) => f64::from_bits(*bits).into(),
        _ => return Err(format!("{} is not of its type", member.name)),
    })
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a string is not valid UTF-8".to_owned())
}

/// Whether a value was set, rather than written because Go has no "unset".
fn is_meant(member: &Member, value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0) || POINTERS.contains(&member.name),
        Value::Bool(flag) => *flag || POINTERS.contains(&member.name),
        Value::Object(members) => !members.is_empty() || MEANT_EMPTY.contains(&member.name),
        Value::Array(_) => true,
    }
}

/// Messages that are no objects in JSON.
fn special(name: &str, mut members: Map<String, Value>) -> Value {
    let number = |name: &str| members.get(name).and_then(Value::as_i64).unwrap_or(0);
    match name {
        "api.resource.Quantity" => members.remove("string").unwrap_or_else(|| json!("0")),
        "meta.v1.Time" | "meta.v1.MicroTime" => {
            if members.is_empty() {
                return Value::Null;
            }
            let nanos = i32::try_from(number("nanos")).unwrap_or(0);
            let Ok(time) = jiff::Timestamp::new(number("seconds"), nanos) else {
                return Value::Null;
            };
            let precision = if name == "meta.v1.Time" { 0 } else { 6 };
            format!("{time:.precision$}").into()
        }
        "meta.v1.Duration" => format!("{}ns", number("duration")).into(),
        "util.intstr.IntOrString" => match number("type") {
            0 => number("intVal").into(),
            _ => members.remove("strVal").unwrap_or_else(|| json!("")),
        },
        "meta.v1.FieldsV1" | "runtime.RawExtension" => {
            let raw = members.remove("Raw").or_else(|| members.remove("raw"));
            let bytes = raw
                .as_ref()
                .and_then(Value::as_str)
                .and_then(|text| STANDARD.decode(text).ok());
            bytes
                .and_then(|bytes| serde_json::from_slice(&bytes).ok())
                .unwrap_or(Value::Null)
        }
        "authentication.v1.ExtraValue" | "authorization.v1.ExtraValue" => {
            members.remove("items").unwrap_or_else(|| json!([]))
        }
        _ => Value::Object(members),
    }
}

#[cfg(test)]
mod tests;
