//! Validation of Pods and pod templates.

use serde_json::{Value, json};

use super::containers;
use super::volumes;
use crate::builtin::check;
use crate::members::{has, list, list_mut, number, text, unset};
use crate::metadata;
use crate::names::{label_value, qualified};
use crate::schema::{FieldError, Validation};

type Errors = Vec<FieldError>;

/// What an update of a Pod may change, in the server's words.
const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(in crate::builtin) fn validate_pod(pod: &Value, found: &mut Validation) {
    spec(&pod["spec"], "spec", true, &mut found.errors);
    warn(pod, found);
}

/// Checks a template at a path such as `spec.template`.
pub(super) fn template(template: &Value, path: &str, found: &mut Validation) {
    let errors = &mut found.errors;
    let meta = &template["metadata"];
    metadata::labels(meta, "labels", &format!("{path}.metadata.labels"), errors);
    for (key, _) in crate::members::members(meta, "annotations") {
        let wrongs = qualified(&key.to_lowercase());
        let field = format!("{path}.metadata.annotations");
        check::invalid(&field, &json!(key), wrongs, errors);
    }
    let path = format!("{path}.spec");
    spec(&template["spec"], &path, false, errors);
    if !list(&template["spec"], "ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden(
            format!("{path}.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        ));
    }
}

pub(in crate::builtin) fn validate_pod_template(object: &Value, found: &mut Validation) {
    template(&object["template"], "template", found);
}

/// Checks a specification; `pod` where it is a Pod's own and not a template's.
fn spec(spec: &Value, path: &str, pod: bool, errors: &mut Errors) {
    let known = volumes::volumes(spec, &format!("{path}.volumes"), errors);
    containers::containers(spec, path, pod, &known, errors);
    containers::ephemeral(spec, path, &known, errors);
    one_of(
        spec,
        "restartPolicy",
        &["Always", "OnFailure", "Never"],
        path,
        errors,
    );
    one_of(
        spec,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        path,
        errors,
    );
    metadata::labels(
        spec,
        "nodeSelector",
        &format!("{path}.nodeSelector"),
        errors,
    );
    security_context(&spec["securityContext"], path, errors);
    dns(spec, path, errors);
    for (place, gate) in list(spec, "readinessGates").iter().enumerate() {
        let field = format!("{path}.readinessGates[{place}].conditionType");
        check::qualified(text(gate, "conditionType"), &field, errors);
    }
    let mut gates: Vec<&str> = Vec::new();
    for (place, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let field = format!("{path}.schedulingGates[{place}]");
        let name = text(gate, "name");
        check::qualified(name, &field, errors);
        if gates.contains(&name) {
            errors.push(FieldError::duplicate(field, &json!(name)));
        }
        gates.push(name);
    }
    spread(spec, path, errors);
    for member in [
        "nodeName",
        "priorityClassName",
        "runtimeClassName",
        "serviceAccountName",
    ] {
        let name = text(spec, member);
        if !name.is_empty() {
            check::subdomain(name, &format!("{path}.{member}"), errors);
        }
    }
    for member in ["hostname", "subdomain"] {
        let name = text(spec, member);
        if !name.is_empty() {
            check::label(name, &format!("{path}.{member}"), errors);
        }
    }
    if let Some(seconds) = number(spec, "activeDeadlineSeconds") {
        between(seconds, 1, &format!("{path}.activeDeadlineSeconds"), errors);
    }
    for (place, toleration) in list(spec, "tolerations").iter().enumerate() {
        tolerates(toleration, &format!("{path}.tolerations[{place}]"), errors);
    }
    for (place, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = format!("{path}.hostAliases[{place}]");
        check::ip(&json!(text(alias, "ip")), &format!("{path}.ip"), errors);
        for name in list(alias, "hostnames") {
            let name = name.as_str().unwrap_or_default();
            check::subdomain(name, &format!("{path}.hostnames"), errors);
        }
    }
    check::one_of(
        spec,
        "preemptionPolicy",
        &["PreemptLowerPriority", "Never"],
        path,
        errors,
    );
}

/// A number up to the greatest of 32 bits.
fn between(value: i64, least: i64, field: &str, errors: &mut Errors) {
    let most = i64::from(i32::MAX);
    if !(least..=most).contains(&value) {
        errors.push(FieldError::invalid(
            field,
            &json!(value),
            format!("must be between {least} and {most}, inclusive"),
        ));
    }
}

/// A value of an enumeration that must be there.
pub(super) fn one_of(
    of: &Value,
    member: &str,
    supported: &[&str],
    path: &str,
    errors: &mut Errors,
) {
    if check::required(of, member, path, errors) {
        check::one_of(of, member, supported, path, errors);
    }
}

/// Checks who a Pod or a container runs as.
pub(super) fn identities(context: &Value, path: &str, errors: &mut Errors) {
    for member in ["runAsUser", "runAsGroup", "fsGroup"] {
        if let Some(id) = number(context, member) {
            between(id, 0, &format!("{path}.{member}"), errors);
        }
    }
    for (place, id) in list(context, "supplementalGroups").iter().enumerate() {
        let field = format!("{path}.supplementalGroups[{place}]");
        between(id.as_i64().unwrap_or(0), 0, &field, errors);
    }
    let profile = &context["seccompProfile"];
    if profile.is_object() {
        let path = format!("{path}.seccompProfile");
        one_of(
            profile,
            "type",
            &["Localhost", "RuntimeDefault", "Unconfined"],
            &path,
            errors,
        );
        let local = text(profile, "type") == "Localhost";
        let field = format!("{path}.localhostProfile");
        if local && text(profile, "localhostProfile").is_empty() {
            errors.push(FieldError::required(
                field,
                "must be set when seccomp type is Localhost",
            ));
        } else if !local && has(profile, "localhostProfile") {
            errors.push(FieldError::invalid(
                field,
                &profile["localhostProfile"],
                "can only be set when seccomp type is Localhost",
            ));
        }
    }
}

fn security_context(context: &Value, path: &str, errors: &mut Errors) {
    let path = format!("{path}.securityContext");
    identities(context, &path, errors);
    check::one_of(
        context,
        "fsGroupChangePolicy",
        &["Always", "OnRootMismatch"],
        &path,
        errors,
    );
}

fn dns(spec: &Value, path: &str, errors: &mut Errors) {
    let path = format!("{path}.dnsConfig");
    let config = &spec["dnsConfig"];
    let servers = list(config, "nameservers");
    if text(spec, "dnsPolicy") == "None" {
        if !config.is_object() {
            errors.push(FieldError::required(
                path,
                "must provide `dnsConfig` when `dnsPolicy` is None",
            ));
            return;
        }
        if servers.is_empty() {
            errors.push(FieldError::required(
                format!("{path}.nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            ));
            return;
        }
    }
    if servers.len() > 3 {
        errors.push(FieldError::invalid(
            format!("{path}.nameservers"),
            &config["nameservers"],
            "must not have more than 3 nameservers",
        ));
    }
    for (place, server) in servers.iter().enumerate() {
        check::ip(server, &format!("{path}.nameservers[{place}]"), errors);
    }
    for (place, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.push(FieldError::required(
                format!("{path}.options[{place}]"),
                "must not be empty",
            ));
        }
    }
}

fn spread(spec: &Value, path: &str, errors: &mut Errors) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (place, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = format!("{path}.topologySpreadConstraints[{place}]");
        let skew = number(constraint, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            errors.push(FieldError::invalid(
                format!("{path}.maxSkew"),
                &json!(skew),
                "must be greater than zero",
            ));
        }
        let key = text(constraint, "topologyKey");
        if key.is_empty() {
            errors.push(FieldError::required(
                format!("{path}.topologyKey"),
                "can not be empty",
            ));
        } else {
            check::qualified(key, &format!("{path}.topologyKey"), errors);
        }
        let action = text(constraint, "whenUnsatisfiable");
        let supported = &["DoNotSchedule", "ScheduleAnyway"];
        if !supported.contains(&action) {
            errors.push(FieldError::not_supported(
                format!("{path}.whenUnsatisfiable"),
                &json!(action),
                supported,
            ));
        }
        if seen.contains(&(key, action)) {
            errors.push(FieldError::duplicate(
                format!("{path}.{{topologyKey, whenUnsatisfiable}}"),
                &json!(format!("{{{key}, {action}}}")),
            ));
        }
        seen.push((key, action));
        if has(constraint, "labelSelector") {
            let field = format!("{path}.labelSelector");
            super::network::selector(&constraint["labelSelector"], &field, errors);
        }
    }
}

fn tolerates(toleration: &Value, path: &str, errors: &mut Errors) {
    let key = text(toleration, "key");
    let operator = text(toleration, "operator");
    let effect = text(toleration, "effect");
    let value = text(toleration, "value");
    let operator_field = format!("{path}.operator");
    if !key.is_empty() {
        check::qualified(key, &format!("{path}.key"), errors);
    } else if operator != "Exists" {
        errors.push(FieldError::invalid(
            &*operator_field,
            &json!(operator),
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        ));
    }
    if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
        errors.push(FieldError::invalid(
            format!("{path}.effect"),
            &json!(effect),
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        ));
    }
    match operator {
        "" | "Equal" => {
            let wrongs = label_value(value);
            if !wrongs.is_empty() {
                errors.push(FieldError::invalid(
                    operator_field,
                    &json!(value),
                    wrongs.join(";"),
                ));
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => errors.push(FieldError::invalid(
            operator_field,
            toleration,
            "value must be empty when `operator` is 'Exists'",
        )),
        other => errors.push(FieldError::not_supported(
            operator_field,
            &json!(other),
            &["Equal", "Exists"],
        )),
    }
    let effects = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !effect.is_empty() && !effects.contains(&effect) {
        errors.push(FieldError::not_supported(
            format!("{path}.effect"),
            &json!(effect),
            effects,
        ));
    }
}

/// A Pod's specification stays, but for images, deadlines and tolerations.
pub(in crate::builtin) fn validate_pod_update(new: &Value, old: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    for member in ["containers", "initContainers"] {
        if list(&new["spec"], member).len() != list(&old["spec"], member).len() {
            errors.push(FieldError::forbidden(
                format!("spec.{member}"),
                "pod updates may not add or remove containers",
            ));
            return;
        }
    }
    deadline(&new["spec"], &old["spec"], errors);
    let kept = |toleration: &Value| {
        let bare = |toleration: &Value| {
            let mut toleration = toleration.clone();
            unset(&mut toleration, "tolerationSeconds");
            toleration
        };
        list(&new["spec"], "tolerations")
            .iter()
            .any(|other| bare(other) == bare(toleration))
    };
    if !list(&old["spec"], "tolerations").iter().all(kept) {
        errors.push(FieldError::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    for gate in list(&new["spec"], "schedulingGates") {
        if !list(&old["spec"], "schedulingGates").contains(gate) {
            errors.push(FieldError::forbidden(
                "spec.schedulingGates",
                format!(
                    "only deletion is allowed, but found new scheduling gate '{}'",
                    text(gate, "name")
                ),
            ));
        }
    }
    let was_negative = number(&old["spec"], "terminationGracePeriodSeconds").unwrap_or(0) < 0;
    let fixed = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for member in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
            unset(&mut spec, member);
        }
        if was_negative {
            unset(&mut spec, "terminationGracePeriodSeconds");
        }
        for containers in ["containers", "initContainers"] {
            for container in list_mut(&mut spec, containers) {
                unset(container, "image");
            }
        }
        spec
    };
    if fixed(new) != fixed(old) {
        errors.push(FieldError::forbidden("spec", CHANGEABLE));
    }
}

/// A deadline comes sooner or stays.
fn deadline(new: &Value, old: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    let seconds = |spec: &Value| number(spec, "activeDeadlineSeconds");
    match (seconds(new), seconds(old)) {
        (Some(after), Some(before)) if after > before => errors.push(FieldError::invalid(
            FIELD,
            &json!(after),
            "must be less than or equal to previous value",
        )),
        (None, Some(_)) => errors.push(FieldError::invalid(
            FIELD,
            &Value::Null,
            "must not update from a positive integer to nil value",
        )),
        _ => {}
    }
}

/// What works, but may not be meant.
fn warn(pod: &Value, found: &mut Validation) {
    let seconds = number(&pod["spec"], "terminationGracePeriodSeconds");
    if seconds.is_some_and(|n| n < 0) {
        found.warnings.push(
            "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
                .to_owned(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::kinds::pod;

    fn wrongs(spec: &Value) -> Vec<String> {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        for (member, value) in crate::members::members(&json!({"s": spec}), "s") {
            pod["spec"][member] = value.clone();
        }
        pod::default_pod(&mut pod);
        let mut found = Validation::default();
        validate_pod(&pod, &mut found);
        found.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn requests_stay_below_limits() {
        let spec = json!({"containers": [{"name": "c", "image": "i", "resources":
            {"requests": {"cpu": "2", "pods": "1"}, "limits": {"cpu": "1"}}}]});
        assert_eq!(
            wrongs(&spec),
            [
                "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
                "spec.containers[0].resources.requests[pods]: Invalid value: \"pods\": must be a standard resource for containers",
            ]
        );
    }

    #[test]
    fn a_probe_asks_in_one_way() {
        let spec = json!({"containers": [{"name": "c", "image": "i",
            "livenessProbe": {"successThreshold": 2},
            "readinessProbe": {"exec": {"command": ["a"]}, "tcpSocket": {"port": 80}}}]});
        assert_eq!(
            wrongs(&spec),
            [
                "spec.containers[0].livenessProbe: Required value: must specify a handler type",
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
                "spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
            ]
        );
    }

    #[test]
    fn a_volume_has_one_source_and_mounts_have_places() {
        let spec = json!({"volumes": [{"name": "a", "secret": {}, "configMap": {"name": "m"}}],
            "containers": [{"name": "c", "image": "i", "volumeMounts": [
                {"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/x"}]}]});
        assert_eq!(
            wrongs(&spec),
            [
                "spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type",
                "spec.volumes[0].secret.secretName: Required value",
                "spec.containers[0].volumeMounts[1].name: Not found: \"b\"",
                "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/x\": must be unique",
            ]
        );
    }

    #[test]
    fn tolerations_make_sense() {
        let spec = json!({"tolerations": [{"operator": "Equal", "value": "v"},
            {"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]});
        assert_eq!(
            wrongs(&spec),
            [
                "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                "spec.tolerations[1].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            ]
        );
    }
}
