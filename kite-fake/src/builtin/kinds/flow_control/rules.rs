//! The rules of flow schemas: whose requests, and which.

use serde_json::{Value, json};

use super::Errors;
use crate::builtin::check;
use crate::members::{flag, has, list, text};
use crate::names;
use crate::schema::FieldError;

const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];

/// Checks a rule.
pub(super) fn rule(rule: &Value, path: &str, errors: &mut Errors) {
    let subjects = list(rule, "subjects");
    if subjects.is_empty() {
        let why = "subjects must contain at least one value";
        errors.push(FieldError::required(format!("{path}.subjects"), why));
    }
    for (i, one) in subjects.iter().enumerate() {
        subject(one, &format!("{path}.subjects[{i}]"), errors);
    }
    let (resources, others) = (list(rule, "resourceRules"), list(rule, "nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(path, why));
    }
    for (i, one) in resources.iter().enumerate() {
        resource_rule(one, &format!("{path}.resourceRules[{i}]"), errors);
    }
    for (i, one) in others.iter().enumerate() {
        let path = format!("{path}.nonResourceRules[{i}]");
        verbs(one, &path, errors);
        urls(one, &path, errors);
    }
}

/// Kinds of subjects, each with the member that names one.
const SUBJECTS: [(&str, &str); 3] = [
    ("ServiceAccount", "serviceAccount"),
    ("User", "user"),
    ("Group", "group"),
];

fn subject(subject: &Value, path: &str, errors: &mut Errors) {
    let kind = text(subject, "kind");
    let Some((_, own)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
        errors.push(FieldError::not_supported(
            format!("{path}.kind"),
            &json!(kind),
            &["Group", "ServiceAccount", "User"],
        ));
        return;
    };
    let field = format!("{path}.{own}");
    if !has(subject, own) {
        let why = format!("{own} is required when subject kind is '{kind}'");
        errors.push(FieldError::required(field, &why));
    } else if *own == "serviceAccount" {
        account(&subject[*own], &field, errors);
    } else {
        check::required(&subject[*own], "name", &field, errors);
    }
    // The server looks at accounts, users and groups in this order.
    for (other, member) in SUBJECTS {
        if member != *own && has(subject, member) {
            let why = format!("{member} is forbidden when subject kind is not '{other}'");
            errors.push(FieldError::forbidden(format!("{path}.{member}"), why));
        }
    }
}

fn account(account: &Value, path: &str, errors: &mut Errors) {
    if check::required(account, "name", path, errors) && text(account, "name") != "*" {
        check::subdomain(text(account, "name"), &format!("{path}.name"), errors);
    }
    let field = format!("{path}.namespace");
    let namespace = text(account, "namespace");
    if namespace.is_empty() {
        let why = "must specify namespace for service account";
        errors.push(FieldError::required(field, why));
    } else {
        check::label(namespace, &field, errors);
    }
}

fn everything(all: &[Value]) -> bool {
    all.iter().any(|one| one == "*")
}

/// `true` if the list is an asterisk, which then must be alone.
fn alone(of: &Value, member: &str, what: &str, path: &str, errors: &mut Errors) -> bool {
    let all = list(of, member);
    let any = everything(all);
    if any && all.len() > 1 {
        errors.push(FieldError::invalid(
            format!("{path}.{member}"),
            &of[member],
            format!("if '*' is present, must not specify other {what}"),
        ));
    }
    any
}

fn verbs(rule: &Value, path: &str, errors: &mut Errors) {
    let field = format!("{path}.verbs");
    let all = list(rule, "verbs");
    let known = |verb: &Value| VERBS.contains(&verb.as_str().unwrap_or_default());
    if all.is_empty() {
        let why = "verbs must contain at least one value";
        errors.push(FieldError::required(field, why));
    } else if !alone(rule, "verbs", "verbs", path, errors) && !all.iter().all(known) {
        errors.push(FieldError::not_supported(field, &rule["verbs"], VERBS));
    }
}

fn resource_rule(rule: &Value, path: &str, errors: &mut Errors) {
    verbs(rule, path, errors);
    for (member, what, one) in [
        ("apiGroups", "api groups", "api group"),
        ("resources", "resources", "resource"),
    ] {
        if list(rule, member).is_empty() {
            let why = format!("resource rules must supply at least one {one}");
            errors.push(FieldError::required(format!("{path}.{member}"), &why));
        } else {
            alone(rule, member, what, path, errors);
        }
    }
    let field = format!("{path}.namespaces");
    let namespaces = list(rule, "namespaces");
    if namespaces.is_empty() && !flag(rule, "clusterScope") {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(FieldError::required(field, why));
    } else if !alone(rule, "namespaces", "namespaces", path, errors) {
        for (i, namespace) in namespaces.iter().enumerate() {
            for wrong in names::label(namespace.as_str().unwrap_or_default()) {
                errors.push(FieldError::invalid(
                    format!("{field}[{i}]"),
                    namespace,
                    format!("each member of this list must be '*' or a DNS-1123 label; {wrong}"),
                ));
            }
        }
    }
}

fn urls(rule: &Value, path: &str, errors: &mut Errors) {
    const MEMBER: &str = "nonResourceURLs";
    let all = list(rule, MEMBER);
    if all.is_empty() {
        let why = "nonResourceURLs must contain at least one value";
        errors.push(FieldError::required(format!("{path}.{MEMBER}"), why));
    } else if !alone(rule, MEMBER, "non-resource URLs", path, errors) {
        for (i, url) in all.iter().enumerate() {
            if let Some(wrong) = wrong_url(url.as_str().unwrap_or_default()) {
                let field = format!("{path}.{MEMBER}[{i}]");
                errors.push(FieldError::invalid(field, url, wrong));
            }
        }
    }
}

/// What is wrong with a path, or with the beginning of paths.
fn wrong_url(url: &str) -> Option<&'static str> {
    let asterisks = url.matches('*').count();
    if url.is_empty() {
        Some("must not be empty")
    } else if url == "/" {
        None
    } else if !url.starts_with('/') {
        Some("must start with slash")
    } else if url.contains(' ') {
        Some("must not contain white-space")
    } else if url.contains("//") {
        Some("must not contain double slash")
    } else if asterisks > 1 || asterisks == 1 && !url.ends_with("/*") {
        Some("wildcard can only do suffix matching")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(one: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        rule(one, "spec.rules[0]", &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_rule_says_whose_requests() {
        let rules = json!([{"verbs": ["get"], "nonResourceURLs": ["/"]}]);
        assert_eq!(
            of(&json!({"nonResourceRules": rules, "subjects": [
                {"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "n"}},
                {"kind": "User", "user": {"name": "u"}},
                {"kind": "Group", "group": {"name": "g"}},
            ]})),
            Vec::<String>::new()
        );
        assert_eq!(
            of(&json!({"nonResourceRules": rules, "subjects": [
                {"kind": "ServiceAccount", "user": {}, "group": {}},
                {"kind": "ServiceAccount", "serviceAccount": {}},
                {"kind": "User", "user": {}},
                {"kind": "Group"},
                {"kind": "Node"},
            ]})),
            [
                "spec.rules[0].subjects[0].serviceAccount: Required value: serviceAccount is required when subject kind is 'ServiceAccount'",
                "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'",
                "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
                "spec.rules[0].subjects[1].serviceAccount.name: Required value",
                "spec.rules[0].subjects[1].serviceAccount.namespace: Required value: must specify namespace for service account",
                "spec.rules[0].subjects[2].user.name: Required value",
                "spec.rules[0].subjects[3].group: Required value: group is required when subject kind is 'Group'",
                "spec.rules[0].subjects[4].kind: Unsupported value: \"Node\": supported values: \"Group\", \"ServiceAccount\", \"User\"",
            ]
        );
        assert_eq!(
            of(&json!({})),
            [
                "spec.rules[0].subjects: Required value: subjects must contain at least one value",
                "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
            ]
        );
    }

    #[test]
    fn a_rule_says_which_requests() {
        let subjects = json!([{"kind": "User", "user": {"name": "u"}}]);
        assert_eq!(
            of(&json!({"subjects": subjects, "resourceRules": [
                {},
                {"verbs": ["get", "*"], "apiGroups": ["*", "a"], "resources": ["*", "a"],
                    "namespaces": ["*", "a"]},
                {"verbs": ["get", "eat"], "apiGroups": ["*"], "resources": ["a"],
                    "namespaces": ["a", "-"]},
            ]})),
            [
                "spec.rules[0].resourceRules[0].verbs: Required value: verbs must contain at least one value",
                "spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "spec.rules[0].resourceRules[0].resources: Required value: resource rules must supply at least one resource",
                "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace",
                "spec.rules[0].resourceRules[1].verbs: Invalid value: [\"get\",\"*\"]: if '*' is present, must not specify other verbs",
                "spec.rules[0].resourceRules[1].apiGroups: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other api groups",
                "spec.rules[0].resourceRules[1].resources: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other resources",
                "spec.rules[0].resourceRules[1].namespaces: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other namespaces",
                "spec.rules[0].resourceRules[2].verbs: Unsupported value: [\"get\",\"eat\"]: supported values: \"create\", \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \"proxy\", \"update\", \"watch\"",
                "spec.rules[0].resourceRules[2].namespaces[1]: Invalid value: \"-\": each member of this list must be '*' or a DNS-1123 label; a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ]
        );
        assert_eq!(
            of(
                &json!({"subjects": subjects, "nonResourceRules": [{"verbs": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*", "/a"]},
                {"verbs": ["*"], "nonResourceURLs": ["", "/", "/a/*", "a", "/a b", "//", "/a*"]}]})
            ),
            [
                "spec.rules[0].nonResourceRules[0].nonResourceURLs: Required value: nonResourceURLs must contain at least one value",
                "spec.rules[0].nonResourceRules[1].nonResourceURLs: Invalid value: [\"*\",\"/a\"]: if '*' is present, must not specify other non-resource URLs",
                "spec.rules[0].nonResourceRules[2].nonResourceURLs[0]: Invalid value: \"\": must not be empty",
                "spec.rules[0].nonResourceRules[2].nonResourceURLs[3]: Invalid value: \"a\": must start with slash",
                "spec.rules[0].nonResourceRules[2].nonResourceURLs[4]: Invalid value: \"/a b\": must not contain white-space",
                "spec.rules[0].nonResourceRules[2].nonResourceURLs[5]: Invalid value: \"//\": must not contain double slash",
                "spec.rules[0].nonResourceRules[2].nonResourceURLs[6]: Invalid value: \"/a*\": wildcard can only do suffix matching",
            ]
        );
    }
}
