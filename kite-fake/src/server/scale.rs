//! The scale of an object: `autoscaling/v1 Scale`, read from and written to the
//! places that a definition names.

use http::Method;
use serde_json::{Map, Value, json};

use super::create::check_namespace;
use super::patch::{Format, apply_refusal, refusal};
use super::subresources::done;
use super::{ApiServer, Call, Outcome, body, parse_text, rules};
use crate::fields::{self, Applied, Operation};
use crate::patch;
use crate::registry::{Resource, ScalePaths, Subresource};
use crate::rest::media::Encoding;
use crate::rest::options::WriteOptions;
use crate::schema::FieldError;
use crate::status::{Cause, Status};
use crate::store::Object;

/// Stands in a patched Scale for a number that the object does not have.
const UNSET: i64 = i32::MIN as i64;

impl ApiServer {
    pub(crate) fn scale(&mut self, call: &Call, paths: &ScalePaths) -> Result<Outcome, Status> {
        if !matches!(call.method, Method::GET | Method::PUT | Method::PATCH) {
            return Err(Self::unsupported_verb(call, call.verb()));
        }
        let live = self
            .store
            .get(&call.resource.collection(), &call.key())
            .ok_or_else(|| call.not_found())?
            .clone();
        let old = self.seen(&call.resource, &live)?.fresh();
        let custom = call.resource.is_custom();
        let (mut current, known) = read(&old, paths, custom)?;
        let missing =
            |what: &str| format!("the spec replicas field {:?} {what}", paths.spec_replicas);
        if call.method == Method::GET {
            if !known && custom {
                return Err(Status::internal_error(missing("does not exist")));
            }
            return Ok(done(200, current));
        }
        if !known && custom {
            current["spec"]["replicas"] = UNSET.into();
        }
        let (wanted, options, applied) = Self::wanted(call, &current)?;
        let wanted = self.admit_scale(call, wanted, &current, options.dry_run)?;
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
        if replicas == UNSET {
            return Err(Status::bad_request(missing("cannot be empty")));
        }
        if replicas < 0 && !custom {
            let message = format!("Invalid value: {replicas}: should be a non-negative integer");
            let cause = Cause::new("FieldValueInvalid", message, paths.spec_replicas.as_str());
            return Err(Status::invalid(
                &call.resource.group,
                &call.resource.kind,
                call.name(),
                vec![cause],
            ));
        }
        let mut new = if applied {
            apply(call, paths, &old, replicas, &options)?
        } else {
            let mut new = old.value().clone();
            set(&mut new, &paths.spec_replicas, json!(replicas));
            rules::track(call, &options, Some(old.value()), new)
        };
        let given = &wanted["metadata"]["resourceVersion"];
        new["metadata"]["resourceVersion"] = match given.as_str() {
            None | Some("") => old.meta("resourceVersion").into(),
            Some(given) => given.into(),
        };
        // What a scale owns has no time.
        for entry in new["metadata"]["managedFields"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            if entry["subresource"] == "scale"
                && let Some(members) = entry.as_object_mut()
            {
                members.remove("time");
            }
        }
        // On the object itself: a scale changes the specification.
        let plain = call.without_subresource();
        let object = self.write(&plain, &old, new, &options)?;
        let (scale, _) = read(&object, paths, custom)?;
        Ok(done(200, scale))
    }

    /// The Scale that a write asks for, and whether it is an apply.
    fn wanted(call: &Call, current: &Value) -> Result<(Value, WriteOptions, bool), Status> {
        let (wanted, options, applied) = if call.method == Method::PUT {
            let sent = body::decode(call)?;
            let uid = sent["metadata"]["uid"].as_str().unwrap_or_default();
            let own = current["metadata"]["uid"].as_str().unwrap_or_default();
            if !uid.is_empty() && uid != own {
                return Err(Self::uid_conflict(call, uid, own));
            }
            (sent, call.write_options("UpdateOptions")?, false)
        } else {
            let format = Format::of(call)?;
            let options = call.write_options("PatchOptions")?;
            let patched = match format {
                Format::Json => patch::json_patch(current, &call.body).map_err(|e| refusal(&e))?,
                Format::Merge | Format::Strategic => {
                    patch::merge_patch(current, &call.body).map_err(|e| refusal(&e))?
                }
                Format::Apply => parse_text(&call.body, Encoding::Yaml)
                    .map_err(|why| Status::bad_request(format!("error decoding YAML: {why}")))?,
            };
            (patched, options, format == Format::Apply)
        };
        let version = wanted["apiVersion"].as_str().unwrap_or_default();
        if !version.is_empty() && version != "autoscaling/v1" {
            return Err(Status::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version (autoscaling/v1)"
            )));
        }
        let replicas = &wanted["spec"]["replicas"];
        if !replicas.is_null()
            && replicas
                .as_i64()
                .and_then(|n| i32::try_from(n).ok())
                .is_none()
        {
            let found = match replicas {
                Value::String(_) => "string".to_owned(),
                Value::Bool(_) => "bool".to_owned(),
                Value::Number(number) => format!("number {number}"),
                Value::Array(_) => "array".to_owned(),
                Value::Null | Value::Object(_) => "object".to_owned(),
            };
            return Err(Status::bad_request(format!(
                "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal {found} into Go struct field ScaleSpec.spec.replicas of type int32"
            )));
        }
        // A Scale without a name is that of the path.
        if wanted["metadata"]["name"].is_string() {
            body::check_name(call, &wanted)?;
        }
        if wanted["metadata"]["namespace"].is_string() {
            check_namespace(call, &wanted)?;
        }
        Ok((wanted, options, applied))
    }
}

/// Applies the number of replicas alone, as a part of the object.
fn apply(
    call: &Call,
    paths: &ScalePaths,
    old: &Object,
    replicas: i64,
    options: &WriteOptions,
) -> Result<Value, Status> {
    let mut config = json!({
        "apiVersion": call.resource.api_version(), "kind": call.resource.kind,
        "metadata": {"name": call.name()},
    });
    set(&mut config, &paths.spec_replicas, json!(replicas));
    let manager = rules::manager(call, options, Operation::Apply);
    let applied = rules::with_context(call, &manager, |context| {
        fields::apply(
            context,
            Some(old.value()),
            &config,
            options.force == Some(true),
        )
    })
    .map_err(apply_refusal)?;
    Ok(match applied {
        Applied::Changed(merged) => merged,
        Applied::Unchanged => old.value().clone(),
    })
}

/// What is wrong with the places that the scale of an object is read from.
pub(crate) fn check(resource: &Resource, object: &Value, spec: bool, errors: &mut Vec<FieldError>) {
    let paths = resource.subresources.iter().find_map(|s| match s {
        Subresource::Scale(paths) => Some(paths),
        _ => None,
    });
    let Some(paths) = paths else { return };
    let mut numbers = Vec::new();
    if spec {
        numbers.push(&paths.spec_replicas);
    }
    numbers.push(&paths.status_replicas);
    for path in numbers {
        let problem = match integer(object, path) {
            Err(problem) => Some((0, problem)),
            Ok(Some(n)) if n < 0 => Some((n, "should be a non-negative integer".to_owned())),
            Ok(Some(n)) if n > i64::from(i32::MAX) => {
                let problem = format!("should be less than or equal to {}", i32::MAX);
                Some((n, problem))
            }
            Ok(_) => None,
        };
        if let Some((value, problem)) = problem {
            errors.push(FieldError::invalid(path.as_str(), &value.into(), problem));
        }
    }
    if let Some(path) = &paths.label_selector
        && let Err(problem) = text(object, path)
    {
        errors.push(FieldError::invalid(path.as_str(), &"".into(), problem));
    }
}

/// An object seen as `autoscaling/v1` Scale, and whether it says how many
/// replicas are wanted.
fn read(object: &Object, paths: &ScalePaths, custom: bool) -> Result<(Value, bool), Status> {
    let value = object.value();
    let mut metadata = Map::new();
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(found) = value["metadata"].get(field) {
            metadata.insert(field.to_owned(), found.clone());
        }
    }
    let wanted = integer(value, &paths.spec_replicas).map_err(Status::internal)?;
    let found = integer(value, &paths.status_replicas).map_err(Status::internal)?;
    let mut spec = json!({});
    if let Some(replicas) = wanted.filter(|n| *n != 0) {
        spec["replicas"] = replicas.into();
    }
    let mut status = json!({"replicas": found.unwrap_or(0)});
    let selector = match &paths.label_selector {
        Some(path) => text(value, path).map_err(Status::internal)?,
        None if custom => None,
        None => selector_text(&value["spec"]["selector"]),
    };
    if let Some(selector) = selector.filter(|s| !s.is_empty()) {
        status["selector"] = selector.into();
    }
    let scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": metadata, "spec": spec, "status": status,
    });
    Ok((scale, wanted.is_some()))
}

/// The member at a dotted path, such as `.spec.replicas`; `None` if there is none.
///
/// # Errors
/// There is something else than an object on the way.
fn nested<'a>(value: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut place = value;
    for segment in segments(path) {
        let Some(members) = place.as_object() else {
            return Err(unlike(path, place, "map[string]interface{}"));
        };
        match members.get(segment) {
            Some(inner) => place = inner,
            None => return Ok(None),
        }
    }
    Ok(Some(place))
}

fn integer(value: &Value, path: &str) -> Result<Option<i64>, String> {
    match nested(value, path)? {
        None => Ok(None),
        Some(found) => match found.as_i64() {
            Some(number) => Ok(Some(number)),
            None => Err(unlike(path, found, "int64")),
        },
    }
}

fn text(value: &Value, path: &str) -> Result<Option<String>, String> {
    match nested(value, path)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(found) => Err(unlike(path, found, "string")),
    }
}

fn unlike(path: &str, found: &Value, wanted: &str) -> String {
    let kind = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = crate::go::value(found);
    format!("{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|s| !s.is_empty())
}

fn set(value: &mut Value, path: &str, new: Value) {
    let mut place = value;
    for segment in segments(path) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[segment];
    }
    *place = new;
}

/// A selector of a workload in text form.
fn selector_text(selector: &Value) -> Option<String> {
    let labels = selector["matchLabels"]
        .as_object()
        .or_else(|| selector.as_object())?;
    let terms: Vec<String> = labels
        .iter()
        .filter_map(|(k, v)| v.as_str().map(|v| format!("{k}={v}")))
        .collect();
    Some(terms.join(","))
}
