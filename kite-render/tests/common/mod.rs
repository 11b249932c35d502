//! Objects to render from.
#![allow(dead_code, missing_docs)]

use kite_core::crd::{
    HttpSource, Identity, ImageSource, KiteImage, KiteImageSpec, KitePlatformSpec, KiteUser,
    KiteUserSpec, KiteVirtualMachine, KiteVirtualMachineSpec, OsFamily,
};
use kite_render::keys::VmKeys;

pub fn vm() -> KiteVirtualMachine {
    let mut vm = KiteVirtualMachine::new(
        "web",
        KiteVirtualMachineSpec {
            domain_prefix: Some("shop".to_owned()),
            ..KiteVirtualMachineSpec::new(
                2,
                "4Gi".parse().unwrap(),
                "20Gi".parse().unwrap(),
                "debian-12",
                "annweb",
            )
        },
    );
    vm.metadata.namespace = Some("kite-user-ann".to_owned());
    vm.metadata.uid = Some("11111111-2222-3333-4444-555555555555".to_owned());
    vm
}

pub fn user() -> KiteUser {
    let mut spec = KiteUserSpec::new("ann");
    spec.identities = vec![Identity {
        issuer: "https://login.example.org".to_owned(),
        subject: "248289761001".to_owned(),
    }];
    let mut user = KiteUser::new("ann", spec);
    user.metadata.uid = Some("99999999-8888-7777-6666-555555555555".to_owned());
    user
}

pub fn image() -> KiteImage {
    let mut image = KiteImage::new(
        "debian-12",
        KiteImageSpec {
            display_name: None,
            description: None,
            source: ImageSource {
                http: Some(HttpSource {
                    url: "https://images.example.org/debian-12.qcow2".to_owned(),
                    checksum: Some("sha256:00ff".to_owned()),
                }),
                ..ImageSource::default()
            },
            os_family: OsFamily::Debian,
            default_user: None,
            min_disk: "10Gi".parse().unwrap(),
            refresh_schedule: None,
            imports_to_keep: None,
            unreadable: None,
        },
    );
    image.metadata.uid = Some("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee".to_owned());
    image
}

pub fn platform() -> KitePlatformSpec {
    KitePlatformSpec {
        base_domain: Some("vm.example.org".to_owned()),
        ..KitePlatformSpec::default()
    }
}

/// Keys that are obviously none.
pub fn keys() -> VmKeys {
    let private = |name: &str| {
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{name}\n-----END OPENSSH PRIVATE KEY-----\n")
    };
    VmKeys {
        client_private: private("client"),
        client_public: "ssh-ed25519 AAAAclient kite-gateway\n".to_owned(),
        host_private: private("host"),
        host_public: "ssh-ed25519 AAAAhost web\n".to_owned(),
    }
}

pub fn image_namespaces() -> std::collections::BTreeSet<String> {
    std::iter::once("kite-images".to_owned()).collect()
}
