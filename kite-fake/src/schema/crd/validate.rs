//! What the API server refuses in a definition.

use serde_json::{Value, json};

use super::{
    APPROVAL, approval_invalid, approval_missing, is_address, is_protected, keywords, options,
    rules, storage_versions, structural, text, versions,
};
use crate::field_error::FieldError;
use crate::names::{label_1035, subdomain};

/// Checks a definition, whose previous state is `old`; `metadata` is checked as
/// that of every object.
///
/// The paths are those of the API server's internal form: what is the same in
/// all versions is reported at `spec`, as `spec.validation.openAPIV3Schema`.
pub fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    identity(crd, &mut errors);
    approval(crd, old, &mut errors);
    names(crd, &mut errors);
    schemas(crd, old, &mut errors);
    for name in [
        "subresources",
        "additionalPrinterColumns",
        "selectableFields",
    ] {
        each_version(crd, name, name, |version, at| match name {
            "subresources" => options::subresources(&version[name], at, &mut errors),
            "additionalPrinterColumns" => options::columns(&version[name], at, &mut errors),
            _ => options::selectable(
                &version[name],
                &version["schema"]["openAPIV3Schema"],
                at,
                &mut errors,
            ),
        });
    }
    for (i, version) in versions(crd).iter().enumerate() {
        options::deprecation(version, &format!("spec.versions[{i}]"), &mut errors);
    }
    stored_versions(crd, &mut errors);
    options::conversion(&crd["spec"]["conversion"], &mut errors);
    if crd["spec"]["preserveUnknownFields"] == true {
        errors.push(FieldError::invalid(
            "spec.preserveUnknownFields",
            &true.into(),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    if let Some(old) = old {
        immutable(crd, old, &mut errors);
    }
    errors
}

/// Visits the versions, or only the first if a member is the same in all of them.
fn each_version(crd: &Value, member: &str, shared: &str, mut visit: impl FnMut(&Value, &str)) {
    let all = versions(crd);
    if all
        .windows(2)
        .all(|pair| pair[0].get(member) == pair[1].get(member))
    {
        if let Some(first) = all.first() {
            visit(first, &format!("spec.{shared}"));
        }
        return;
    }
    for (i, version) in all.iter().enumerate() {
        visit(version, &format!("spec.versions[{i}].{member}"));
    }
}

fn identity(crd: &Value, errors: &mut Vec<FieldError>) {
    let (name, group, plural) = (
        text(crd, "/metadata/name"),
        text(crd, "/spec/group"),
        text(crd, "/spec/names/plural"),
    );
    let problems = subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !problems.is_empty() {
        errors.push(FieldError::invalid(
            "spec.group",
            &group.into(),
            problems.join(","),
        ));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(
            "spec.group",
            &group.into(),
            "should be a domain with at least one dot",
        ));
    }
    if name != format!("{plural}.{group}") {
        errors.push(FieldError::invalid(
            "metadata.name",
            &name.into(),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    match text(crd, "/spec/scope") {
        "Cluster" | "Namespaced" => {}
        "" => errors.push(FieldError::required("spec.scope", "")),
        other => errors.push(FieldError::not_supported(
            "spec.scope",
            &other.into(),
            &["Cluster", "Namespaced"],
        )),
    }
}

/// Groups of Kubernetes itself want a pointer to the review of their API.
fn approval(crd: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if !is_protected(text(crd, "/spec/group")) {
        return;
    }
    let given = |crd: &Value| {
        crd["metadata"]["annotations"][APPROVAL]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let state = |text: &str| match text {
        "" => "missing",
        text if text.starts_with("unapproved") => "bypassed",
        text if is_address(text) => "approved",
        _ => "invalid",
    };
    let now = given(crd);
    // What was accepted once stays, until somebody changes it.
    if old.is_some_and(|old| state(&given(old)) == state(&now)) {
        return;
    }
    let field = format!("metadata.annotations[{APPROVAL}]");
    match state(&now) {
        "missing" => errors.push(FieldError::required(field, &approval_missing())),
        "invalid" => errors.push(FieldError::invalid(field, &now.into(), approval_invalid())),
        _ => {}
    }
}

fn names(crd: &Value, errors: &mut Vec<FieldError>) {
    let names = &crd["spec"]["names"];
    for (name, mixed_case) in [
        ("plural", false),
        ("singular", false),
        ("kind", true),
        ("listKind", true),
    ] {
        let value = names[name].as_str().unwrap_or_default();
        let field = format!("spec.names.{name}");
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let problems = label_1035(&if mixed_case {
            value.to_lowercase()
        } else {
            value.to_owned()
        });
        if !problems.is_empty() {
            let prefix = if mixed_case {
                "may have mixed case, but should otherwise match: "
            } else {
                ""
            };
            errors.push(FieldError::invalid(
                field,
                &value.into(),
                format!("{prefix}{}", problems.join(",")),
            ));
        }
    }
    for name in ["shortNames", "categories"] {
        for (i, value) in names[name].as_array().into_iter().flatten().enumerate() {
            let problems = label_1035(value.as_str().unwrap_or_default());
            if !problems.is_empty() {
                errors.push(FieldError::invalid(
                    format!("spec.names.{name}[{i}]"),
                    value,
                    problems.join(","),
                ));
            }
        }
    }
    if names["kind"].as_str().is_some_and(|kind| !kind.is_empty())
        && names["kind"] == names["listKind"]
    {
        errors.push(FieldError::invalid(
            "spec.names.listKind",
            &names["listKind"],
            "kind and listKind may not be the same",
        ));
    }
}

fn schemas(crd: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let missing = |version: &Value| !version["schema"]["openAPIV3Schema"].is_object();
    for (i, _) in versions(crd)
        .iter()
        .enumerate()
        .filter(|(_, version)| missing(version))
    {
        errors.push(FieldError::required(
            format!("spec.versions[{i}].schema.openAPIV3Schema"),
            "",
        ));
    }
    let has_status = |version: &Value| version["subresources"]["status"].is_object();
    // What is the same in all versions is checked for all of them together.
    let shared = versions(crd)
        .windows(2)
        .all(|pair| pair[0].get("schema") == pair[1].get("schema"));
    let any_status = versions(crd).iter().any(has_status);
    each_version(crd, "schema", "validation", |version, at| {
        if !missing(version) {
            let context = Context {
                status: if shared {
                    any_status
                } else {
                    has_status(version)
                },
                unchanged: unchanged(version, old),
            };
            schema(
                &version["schema"]["openAPIV3Schema"],
                context,
                &format!("{at}.openAPIV3Schema"),
                errors,
            );
        }
    });
}

/// What else matters for the schema of a version.
#[derive(Clone, Copy)]
struct Context {
    /// There is a status subresource.
    status: bool,
    /// The schema is stored already, and its costs were accepted once.
    unchanged: bool,
}

fn unchanged(version: &Value, old: Option<&Value>) -> bool {
    old.is_some_and(|old| {
        versions(old).iter().any(|before| {
            before["name"] == version["name"] && before["schema"] == version["schema"]
        })
    })
}

fn schema(schema: &Value, context: Context, at: &str, errors: &mut Vec<FieldError>) {
    if context.status {
        root_with_status(schema, at, errors);
    }
    if schema["nullable"] == true {
        errors.push(FieldError::forbidden(
            format!("{at}.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let before = errors.len();
    structural::check(schema, at, errors);
    // Defaults and rules are looked at only in a schema that can be relied on.
    let parsed = if errors.len() == before {
        rules::defaults(schema, at, errors)
    } else {
        None
    };
    let sound = errors.len() == before;
    let mut words = Vec::new();
    keywords::check(schema, at, &mut words);
    if let Some(parsed) = parsed.filter(|_| sound) {
        rules::check(&parsed, schema, at, context.unchanged, &mut words);
    }
    errors.extend(words);
}

/// With a status subresource, `status` is validated apart from the rest of the root.
fn root_with_status(schema: &Value, at: &str, errors: &mut Vec<FieldError>) {
    const ALLOWED: [&str; 22] = [
        "description",
        "type",
        "format",
        "title",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "required",
        "items",
        "properties",
        "externalDocs",
        "example",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    let kind = schema["type"].as_str().unwrap_or_default();
    if !kind.is_empty() && kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(
            format!("{at}.type"),
            &kind.into(),
            detail,
        ));
        return;
    }
    let zero = |value: &Value| value.is_null() || value == &Value::Bool(false);
    let other = schema.as_object().is_some_and(|m| {
        m.iter()
            .any(|(k, v)| !ALLOWED.contains(&k.as_str()) && !zero(v))
    });
    if other {
        let detail = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                      MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties \
                      ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the \
                      schema if the status subresource is enabled";
        errors.push(FieldError::invalid(at, schema, detail));
    }
}

fn stored_versions(crd: &Value, errors: &mut Vec<FieldError>) {
    let all = versions(crd);
    let internal = || all.iter().map(internal_version).collect::<Value>();
    for (i, version) in all.iter().enumerate() {
        let name = version["name"].as_str().unwrap_or_default();
        let problems = label_1035(name);
        if !problems.is_empty() {
            let field = format!("spec.versions[{i}].name");
            errors.push(FieldError::invalid(field, &name.into(), problems.join(",")));
        }
    }
    if all.iter().enumerate().any(|(i, version)| {
        all[..i]
            .iter()
            .any(|other| other["name"] == version["name"])
    }) {
        errors.push(FieldError::invalid(
            "spec.versions",
            &internal(),
            "must contain unique version names",
        ));
    }
    let marked: Vec<&Value> = storage_versions(crd).collect();
    if marked.len() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &internal(), detail));
    }
    let stored = crd
        .pointer("/status/storedVersions")
        .cloned()
        .unwrap_or(Value::Null);
    let list = stored.as_array().map_or(&[][..], Vec::as_slice);
    if list.is_empty() {
        errors.push(FieldError::invalid(
            "status.storedVersions",
            &stored,
            "must have at least one stored version",
        ));
        return;
    }
    for storage in marked.iter().filter(|storage| !list.contains(storage)) {
        let detail = format!(
            "must have the storage version {}",
            storage.as_str().unwrap_or_default()
        );
        errors.push(FieldError::invalid(
            "status.storedVersions",
            &stored,
            detail,
        ));
    }
    for (i, name) in list.iter().enumerate() {
        if !all.iter().any(|version| version["name"] == *name) {
            let detail = format!(
                "missing from spec.versions; {0} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {0} and removes {0} from \
                 status.storedVersions",
                name.as_str().unwrap_or_default()
            );
            errors.push(FieldError::invalid(
                format!("status.storedVersions[{i}]"),
                name,
                detail,
            ));
        }
    }
}

/// A version in the form in which the API server keeps and quotes it.
fn internal_version(version: &Value) -> Value {
    json!({
        "Name": version["name"], "Served": version["served"], "Storage": version["storage"],
        "Deprecated": version["deprecated"] == true, "DeprecationWarning": version["deprecationWarning"],
        "Schema": null, "Subresources": null, "AdditionalPrinterColumns": null, "SelectableFields": null,
    })
}

/// What cannot change: anything that says where objects are stored.
fn immutable(crd: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let established = old["status"]["conditions"].as_array().is_some_and(|list| {
        list.iter()
            .any(|c| c["type"] == "Established" && c["status"] == "True")
    });
    let mut check = |pointer: &str, field: &str| {
        if crd.pointer(pointer) != old.pointer(pointer) {
            let value = crd.pointer(pointer).cloned().unwrap_or(Value::Null);
            errors.push(FieldError::invalid(field, &value, "field is immutable"));
        }
    };
    if established {
        check("/spec/scope", "spec.scope");
        check("/spec/names/kind", "spec.names.kind");
    }
    check("/spec/group", "spec.group");
    check("/spec/names/plural", "spec.names.plural");
}
