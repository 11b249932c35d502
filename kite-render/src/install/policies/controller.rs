//! How far the controller reaches: its rights hold in the whole cluster but for Secrets,
//! since it makes namespaces and watches all of them; what it writes is Kite's.

use kite_core::{cdi::DATA_IMPORT_CRON_LABEL, crd, labels, names};

use super::{OBJECT, Policy, list, of_a_user, written_by};
use crate::install::{
    Process,
    rights::{Reach, written},
};

const WRITES: [&str; 3] = ["CREATE", "UPDATE", "DELETE"];

/// Which role each process may be given, as a list of roles and accounts with a space
/// between: none gets another's.
fn pairs(namespace: &str) -> String {
    let grants = Process::ALL.iter().filter_map(|it| it.grant(namespace));
    let pairs: Vec<_> = grants
        .map(|it| format!("{} {}", it.role, it.account))
        .collect();
    list(&pairs)
}

/// What the controller writes is in users' namespaces, but for what it makes for the
/// platform and for images.
pub(super) fn reach(namespace: &str) -> Policy {
    let of_users = written(Reach::Users);
    let also_of_kite = written(Reach::UsersAndKite);
    let also_of_images = written(Reach::UsersAndImages);
    let about = of_users.iter().chain(&also_of_kite);
    let about = about.map(|(group, kinds)| (*group, kinds.clone(), WRITES.to_vec()));
    let mut about: Vec<_> = about.collect();
    about.extend(also_of_images.iter().map(|(group, kinds)| {
        // A disk that is new is nobody else's.
        (*group, kinds.clone(), vec!["UPDATE", "DELETE"])
    }));
    about.push(("", vec!["namespaces"], WRITES.to_vec()));
    about.push((crd::GROUP, vec!["kitevolumes"], vec!["DELETE"]));
    let is_user = of_a_user();
    let prefix = names::user_namespace("");
    let is_one_of = |kinds: &[(&str, Vec<&'static str>)]| {
        let all = kinds.iter().flat_map(|(_, kinds)| kinds.iter().copied());
        format!("request.resource.resource in {}", list(all))
    };
    let name = format!("{OBJECT}.metadata.name");
    let of_platform = list([
        names::GATEWAY_EXTERNAL_SERVICE,
        names::PLATFORM_WEB,
        names::PLATFORM_REDIRECT,
        names::PLATFORM_CERTIFICATE,
    ]);
    // By its label, which somebody may have taken off, or by its owner.
    let made_here = format!(
        "(has(oldObject.metadata.labels) && '{key}' in oldObject.metadata.labels && \
         oldObject.metadata.labels['{key}'] == '{value}' || \
         has(oldObject.metadata.ownerReferences) && \
         oldObject.metadata.ownerReferences.exists(it, it.apiVersion.startsWith('{group}/')))",
        key = labels::MANAGED_BY,
        value = labels::MANAGED_BY_CONTROLLER,
        group = crd::GROUP,
    );
    // What CDI has made for an image that is kept up to date, and leaves behind.
    let of_cron = format!(
        "request.resource.resource == 'datasources' && request.operation == 'DELETE' && \
         has(oldObject.metadata.labels) && '{DATA_IMPORT_CRON_LABEL}' in oldObject.metadata.labels"
    );
    let pairs = pairs(namespace);
    let rule = |expression: String, message: &str| (expression, message.to_owned());
    Policy {
        name: "kite-writes",
        about,
        when: vec![(
            "by-the-controller",
            written_by(Process::Controller, namespace),
        )],
        rules: kept().into_iter().chain([
            rule(
                format!(
                    "request.resource.resource != 'namespaces' || {name}.startsWith('{prefix}')"
                ),
                "metadata.name: the controller makes, changes and deletes namespaces of users, and \
                 no others",
            ),
            rule(
                format!("!({}) || {is_user}", is_one_of(&of_users)),
                "metadata.namespace: the controller writes this in users' namespaces, and in no \
                 others",
            ),
            rule(
                format!(
                    "!({}) || {is_user} || request.namespace == '{namespace}' && {name} in \
                     {of_platform}",
                    is_one_of(&also_of_kite)
                ),
                "metadata.namespace: the controller writes this in users' namespaces, and what the \
                 platform is reached by in Kite's own",
            ),
            rule(
                format!(
                    "!({}) || {is_user} || {made_here} || {of_cron}",
                    is_one_of(&also_of_images)
                ),
                "metadata.labels: outside of users' namespaces the controller changes the disks of \
                 images that it has made, and no others",
            ),
            rule(
                format!(
                    "request.resource.resource != 'rolebindings' || request.operation == 'DELETE' \
                     || (object.roleRef.kind == 'ClusterRole' && has(object.subjects) && \
                     object.subjects.all(it, it.kind == 'ServiceAccount' && \
                     it.namespace == '{namespace}' && (object.roleRef.name + ' ' + it.name) in \
                     {pairs}))"
                ),
                "subjects: the controller gives Kite's own processes their rights in users' \
                 namespaces, and nobody else any",
            ),
        ])
        .collect(),
    }
}

/// What the controller does not delete: what outlives its owner's account.
fn kept() -> [(String, String); 2] {
    [
        (
            format!(
                "request.resource.resource != 'namespaces' || request.operation != 'DELETE' || \
                 (has(oldObject.metadata.annotations) && '{}' in oldObject.metadata.annotations)",
                labels::EMPTIED
            ),
            "metadata.annotations: the controller deletes a user's namespace once it has seen and \
             noted that nothing is in it that is to be kept; a controller of an earlier version does \
             not know what that is"
                .to_owned(),
        ),
        (
            "request.resource.resource != 'kitevolumes' || \
             !has(oldObject.spec.onAccountDeletion) || \
             oldObject.spec.onAccountDeletion == 'Delete'"
                .to_owned(),
            "spec.onAccountDeletion: the controller deletes no volume that is to outlive its owner's \
             account"
                .to_owned(),
        ),
    ]
}
