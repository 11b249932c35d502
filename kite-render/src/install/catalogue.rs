//! The golden images that an installation begins with.

use kite_core::{
    crd::{ImageSource, KiteImage, KiteImageSpec, OsFamily},
    quantity::Bytes,
};

use super::metadata;

/// When newer images are looked for: on Sunday nights.
const SCHEDULE: &str = "0 3 * * 0";

/// Free Linux distributions, as `KubeVirt`'s project publishes them as container
/// disks.
pub fn golden_images() -> Vec<KiteImage> {
    [
        ("debian-12", "Debian 12", OsFamily::Debian, "debian:12", 4),
        (
            "ubuntu-24.04",
            "Ubuntu 24.04 LTS",
            OsFamily::Debian,
            "ubuntu:24.04",
            4,
        ),
        ("fedora-42", "Fedora 42", OsFamily::RedHat, "fedora:42", 6),
        (
            "centos-stream-9",
            "CentOS Stream 9",
            OsFamily::RedHat,
            "centos-stream:9",
            10,
        ),
    ]
    .into_iter()
    .map(|(name, display_name, os_family, disk, gibibytes)| {
        let mut image = KiteImage::new(
            name,
            KiteImageSpec {
                display_name: Some(display_name.to_owned()),
                refresh_schedule: Some(SCHEDULE.to_owned()),
                os_family,
                ..KiteImageSpec::new(
                    ImageSource::registry(format!("docker://quay.io/containerdisks/{disk}")),
                    Bytes::from_gib(gibibytes),
                )
            },
        );
        image.metadata.labels = metadata::common(name, None).labels;
        image
    })
    .collect()
}
