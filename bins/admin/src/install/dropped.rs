//! What people have written that the definitions of an earlier version do not know: an API
//! server drops such a field from whatever is read or written after them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kite_render::install::Manifest;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde_json::Value;

use super::{
    Error,
    object::{ObjectName, is_absent},
    remove::kind,
};

/// How many are named.
const NAMED: usize = 10;

/// What controllers write, and write anew.
const OF_CONTROLLERS: &str = "status";

/// A step of the way to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    /// Each item of a list, or each value of a map.
    Each,
}

/// That no object has a field that the definitions among `manifests` drop, as those of an earlier
/// version do.
///
/// # Errors
/// [`Error::Refused`] with the fields that objects have, or another [`Error`] if the API server
/// refuses to say.
pub async fn require_no_field_dropped(
    client: &Client,
    manifests: &[Manifest],
) -> Result<(), Error> {
    let mut found = Vec::new();
    for manifest in manifests {
        if let Manifest::CustomResourceDefinition(wanted) = manifest {
            found.extend(dropped(client, wanted).await?);
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let more = found.len().saturating_sub(NAMED);
    found.truncate(NAMED);
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(Error::Refused {
        what: format!(
            "the custom resource definitions of this version drop what is written here: {}{more}",
            found.join(", ")
        ),
        remedy: "What is dropped is not done any more: of a volume that is to outlive its owner's \
                 account that is forgotten, too. Use the version that was installed or a newer \
                 one; or take these fields out of the objects; or write --allow-downgrade"
            .to_owned(),
    })
}

/// The fields of objects that `wanted` does not know and the definition that is there does, each
/// with its object.
async fn dropped(client: &Client, wanted: &CustomResourceDefinition) -> Result<Vec<String>, Error> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let there = match definitions.get_opt(&wanted.name_any()).await {
        Ok(there) => there,
        Err(error) => {
            let kind = kind::<CustomResourceDefinition>();
            return Err(Error::of(&named(&kind, wanted.name_any()), error));
        }
    };
    let Some(there) = there else {
        return Ok(Vec::new());
    };
    let mut ways: Vec<Lost> = Vec::new();
    for version in &there.spec.versions {
        let after = wanted
            .spec
            .versions
            .iter()
            .find(|it| it.name == version.name);
        let schemas = (schema(version), after.and_then(schema));
        if let (Some(before), Some(after)) = schemas {
            missing(before, after, &mut Vec::new(), &mut ways);
        }
    }
    ways.retain(|(way, _)| way.first() != Some(&Step::Field(OF_CONTROLLERS.to_owned())));
    if ways.is_empty() {
        return Ok(Vec::new());
    }
    let names = &there.spec.names;
    let version = there.spec.versions.iter().find(|it| it.storage);
    let version = version.map_or("v1", |it| &*it.name);
    let gvk = GroupVersionKind::gvk(&there.spec.group, version, &names.kind);
    let kind = ApiResource::from_gvk_with_plural(&gvk, &names.plural);
    let objects = Api::<DynamicObject>::all_with(client.clone(), &kind);
    let objects = match objects.list(&ListParams::default()).await {
        Ok(objects) => objects.items,
        Err(error) if is_absent(&error) => Vec::new(),
        Err(error) => return Err(Error::of(&named(&kind, "(all)".to_owned()), error)),
    };
    let told = objects.iter().flat_map(|object| {
        let ways = ways.iter();
        let ways = ways.filter(|(way, default)| has(&object.data, way, default.as_ref()));
        ways.map(|(way, _)| format!("{} of {}", text(way), ObjectName::found(&kind, object)))
    });
    Ok(told.collect())
}

fn named(kind: &ApiResource, name: String) -> ObjectName {
    ObjectName {
        kind: kind.kind.clone(),
        namespace: None,
        name,
    }
}

fn schema(
    version: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionVersion,
) -> Option<&JSONSchemaProps> {
    version.schema.as_ref()?.open_api_v3_schema.as_ref()
}

/// A way to what is not known any more, and what is there without anybody's saying so.
type Lost = (Vec<Step>, Option<Value>);

/// The ways to what `after` does not know of `before`.
fn missing(
    before: &JSONSchemaProps,
    after: &JSONSchemaProps,
    way: &mut Vec<Step>,
    found: &mut Vec<Lost>,
) {
    if after.x_kubernetes_preserve_unknown_fields == Some(true) {
        return;
    }
    let (old, new) = (in_each(before), in_each(after));
    let mut below = |step: Step, before: &JSONSchemaProps, after: Option<&JSONSchemaProps>| {
        way.push(step);
        match after {
            Some(after) => missing(before, after, way, found),
            None => found.push((way.clone(), before.default.as_ref().map(|it| it.0.clone()))),
        }
        way.pop();
    };
    if let Some(old) = old {
        below(Step::Each, old, new);
    }
    for (name, before) in before.properties.iter().flatten() {
        let known = after.properties.as_ref().and_then(|all| all.get(name));
        below(Step::Field(name.clone()), before, known.or(new));
    }
}

/// The schema of the items of a list, or of the values of a map.
fn in_each(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        JSONSchemaPropsOrArray as Items, JSONSchemaPropsOrBool as Values,
    };
    let items = schema.items.as_ref().and_then(|it| match it {
        Items::Schema(items) => Some(&**items),
        Items::Schemas(_) => None,
    });
    items.or_else(|| match schema.additional_properties.as_ref()? {
        Values::Schema(values) => Some(&**values),
        Values::Bool(_) => None,
    })
}

/// Whether there is something at the end of the way, other than what is there by default.
fn has(value: &Value, way: &[Step], default: Option<&Value>) -> bool {
    match (way.split_first(), value) {
        (None, value) => !value.is_null() && Some(value) != default,
        (Some((Step::Field(name), rest)), value) => value
            .get(name)
            .is_some_and(|value| has(value, rest, default)),
        (Some((Step::Each, rest)), Value::Array(items)) => {
            items.iter().any(|it| has(it, rest, default))
        }
        (Some((Step::Each, rest)), Value::Object(all)) => {
            all.values().any(|it| has(it, rest, default))
        }
        (Some((Step::Each, _)), _) => false,
    }
}

fn text(way: &[Step]) -> String {
    let mut text = String::new();
    for step in way {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Each => text.push_str("[]"),
        }
    }
    text
}
