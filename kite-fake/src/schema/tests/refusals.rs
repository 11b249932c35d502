//! What a definition may not say, rule by rule: the first refusal of each.

use serde_json::{Value, json};

use super::recorded::merge;
use crate::schema::crd;

/// A definition whose `spec` has the given schema as `spec.properties[x]`.
pub(super) fn definition(x: &Value) -> Value {
    let root = json!({"type": "object", "properties": {"x": x}});
    with_root(&root)
}

fn with_root(root: &Value) -> Value {
    let mut crd = json!({
        "metadata": {"name": "xs.a.io"},
        "spec": {
            "group": "a.io", "scope": "Cluster", "names": {"plural": "xs", "kind": "X"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": root}}],
        },
    });
    crd::set_defaults(&mut crd);
    crd["status"] = crd::initial_status(&crd);
    crd
}

fn errors(crd: &Value) -> Vec<String> {
    let found = crd::validate(crd, None);
    found
        .iter()
        .map(|e| e.to_string().replace("spec.validation.openAPIV3Schema", ""))
        .collect()
}

#[test]
fn schemas_are_refused() {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "properties": {"metadata": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true}}});
    let in_labels = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object",
            "additionalProperties": {"type": "string", "default": "x"}}}}}});
    for (x, error) in [
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "x-kubernetes-map-type": "granular"}}),
            ".properties[x].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (
            embedded,
            ".properties[x].properties[metadata].x-kubernetes-embedded-resource: Forbidden: must not be used inside of resource meta",
        ),
        (
            in_labels,
            ".properties[x].properties[metadata].properties[labels].additionalProperties.default: Forbidden: must not be set inside additionalProperties applying to object metadata",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}, "anyOf": [{"properties": {"a": {"minLength": 1}}}]}),
            ".properties[x].properties[a]: Required value: because it is defined in .properties[x].anyOf[0].properties[a]",
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "message": " "}]}),
            ".properties[x].x-kubernetes-validations[0].message: Invalid value: \" \": message must be non-empty if specified",
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".none"}]}),
            ".properties[x].x-kubernetes-validations[0].fieldPath: Invalid value: \".none\": fieldPath must be a valid path",
        ),
        (
            json!({"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}),
            ".properties[x].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within .properties[x]",
        ),
        (
            json!({"type": "integer", "default": 3, "x-kubernetes-validations": [{"rule": "self < 3", "message": "less"}]}),
            ".properties[x].default: Invalid value: 3: less",
        ),
    ] {
        assert_eq!(
            errors(&definition(&x)).first().map(String::as_str),
            Some(error),
            "{x}"
        );
    }
}

#[test]
fn what_is_correlated_may_look_back() {
    // An atomic map is correlated all the same, and so are the values of any map.
    let rule = json!([{"rule": "self == oldSelf"}]);
    let text = json!({"type": "string", "maxLength": 5, "x-kubernetes-validations": rule});
    for x in [
        json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text}}),
        json!({"type": "object", "additionalProperties": text, "maxProperties": 3}),
    ] {
        assert_eq!(errors(&definition(&x)), Vec::<String>::new(), "{x}");
    }
}

#[test]
fn a_broken_part_does_not_hide_the_rules_of_another() {
    let root = json!({"type": "object", "properties": {
        "a": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "odd"},
        "b": {"type": "integer", "x-kubernetes-validations": [{"rule": "self"}]},
    }});
    let found = errors(&with_root(&root));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[1].ends_with("cel expression must evaluate to a bool"),
        "{found:?}"
    );
}

#[test]
fn metadata_of_the_root_is_only_named() {
    for (metadata, refused) in [
        (
            json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}),
            false,
        ),
        (json!({"type": "object", "description": "d"}), true),
        (
            json!({"type": "object", "properties": {"labels": {"type": "object"}}}),
            true,
        ),
    ] {
        let root = json!({"type": "object", "properties": {"metadata": metadata}});
        assert_eq!(!errors(&with_root(&root)).is_empty(), refused, "{root}");
    }
}

#[test]
fn the_rest_of_a_definition_is_checked() {
    let text = json!({"type": "string"});
    for (patch, error) in [
        (json!({"spec": {"group": ""}}), "spec.group: Required value"),
        (
            json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"url": "http://a.io"}}}}}),
            "spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
        ),
        (
            json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v2"],
                "clientConfig": {"service": {"name": "s", "namespace": "n"}}}}}}),
            "spec.conversion.conversionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
        ),
    ] {
        let mut crd = definition(&text);
        merge(&mut crd, &patch);
        let found = errors(&crd);
        assert!(found.iter().any(|e| e == error), "{found:?}");
    }
    let version = |extra: Value| {
        let mut crd = definition(&text);
        merge(&mut crd["spec"]["versions"][0], &extra);
        errors(&crd)
    };
    assert_eq!(
        version(
            json!({"additionalPrinterColumns": [{"name": "N", "type": "string", "format": "binary", "jsonPath": ".x"}]})
        ),
        [
            "spec.additionalPrinterColumns[0].format: Invalid value: \"binary\": must be one of byte,date,date-time,double,float,int32,int64,password"
        ]
    );
    assert_eq!(
        version(
            json!({"selectableFields": [{"jsonPath": ".x['y']"}, {"jsonPath": "x"}, {"jsonPath": ".y"}]})
        ),
        [
            "spec.selectableFields[0].jsonPath: Invalid value: \".x['y']\": is an invalid path: array notation is not allowed",
            "spec.selectableFields[1].jsonPath: Invalid value: \"x\": is an invalid path: expected [ or . but got: x",
            "spec.selectableFields[2].jsonPath: Invalid value: \".y\": is an invalid path: does not refer to a valid field",
        ]
    );
    assert_eq!(
        version(json!({"deprecated": true, "deprecationWarning": "a\u{a0}b"})),
        [
            "spec.versions[0].deprecationWarning: Invalid value: \"a\u{a0}b\": must only contain printable UTF-8 characters; non-printable character found at index 1"
        ]
    );
}

#[test]
fn unknown_formats_cause_warnings() {
    let x = json!({"type": "object", "properties": {
        "a": {"type": "string", "format": "date-time"}, "b": {"type": "string", "format": "color"},
        "c": {"type": "integer", "format": "int128"}, "e": {"type": "integer", "format": "int64"},
        "f": {"type": "string", "format": "int64"}, "d": {"type": "array", "items": {"type": "string", "format": "color"}},
    }});
    let mut told = crd::warnings(&definition(&x));
    told.sort();
    assert_eq!(
        told,
        ["color", "int128", "int64"].map(|it| format!("unrecognized format \"{it}\""))
    );
}

#[test]
fn approval_of_an_api_is_a_condition() {
    for (annotation, status, reason, message) in [
        (
            "https://a.io/1",
            "True",
            "ApprovedAnnotation",
            "approved in https://a.io/1",
        ),
        (
            "unapproved, later",
            "False",
            "UnapprovedAnnotation",
            "not approved: \"unapproved, later\"",
        ),
    ] {
        let mut crd = definition(&json!({"type": "string"}));
        crd["spec"]["group"] = "a.k8s.io".into();
        crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": annotation});
        let state = crd::accept(&crd, std::iter::empty(), "now");
        let condition = &state["conditions"][2];
        assert_eq!(condition["type"], "KubernetesAPIApprovalPolicyConformant");
        assert_eq!(
            (
                &condition["status"],
                &condition["reason"],
                &condition["message"]
            ),
            (&status.into(), &reason.into(), &message.into())
        );
    }
}

#[test]
fn rules_may_cost_so_much_and_no_more() {
    let texts = |rule: &str, max: Option<u64>| {
        let mut text = json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]});
        if let Some(max) = max {
            text["maxLength"] = max.into();
        }
        errors(&definition(
            &json!({"type": "array", "maxItems": 1500, "items": text}),
        ))
    };
    let rule = "self.matches('[a-z]{5}')";
    assert_eq!(texts(rule, Some(10)), Vec::<String>::new());
    let hint = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
    let at = ".properties[x].items.x-kubernetes-validations[0].rule: Forbidden:";
    assert_eq!(
        texts(rule, Some(10_000)),
        [format!(
            "{at} estimated rule cost exceeds budget by factor of 1.200450x {hint}"
        )]
    );
    // What costs too much in all is told of the whole schema and of the rules that cost most.
    assert_eq!(
        texts(rule, None),
        [
            format!("{at} estimated rule cost exceeds budget by factor of 94.4x {hint}"),
            format!(
                "{at} contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            ),
            format!(
                ": Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of 9.4x {hint}"
            ),
        ]
    );
}

#[test]
fn costs_that_were_accepted_once_stay_accepted() {
    let rule = json!([{"rule": "self.contains('a')"}]);
    let x = json!({"type": "array", "maxItems": 50, "items": {"type": "string", "x-kubernetes-validations": rule}});
    let stored = definition(&x);
    assert_eq!(errors(&stored).len(), 1);
    assert_eq!(crd::validate(&stored, Some(&stored)), vec![]);
    let mut changed = stored.clone();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "new".into();
    assert_eq!(crd::validate(&changed, Some(&stored)).len(), 1);
}
