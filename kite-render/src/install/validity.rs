//! What an installation cannot be, found out before anything is made of it.

use kite_core::{crd::KitePlatformSpec, names};

use super::{
    Containers, Installation, NOT_THE_CONTROLLERS, Process,
    process::{CONTROLLER_DRAIN, DRAIN, DRAIN_DELAY},
};

/// The variable by which a process is told its namespace: that of its pod.
pub(super) const NAMESPACE: &str = "KITE_NAMESPACE";
/// Most characters of a base domain: names of VMs stand before it.
const BASE_DOMAIN_MAX: usize = 190;

/// A field of an [`Installation`] that cannot be as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {value:?} cannot be: {remedy}")]
#[non_exhaustive]
pub struct Invalid {
    /// The field, such as `platform.imageNamespace`.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// What to write.
    pub remedy: String,
}

impl Invalid {
    fn new(field: &'static str, value: &str, remedy: &str) -> Self {
        Self {
            field,
            value: value.to_owned(),
            remedy: remedy.to_owned(),
        }
    }
}

const OF_NAMESPACE: &str =
    "write the name of a namespace: 1 to 63 lowercase letters, digits and hyphens inside";
const OF_OBJECT: &str =
    "write the object's name: lowercase letters, digits, hyphens and dots inside";

impl Installation {
    /// That it can be. The API server judges the rest of it.
    ///
    /// # Errors
    /// The first setting that cannot be, with what to write instead.
    pub fn check(&self) -> Result<(), Invalid> {
        let namespaces = [
            ("namespace", Some(&*self.namespace)),
            ("platform.imageNamespace", Some(self.image_namespace())),
            (
                "monitoring.namespace",
                self.monitoring.as_ref().map(|it| &*it.namespace),
            ),
        ];
        each(namespaces, names::is_label, OF_NAMESPACE)?;
        if self.image_namespace() == self.namespace {
            return Err(Invalid::new(
                "platform.imageNamespace",
                self.image_namespace(),
                "Kite's own pods run in that namespace, which lets no others in: give images one \
                 of their own, such as kite-images",
            ));
        }
        containers(&self.containers)?;
        platform(&self.platform)?;
        let recordings = self.recordings.as_ref();
        let objects = [
            (
                "recordings.storageClass",
                recordings.and_then(|it| it.storage_class.as_deref()),
            ),
            (
                "recordings.credentials",
                recordings.and_then(|it| it.credentials.as_deref()),
            ),
        ];
        each(objects, names::is_subdomain, OF_OBJECT)?;
        for name in &self.certificate_secrets {
            let field = "certificateSecrets";
            each([(field, Some(&**name))], names::is_subdomain, OF_OBJECT)?;
            if NOT_THE_CONTROLLERS.contains(&name.as_str()) {
                return Err(Invalid::new(
                    field,
                    name,
                    "Kite keeps something else there, which the controller may not read: put the \
                     certificate into a Secret of its own",
                ));
            }
        }
        self.check_options()
    }

    fn check_options(&self) -> Result<(), Invalid> {
        for (process, options) in &self.options {
            for (name, value) in options {
                let shown = format!("{}:{name}={value}", process.name());
                if name == NAMESPACE {
                    return Err(Invalid::new(
                        "options",
                        &shown,
                        "a process is told the namespace of its own pod: choose that by namespace",
                    ));
                }
                if !is_variable(name) {
                    return Err(Invalid::new(
                        "options",
                        &shown,
                        "write a variable's name: letters, digits and underscores, beginning with \
                         none of the digits",
                    ));
                }
                let is_span = match process {
                    Process::Controller => name == CONTROLLER_DRAIN,
                    Process::Gateway => name == DRAIN || name == DRAIN_DELAY,
                    Process::Api => false,
                };
                if is_span && value.parse::<u32>().is_err() {
                    return Err(Invalid::new("options", &shown, "write whole seconds"));
                }
            }
        }
        Ok(())
    }
}

fn each<const COUNT: usize>(
    fields: [(&'static str, Option<&str>); COUNT],
    is_valid: fn(&str) -> bool,
    remedy: &str,
) -> Result<(), Invalid> {
    for (field, value) in fields {
        if let Some(value) = value.filter(|it| !is_valid(it)) {
            return Err(Invalid::new(field, value, remedy));
        }
    }
    Ok(())
}

fn containers(containers: &Containers) -> Result<(), Invalid> {
    if !Containers::is_registry(&containers.registry) {
        return Err(Invalid::new(
            "containers.registry",
            &containers.registry,
            "write it without http:// and with a path in lower case, such as \
             registry.example.org/kite",
        ));
    }
    if !Containers::is_tag(&containers.tag) {
        return Err(Invalid::new(
            "containers.tag",
            &containers.tag,
            "write a tag such as 0.1.0, or a digest: sha256: and 64 digits in hexadecimal",
        ));
    }
    let secret = containers.pull_secret.as_deref();
    each(
        [("containers.pullSecret", secret)],
        names::is_subdomain,
        OF_OBJECT,
    )
}

fn platform(platform: &KitePlatformSpec) -> Result<(), Invalid> {
    let is_domain = |it: &str| it.len() <= BASE_DOMAIN_MAX && names::is_subdomain(it);
    each(
        [("platform.baseDomain", platform.base_domain.as_deref())],
        is_domain,
        "write a domain such as vm.example.org, in lowercase",
    )?;
    let exposure = &platform.exposure;
    let gateway = exposure.gateway.as_ref();
    each(
        [(
            "platform.exposure.gateway.namespace",
            gateway.map(|it| &*it.namespace),
        )],
        names::is_label,
        OF_NAMESPACE,
    )?;
    let objects = [
        ("platform.storageClass", platform.storage_class.as_deref()),
        (
            "platform.exposure.ingressClassName",
            exposure.ingress_class_name.as_deref(),
        ),
        (
            "platform.exposure.gateway.name",
            gateway.map(|it| &*it.name),
        ),
        (
            "platform.exposure.certificate.clusterIssuer",
            exposure.certificate.cluster_issuer.as_deref(),
        ),
    ];
    each(objects, names::is_subdomain, OF_OBJECT)?;
    each(
        [(
            "platform.gateway.publicHost",
            platform.gateway.public_host.as_deref(),
        )],
        names::is_host,
        "write a host name or an address, such as ssh.example.org or 192.0.2.1",
    )
}

/// Whether `text` can be the name of a variable.
fn is_variable(text: &str) -> bool {
    let inner = |it: char| it.is_ascii_alphanumeric() || it == '_';
    text.chars().all(inner) && !text.is_empty() && !text.starts_with(|it: char| it.is_ascii_digit())
}

impl Containers {
    /// Whether `text` can stand before a process' name in an image reference: a host with
    /// a port if it has one, and a path.
    pub fn is_registry(text: &str) -> bool {
        let is_part = |it: &str| {
            let inner = |it: char| {
                it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, '.' | '_' | '-')
            };
            !it.is_empty()
                && it.chars().all(inner)
                && it.starts_with(|it: char| it.is_ascii_alphanumeric())
                && it.ends_with(|it: char| it.is_ascii_alphanumeric())
        };
        let (host, path) = match text.split_once('/') {
            Some((host, path)) => (host, Some(path)),
            None => (text, None),
        };
        let is_host = match host.rsplit_once(':') {
            // An IPv6 address stands in brackets.
            Some((name, port)) => {
                let bare = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
                port.parse::<u16>().is_ok()
                    && path.is_some()
                    && bare.map_or_else(
                        || names::is_host(name) && !name.contains(':'),
                        names::is_host,
                    )
            }
            None if path.is_some() => names::is_host(host),
            None => is_part(host),
        };
        is_host && path.is_none_or(|path| path.split('/').all(is_part))
    }

    /// Whether `text` can be a tag, a digest, or a tag with its digest.
    pub fn is_tag(text: &str) -> bool {
        let is_digest = |it: &str| {
            let hex = |it: char| it.is_ascii_digit() || matches!(it, 'a'..='f');
            it.strip_prefix("sha256:")
                .is_some_and(|it| it.len() == 64 && it.chars().all(hex))
        };
        let (tag, digest) = match text.split_once('@') {
            Some((tag, digest)) => (tag, Some(digest)),
            None => (text, None),
        };
        let inner = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '.' | '-');
        let is_plain = (1..=128).contains(&tag.len())
            && tag.chars().all(inner)
            && !tag.starts_with(['.', '-']);
        match digest {
            Some(digest) => is_plain && is_digest(digest),
            None => is_plain || is_digest(tag),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::install::Profile;

    fn invalid(change: impl FnOnce(&mut Installation)) -> String {
        let mut installation = Installation::default();
        change(&mut installation);
        installation.check().unwrap_err().to_string()
    }

    #[test]
    fn a_secret_of_kites_own_is_no_certificate() {
        for name in NOT_THE_CONTROLLERS.into_iter().chain(["No Name"]) {
            let error = invalid(|it| it.certificate_secrets = vec![name.to_owned()]);
            assert!(error.contains("certificateSecrets"), "{error}");
        }
    }

    #[test]
    fn profiles_can_be() {
        for profile in Profile::ALL {
            assert_eq!(profile.installation().check(), Ok(()));
        }
    }

    #[test]
    fn images_have_a_namespace_of_their_own() {
        let error = invalid(|it| it.platform.image_namespace = Some("kite".to_owned()));
        for words in ["platform.imageNamespace", r#""kite""#, "kite-images"] {
            assert!(error.contains(words), "{error}");
        }
        // The other way round it is the same.
        let error = invalid(|it| it.namespace = "kite-images".to_owned());
        assert!(error.contains("platform.imageNamespace"), "{error}");
    }

    #[test]
    fn what_cannot_be_is_named_with_what_to_write() {
        let some = |text: &str| Some(text.to_owned());
        let error = invalid(|it| it.platform.base_domain = some("not a domain!"));
        assert!(
            error.contains(r#"platform.baseDomain "not a domain!""#)
                && error.contains("vm.example.org"),
            "{error}"
        );
        let error = invalid(|it| it.platform.storage_class = some("a b"));
        assert!(error.contains("platform.storageClass"), "{error}");
        let error = invalid(|it| it.platform.exposure.certificate.cluster_issuer = some("a b"));
        assert!(error.contains("clusterIssuer"), "{error}");
        let error = invalid(|it| it.platform.gateway.public_host = some("a b"));
        assert!(error.contains("publicHost"), "{error}");
        let error = invalid(|it| it.containers.pull_secret = some("A"));
        assert!(error.contains("pullSecret"), "{error}");
        let error = invalid(|it| it.containers.tag = String::new());
        assert!(error.contains(r#"containers.tag """#), "{error}");
        let error = invalid(|it| it.containers.registry = "http://x".to_owned());
        assert!(error.contains("without http://"), "{error}");
        let option = |name: &str, value: &str| {
            let (name, value) = (name.to_owned(), value.to_owned());
            invalid(move |it| {
                it.options.insert(Process::Gateway, [(name, value)].into());
            })
        };
        let error = option("KITE_NAMESPACE", "x");
        assert!(error.contains("kite-gateway:KITE_NAMESPACE=x"), "{error}");
        assert!(option("A B", "x").contains("variable's name"));
        assert!(option("KITE_DRAIN_SECONDS", "1h").contains("whole seconds"));
    }

    #[test]
    fn references_of_images() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for tag in [
            "0.1.0",
            "mine",
            "a_B-1",
            &digest,
            &format!("0.1.0@{digest}"),
        ] {
            assert!(Containers::is_tag(tag), "{tag}");
        }
        for tag in ["", "a b", "-a", "a:b", "sha256:00", "@", "a@b", "ü"] {
            assert!(!Containers::is_tag(tag), "{tag}");
        }
        for registry in [
            "ghcr.io/hy3ons",
            "registry.example.org/kite",
            "localhost:5000/kite",
            "[2001:db8::1]:5000/a/b",
            "kite",
            "Registry.example.org/kite",
        ] {
            assert!(Containers::is_registry(registry), "{registry}");
        }
        for registry in [
            "",
            "http://x",
            "https://x/y",
            "a b/c",
            "a/",
            "a//b",
            "a/B",
            "localhost:x/y",
            "registry.example.org/kite:tag",
        ] {
            assert!(!Containers::is_registry(registry), "{registry}");
        }
    }
}
