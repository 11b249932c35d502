//! Validation of containers.

use serde_json::{Value, json};

use super::pod_rules::{identities, one_of};
use super::quotas::container_resource_name;
use super::volumes::relative;
use crate::builtin::{check, quantity};
use crate::members::{flag, has, list, members, number, text};
use crate::names::{config_key, label, port_name, port_number, qualified};
use crate::schema::{CauseReason, FieldError};

type Errors = Vec<FieldError>;

/// What containers are checked against.
struct Around<'a> {
    volumes: &'a [&'a Value],
    /// How long the Pod gets to end, in seconds.
    grace: i64,
    restart_policy: &'a str,
}

/// Checks the containers of a Pod or a template at `path`.
pub(super) fn containers(
    spec: &Value,
    path: &str,
    pod: bool,
    volumes: &[&Value],
    errors: &mut Errors,
) {
    let around = Around {
        volumes,
        grace: number(spec, "terminationGracePeriodSeconds").unwrap_or(0),
        restart_policy: text(spec, "restartPolicy"),
    };
    let all = list(spec, "containers");
    if all.is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut names: Vec<&str> = Vec::new();
    let mut host_ports: Vec<String> = Vec::new();
    for (place, container) in all.iter().enumerate() {
        let path = format!("{path}.containers[{place}]");
        common(container, &path, &around, errors);
        unique(container, &path, &mut names, errors);
        runs(container, &path, &around, errors);
        if has(container, "restartPolicy") && !has(container, "restartPolicyRules") {
            let supported = &["Always", "Never", "OnFailure"];
            check::one_of(container, "restartPolicy", supported, &path, errors);
        }
        ports_of_host(container, &path, &mut host_ports, errors);
        if flag(spec, "hostNetwork") {
            host_network(container, &path, pod, errors);
        }
    }
    for (place, container) in list(spec, "initContainers").iter().enumerate() {
        let path = format!("{path}.initContainers[{place}]");
        common(container, &path, &around, errors);
        unique(container, &path, &mut names, errors);
        ports_of_host(container, &path, &mut Vec::new(), errors);
        check::one_of(
            container,
            "restartPolicy",
            &["Always", "Never", "OnFailure"],
            &path,
            errors,
        );
        if text(container, "restartPolicy") == "Always" {
            runs(container, &path, &around, errors);
            continue;
        }
        for member in [
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ] {
            if has(container, member) {
                errors.push(FieldError::forbidden(
                    format!("{path}.{member}"),
                    "may not be set for init containers without restartPolicy=Always",
                ));
            }
        }
    }
}

/// Checks the containers that a debugger added.
pub(super) fn ephemeral(spec: &Value, path: &str, volumes: &[&Value], errors: &mut Errors) {
    let around = Around {
        volumes,
        grace: number(spec, "terminationGracePeriodSeconds").unwrap_or(0),
        restart_policy: text(spec, "restartPolicy"),
    };
    let others: Vec<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|member| list(spec, member))
        .map(|container| text(container, "name"))
        .collect();
    let mut names = others.clone();
    for (place, container) in list(spec, "ephemeralContainers").iter().enumerate() {
        let path = format!("{path}.ephemeralContainers[{place}]");
        common(container, &path, &around, errors);
        unique(container, &path, &mut names, errors);
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(&target) {
            not_found(&format!("{path}.targetContainerName"), target, errors);
        }
        let why = "cannot be set for an Ephemeral Container";
        for (member, value) in container.as_object().into_iter().flatten() {
            let is_set = !value.as_object().is_some_and(serde_json::Map::is_empty);
            if is_set && !EPHEMERAL.contains(&member.as_str()) {
                errors.push(FieldError::forbidden(format!("{path}.{member}"), why));
            }
        }
        for (place, mount) in list(container, "volumeMounts").iter().enumerate() {
            for member in ["subPath", "subPathExpr"] {
                if has(mount, member) {
                    let field = format!("{path}.volumeMounts[{place}].{member}");
                    errors.push(FieldError::forbidden(field, why));
                }
            }
        }
    }
}

/// What a debugger's container may have.
const EPHEMERAL: [&str; 17] = [
    "name",
    "targetContainerName",
    "image",
    "command",
    "args",
    "workingDir",
    "envFrom",
    "env",
    "volumeMounts",
    "volumeDevices",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
];

fn unique<'a>(container: &'a Value, path: &str, names: &mut Vec<&'a str>, errors: &mut Errors) {
    let name = text(container, "name");
    if names.contains(&name) {
        errors.push(FieldError::duplicate(format!("{path}.name"), &json!(name)));
    } else if !name.is_empty() {
        names.push(name);
    }
}

fn common(container: &Value, path: &str, around: &Around<'_>, errors: &mut Errors) {
    if check::required(container, "name", path, errors) {
        let name = text(container, "name");
        check::invalid(&format!("{path}.name"), &json!(name), label(name), errors);
    }
    if check::required(container, "image", path, errors) {
        let image = text(container, "image");
        if image.trim() != image {
            errors.push(FieldError::invalid(
                format!("{path}.image"),
                &json!(image),
                "must not have leading or trailing whitespace",
            ));
        }
    }
    one_of(
        container,
        "terminationMessagePolicy",
        &["File", "FallbackToLogsOnError"],
        path,
        errors,
    );
    ports(container, path, errors);
    environment(container, path, errors);
    mounts(container, path, around, errors);
    devices(container, path, around, errors);
    one_of(
        container,
        "imagePullPolicy",
        &["Always", "IfNotPresent", "Never"],
        path,
        errors,
    );
    resources(
        &container["resources"],
        &format!("{path}.resources"),
        errors,
    );
    for policy in list(container, "resizePolicy") {
        let field = format!("{path}.resizePolicy");
        if around.restart_policy == "Never" && text(policy, "restartPolicy") != "NotRequired" {
            errors.push(FieldError::invalid(
                field,
                &policy["restartPolicy"],
                "must be 'NotRequired' when `restartPolicy` is 'Never'",
            ));
        }
    }
    security_context(container, path, errors);
}

fn security_context(container: &Value, path: &str, errors: &mut Errors) {
    let path = format!("{path}.securityContext");
    let context = &container["securityContext"];
    identities(context, &path, errors);
    check::one_of(
        context,
        "procMount",
        &["Default", "Unmasked"],
        &path,
        errors,
    );
    if context["allowPrivilegeEscalation"] == false {
        if context["privileged"] == true {
            errors.push(FieldError::invalid(
                &*path,
                context,
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ));
        }
        let adds = list(&context["capabilities"], "add");
        if adds.iter().any(|c| c == "CAP_SYS_ADMIN") {
            errors.push(FieldError::invalid(
                path,
                context,
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            ));
        }
    }
}

fn ports(container: &Value, path: &str, errors: &mut Errors) {
    let mut names: Vec<&str> = Vec::new();
    for (place, port) in list(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{place}]");
        let name = text(port, "name");
        if !name.is_empty() {
            let wrongs = port_name(name);
            let field = format!("{path}.name");
            if wrongs.is_empty() {
                if names.contains(&name) {
                    errors.push(FieldError::duplicate(field, &json!(name)));
                }
                names.push(name);
            } else {
                check::invalid(&field, &json!(name), wrongs, errors);
            }
        }
        let number_of = number(port, "containerPort").unwrap_or(0);
        if number_of == 0 {
            errors.push(FieldError::required(format!("{path}.containerPort"), ""));
        } else {
            let field = format!("{path}.containerPort");
            check::invalid(&field, &json!(number_of), port_number(number_of), errors);
        }
        if let Some(port) = number(port, "hostPort").filter(|n| *n != 0) {
            let field = format!("{path}.hostPort");
            check::invalid(&field, &json!(port), port_number(port), errors);
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &path, errors);
    }
}

/// A port of a node is taken once.
fn ports_of_host(container: &Value, path: &str, taken: &mut Vec<String>, errors: &mut Errors) {
    for (place, port) in list(container, "ports").iter().enumerate() {
        let Some(number) = number(port, "hostPort").filter(|n| *n != 0) else {
            continue;
        };
        let key = format!(
            "{}/{}/{number}",
            text(port, "protocol"),
            text(port, "hostIP")
        );
        if taken.contains(&key) {
            let field = format!("{path}.ports[{place}].hostPort");
            errors.push(FieldError::duplicate(field, &json!(key)));
        }
        taken.push(key);
    }
}

fn host_network(container: &Value, path: &str, pod: bool, errors: &mut Errors) {
    for (place, port) in list(container, "ports").iter().enumerate() {
        let host = number(port, "hostPort").unwrap_or(0);
        if (pod || host != 0) && host != number(port, "containerPort").unwrap_or(0) {
            errors.push(FieldError::invalid(
                format!("{path}.ports[{place}].hostPort"),
                &json!(host),
                "must match `containerPort` when `hostNetwork` is true",
            ));
        }
    }
}

/// What a variable can take from its Pod.
const POD_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn environment(container: &Value, path: &str, errors: &mut Errors) {
    for (place, variable) in list(container, "env").iter().enumerate() {
        let path = format!("{path}.env[{place}]");
        let name = text(variable, "name");
        if check::required(variable, "name", &path, errors) {
            let legal = |c: char| (' '..='~').contains(&c) && c != '=';
            if !name.chars().all(legal) {
                errors.push(FieldError::invalid(
                    format!("{path}.name"),
                    &json!(name),
                    "a valid environment variable name must consist only of printable ASCII characters other than '='",
                ));
            }
        }
        if has(variable, "valueFrom") {
            value_from(variable, &format!("{path}.valueFrom"), errors);
        }
    }
    let field = format!("{path}.envFrom");
    for (place, from) in list(container, "envFrom").iter().enumerate() {
        let mut sources = 0;
        for member in ["configMapRef", "secretRef"] {
            if has(from, member) {
                sources += 1;
                let path = format!("{field}[{place}].{member}");
                if check::required(&from[member], "name", &path, errors) {
                    let name = text(&from[member], "name");
                    check::subdomain(name, &format!("{path}.name"), errors);
                }
            }
        }
        let wrong = match sources {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(&*field, &json!(""), wrong));
    }
}

fn value_from(variable: &Value, path: &str, errors: &mut Errors) {
    let from = &variable["valueFrom"];
    let field = &from["fieldRef"];
    if field.is_object() {
        let path = format!("{path}.fieldRef");
        check::required(field, "apiVersion", &path, errors);
        if check::required(field, "fieldPath", &path, errors) {
            let wanted = text(field, "fieldPath");
            let of_map = ["metadata.labels['", "metadata.annotations['"]
                .iter()
                .any(|start| wanted.starts_with(start) && wanted.ends_with("']"));
            if !of_map && !POD_FIELDS.contains(&wanted) {
                errors.push(FieldError::not_supported(
                    format!("{path}.fieldPath"),
                    &json!(wanted),
                    POD_FIELDS,
                ));
            }
        }
    }
    for member in ["configMapKeyRef", "secretKeyRef"] {
        let reference = &from[member];
        if !reference.is_object() {
            continue;
        }
        let path = format!("{path}.{member}");
        check::subdomain(text(reference, "name"), &format!("{path}.name"), errors);
        if check::required(reference, "key", &path, errors) {
            let key = text(reference, "key");
            check::invalid(&format!("{path}.key"), &json!(key), config_key(key), errors);
        }
    }
    let sources = from.as_object().map_or(0, serde_json::Map::len);
    let wrong = if sources == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
    } else if !text(variable, "value").is_empty() {
        "may not be specified when `value` is not empty"
    } else if sources > 1 {
        "may not have more than one field specified at a time"
    } else {
        return;
    };
    errors.push(FieldError::invalid(path, &json!(""), wrong));
}

fn mounts(container: &Value, path: &str, around: &Around<'_>, errors: &mut Errors) {
    let mut places: Vec<&str> = Vec::new();
    let devices = list(container, "volumeDevices");
    for (place, mount) in list(container, "volumeMounts").iter().enumerate() {
        let list_path = format!("{path}.volumeMounts");
        let path = format!("{list_path}[{place}]");
        let name = text(mount, "name");
        check::required(mount, "name", &path, errors);
        if !around.volumes.iter().any(|v| text(v, "name") == name) {
            not_found(&format!("{path}.name"), name, errors);
        }
        let at = text(mount, "mountPath");
        check::required(mount, "mountPath", &path, errors);
        let mut refuse = |member: &str, value: &str, wrong: &str| {
            errors.push(FieldError::invalid(
                format!("{path}.{member}"),
                &json!(value),
                wrong,
            ));
        };
        if places.contains(&at) {
            refuse("mountPath", at, "must be unique");
        }
        places.push(at);
        if devices.iter().any(|device| text(device, "name") == name) {
            refuse("name", name, "must not already exist in volumeDevices");
        }
        if devices
            .iter()
            .any(|device| text(device, "devicePath") == at)
        {
            refuse(
                "mountPath",
                at,
                "must not already exist as a path in volumeDevices",
            );
        }
        for member in ["subPath", "subPathExpr"] {
            if !text(mount, member).is_empty() {
                relative(mount, member, &list_path, errors);
            }
        }
        if !text(mount, "subPath").is_empty() && !text(mount, "subPathExpr").is_empty() {
            errors.push(FieldError::invalid(
                format!("{path}.subPathExpr"),
                &mount["subPathExpr"],
                "subPathExpr and subPath are mutually exclusive",
            ));
        }
        check::one_of(
            mount,
            "mountPropagation",
            &["Bidirectional", "HostToContainer", "None"],
            &list_path,
            errors,
        );
    }
}

fn not_found(field: &str, value: &str, errors: &mut Errors) {
    errors.push(FieldError::with(
        CauseReason::NotFound,
        field,
        format!("Not found: {}", json!(value)),
    ));
}

fn devices(container: &Value, path: &str, around: &Around<'_>, errors: &mut Errors) {
    let mut names: Vec<&str> = Vec::new();
    let mut paths: Vec<&str> = Vec::new();
    for (place, device) in list(container, "volumeDevices").iter().enumerate() {
        let path = format!("{path}.volumeDevices[{place}]");
        let name = text(device, "name");
        let at = text(device, "devicePath");
        check::required(device, "name", &path, errors);
        let volume = around.volumes.iter().find(|v| text(v, "name") == name);
        let name_field = format!("{path}.name");
        if names.contains(&name) {
            errors.push(FieldError::invalid(
                &*name_field,
                &json!(name),
                "must be unique",
            ));
        }
        match volume {
            Some(volume) if has(volume, "persistentVolumeClaim") || has(volume, "ephemeral") => {}
            Some(_) => errors.push(FieldError::invalid(
                name_field,
                &json!(name),
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            )),
            None => not_found(&name_field, name, errors),
        }
        check::required(device, "devicePath", &path, errors);
        if paths.contains(&at) {
            errors.push(FieldError::invalid(
                format!("{path}.devicePath"),
                &json!(at),
                "must be unique",
            ));
        }
        names.push(name);
        paths.push(at);
    }
}

/// Checks what a container requests and may use.
pub(super) fn resources(resources: &Value, path: &str, errors: &mut Errors) {
    for (name, value) in members(resources, "limits") {
        let field = format!("{path}.limits[{name}]");
        container_resource_name(name, &field, errors);
        check::resource_value(name, value, &field, errors);
    }
    let field = format!("{path}.requests");
    for (name, value) in members(resources, "requests") {
        let of_name = format!("{field}[{name}]");
        container_resource_name(name, &of_name, errors);
        check::resource_value(name, value, &of_name, errors);
        let limit = &resources["limits"][name];
        let nano = |value: &Value| value.as_str().and_then(quantity::nano);
        let shared = check::is_native(name) && !name.starts_with("hugepages-");
        match (nano(value), nano(limit)) {
            (Some(request), Some(most)) => {
                let wrong = if !shared && request != most {
                    "must be equal to"
                } else if request > most {
                    "must be less than or equal to"
                } else {
                    continue;
                };
                errors.push(FieldError::invalid(
                    &*field,
                    value,
                    format!(
                        "{wrong} {name} limit of {}",
                        limit.as_str().unwrap_or_default()
                    ),
                ));
            }
            (_, None) if !shared && qualified(name).is_empty() => {
                errors.push(FieldError::required(
                    format!("{path}.limits"),
                    "Limit must be set for non overcommitable resources",
                ));
            }
            _ => {}
        }
    }
}

/// Checks what only containers have that go on running.
fn runs(container: &Value, path: &str, around: &Around<'_>, errors: &mut Errors) {
    for hook in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][hook];
        if handler.is_object() {
            handle(handler, &format!("{path}.lifecycle.{hook}"), around, errors);
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[kind];
        if probe.is_object() {
            check_probe(kind, probe, &format!("{path}.{kind}"), around, errors);
        }
    }
}

fn check_probe(kind: &str, probe: &Value, path: &str, around: &Around<'_>, errors: &mut Errors) {
    handle(probe, path, around, errors);
    for member in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        check::not_negative(probe, member, path, errors);
    }
    let grace = number(probe, "terminationGracePeriodSeconds");
    let field = format!("{path}.terminationGracePeriodSeconds");
    if let Some(seconds) = grace.filter(|n| *n <= 0) {
        errors.push(FieldError::invalid(
            &*field,
            &json!(seconds),
            "must be greater than 0",
        ));
    }
    if kind == "readinessProbe" {
        if let Some(seconds) = grace {
            errors.push(FieldError::invalid(
                field,
                &json!(seconds),
                "must not be set for readinessProbes",
            ));
        }
        return;
    }
    let successes = number(probe, "successThreshold").unwrap_or(0);
    if successes != 1 {
        errors.push(FieldError::invalid(
            format!("{path}.successThreshold"),
            &json!(successes),
            "must be 1",
        ));
    }
}

/// Checks in which one way somebody is asked.
fn handle(handler: &Value, path: &str, around: &Around<'_>, errors: &mut Errors) {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let mut given = kinds.iter().filter(|kind| has(handler, kind));
    let Some(first) = given.next() else {
        errors.push(FieldError::required(path, "must specify a handler type"));
        return;
    };
    for other in given {
        errors.push(FieldError::forbidden(
            format!("{path}.{other}"),
            "may not specify more than 1 handler type",
        ));
    }
    let action = &handler[*first];
    let path = format!("{path}.{first}");
    match *first {
        "exec" => {
            if list(action, "command").is_empty() {
                errors.push(FieldError::required(format!("{path}.command"), ""));
            }
        }
        "httpGet" => {
            check::required(action, "path", &path, errors);
            check::port(&action["port"], &format!("{path}.port"), errors);
            check::one_of(action, "scheme", &["HTTP", "HTTPS"], &path, errors);
        }
        "sleep" => {
            let seconds = number(action, "seconds").unwrap_or(0);
            if !(0..=around.grace).contains(&seconds) {
                errors.push(FieldError::invalid(
                    path,
                    &json!(seconds),
                    format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({})",
                        around.grace
                    ),
                ));
            }
        }
        _ => check::port(&action["port"], &format!("{path}.port"), errors),
    }
}
