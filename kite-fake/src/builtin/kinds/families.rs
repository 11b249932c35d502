//! The address families of a Service, in a cluster with one range of IPv4
//! addresses: what the server fills in, and what it cannot give.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::service::kind_of;
use crate::builtin::check;
use crate::members::{default, has, list, object_mut, set, text};
use crate::schema::FieldError;

/// The families of this cluster.
const CONFIGURED: &str = "IPv4";

/// A Service without an address.
pub(super) fn is_headless(service: &Value) -> bool {
    matches!(list(&service["spec"], "clusterIPs"), [only] if only == "None")
}

fn family_of(ip: &Value) -> Option<&'static str> {
    match check::sloppy_ip(ip.as_str()?)? {
        IpAddr::V4(_) => Some("IPv4"),
        IpAddr::V6(_) => Some("IPv6"),
    }
}

/// Fills in the policy and the families.
///
/// # Errors
/// What this cluster cannot give.
pub(super) fn settle(service: &mut Value, old: Option<&Value>) -> Result<(), Vec<FieldError>> {
    if kind_of(service) == "ExternalName" {
        return Ok(());
    }
    let bare = text(&service["spec"], "clusterIP") == "None" && !has(&service["spec"], "selector");
    let before = old.map(|old| text(&old["spec"], "ipFamilyPolicy"));
    let policy = match before {
        Some(policy) if !policy.is_empty() => policy,
        // Nobody knows where the endpoints of such a Service are.
        _ if bare => "RequireDualStack",
        _ => "SingleStack",
    };
    let spec = object_mut(service, "spec");
    default(spec, "ipFamilyPolicy", policy);
    let mut malformed = Vec::new();
    fields(service, &mut malformed);
    if !malformed.is_empty() {
        return Err(malformed);
    }
    let spec = object_mut(service, "spec");
    let policy = text(spec, "ipFamilyPolicy").to_owned();
    let mut errors = Vec::new();
    let mut families = list(spec, "ipFamilies").to_vec();
    if policy == "SingleStack" {
        if let Some(old) = old {
            // One family less is what a single stack asks for.
            for member in ["clusterIPs", "ipFamilies"] {
                let values = list(spec, member);
                if values.len() > 1 && values == list(&old["spec"], member) {
                    let first = json!([values[0]]);
                    set(spec, member, first);
                }
            }
            families = list(spec, "ipFamilies").to_vec();
        }
        for (member, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if list(spec, member).len() == 2 {
                errors.push(FieldError::invalid(
                    "spec.ipFamilyPolicy",
                    &json!(policy),
                    format!(
                        "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                    ),
                ));
            }
        }
    }
    for (place, ip) in list(spec, "clusterIPs").iter().enumerate() {
        let Some(family) = family_of(ip) else { break };
        if place < families.len() {
            continue;
        }
        if family == CONFIGURED {
            families.push(json!(family));
        } else {
            errors.push(FieldError::invalid(
                format!("spec.clusterIPs[{place}]"),
                &spec["clusterIPs"],
                format!("{family} is not configured on this cluster"),
            ));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if families.is_empty() {
        families.push(json!(CONFIGURED));
    }
    if bare {
        if families.len() < 2 && policy != "SingleStack" {
            let other = if families[0] == "IPv4" {
                "IPv6"
            } else {
                "IPv4"
            };
            families.push(json!(other));
        }
        set(spec, "ipFamilies", families);
        return Ok(());
    }
    for (place, family) in families.iter().enumerate() {
        if family != CONFIGURED {
            errors.push(FieldError::invalid(
                format!("spec.ipFamilies[{place}]"),
                family,
                "not configured on this cluster",
            ));
        }
    }
    if policy == "RequireDualStack" {
        errors.push(FieldError::invalid(
            "spec.ipFamilyPolicy",
            &json!(policy),
            "this cluster is not configured for dual-stack services",
        ));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    set(spec, "ipFamilies", families);
    Ok(())
}

/// Checks addresses, families and the policy against each other.
pub(super) fn fields(service: &Value, errors: &mut Vec<FieldError>) {
    if kind_of(service) == "ExternalName" {
        return;
    }
    let spec = &service["spec"];
    let ips = list(spec, "clusterIPs");
    let families = list(spec, "ipFamilies");
    let all = || &spec["clusterIPs"];
    let mut refuse = |wrong: &str| {
        errors.push(FieldError::invalid("spec.clusterIPs", all(), wrong));
    };
    let first = text(spec, "clusterIP");
    match ips.first() {
        Some(ip) if first.is_empty() && !ip.is_null() => {
            refuse("must be empty when `clusterIP` is not specified");
        }
        Some(ip) if *ip != first => refuse("first value must match `clusterIP`"),
        _ => {}
    }
    let mut seen: Vec<&Value> = Vec::new();
    for (place, family) in families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{place}]");
        if *family != "IPv4" && *family != "IPv6" {
            errors.push(FieldError::not_supported(
                &*field,
                family,
                &["IPv4", "IPv6"],
            ));
        }
        if seen.contains(&family) {
            errors.push(FieldError::duplicate(field, family));
        }
        seen.push(family);
    }
    check::one_of(
        spec,
        "ipFamilyPolicy",
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
        "spec",
        errors,
    );
    let before = errors.len();
    for (place, ip) in ips.iter().enumerate() {
        if place == 0 && ip == "None" {
            if ips.len() > 1 {
                errors.push(FieldError::invalid(
                    "spec.clusterIPs",
                    all(),
                    "'None' must be the first and only value",
                ));
            }
            continue;
        }
        check::ip(ip, &format!("spec.clusterIPs[{place}]"), errors);
    }
    let malformed = errors.len() > before;
    if ips.len() > 2 {
        errors.push(FieldError::invalid(
            "spec.clusterIPs",
            all(),
            "may only hold up to 2 values",
        ));
    }
    if malformed {
        return;
    }
    let of_ips: Vec<Option<&str>> = ips.iter().map(family_of).collect();
    let dual = ["IPv4", "IPv6"].iter().all(|f| of_ips.contains(&Some(f)));
    if ips.len() > 1 && !dual {
        errors.push(FieldError::invalid(
            "spec.clusterIPs",
            all(),
            "may specify no more than one IP for each IP family",
        ));
    }
    if is_headless(service) {
        return;
    }
    for (place, (ip, family)) in ips.iter().zip(families).enumerate() {
        if family_of(ip).is_some_and(|actual| family != actual) {
            errors.push(FieldError::invalid(
                format!("spec.clusterIPs[{place}]"),
                ip,
                format!(
                    "expected an {} value as indicated by `ipFamilies[{place}]`",
                    family.as_str().unwrap_or_default()
                ),
            ));
        }
    }
}

/// What this cluster cannot give a changed Service. The server settles families before
/// it checks an update, and tells nothing else then.
pub(in crate::builtin) fn refused(new: &Value, old: &Value) -> Vec<FieldError> {
    settle(&mut new.clone(), Some(old))
        .err()
        .unwrap_or_default()
}

/// Checks what an update does to addresses and families: the first of each stays.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if kind_of(new) == "ExternalName" || kind_of(old) == "ExternalName" {
        return;
    }
    if is_headless(new) && is_headless(old) {
        return;
    }
    part(new, old, "clusterIPs", "clusterIP", errors);
    if is_headless(new) == is_headless(old) {
        part(new, old, "ipFamilies", "ipFamily", errors);
    }
}

fn part(new: &Value, old: &Value, member: &str, one: &str, errors: &mut Vec<FieldError>) {
    let (before, after) = (list(&old["spec"], member), list(&new["spec"], member));
    let first = format!("spec.{member}[0]");
    let value = &new["spec"][member];
    if before.len() == after.len() {
        for (place, (was, is)) in before.iter().zip(after).enumerate() {
            if was != is {
                let place = if member == "ipFamilies" { 0 } else { place };
                errors.push(FieldError::invalid(
                    format!("spec.{member}[{place}]"),
                    value,
                    "may not change once set",
                ));
            }
        }
        return;
    }
    if before.len() > after.len() {
        if after.is_empty() {
            errors.push(FieldError::invalid(
                &*first,
                value,
                format!("primary {one} can not be unset"),
            ));
        }
        if after.len() == 1 && text(&new["spec"], "ipFamilyPolicy") != "SingleStack" {
            errors.push(FieldError::invalid(
                "spec.ipFamilyPolicy",
                &new["spec"]["ipFamilyPolicy"],
                format!("must be set to 'SingleStack' when releasing the secondary {one}"),
            ));
        }
    }
    if let (Some(was), Some(is)) = (before.first(), after.first())
        && was != is
    {
        errors.push(FieldError::invalid(first, value, "may not change once set"));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "written in place")]
    fn settled(spec: Value) -> (Value, Vec<String>) {
        let mut service = json!({"spec": spec});
        let errors = settle(&mut service, None).err().unwrap_or_default();
        (
            service["spec"].clone(),
            errors.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn a_headless_service_without_selector_has_both_families() {
        let (spec, errors) =
            settled(json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}));
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(spec["ipFamilyPolicy"], "RequireDualStack");
        assert_eq!(spec["ipFamilies"], json!(["IPv4", "IPv6"]));
        let (spec, _) = settled(
            json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"], "selector": {"a": "b"}}),
        );
        assert_eq!(spec["ipFamilies"], json!(["IPv4"]));
    }

    #[test]
    fn one_range_gives_one_family() {
        let (_, errors) =
            settled(json!({"type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack"}));
        assert_eq!(
            errors,
            [
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services"
            ]
        );
        let (_, errors) = settled(json!({"type": "ClusterIP", "ipFamilies": ["IPv6"]}));
        assert_eq!(
            errors,
            ["spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"]
        );
        let (spec, errors) =
            settled(json!({"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack"}));
        assert_eq!((errors.len(), &spec["ipFamilies"]), (0, &json!(["IPv4"])));
    }
}
