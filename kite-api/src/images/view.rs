//! An image as the API shows it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_core::{
    crd::{ImagePhase, KiteImage, OsFamily},
    quantity::Bytes,
};
use kite_rest::etag_of;
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;

/// An image as people choose one.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Image")]
pub(crate) struct ImageView {
    /// By which VMs name it.
    name: String,
    /// What tells it from any other image, also a later one of the same name.
    uid: String,
    /// What an edit sends as `If-Match` to count only if nobody else edited since.
    etag: String,
    /// What people call it.
    display_name: String,
    /// Why it cannot be read, if it cannot: what is told of it is then as far as it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    /// What it is, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// What kind of system it is.
    os_family: OsFamily,
    /// For administrators: where it is fetched from, unless it is made from what is in the
    /// cluster. There may be a password in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// For administrators: checksum of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
    /// The account that its maker set up.
    #[serde(skip_serializing_if = "Option::is_none")]
    default_user: Option<String>,
    /// For administrators: when a newer one is looked for (cron format, UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_schedule: Option<String>,
    /// For administrators: how many imports are kept where a newer one is looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    imports_to_keep: Option<i32>,
    /// The smallest disk that an administrator has allowed for it.
    min_disk: Bytes,
    /// How large it is, once that is known: no disk can be smaller, whatever
    /// `minDisk` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<Bytes>,
    /// Whether VMs can be made from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<ImagePhase>,
    /// How much of it is fetched, such as `42.0%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<String>,
    /// Why it is as it is: `Ready`, and `UpToDate` where it is fetched by a schedule.
    conditions: Vec<Condition>,
}

impl ImageView {
    /// As people see it who choose one.
    pub(crate) fn of(image: &KiteImage) -> Self {
        let inside = Self::inside(image);
        let plain = inside.conditions.into_iter().map(|it| Condition {
            message: without_secrets(&it.message),
            ..it
        });
        Self {
            conditions: plain.collect(),
            url: None,
            checksum: None,
            refresh_schedule: None,
            imports_to_keep: None,
            ..inside
        }
    }

    /// As administrators see it.
    pub(crate) fn inside(image: &KiteImage) -> Self {
        let status = image.status.clone().unwrap_or_default();
        let name = image.name_any();
        let spec = image.spec.clone();
        let (http, registry) = (spec.source.http, spec.source.registry);
        let (of_http, checksum) = http.map(|it| (it.url, it.checksum)).unzip();
        Self {
            display_name: spec.display_name.unwrap_or_else(|| name.clone()),
            name,
            uid: image.uid().unwrap_or_default(),
            etag: etag_of(image),
            url: of_http.or_else(|| registry.map(|it| it.url)),
            checksum: checksum.flatten(),
            default_user: spec.default_user,
            refresh_schedule: spec.refresh_schedule,
            imports_to_keep: spec.imports_to_keep,
            unreadable: image.unreadable().map(Cow::into_owned),
            description: spec.description,
            os_family: spec.os_family,
            min_disk: spec.min_disk,
            size: status.size,
            phase: status.phase,
            progress: status.progress,
            conditions: status.conditions,
        }
    }
}

/// A message of which each address has lost what may let somebody in: importers repeat the
/// address that they were given.
fn without_secrets(message: &str) -> String {
    let words = message.split_inclusive(|c: char| c.is_whitespace() || c == '"');
    let plain = words.map(|word| {
        let Some((scheme, rest)) = word.split_once("://") else {
            return Cow::Borrowed(word);
        };
        let end = rest.find(|c: char| c.is_whitespace() || c == '"');
        let (address, end) = rest.split_at(end.unwrap_or(rest.len()));
        let address = address.split('?').next().unwrap_or_default();
        let host = address.find('/').unwrap_or(address.len());
        let from = address[..host].rfind('@').map_or(0, |at| at + 1);
        Cow::Owned(format!("{scheme}://{}{end}", &address[from..]))
    });
    plain.collect()
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn addresses_are_told_without_what_lets_somebody_in() {
        for (said, told) in [
            ("all is well", "all is well"),
            (
                "Get \"https://ann:pw@a.test/x@y?sig=s3cret\": no such host",
                "Get \"https://a.test/x@y\": no such host",
            ),
            (
                "see https://a.test?sig=1 and\thttp://b.test/c",
                "see https://a.test and\thttp://b.test/c",
            ),
        ] {
            assert_eq!(without_secrets(said), told);
        }
    }
}
