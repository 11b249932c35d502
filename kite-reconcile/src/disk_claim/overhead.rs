//! How large a claim has to be for a disk: where a volume is a file system, the disk
//! is a file in it, and has what the file system leaves.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{cdi::DataVolume, kubevirt::VirtualMachineInstance, quantity::Bytes};
use serde_json::Value;

use super::{claim_size, disk_size};

const MIB: u64 = 1 << 20;

/// A whole, in millionths.
const ONE: u64 = 1_000_000;

/// More than this no file system takes: who says so means something else.
const MOST: u64 = ONE / 2;

/// What CDI reserves for a file system by default.
const BY_DEFAULT: u64 = 60_000;

/// What the file system of a volume takes of it, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overhead(u64);

impl Overhead {
    /// That of the disk's volume: as `KubeVirt` reckons with it for the running
    /// instance; as the status `told` it; as CDI made the claim, as long as that has
    /// not grown; else CDI's default.
    pub(crate) fn of(
        claim: &PersistentVolumeClaim,
        disk: Option<&DataVolume>,
        instance: Option<&VirtualMachineInstance>,
        told: Option<&str>,
        size: Option<&Bytes>,
    ) -> Self {
        let spec = claim.spec.as_ref();
        if spec.and_then(|spec| spec.volume_mode.as_deref()) == Some("Block") {
            return Self(0);
        }
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let of_instance = instance.and_then(|it| of_instance(it, name));
        of_instance
            .or_else(|| told.and_then(read))
            .or_else(|| of_claim(claim, disk?, size))
            .unwrap_or(Self(BY_DEFAULT))
    }

    /// The claim for a disk of `size`.
    pub(crate) fn claim_for(self, size: &Bytes) -> Bytes {
        if self.0 == 0 {
            return size.clone();
        }
        let whole = u128::from(size.bytes()) * u128::from(ONE);
        let bytes = whole.div_ceil(u128::from(ONE - self.0));
        let bytes = bytes.div_ceil(u128::from(MIB)) * u128::from(MIB);
        let text = u64::try_from(bytes).unwrap_or(u64::MAX).to_string();
        // A number of bytes is a size in any case.
        text.parse().unwrap_or_else(|_| size.clone())
    }

    /// The smallest disk whose claim is at least as large as this one.
    pub(crate) fn disk_for(self, claim: &Bytes) -> Bytes {
        let left = u128::from(claim.bytes()) * u128::from(ONE - self.0);
        let mut bytes = u64::try_from(left / u128::from(ONE)).unwrap_or(u64::MAX);
        loop {
            // A number of bytes is a size in any case.
            let Ok(size) = bytes.to_string().parse() else {
                return claim.clone();
            };
            if self.claim_for(&size) >= *claim {
                return size;
            }
            bytes = bytes.saturating_add(MIB);
        }
    }

    /// Whether a disk of `size` has room in a claim.
    pub(crate) fn has_room(self, claim: &Bytes, size: &Bytes) -> bool {
        let left = u128::from(claim.bytes()) * u128::from(ONE - self.0);
        left >= u128::from(size.bytes()) * u128::from(ONE)
    }

    /// As `KubeVirt` and CDI spell it.
    pub(crate) fn text(self) -> String {
        let text = format!("0.{:06}", self.0);
        let text = text.trim_end_matches('0');
        text.strip_suffix('.').unwrap_or(text).to_owned()
    }
}

fn read(text: &str) -> Option<Overhead> {
    let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let is_digits = part.bytes().all(|it| it.is_ascii_digit());
    if whole.parse() != Ok(0u64) || !is_digits {
        return None;
    }
    // What is smaller than a millionth is rounded up.
    let digits: String = part.chars().chain("000000".chars()).take(6).collect();
    let is_more = part.len() > 6 && part.as_bytes().iter().skip(6).any(|it| *it != b'0');
    let millionths = digits.parse::<u64>().ok()? + u64::from(is_more);
    (millionths <= MOST).then_some(Overhead(millionths))
}

/// What `KubeVirt` says of the claim `name`.
fn of_instance(instance: &VirtualMachineInstance, name: &str) -> Option<Overhead> {
    let status = instance.status.as_ref()?;
    let volumes = status.other.get("volumeStatus")?.as_array()?;
    let mut infos = volumes.iter().map(|it| &it["persistentVolumeClaimInfo"]);
    let info = infos.find(|info| info["claimName"] == name)?;
    match &info["filesystemOverhead"] {
        Value::String(text) => read(text),
        Value::Number(number) => read(&number.to_string()),
        _ => None,
    }
}

/// What CDI added to a claim that has not grown since.
fn of_claim(
    claim: &PersistentVolumeClaim,
    disk: &DataVolume,
    size: Option<&Bytes>,
) -> Option<Overhead> {
    let (made, claim) = (disk_size(disk)?, claim_size(claim)?);
    if size.is_some_and(|size| *size > made) {
        return None;
    }
    let (made, claim) = (made.bytes(), claim.bytes());
    let added = u128::from(claim.checked_sub(made)?);
    // CDI rounds up to a mebibyte first; and what is a millionth off is the same.
    let millionths = (added * u128::from(ONE) / u128::from(claim.max(1))).try_into();
    let millionths: u64 = millionths.ok()?;
    (millionths <= MOST).then_some(Overhead(millionths))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn claim(size: &str, mode: &str) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "web-disk"},
            "spec": {"volumeMode": mode, "resources": {"requests": {"storage": size}}},
        }))
        .unwrap()
    }

    fn disk(size: &str) -> DataVolume {
        let storage = json!({"resources": {"requests": {"storage": size}}});
        serde_json::from_value(json!({"metadata": {}, "spec": {"storage": storage}})).unwrap()
    }

    fn instance(overhead: &Value) -> VirtualMachineInstance {
        let info = json!({"claimName": "web-disk", "filesystemOverhead": overhead});
        serde_json::from_value(json!({
            "metadata": {}, "spec": {"domain": {}},
            "status": {"volumeStatus": [
                {"name": "cloudinit"}, {"name": "root", "persistentVolumeClaimInfo": info},
            ]},
        }))
        .unwrap()
    }

    fn size(text: &str) -> Bytes {
        text.parse().unwrap()
    }

    #[test]
    fn a_disk_has_room_in_its_claim_whatever_the_file_system_takes() {
        for overhead in ["0", "0.000001", "0.055", "0.06", "0.1", "0.333333", "0.5"] {
            let overhead = read(overhead).unwrap();
            for wanted in ["1Gi", "10Gi", "10.5Gi", "12345678901", "64Ti", "1"] {
                let wanted = size(wanted);
                let claim = overhead.claim_for(&wanted);
                assert!(overhead.has_room(&claim, &wanted), "{overhead:?} {wanted}");
                // And not much more than that.
                let bare = u128::from(wanted.bytes()) * u128::from(ONE);
                let most = bare.div_ceil(u128::from(ONE - overhead.0)) + u128::from(MIB);
                assert!(u128::from(claim.bytes()) <= most, "{overhead:?} {wanted}");
                // A disk that is made for a claim of this size has one at least as large, and
                // is hardly larger than need be.
                let made = overhead.disk_for(&claim);
                assert!(overhead.claim_for(&made) >= claim, "{overhead:?} {wanted}");
                assert!(
                    made.bytes() <= wanted.bytes() + MIB,
                    "{overhead:?} {wanted}"
                );
            }
        }
        assert!(
            !read("0.055")
                .unwrap()
                .has_room(&size("12Gi"), &size("12Gi"))
        );
    }

    #[test]
    fn it_is_spelled_and_read_as_kubevirt_does() {
        for (text, millionths) in [
            ("0", 0),
            ("0.055", 55_000),
            ("0.06", 60_000),
            ("0.5", 500_000),
        ] {
            assert_eq!(read(text), Some(Overhead(millionths)));
            assert_eq!(Overhead(millionths).text(), text);
        }
        assert_eq!(read("0.0000001"), Some(Overhead(1)));
        for odd in ["1", "0.9", "-0.1", "much", "", "0.0x", "1e-3"] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_instance_knows_best_then_the_status_then_the_claim() {
        let (made, file) = (disk("10Gi"), claim("11362347344", "Filesystem"));
        let of = |instance: Option<&VirtualMachineInstance>, told, has: &str| {
            Overhead::of(&file, Some(&made), instance, told, Some(&size(has))).text()
        };
        let running = instance(&json!("0.1"));
        assert_eq!(of(Some(&running), Some("0.2"), "10Gi"), "0.1");
        assert_eq!(of(Some(&instance(&json!(0.1))), Some("0.2"), "10Gi"), "0.1");
        assert_eq!(of(None, Some("0.2"), "10Gi"), "0.2");
        assert_eq!(of(None, None, "10Gi"), "0.055");
        // It has grown, and nobody knows by what.
        assert_eq!(of(None, None, "12Gi"), "0.06");
        let block = claim("10Gi", "Block");
        let of_block = Overhead::of(&block, Some(&made), Some(&running), Some("0.2"), None);
        assert_eq!(of_block, Overhead(0));
        assert_eq!(of_block.claim_for(&size("12Gi")), size("12Gi"));
    }
}
