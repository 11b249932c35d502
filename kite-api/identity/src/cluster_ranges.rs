//! [`ClusterRanges`]: which addresses are the cluster's own.

use std::sync::Arc;

use kite_core::{cidr::Cidr, crd::KitePlatform};
use kube::ResourceExt as _;
use parking_lot::Mutex;

/// The addresses that the status of the platform names, read once for each version of it:
/// whoever guesses is looked at by them before there is a bound of anything.
#[derive(Debug, Default)]
pub(crate) struct ClusterRanges(Mutex<Option<(String, Arc<[Cidr]>)>>);

impl ClusterRanges {
    /// Those that `platform` names, as far as they can be read.
    pub(crate) fn of(&self, platform: &KitePlatform) -> Arc<[Cidr]> {
        let version = platform.resource_version();
        let mut read = self.0.lock();
        if let Some((of, ranges)) = &*read
            && version.as_ref() == Some(of)
        {
            return Arc::clone(ranges);
        }
        let status = platform.status.as_ref();
        let texts = status.map(|status| status.cluster_addresses.as_slice());
        let texts = texts.unwrap_or_default().iter();
        let ranges: Arc<[Cidr]> = texts.filter_map(|text| text.parse::<Cidr>().ok()).collect();
        *read = version.map(|version| (version, Arc::clone(&ranges)));
        ranges
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kite_core::crd::{KitePlatformSpec, KitePlatformStatus};

    use super::*;

    fn platform(version: Option<&str>, addresses: &[&str]) -> KitePlatform {
        let mut platform = KitePlatform::new("default", KitePlatformSpec::default());
        platform.metadata.resource_version = version.map(str::to_owned);
        platform.status = Some(KitePlatformStatus {
            cluster_addresses: addresses.iter().map(|&it| it.to_owned()).collect(),
            ..KitePlatformStatus::default()
        });
        platform
    }

    #[test]
    fn addresses_are_read_once_for_each_version_of_the_platform() {
        let read = ClusterRanges::default();
        let first = platform(Some("1"), &["10.42.0.0/16", "no address", "192.0.2.1"]);
        let ranges = read.of(&first);
        let range = |text: &str| text.parse::<Cidr>().unwrap();
        let expected = ["10.42.0.0/16", "192.0.2.1/32"].map(range);
        assert_eq!(ranges.as_ref(), expected.as_slice());
        assert!(Arc::ptr_eq(&ranges, &read.of(&first)));
        let second = platform(Some("2"), &["10.43.0.0/16"]);
        let newer = read.of(&second);
        assert_eq!(newer.as_ref(), [range("10.43.0.0/16")].as_slice());
        assert!(Arc::ptr_eq(&newer, &read.of(&second)));
        // What has no version is never taken for something that was read before.
        assert!(read.of(&platform(None, &[])).is_empty());
        assert_eq!(read.of(&platform(None, &["10.44.0.0/16"])).len(), 1);
        assert_eq!(read.of(&first).as_ref(), expected.as_slice());
    }
}
