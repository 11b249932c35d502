//! What the API server refuses in a definition.

use serde_json::{Value, json};

use super::super::error::FieldError;
use super::{rules, storage_versions, structural, text, versions};
use crate::names::{label_1035, subdomain};
use crate::table::JsonPath;

/// Checks a definition, whose previous state is `old`; `metadata` is checked as
/// that of every object.
///
/// The paths are those of the API server's internal form: what is the same in
/// all versions is reported at `spec`, as `spec.validation.openAPIV3Schema`.
pub fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    identity(crd, &mut errors);
    names(crd, &mut errors);
    for (name, shared, own) in [
        ("schema", "validation", "schema"),
        ("subresources", "subresources", "subresources"),
        (
            "additionalPrinterColumns",
            "additionalPrinterColumns",
            "additionalPrinterColumns",
        ),
    ] {
        let all = versions(crd);
        let same = all
            .windows(2)
            .all(|pair| pair[0].get(name) == pair[1].get(name));
        for (i, version) in all.iter().enumerate() {
            let at = if same {
                format!("spec.{shared}")
            } else {
                format!("spec.versions[{i}].{own}")
            };
            match name {
                "schema" => schema(version, i, &at, &mut errors),
                "subresources" => subresources(&version[name], &at, &mut errors),
                _ => columns(&version[name], &at, &mut errors),
            }
            if same {
                break;
            }
        }
    }
    stored_versions(crd, &mut errors);
    if let Some(old) = old {
        immutable(crd, old, &mut errors);
    }
    errors
}

fn identity(crd: &Value, errors: &mut Vec<FieldError>) {
    let (name, group, plural) = (
        text(crd, "/metadata/name"),
        text(crd, "/spec/group"),
        text(crd, "/spec/names/plural"),
    );
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else {
        for problem in subdomain(group) {
            errors.push(FieldError::invalid("spec.group", &group.into(), problem));
        }
        if !group.contains('.') {
            errors.push(FieldError::invalid(
                "spec.group",
                &group.into(),
                "should be a domain with at least one dot",
            ));
        }
    }
    if name != format!("{plural}.{group}") {
        errors.push(FieldError::invalid(
            "metadata.name",
            &name.into(),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    approval(crd, group, errors);
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
fn approval(crd: &Value, group: &str, errors: &mut Vec<FieldError>) {
    const KEY: &str = "api-approved.kubernetes.io";
    let protected = ["k8s.io", "kubernetes.io"];
    if !protected
        .iter()
        .any(|p| group == *p || group.ends_with(&format!(".{p}")))
    {
        return;
    }
    let given = crd["metadata"]["annotations"][KEY]
        .as_str()
        .unwrap_or_default();
    let field = format!("metadata.annotations[{KEY}]");
    if given.is_empty() {
        let detail = format!(
            "protected groups must have approval annotation \"{KEY}\", see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        errors.push(FieldError::required(field, &detail));
    } else if !given.starts_with("unapproved")
        && !given.starts_with("https://")
        && !given.starts_with("http://")
    {
        let detail = "protected groups must have approval annotation with either a URL or a reason starting with \
                      \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111";
        errors.push(FieldError::invalid(field, &given.into(), detail));
    }
}

fn names(crd: &Value, errors: &mut Vec<FieldError>) {
    let names = &crd["spec"]["names"];
    for (name, required, mixed_case) in [
        ("plural", true, false),
        ("singular", false, false),
        ("kind", true, true),
        ("listKind", true, true),
    ] {
        let value = names[name].as_str().unwrap_or_default();
        let field = format!("spec.names.{name}");
        if value.is_empty() {
            if required {
                errors.push(FieldError::required(field, ""));
            }
        } else if mixed_case {
            for problem in label_1035(&value.to_lowercase()) {
                let detail = format!("may have mixed case, but should otherwise match: {problem}");
                errors.push(FieldError::invalid(field.clone(), &value.into(), detail));
            }
        } else {
            for problem in label_1035(value) {
                errors.push(FieldError::invalid(field.clone(), &value.into(), problem));
            }
        }
    }
    for name in ["shortNames", "categories"] {
        for (i, value) in names[name].as_array().into_iter().flatten().enumerate() {
            for problem in label_1035(value.as_str().unwrap_or_default()) {
                errors.push(FieldError::invalid(
                    format!("spec.names.{name}[{i}]"),
                    value,
                    problem,
                ));
            }
        }
    }
    if names["kind"].is_string() && names["kind"] == names["listKind"] {
        errors.push(FieldError::invalid(
            "spec.names.listKind",
            &names["listKind"],
            "kind and listKind may not be the same",
        ));
    }
}

fn schema(version: &Value, index: usize, at: &str, errors: &mut Vec<FieldError>) {
    let Some(schema) = version
        .pointer("/schema/openAPIV3Schema")
        .filter(|s| s.is_object())
    else {
        errors.push(FieldError::required(
            format!("spec.versions[{index}].schema.openAPIV3Schema"),
            "",
        ));
        return;
    };
    let at = format!("{at}.openAPIV3Schema");
    let before = errors.len();
    structural::check(schema, &at, errors);
    if errors.len() == before {
        rules::check(schema, &at, errors);
    }
}

fn subresources(subresources: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let scale = &subresources["scale"];
    if !scale.is_object() {
        return;
    }
    for (name, root, required) in [
        ("specReplicasPath", ".spec", true),
        ("statusReplicasPath", ".status", true),
        ("labelSelectorPath", ".status", false),
    ] {
        let path = scale[name].as_str().unwrap_or_default();
        let field = format!("{at}.scale.{name}");
        let simple = path
            .split('.')
            .skip(1)
            .all(|part| !part.is_empty() && !part.contains(['[', ']', '*', '?', '@']));
        if path.is_empty() {
            if required {
                errors.push(FieldError::required(field, ""));
            }
        } else if !simple || !path.starts_with('.') {
            errors.push(FieldError::invalid(
                field,
                &path.into(),
                "should be a simple json path",
            ));
        } else if !path.starts_with(&format!("{root}."))
            && (name != "labelSelectorPath" || !path.starts_with(".spec."))
        {
            let detail = format!("should be a json path under {root}");
            errors.push(FieldError::invalid(field, &path.into(), detail));
        }
    }
}

fn columns(columns: &Value, at: &str, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 9] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
        "binary",
    ];
    for (i, column) in columns.as_array().into_iter().flatten().enumerate() {
        let at = format!("{at}[{i}]");
        if column["name"].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        }
        match column["type"].as_str().unwrap_or_default() {
            "" => {
                let detail = format!("must be one of {}", TYPES.join(","));
                errors.push(FieldError::required(format!("{at}.type"), &detail));
            }
            known if TYPES.contains(&known) => {}
            other => {
                let detail = format!("must be one of {}", TYPES.join(","));
                errors.push(FieldError::invalid(
                    format!("{at}.type"),
                    &other.into(),
                    detail,
                ));
            }
        }
        if let Some(format) = column["format"]
            .as_str()
            .filter(|f| !f.is_empty() && !FORMATS.contains(f))
        {
            let detail = format!("must be one of {}", FORMATS.join(","));
            errors.push(FieldError::invalid(
                format!("{at}.format"),
                &format.into(),
                detail,
            ));
        }
        match column["jsonPath"].as_str().unwrap_or_default() {
            "" => errors.push(FieldError::required(format!("{at}.JSONPath"), "")),
            path => {
                if let Err(problem) = JsonPath::parse(path) {
                    errors.push(FieldError::invalid(
                        format!("{at}.JSONPath"),
                        &path.into(),
                        problem,
                    ));
                }
            }
        }
    }
}

fn stored_versions(crd: &Value, errors: &mut Vec<FieldError>) {
    let all = versions(crd);
    if all.is_empty() {
        errors.push(FieldError::required("spec.versions", ""));
        return;
    }
    for (i, version) in all.iter().enumerate() {
        let name = version["name"].as_str().unwrap_or_default();
        for problem in label_1035(name) {
            errors.push(FieldError::invalid(
                format!("spec.versions[{i}].name"),
                &name.into(),
                problem,
            ));
        }
        if all[..i]
            .iter()
            .any(|other| other["name"] == version["name"])
        {
            errors.push(FieldError::invalid(
                "spec.versions",
                &json!(all),
                "must contain unique version names",
            ));
        }
    }
    let marked: Vec<&Value> = storage_versions(crd).collect();
    if marked.len() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &json!(all), detail));
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
    } else if let Some(storage) = marked.last().filter(|storage| !list.contains(storage)) {
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
                "missing from spec.versions; {} was previously a storage version, and must remain in spec.versions \
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

/// What cannot change once the names were accepted.
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
