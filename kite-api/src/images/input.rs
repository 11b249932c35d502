//! What a request for an image may say.

use kite_core::{
    crd::{HttpSource, ImageSource, KiteImage, KiteImageSpec, OsFamily},
    quantity::Bytes,
};
use kite_rest::{Bounds, Form, Input, LABEL, OneOf, as_map, change_to_json};
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

const MEANING: [(&str, &str); 3] = [
    (
        "name",
        "Name of the image, by which VMs name it: lower-case letters, digits, hyphens and dots.",
    ),
    (
        "url",
        "Where it is fetched from: `https://` or `http://` and a disk image, or `docker://` and a \
         container disk. It begins with one of `spec.imageSources` of the platform.",
    ),
    (
        "checksum",
        "Checksum of the file behind `https://` or `http://`, such as `sha256:…`.",
    ),
];
const BOUNDS: [(&str, Bounds); 3] = [
    ("name", LABEL),
    ("url", Bounds::between(1, 2048)),
    ("checksum", Bounds::between(1, 200)),
];

/// What `url` begins with where it names a container disk.
const REGISTRY: &str = "docker://";

const CHECKSUM: &str = "write md5, sha1, sha256 or sha512, a colon, and the digest in hexadecimal";

/// Whether it is like a checksum: told with all else that is wrong.
fn is_checksum(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, digest)| {
        let is_hex = |c: char| c.is_ascii_hexdigit();
        matches!(algorithm, "md5" | "sha1" | "sha256" | "sha512")
            && !digest.is_empty()
            && digest.chars().all(is_hex)
    })
}

/// An image that an administrator wants to have in the catalogue.
pub(crate) struct NewImage {
    pub(super) name: String,
    pub(super) spec: KiteImageSpec,
}

impl Input for NewImage {
    const NAME: &'static str = "NewImage";
    const MEANING: &'static [(&'static str, &'static str)] = &MEANING;
    const BOUNDS: &'static [(&'static str, Bounds)] = &BOUNDS;

    fn example() -> Option<Value> {
        Some(json!({
            "name": "fedora-43",
            "url": "docker://quay.io/containerdisks/fedora:43",
            "osFamily": "RedHat",
            "minDisk": "5Gi",
        }))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let name = form.required("name");
        let url: Option<String> = form.required("url");
        let checksum: Option<String> = form.optional("checksum");
        let min_disk = form.required("minDisk");
        let display_name = form.optional("displayName");
        let description = form.optional("description");
        let family: Option<OneOf<OsFamily>> = form.optional("osFamily");
        let default_user = form.optional("defaultUser");
        let refresh_schedule: Option<String> = form.optional("refreshSchedule");
        let imports_to_keep: Option<u32> = form.optional("importsToKeep");
        let of_registry = url.as_ref().is_none_or(|url| url.starts_with(REGISTRY));
        if of_registry && url.is_some() && checksum.is_some() {
            form.error(
                "checksum",
                "is of a file behind https:// or http://: leave it out, and name a container disk by \
                 its digest, such as docker://quay.io/containerdisks/fedora@sha256:…",
            );
        }
        if let Some(checksum) = &checksum
            && !is_checksum(checksum)
        {
            form.error("checksum", CHECKSUM);
        }
        if !of_registry && refresh_schedule.is_some() {
            form.error(
                "refreshSchedule",
                "is for container disks: leave it out, or write url with docker://",
            );
        }
        let url = url?;
        let source = if of_registry {
            ImageSource::registry(url)
        } else {
            ImageSource {
                http: Some(HttpSource { url, checksum }),
                ..ImageSource::default()
            }
        };
        Some(Self {
            name: name?,
            spec: KiteImageSpec {
                display_name,
                description,
                os_family: family.map(|OneOf(it)| it).unwrap_or_default(),
                default_user,
                refresh_schedule,
                // What is too large is too large for the definition as well.
                imports_to_keep: imports_to_keep.map(|it| it.try_into().unwrap_or(i32::MAX)),
                ..KiteImageSpec::new(source, min_disk?)
            },
        })
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(KiteImageSpec::json_schema(generator))
    }
}

/// What an administrator wants to change of an image.
pub(crate) struct Edit(pub(super) Map<String, Value>);

impl Input for Edit {
    const NAME: &'static str = "ImageEdit";
    const MEANING: &'static [(&'static str, &'static str)] = &MEANING;
    const BOUNDS: &'static [(&'static str, Bounds)] = &BOUNDS;

    fn example() -> Option<Value> {
        Some(json!({"displayName": "Fedora 43", "description": "Fedora Cloud, with SELinux"}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        for field in [
            "name",
            "url",
            "checksum",
            "osFamily",
            "refreshSchedule",
            "importsToKeep",
        ] {
            form.fixed(field, "cannot be changed: create another image");
        }
        let min_disk: Option<Bytes> = form.changed("minDisk");
        Some(Self(as_map([
            change_to_json("displayName", form.change::<String>("displayName")),
            change_to_json("description", form.change::<String>("description")),
            change_to_json("defaultUser", form.change::<String>("defaultUser")),
            min_disk.map(|it| ("minDisk", json!(it))),
        ])))
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(KiteImageSpec::json_schema(generator))
    }
}

/// An image that the API server takes, to try single fields with.
pub(super) fn model() -> KiteImage {
    let source = ImageSource::registry("docker://registry.example.org/model");
    KiteImage::new("kite-model", KiteImageSpec::new(source, Bytes::from_gib(1)))
}
