//! Whether the controller may look at the Secrets that settings name: in Kite's namespace
//! it reads those by name that it was told of when it was installed.

use k8s_openapi::api::rbac::v1::PolicyRule;
use kite_render::install::NOT_THE_CONTROLLERS;

use super::{
    facts::Facts,
    finding::{Finding, State},
};

const CHECK: &str = "certificateSecret";

/// Whether the controller can say that the web page's certificate is not there; nothing
/// where no Secret is named, or it is not known what the controller may do.
pub(super) fn certificate(facts: &Facts) -> Option<Finding> {
    let exposure = &facts.platform.known()?.spec.exposure;
    let named = exposure.certificate.secret_name.as_deref()?;
    let rules = facts.own_role.known()?.rules.iter().flatten();
    if exposure.gateway.is_some() {
        return None;
    }
    if rules.into_iter().any(|rule| reads(rule, named)) {
        let message = format!("the controller sees whether Secret {named} is there");
        return Some(Finding::fit(CHECK, message));
    }
    let remedy = if NOT_THE_CONTROLLERS.contains(&named) {
        "put the certificate into a Secret of its own, and name that in \
         spec.exposure.certificate.secretName of the KitePlatform"
            .to_owned()
    } else {
        format!(
            "kite upgrade --certificate-secret {named}, with the names that were given before \
             (separated by commas)"
        )
    };
    Some(Finding::of(
        CHECK,
        State::Warning,
        format!(
            "spec.exposure.certificate.secretName of the KitePlatform names Secret {named}, which \
             the controller may not read: nobody says when it is not there"
        ),
        remedy,
    ))
}

/// Whether a rule lets somebody read the Secret of this name.
fn reads(rule: &PolicyRule, name: &str) -> bool {
    let has = |list: Option<&Vec<String>>, wanted: &str| {
        list.is_some_and(|list| list.iter().any(|it| it == wanted || it == "*"))
    };
    let names = rule.resource_names.as_ref().filter(|it| !it.is_empty());
    has(rule.api_groups.as_ref(), "")
        && has(rule.resources.as_ref(), "secrets")
        && has(Some(&rule.verbs), "get")
        && names.is_none_or(|names| names.iter().any(|it| it == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(names: &[&str]) -> PolicyRule {
        let list = |items: &[&str]| Some(items.iter().map(ToString::to_string).collect());
        PolicyRule {
            api_groups: list(&[""]),
            resources: list(&["secrets"]),
            resource_names: list(names),
            verbs: vec!["get".to_owned()],
            non_resource_urls: None,
        }
    }

    #[test]
    fn a_rule_without_names_is_for_all() {
        assert!(reads(&rule(&[]), "mine"));
        assert!(reads(&rule(&["other", "mine"]), "mine"));
        assert!(!reads(&rule(&["other"]), "mine"));
        let listed = PolicyRule {
            verbs: vec!["list".to_owned()],
            ..rule(&[])
        };
        assert!(!reads(&listed, "mine"));
    }
}
