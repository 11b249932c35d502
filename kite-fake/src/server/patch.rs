//! Patch, in all its formats.

use serde_json::Value;

use super::create::{check_namespace, metadata_mut};
use super::rules;
use super::{ApiServer, Call, Outcome, Produced, body, parse_text};
use crate::fields::{self, Applied, ApplyError, Named, Operation};
use crate::go;
use crate::metadata;
use crate::patch::{self, PatchError};
use crate::rest::media::Encoding;
use crate::rest::options::{FieldValidation, WriteOptions};
use crate::rest::strict::Outline;
use crate::rest::yaml;
use crate::status::{Cause, Details, Status};
use crate::store::Object;

/// The format of a patch, from its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl Format {
    pub(crate) fn of(call: &Call) -> Result<Self, Status> {
        let media = call
            .content_type
            .as_deref()
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        let custom = call.resource.is_custom();
        match media {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ if custom => Err(Status::unsupported_media_type(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(
                Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
                    .with_details(Details::default()),
            ),
        }
    }
}

impl ApiServer {
    /// PATCH of an object or a subresource.
    pub(crate) fn patch(&mut self, call: &Call) -> Result<Outcome, Status> {
        let format = Format::of(call)?;
        let options = call.write_options("PatchOptions")?;
        if format == Format::Apply {
            return self.apply(call, &options);
        }
        let live = self
            .store
            .get(&call.resource.collection(), &call.key())
            .ok_or_else(|| call.not_found())?
            .clone();
        let old = self.seen(&call.resource, &live)?.fresh();
        let patched = patched(call, format, old.value()).map_err(|e| refusal(&e))?;
        let shown = || shown(call, format, old.value());
        let patched = if format == Format::Strategic {
            // What it is merged into is of the type already.
            whole_numbers(call, body::fill_type(&call.resource, patched))
        } else {
            check_patched_type(call, &patched, &shown)?;
            patched
        };
        let outline = match format {
            Format::Json => Outline::of_operations(&call.body),
            Format::Strategic => Outline {
                is_map: true,
                ..Outline::of(&call.body)
            },
            _ => Outline::of(&call.body),
        };
        let decoded = rules::decode(&call.resource, patched, &outline, &options, Some(&shown))?;
        self.warnings.extend(decoded.warnings);
        body::check_name(call, &decoded.value)?;
        check_namespace(call, &decoded.value)?;
        let mut new = rules::track(call, &options, Some(old.value()), decoded.value);
        self.warnings.extend(metadata::dedup_owners(&mut new, true));
        let object = self.write(call, &old, new, &options)?;
        Ok(Outcome {
            body: Produced::Object(object),
            code: 200,
        })
    }

    /// The live object, where an apply in JSON plainly changes nothing of it: what
    /// controllers do most. The texts decide; no tree is built.
    fn unchanged(&self, call: &Call, options: &WriteOptions) -> Option<Object> {
        let resource = &call.resource;
        // Another version may have members that the stored one has no place for,
        // and whoever admits writes is asked about this one, too.
        if resource.version != resource.storage_version || self.asks_others() {
            return None;
        }
        let live = self.store.get(&resource.collection(), &call.key())?;
        // By the schema of today it may be stored otherwise.
        if live.epoch() != resource.epoch {
            return None;
        }
        let live = live.clone();
        let manager = rules::manager(call, options, Operation::Apply);
        let api_version = resource.api_version();
        let named = Named {
            api_version: &api_version,
            kind: &resource.kind,
            name: call.name(),
        };
        let same = rules::with_context(call, &manager, |context| {
            fields::is_unchanged(context, named, &live.json(), &call.body)
        });
        same.then_some(live)
    }

    /// Server-side apply.
    fn apply(&mut self, call: &Call, options: &WriteOptions) -> Result<Outcome, Status> {
        if let Some(object) = self.unchanged(call, options) {
            return Ok(Outcome {
                body: Produced::Object(object),
                code: 200,
            });
        }
        let config = parse_config(call)?;
        let resource = call.resource.clone();
        let live = self.store.get(&resource.collection(), &call.key()).cloned();
        let live = match live {
            Some(live) => Some(self.seen(&resource, &live)?.fresh()),
            None => None,
        };
        if live.is_none() && call.target.subresource.is_some() {
            return Err(call.not_found());
        }
        let manager = rules::manager(call, options, Operation::Apply);
        let before = live.as_ref().map(|o| o.value());
        let applied = rules::with_context(call, &manager, |context| {
            fields::apply(context, before, &config, options.force == Some(true))
        })
        .map_err(apply_refusal)?;
        self.warnings.extend(check_twice(call, &config, options)?);
        check_namespace(call, &config)?;
        let merged = match (applied, &live) {
            (Applied::Changed(merged), _) => merged,
            (Applied::Unchanged, Some(live)) => {
                let given = config["metadata"]["resourceVersion"]
                    .as_str()
                    .unwrap_or_default();
                if !given.is_empty() && given != live.meta("resourceVersion") {
                    return Err(Status::modified(
                        &resource.group,
                        &resource.plural,
                        call.name(),
                    ));
                }
                live.to_value()
            }
            (Applied::Unchanged, None) => config,
        };
        // Of an object that is there the name is known, whether the configuration has it or not.
        body::check_name(call, &merged)?;
        let merged = whole_numbers(call, merged);
        let mut decoded = rules::decode(&resource, merged, &Outline::default(), options, None)?;
        self.warnings.extend(decoded.warnings);
        self.warnings
            .extend(metadata::dedup_owners(&mut decoded.value, true));
        let (object, code) = if let Some(live) = live {
            (self.write(call, &live, decoded.value, options)?, 200)
        } else {
            self.allow(&call.identity, &call.wish("create"))?;
            let mut object = decoded.value;
            let metadata = metadata_mut(&mut object)?;
            metadata.remove("resourceVersion");
            if let Some(uid) = metadata
                .get("uid")
                .and_then(Value::as_str)
                .filter(|u| !u.is_empty())
            {
                return Err(Status::conflict(
                    &resource.group,
                    &resource.plural,
                    call.name(),
                    &format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    ),
                ));
            }
            let object = self.create_object(call, object, options)?;
            (object, 201)
        };
        Ok(Outcome {
            body: Produced::Object(object),
            code,
        })
    }
}

fn patched(call: &Call, format: Format, document: &Value) -> Result<Value, PatchError> {
    match format {
        Format::Json => patch::json_patch(document, &call.body),
        Format::Merge => patch::merge_patch(document, &call.body),
        Format::Strategic | Format::Apply => {
            patch::strategic_merge_patch(&call.resource.schema, document, &call.body)
        }
    }
}

pub(crate) fn refusal(error: &PatchError) -> Status {
    let message = error.to_string();
    match error {
        PatchError::BadRequest(_) => Status::bad_request(message),
        PatchError::TooLarge(_) => Status::new(413, "RequestEntityTooLarge", message),
        PatchError::Unprocessable => {
            Status::new(422, "Invalid", message).with_details(Details::default())
        }
        PatchError::Internal(_) => Status::internal(message),
    }
}

pub(crate) fn apply_refusal(error: ApplyError) -> Status {
    match error {
        ApplyError::Conflict(conflicts) => {
            let causes = conflicts.causes().into_iter().map(|c| {
                let text = |f: &str| c[f].as_str().unwrap_or_default().to_owned();
                Cause::new(text("reason"), text("message"), text("field"))
            });
            Status::new(409, "Conflict", conflicts.message()).with_causes(causes)
        }
        ApplyError::BadRequest(message) => Status::bad_request(message),
        ApplyError::Typed(message) => Status::internal(message),
    }
}

/// Whether what a patch made has the type of the path still. For built-in kinds
/// another one is a fault of the patch.
fn check_patched_type(
    call: &Call,
    patched: &Value,
    shown: &dyn Fn() -> String,
) -> Result<(), Status> {
    body::check_type(call, patched).map_err(|status| {
        let why = status.message.split_once(" cannot be handled as a ");
        match why.and_then(|(_, rest)| rest.split_once(": ")) {
            Some((_, why)) if !call.resource.is_custom() => {
                let message = format!("Invalid value: {}: {why}", go::quote(&shown()));
                let cause = Cause::new("FieldValueInvalid", message, "patch");
                Status::invalid("", "", "", vec![cause])
            }
            _ => status,
        }
    })
}

/// Members that a configuration gives twice: warnings, or a refusal.
fn check_twice(call: &Call, config: &Value, options: &WriteOptions) -> Result<Vec<String>, Status> {
    if options.validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    let Some(twice) = yaml::duplicate(&call.body, config) else {
        return Ok(Vec::new());
    };
    let problem = format!("error converting YAML to JSON: {twice}");
    if options.validation == FieldValidation::Strict {
        return Err(Status::bad_request(format!(
            "error strict decoding YAML: {problem}"
        )));
    }
    Ok(yaml::warnings(&problem))
}

/// The body of an apply, whose type must be that of the path.
fn parse_config(call: &Call) -> Result<Value, Status> {
    let fail = |why: &str| Status::bad_request(format!("error decoding YAML: {why}"));
    let config = if call.body.iter().all(u8::is_ascii_whitespace) {
        Value::Object(serde_json::Map::new())
    } else {
        parse_text(&call.body, Encoding::Yaml).map_err(|why| fail(&why))?
    };
    if !config.is_object() {
        return Err(fail(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal the body into an object",
        ));
    }
    let text = |field: &str| config[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if version == call.resource.api_version() && kind == call.resource.kind {
        return Ok(config);
    }
    let slash = if version.contains('/') { "" } else { "/" };
    Err(Status::bad_request(format!(
        "invalid object type: {slash}{version}, Kind={kind}"
    )))
}

/// An object of a built-in kind as it comes from decoded JSON: a whole number may have a
/// point there, which the decoder of text refuses.
fn whole_numbers(call: &Call, mut object: Value) -> Value {
    if !call.resource.is_custom() {
        go::make_whole(&mut object);
    }
    object
}

/// The patch as errors quote it: a strategic one itself, of others the result.
fn shown(call: &Call, format: Format, document: &Value) -> String {
    match (format, serde_json::from_slice::<Value>(&call.body)) {
        (Format::Strategic, Ok(patch)) => go::value(&patch),
        _ => patched(call, format, document).map_or_else(|_| String::new(), |v| v.to_string()),
    }
}
