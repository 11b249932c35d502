//! From where administrators of Kite may have images fetched.
//!
//! Whatever an importer reaches becomes a disk that somebody reads: what a metadata service or
//! a page inside of the cluster answers, too. Whoever administers Kite is not trusted with the
//! cluster, so the HTTP API takes images only from places that administrators of the cluster
//! name. Who writes `KiteImage`s with `kubectl` is not bound by that.

use super::KitePlatformSpec;

/// Places of images of common systems, where `spec.imageSources` is not set: none that sends
/// whoever asks to mirrors, which anybody may run.
pub const IMAGE_SOURCES: [&str; 7] = [
    "https://cloud.debian.org/images/",
    "https://cloud-images.ubuntu.com/",
    "https://cloud.centos.org/",
    "https://dl.fedoraproject.org/pub/",
    "https://dl-cdn.alpinelinux.org/",
    "https://geo.mirror.pkgbuild.com/images/",
    "docker://quay.io/containerdisks/",
];

/// [`IMAGE_SOURCES`] as JSON.
pub(super) const IMAGE_SOURCES_AS_JSON: &str = r#"["https://cloud.debian.org/images/", "https://cloud-images.ubuntu.com/", "https://cloud.centos.org/", "https://dl.fedoraproject.org/pub/", "https://dl-cdn.alpinelinux.org/", "https://geo.mirror.pkgbuild.com/images/", "docker://quay.io/containerdisks/"]"#;

/// What an entry is like: a scheme, a host, and a path that ends with a slash, so that no
/// other host or folder begins like it.
pub(super) const PATTERN: &str = r"^(https?|docker)://[A-Za-z0-9.:\[\]-]+/([A-Za-z0-9._~/-]*/)?$";

impl KitePlatformSpec {
    /// What addresses of images begin with that the HTTP API takes.
    pub fn image_sources(&self) -> impl Iterator<Item = &str> {
        let named = self.image_sources.as_deref();
        let defaults = named.is_none().then_some(IMAGE_SOURCES);
        let named = named.unwrap_or_default().iter().map(String::as_str);
        named.chain(defaults.into_iter().flatten())
    }

    /// Whether the HTTP API takes an image from `url`.
    ///
    /// ```
    /// use kite_core::crd::KitePlatformSpec;
    ///
    /// let mut platform = KitePlatformSpec::default();
    /// platform.image_sources = Some(vec!["https://images.example.org/public/".to_owned()]);
    /// assert!(platform.admits_image("https://images.example.org/public/a.qcow2"));
    /// assert!(!platform.admits_image("https://images.example.org/public/../inside"));
    /// ```
    pub fn admits_image(&self, url: &str) -> bool {
        let mut sources = self.image_sources();
        sources.any(|source| url.strip_prefix(source).is_some_and(stays_below))
    }
}

/// Whether the rest of an address names something below, however a server reads it.
fn stays_below(rest: &str) -> bool {
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let path = path.to_ascii_lowercase().replace("%2e", ".");
    let path = path.replace(['\\'], "/").replace("%2f", "/");
    let path = path.replace("%5c", "/");
    let is_below = |part: &str| !matches!(part, "." | "..");
    !rest.contains(char::is_whitespace) && !path.is_empty() && path.split('/').all(is_below)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_two_lists_are_one() {
        let as_json: Vec<String> = serde_json::from_str(IMAGE_SOURCES_AS_JSON).unwrap();
        assert_eq!(as_json, IMAGE_SOURCES);
    }

    #[test]
    fn an_image_comes_from_a_place_that_is_named() {
        let mut platform = KitePlatformSpec::default();
        let debian = "https://cloud.debian.org/images/cloud/trixie/latest/debian-13.qcow2";
        assert!(platform.admits_image(debian));
        assert!(platform.admits_image("docker://quay.io/containerdisks/fedora:43"));
        for other in [
            "https://cloud.debian.org/images/",
            "https://cloud.debian.org/other.qcow2",
            "https://cloud.debian.org.example.org/images/x",
            "https://cloud.debian.org@10.0.0.1/images/x",
            "http://cloud.debian.org/images/x",
            "https://cloud.debian.org/images/../x",
            "https://cloud.debian.org/images/a/%2E%2e/%2e./x",
            "https://cloud.debian.org/images/..%2fx",
            "https://cloud.debian.org/images/..\\x",
            "https://cloud.debian.org/images/..%5cx",
            "https://cloud.debian.org/images/a x",
            "docker://quay.io/other/fedora:43",
            "http://169.254.169.254/latest/meta-data/",
            "",
        ] {
            assert!(!platform.admits_image(other), "{other}");
        }
        platform.image_sources = Some(Vec::new());
        assert!(!platform.admits_image(debian), "none are named");
    }
}
