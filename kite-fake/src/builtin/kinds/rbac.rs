//! Roles and bindings. Whether somebody may grant what a role says is not
//! checked here but where requests are authorized.

use serde_json::{Value, json};

use crate::builtin::check;
use crate::members::{default, list, list_mut, object_mut, text};
use crate::schema::{CauseReason, FieldError, Validation};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(in crate::builtin) fn default_binding(binding: &mut Value) {
    default(object_mut(binding, "roleRef"), "apiGroup", GROUP);
    for subject in list_mut(binding, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            default(subject, "apiGroup", GROUP);
        }
    }
}

pub(in crate::builtin) fn validate_role(role: &Value, found: &mut Validation) {
    rules(role, true, found);
}

pub(in crate::builtin) fn validate_cluster_role(role: &Value, found: &mut Validation) {
    const FIELD: &str = "aggregationRule.clusterRoleSelectors";
    rules(role, false, found);
    let aggregation = &role["aggregationRule"];
    if !aggregation.is_object() {
        return;
    }
    let selectors = list(aggregation, "clusterRoleSelectors");
    if selectors.is_empty() {
        found.errors.push(FieldError::required(
            FIELD,
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        ));
    }
    for (place, selector) in selectors.iter().enumerate() {
        super::network::selector(selector, &format!("{FIELD}[{place}]"), &mut found.errors);
    }
}

fn rules(role: &Value, namespaced: bool, found: &mut Validation) {
    let errors = &mut found.errors;
    for (place, rule) in list(role, "rules").iter().enumerate() {
        let path = format!("rules[{place}]");
        if list(rule, "verbs").is_empty() {
            errors.push(FieldError::required(
                format!("{path}.verbs"),
                "verbs must contain at least one value",
            ));
        }
        let of_resources = ["apiGroups", "resources", "resourceNames"];
        if !list(rule, "nonResourceURLs").is_empty() {
            let urls = &rule["nonResourceURLs"];
            let field = format!("{path}.nonResourceURLs");
            if namespaced {
                errors.push(FieldError::invalid(
                    &*field,
                    urls,
                    "namespaced rules cannot apply to non-resource URLs",
                ));
            }
            if of_resources
                .iter()
                .any(|member| !list(rule, member).is_empty())
            {
                errors.push(FieldError::invalid(
                    field,
                    urls,
                    "rules cannot apply to both regular resources and non-resource URLs",
                ));
            }
            continue;
        }
        if list(rule, "apiGroups").is_empty() {
            errors.push(FieldError::required(
                format!("{path}.apiGroups"),
                "resource rules must supply at least one api group",
            ));
        }
        if list(rule, "resources").is_empty() {
            errors.push(FieldError::required(
                format!("{path}.resources"),
                "resource rules must supply at least one resource",
            ));
        }
    }
}

pub(in crate::builtin) fn validate_binding(binding: &Value, found: &mut Validation) {
    role_ref(binding, &["Role", "ClusterRole"], found);
    subjects(binding, true, found);
}

pub(in crate::builtin) fn validate_cluster_binding(binding: &Value, found: &mut Validation) {
    role_ref(binding, &["ClusterRole"], found);
    subjects(binding, false, found);
}

fn role_ref(binding: &Value, kinds: &[&str], found: &mut Validation) {
    let errors = &mut found.errors;
    let reference = &binding["roleRef"];
    if text(reference, "apiGroup") != GROUP {
        errors.push(FieldError::not_supported(
            "roleRef.apiGroup",
            &json!(text(reference, "apiGroup")),
            &[GROUP],
        ));
    }
    if !kinds.contains(&text(reference, "kind")) {
        errors.push(FieldError::not_supported(
            "roleRef.kind",
            &json!(text(reference, "kind")),
            kinds,
        ));
    }
    if check::required(reference, "name", "roleRef", errors) {
        check::path_segment(text(reference, "name"), "roleRef.name", errors);
    }
}

fn subjects(binding: &Value, namespaced: bool, found: &mut Validation) {
    let errors = &mut found.errors;
    for (place, subject) in list(binding, "subjects").iter().enumerate() {
        let path = format!("subjects[{place}]");
        if text(subject, "name").is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        let group = text(subject, "apiGroup");
        let expected = match text(subject, "kind") {
            "ServiceAccount" => {
                if !text(subject, "name").is_empty() {
                    check::subdomain(text(subject, "name"), &format!("{path}.name"), errors);
                }
                if !namespaced && text(subject, "namespace").is_empty() {
                    errors.push(FieldError::required(format!("{path}.namespace"), ""));
                }
                ""
            }
            "User" | "Group" => GROUP,
            other => {
                errors.push(FieldError::not_supported(
                    format!("{path}.kind"),
                    &json!(other),
                    &["ServiceAccount", "User", "Group"],
                ));
                continue;
            }
        };
        if group != expected {
            errors.push(FieldError::not_supported(
                format!("{path}.apiGroup"),
                &json!(group),
                &[expected],
            ));
        }
    }
}

/// A binding keeps its role.
pub(in crate::builtin) fn validate_binding_update(
    new: &Value,
    old: &Value,
    found: &mut Validation,
) {
    if new["roleRef"] == old["roleRef"] {
        return;
    }
    let part = |member: &str| json!(text(&new["roleRef"], member));
    found.errors.push(FieldError::with(
        CauseReason::Invalid,
        "roleRef",
        format!(
            "Invalid value: {{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}: cannot change roleRef",
            part("apiGroup"),
            part("kind"),
            part("name")
        ),
    ));
}
