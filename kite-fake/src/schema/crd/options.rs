//! What a definition says beside its schema: subresources, columns, selectable
//! fields, conversion, deprecation.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::super::field_path;
use super::webhook::client_config;
use crate::field_error::FieldError;
use crate::names::label_1035;

/// Checks `subresources` of a version.
pub(super) fn subresources(subresources: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let scale = &subresources["scale"];
    if !scale.is_object() {
        return;
    }
    for (name, roots, detail) in [
        (
            "specReplicasPath",
            &[".spec."][..],
            "should be a json path under .spec",
        ),
        (
            "statusReplicasPath",
            &[".status."],
            "should be a json path under .status",
        ),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
        ),
    ] {
        let path = scale[name].as_str().unwrap_or_default();
        let field = format!("{at}.scale.{name}");
        if path.is_empty() {
            if name != "labelSelectorPath" {
                errors.push(FieldError::required(field, ""));
            }
        } else if let Some(error) = not_simple(&field, path) {
            errors.push(error);
        } else if !roots.iter().any(|root| path.starts_with(root)) {
            errors.push(FieldError::invalid(field, &path.into(), detail));
        }
    }
}

fn not_simple(field: &str, path: &str) -> Option<FieldError> {
    (!path.starts_with('.')).then(|| {
        FieldError::invalid(
            field,
            &path.into(),
            "must be a simple json path starting with .",
        )
    })
}

/// Checks `additionalPrinterColumns` of a version.
pub(super) fn columns(columns: &Value, at: &str, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    for (i, column) in columns.as_array().into_iter().flatten().enumerate() {
        let at = format!("{at}[{i}]");
        let text = |name: &str| column[name].as_str().unwrap_or_default();
        if text("name").is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        }
        let detail = format!("must be one of {}", TYPES.join(","));
        match text("type") {
            "" => errors.push(FieldError::required(format!("{at}.type"), &detail)),
            known if TYPES.contains(&known) => {}
            other => errors.push(FieldError::invalid(
                format!("{at}.type"),
                &other.into(),
                detail,
            )),
        }
        let format = text("format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let detail = format!("must be one of {}", FORMATS.join(","));
            errors.push(FieldError::invalid(
                format!("{at}.format"),
                &format.into(),
                detail,
            ));
        }
        let field = format!("{at}.JSONPath");
        match text("jsonPath") {
            "" => errors.push(FieldError::required(field, "")),
            path => errors.extend(not_simple(&field, path)),
        }
    }
}

/// Checks `selectableFields` of a version with the given schema.
pub(super) fn selectable(fields: &Value, schema: &Value, at: &str, errors: &mut Vec<FieldError>) {
    const MOST: usize = 8;
    let mut seen: Vec<String> = Vec::new();
    for (i, selectable) in fields.as_array().into_iter().flatten().enumerate() {
        let field = format!("{at}[{i}].jsonPath");
        let path = selectable["jsonPath"].as_str().unwrap_or_default();
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let found = match field_path::resolve(schema, path, false) {
            Ok(found) => found,
            Err(why) => {
                let detail = format!("is an invalid path: {why}");
                errors.push(FieldError::invalid(field, &path.into(), detail));
                continue;
            }
        };
        if found.root == "metadata" {
            errors.push(FieldError::invalid(
                field.clone(),
                &path.into(),
                "must not point to fields in metadata",
            ));
        }
        if !matches!(
            found.schema["type"].as_str(),
            Some("string" | "boolean" | "integer")
        ) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            errors.push(FieldError::invalid(field.clone(), &path.into(), detail));
        }
        if seen.contains(&found.text) {
            errors.push(FieldError::duplicate(field, &path.into()));
        } else {
            seen.push(found.text);
        }
    }
    if seen.len() > MOST {
        errors.push(FieldError::too_many(at, seen.len(), MOST as u64));
    }
}

/// Checks `deprecationWarning` of a version.
pub(super) fn deprecation(version: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").filter(|w| !w.is_null()) else {
        return;
    };
    let field = format!("{at}.deprecationWarning");
    let text = warning.as_str().unwrap_or_default();
    if version["deprecated"] != true {
        errors.push(FieldError::invalid(
            field,
            warning,
            "can only be set for deprecated versions",
        ));
        return;
    }
    if text.len() > 256 {
        errors.push(FieldError::invalid(
            field.clone(),
            warning,
            "must be <= 256 characters long",
        ));
    }
    if text.is_empty() {
        errors.push(FieldError::invalid(
            field.clone(),
            warning,
            "must not be an empty string",
        ));
    }
    if let Some((i, _)) = text.char_indices().find(|(_, c)| !is_print(*c)) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {i}"
        );
        errors.push(FieldError::invalid(field, warning, detail));
    }
}

/// Letters, marks, numbers, punctuation, symbols and the ASCII space, as Go's `unicode.IsPrint`.
fn is_print(c: char) -> bool {
    static PRINT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$").ok());
    let mut buffer = [0; 4];
    PRINT
        .as_ref()
        .is_some_and(|print| print.is_match(c.encode_utf8(&mut buffer)))
}

/// Checks `spec.conversion`.
pub(super) fn conversion(conversion: &Value, errors: &mut Vec<FieldError>) {
    if !conversion.is_object() {
        return;
    }
    let at = "spec.conversion";
    match conversion["strategy"].as_str().unwrap_or_default() {
        "" => errors.push(FieldError::required(format!("{at}.strategy"), "")),
        "None" | "Webhook" => {}
        other => {
            let field = format!("{at}.strategy");
            errors.push(FieldError::not_supported(
                field,
                &other.into(),
                &["None", "Webhook"],
            ));
        }
    }
    // The API server keeps the parts of `webhook` as members of the conversion itself.
    let client = &conversion["webhook"]["clientConfig"];
    let versions = conversion["webhook"]["conversionReviewVersions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let client_at = format!("{at}.webhookClientConfig");
    let versions_at = format!("{at}.conversionReviewVersions");
    if conversion["strategy"] != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_object() {
            errors.push(FieldError::forbidden(client_at, detail));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(versions_at, detail));
        }
        return;
    }
    if client.is_object() {
        client_config(client, &client_at, errors);
    } else {
        errors.push(FieldError::required(
            client_at,
            "required when strategy is set to Webhook",
        ));
    }
    if versions.is_empty() {
        errors.push(FieldError::required(versions_at, ""));
        return;
    }
    for (i, version) in versions.iter().enumerate() {
        let field = format!("{versions_at}[{i}]");
        if versions[..i].contains(version) {
            errors.push(FieldError::invalid(field, version, "duplicate version"));
            continue;
        }
        for problem in label_1035(version.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(field.clone(), version, problem));
        }
    }
    if !versions.iter().any(|v| v == "v1" || v == "v1beta1") {
        let all = Value::from(versions.to_vec());
        errors.push(FieldError::invalid(
            versions_at,
            &all,
            "must include at least one of v1, v1beta1",
        ));
    }
}
