//! What is rendered, in full: one snapshot per object.
#![allow(clippy::unwrap_used)]

mod common;

use kite_core::crd::{
    Certificate, GatewayReference, ImageSource, KitePlatform, KitePlatformSpec, OsFamily,
    PowerState, RegistrySource,
};
use kite_render::{
    Image, Platform, User, Vm, cloud_init, disk, exposure, image, isolation, keys, machine,
    namespace,
    platform::{gateway, web},
    quota, reservation, service,
};

#[test]
fn what_a_user_gets() {
    let object = common::user();
    let user = User::of(&object).unwrap();
    insta::assert_yaml_snapshot!(
        "namespace",
        namespace::namespace(&user, namespace::PodSecurity::default())
    );
    for policy in isolation::policies(
        &user,
        &isolation::Isolation::default(),
        &common::image_namespaces(),
    ) {
        let name = policy.metadata.name.clone().unwrap();
        insta::assert_yaml_snapshot!(format!("policy_{name}"), policy);
    }
    insta::assert_yaml_snapshot!(
        "quota",
        quota::resource_quota(&user, &quota::Given::default(), &quota::Overhead::default())
    );
    insta::assert_yaml_snapshot!("user_reservations", reservation::of_user(&user));
}

#[test]
fn what_a_vm_gets() {
    let object = common::vm();
    let vm = Vm::of(&object).unwrap();
    let platform = common::platform();
    insta::assert_yaml_snapshot!("disk", disk::data_volume(&vm, &platform, "kite-images"));
    insta::assert_yaml_snapshot!(
        "grown_claim",
        disk::grown_claim(vm.namespace, "web-disk", &vm.object.spec.disk)
    );
    insta::assert_yaml_snapshot!("key_secret", keys::secret(&vm, &common::keys()));
    insta::assert_yaml_snapshot!(
        "virtual_machine",
        machine::virtual_machine(&vm, PowerState::On)
    );
    insta::assert_yaml_snapshot!(
        "virtual_machine_windows",
        machine::virtual_machine_for(&vm, OsFamily::Windows, PowerState::On)
    );
    insta::assert_yaml_snapshot!("access_service", service::access(&vm));
    insta::assert_yaml_snapshot!("web_service", service::web(&vm));
    let host = exposure::host(&vm, &platform).unwrap();
    insta::assert_yaml_snapshot!("ingress", exposure::ingress(&vm, &platform, &host));
    let gateway = GatewayReference {
        namespace: "edge".to_owned(),
        name: "public".to_owned(),
    };
    insta::assert_yaml_snapshot!("http_route", exposure::route(&vm, &gateway, &host));
    insta::assert_yaml_snapshot!("vm_reservations", reservation::of_vm(&vm));
}

#[test]
fn what_guests_are_told() {
    let object = common::vm();
    let vm = Vm::of(&object).unwrap();
    for os in [
        OsFamily::Debian,
        OsFamily::RedHat,
        OsFamily::Suse,
        OsFamily::Alpine,
        OsFamily::Arch,
        OsFamily::Windows,
    ] {
        let secret = cloud_init::secret(&vm, &common::keys(), os).unwrap();
        let user_data = &secret.data.unwrap()[cloud_init::USER_DATA].0;
        insta::assert_snapshot!(
            format!("cloud_init_{os:?}").to_lowercase(),
            String::from_utf8(user_data.clone()).unwrap()
        );
    }
}

#[test]
fn what_the_platform_gets() {
    let mut object = KitePlatform::new("default", common::platform());
    object.metadata.uid = Some("bbbbbbbb-cccc-dddd-eeee-ffffffffffff".to_owned());
    object.spec.gateway.annotations = [("lb.example.org/pool".into(), "ssh".into())].into();
    object.spec.exposure.certificate.cluster_issuer = Some("letsencrypt".to_owned());
    let platform = Platform::of(&object, "kite").unwrap();
    insta::assert_yaml_snapshot!("gateway_service", gateway::service(&platform));
    let host = web::host(&platform).unwrap();
    insta::assert_yaml_snapshot!("platform_ingress", web::ingress(&platform, host));
    let edge = GatewayReference {
        namespace: "edge".to_owned(),
        name: "public".to_owned(),
    };
    let listeners = web::Listeners {
        https: vec!["secure".to_owned()],
        http: vec!["plain".to_owned()],
    };
    insta::assert_yaml_snapshot!(
        "platform_routes",
        web::routes(&platform, host, &edge, &listeners)
    );
}

#[test]
fn what_an_image_gets() {
    let object = common::image();
    let image = Image::of(&object).unwrap();
    let platform = common::platform();
    insta::assert_yaml_snapshot!("image_disk", image::data_volume(&image, &platform));
    insta::assert_yaml_snapshot!("image_source", image::data_source(&image, &platform));
    assert_eq!(image::import_cron(&image, &platform), None);

    let mut object = object.clone();
    object.spec.source = ImageSource {
        registry: Some(RegistrySource {
            url: "docker://quay.io/containerdisks/debian:12".to_owned(),
        }),
        ..ImageSource::default()
    };
    object.spec.refresh_schedule = Some("0 3 * * 0".to_owned());
    let image = Image::of(&object).unwrap();
    insta::assert_yaml_snapshot!("image_cron", image::import_cron(&image, &platform));
    assert_eq!(image::data_volume(&image, &platform), None);
    assert_eq!(image::data_source(&image, &platform), None);
}

#[test]
fn a_certificate_comes_from_where_the_platform_says() {
    let object = common::vm();
    let vm = Vm::of(&object).unwrap();
    let mut platform = common::platform();
    let tls = |platform: &KitePlatformSpec| {
        let ingress = exposure::ingress(&vm, platform, "shop.vm.example.org");
        let secret = ingress.spec.unwrap().tls.unwrap()[0].secret_name.clone();
        (ingress.metadata.annotations, secret)
    };
    assert_eq!(tls(&platform), (None, None));

    platform.exposure.certificate = Certificate {
        secret_name: Some("wildcard".to_owned()),
        cluster_issuer: None,
    };
    assert_eq!(tls(&platform), (None, Some("wildcard".to_owned())));

    platform.exposure.certificate = Certificate {
        secret_name: None,
        cluster_issuer: Some("letsencrypt".to_owned()),
    };
    let (annotations, secret) = tls(&platform);
    assert_eq!(secret.as_deref(), Some("web-tls"));
    assert_eq!(
        annotations.unwrap()["cert-manager.io/cluster-issuer"],
        "letsencrypt"
    );
}
