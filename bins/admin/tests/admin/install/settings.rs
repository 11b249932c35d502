//! Settings that administrators have changed meanwhile.

use k8s_openapi::api::rbac::v1::Role;
use kite_admin::install::{Change, Kept, apply, named_certificate};
use kite_core::crd::{KitePlatform, SignUp};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{World, of, small};

/// Writes settings as somebody does by hand.
async fn set(world: &World, spec: Value) {
    let platforms = Api::<KitePlatform>::all(world.client.clone());
    let params = PatchParams {
        field_manager: Some("somebody".to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({ "spec": spec }));
    platforms.patch("default", &params, &patch).await.unwrap();
}

async fn platform(world: &World) -> KitePlatform {
    let platforms = Api::<KitePlatform>::all(world.client.clone());
    platforms.get("default").await.unwrap()
}

#[tokio::test]
async fn what_administrators_set_stays_and_the_rest_is_applied() {
    let world = World::new();
    let mut installation = small();
    installation.platform.gateway.public_host = Some("ssh.example.org".to_owned());
    world.apply(&installation, false).await;
    set(
        &world,
        json!({"signUp": "Open", "gateway": {"publicHost": "theirs.example.org"}}),
    )
    .await;
    installation.platform.sign_up = SignUp::Invite;
    installation.platform.base_domain = Some("vm.example.org".to_owned());
    installation.platform.gateway.service_port = 2222;
    for (dry_run, changed) in [(true, true), (false, true), (false, false)] {
        let told = world.apply(&installation, dry_run).await;
        let (_, change) = told.iter().find(of("KitePlatform", "default")).unwrap();
        let Change::Kept(Kept {
            settings,
            changed: is_changed,
            remedy,
        }) = change
        else {
            panic!("{change:?}");
        };
        assert_eq!(*is_changed, changed, "{change:?}");
        let fields: Vec<_> = settings.iter().map(|it| &*it.field).collect();
        assert_eq!(fields, ["spec.gateway.publicHost", "spec.signUp"]);
        assert_eq!(settings[1].value, "Open");
        assert_eq!(settings[1].wanted, "Invite");
        assert_eq!(settings[1].by, ["somebody"]);
        assert!(
            remedy.starts_with("kubectl patch kiteplatform default --type=merge -p")
                && remedy.contains(r#""signUp":"Invite""#)
                && !remedy.contains("baseDomain"),
            "{remedy}"
        );
    }
    let now = platform(&world).await.spec;
    assert_eq!(now.sign_up, SignUp::Open);
    assert_eq!(
        now.gateway.public_host.as_deref(),
        Some("theirs.example.org")
    );
    assert_eq!(now.base_domain.as_deref(), Some("vm.example.org"));
    assert_eq!(now.gateway.service_port, 2222);
    // Once they agree nobody is in the way.
    set(
        &world,
        json!({"signUp": "Invite", "gateway": {"publicHost": "ssh.example.org"}}),
    )
    .await;
    let told = world.apply(&installation, false).await;
    let (_, change) = told.iter().find(of("KitePlatform", "default")).unwrap();
    assert!(!matches!(change, Change::Kept(_)), "{change:?}");
}

#[tokio::test]
async fn settings_of_others_on_which_something_rests_refuse_all_of_it() {
    let world = World::new();
    let mut installation = small();
    installation.storage = None;
    installation.platform.storage_class = Some("one".to_owned());
    world.apply(&installation, false).await;
    set(
        &world,
        json!({"imageNamespace": "theirs", "storageClass": "fast"}),
    )
    .await;
    let before = world.specs().await;
    let refused = async |installation: &kite_render::install::Installation| {
        let manifests = installation.manifests();
        let mut errors = Vec::new();
        for dry_run in [true, false] {
            let done = apply(&world.client, &manifests, dry_run, |object, _| {
                panic!("{object}");
            });
            errors.push(done.await.unwrap_err().to_string());
        }
        assert_eq!(errors[0], errors[1]);
        errors.remove(0)
    };
    let mut other = installation.clone();
    other.platform.image_namespace = Some("golden".to_owned());
    // Named, and left at its default.
    for installation in [&other, &installation] {
        let error = refused(installation).await;
        let asked = installation.image_namespace();
        for words in [
            "nothing was written",
            "imageNamespace",
            r#""theirs""#,
            asked,
            "--image-namespace theirs",
        ] {
            assert!(error.contains(words), "{words}: {error}");
        }
    }
    let mut class = installation.clone();
    class.platform.image_namespace = Some("theirs".to_owned());
    let error = refused(&class).await;
    assert!(
        error.contains("storageClass") && error.contains("--storage-class fast"),
        "{error}"
    );
    // One of Kite's own would be made, and no disk be on it.
    class.platform.storage_class = None;
    class.storage = small().storage;
    let error = refused(&class).await;
    assert!(
        error.contains("kite-vm-storage") && error.contains("fast"),
        "{error}"
    );
    assert_eq!(world.specs().await, before, "nothing was written");
    class.storage = None;
    world.apply(&class, false).await;
    let now = platform(&world).await.spec;
    assert_eq!(now.storage_class(), "fast");
    assert_eq!(now.image_namespace(), "theirs");
}

#[tokio::test]
async fn settings_of_others_that_go_with_none_of_these_refuse_all_of_it() {
    let world = World::new();
    let mut installation = small();
    world.apply(&installation, false).await;
    let gateway = json!({"namespace": "edge", "name": "public"});
    set(&world, json!({"exposure": {"gateway": gateway}})).await;
    let before = world.specs().await;
    installation.platform.exposure.ingress_class_name = Some("traefik".to_owned());
    installation.containers.tag = "other".to_owned();
    let manifests = installation.manifests();
    for dry_run in [true, false] {
        let done = apply(&world.client, &manifests, dry_run, |object, _| {
            panic!("{object}");
        });
        let error = done.await.unwrap_err().to_string();
        for words in ["nothing was written", "ingressClassName", "--gateway-api"] {
            assert!(error.contains(words), "{words}: {error}");
        }
    }
    assert_eq!(world.specs().await, before);
    // As --gateway-api has it.
    installation.platform.exposure.ingress_class_name = None;
    installation.platform.exposure.gateway = serde_json::from_value(gateway).unwrap();
    let told = world.apply(&installation, false).await;
    let (_, change) = told.iter().find(of("KitePlatform", "default")).unwrap();
    assert_eq!(*change, Change::Changed);
}

/// The controller may look at the certificate that administrators have named meanwhile.
#[tokio::test]
async fn the_certificate_that_settings_name_by_now_is_found() {
    let world = World::new();
    assert_eq!(named_certificate(&world.client).await.unwrap(), None);
    let mut installation = small();
    world.apply(&installation, false).await;
    assert_eq!(named_certificate(&world.client).await.unwrap(), None);
    for (name, found) in [("my-tls", Some("my-tls")), ("kite-seal", None)] {
        let exposure = json!({"certificate": {"secretName": name}});
        set(&world, json!({ "exposure": exposure })).await;
        let named = named_certificate(&world.client).await.unwrap();
        assert_eq!(named.as_deref(), found);
        installation.certificate_secrets.extend(named);
    }
    world.apply(&installation, false).await;
    let roles = Api::<Role>::namespaced(world.client.clone(), "kite");
    let of_controller = roles.get("kite-controller").await.unwrap();
    let granted = of_controller.rules.unwrap();
    let mut names = granted.into_iter().filter_map(|it| it.resource_names);
    assert!(names.any(|it| it.contains(&"my-tls".to_owned())));

    let gateway = json!({"namespace": "edge", "name": "front"});
    let exposure = json!({"certificate": null, "ingressClassName": null, "gateway": gateway});
    set(&world, json!({ "exposure": exposure })).await;
    assert_eq!(named_certificate(&world.client).await.unwrap(), None);
}
