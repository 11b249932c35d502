//! A `KitePlatform` of which not all can be read: it opens nothing that it had closed.

use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KitePlatform, KiteUser},
    names,
};
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    demand::set_up,
    unreadable::lax,
    world::{Answer, PASSWORD, TOKEN, World},
};

const ME: &str = "/api/v1/me";
const VMS: &str = "/api/v1/vms";
const TOKENS: &str = "/api/v1/me/tokens";
const PLATFORM: &str = "/api/v1/admin/platform";
const SIGN_IN: &str = "/api/v1/auth/sign-in";

/// A platform whose settings may be anything, as in a cluster of a later version.
struct Odd {
    world: World,
    platforms: Api<DynamicObject>,
}

impl Odd {
    async fn new() -> Self {
        let world = World::new().await;
        let platforms = lax::<KitePlatform>(&world, None).await;
        Self { world, platforms }
    }

    /// Writes it as a later version would, and waits until the API has seen it. `unread`:
    /// the setting that cannot be read then.
    async fn write(&self, spec: Value, unread: Option<&str>) {
        let (patch, params) = (
            Patch::Merge(json!({ "spec": spec })),
            PatchParams::default(),
        );
        let written = self.platforms.patch(names::PLATFORM, &params, &patch).await;
        let version = written.unwrap().metadata.resource_version;
        let key = ObjectKey::cluster(names::PLATFORM);
        let platforms = &self.world.state.caches().platforms;
        let is_seen = || {
            let seen = platforms.get(&key);
            seen.is_some_and(|it| {
                it.metadata.resource_version == version
                    && unread.is_none_or(|field| it.spec.is_unread(field))
            })
        };
        let seen = async || is_seen();
        self.world.until("the settings are seen", seen).await;
    }

    async fn sign_up(&self, name: &str) -> Answer {
        let account = json!({"username": name, "password": PASSWORD});
        self.world.post("/api/v1/auth/sign-up", "", account).await
    }

    async fn sign_in(&self, name: &str) -> Answer {
        let account = json!({"username": name, "password": PASSWORD});
        self.world.post(SIGN_IN, "", account).await
    }
}

#[tokio::test]
async fn what_others_of_its_settings_closed_stays_closed() {
    let odd = Odd::new().await;
    let world = &odd.world;
    let before = world.user("ann", AccessLevel::User).await;
    let closed = json!({
        "signUp": "Closed", "requireSecondFactor": "Everybody", "sessionEpoch": 7,
    });
    odd.write(closed, None).await;
    let ann = world.sign_in("ann").await;
    for odd_one in ["storageClass", "nameservers", "exposure"] {
        odd.write(json!({odd_one: {"a": 1, "gateway": 1}}), Some(odd_one))
            .await;
        world
            .get(ME, &before)
            .await
            .is_problem(401, "unauthenticated");
        let refused = world.get(VMS, &ann).await;
        refused.is_problem(403, "second-factor-missing");
        odd.sign_up("eve").await.is_problem(403, "sign-up-closed");
        odd.write(json!({odd_one: null}), None).await;
    }
    assert_eq!(world.get(ME, &ann).await.status, 200);
}

#[tokio::test]
async fn a_setting_itself_that_cannot_be_read_is_the_strictest_it_can_be() {
    let odd = Odd::new().await;
    let world = &odd.world;
    let ann = world.user("ann", AccessLevel::User).await;
    let body = json!({"name": "ci", "scopes": ["vms:read", "account:read"]});
    let made = world.post(TOKENS, &ann, body).await;
    let token = made.text("/token").to_owned();

    odd.write(json!({"signUp": "Sometimes"}), Some("signUp"))
        .await;
    odd.sign_up("eve").await.is_problem(403, "sign-up-closed");
    let few = json!({"signUp": "Open", "signUpsPerDay": "few"});
    odd.write(few, Some("signUpsPerDay")).await;
    let refused = odd.sign_up("eve").await;
    refused.is_problem(429, "too-many-requests");
    odd.write(json!({"signUpsPerDay": null}), None).await;
    assert_eq!(odd.sign_up("joe").await.status, 201);

    let often = json!({"requireSecondFactor": ["Often"]});
    odd.write(often, Some("requireSecondFactor")).await;
    let refused = world.get(VMS, &ann).await;
    refused.is_problem(403, "second-factor-missing");
    // Nobody is kept out by that: one can be set up.
    assert_eq!(world.get("/api/v1/me/totp", &ann).await.status, 200);
    odd.write(json!({"requireSecondFactor": null}), None).await;
    assert_eq!(world.get(VMS, &ann).await.status, 200);

    // Nobody knows which sessions are over: none opens anything, and no token is one.
    odd.write(json!({"sessionEpoch": "now"}), Some("sessionEpoch"))
        .await;
    world.get(ME, &ann).await.is_problem(401, "unauthenticated");
    let refused = odd.sign_in("ann").await;
    let detail = refused.is_problem(503, "unavailable").text("/detail");
    assert!(detail.contains("sessionEpoch") && detail.contains("kubectl"));
    // Nor is an account made that nobody could be signed in to, or a token used up.
    world.bootstrap_secret().await;
    odd.sign_up("max").await.is_problem(503, "unavailable");
    let first = json!({"token": TOKEN, "username": "max", "password": PASSWORD});
    let refused = world.post("/api/v1/auth/bootstrap", "", first).await;
    refused.is_problem(503, "unavailable");
    let key = ObjectKey::cluster("max");
    let made = world.cluster.get_opt::<KiteUser>(&key).await.unwrap();
    assert!(made.is_none() && world.find_bootstrap_secret().await.is_some());
    assert_eq!(world.get(VMS, &token).await.status, 200);
    odd.write(json!({"sessionEpoch": 0}), None).await;
    assert_eq!(world.get(ME, &ann).await.status, 200, "it was not ended");

    odd.write(json!({"tokenEpoch": {}}), Some("tokenEpoch"))
        .await;
    world
        .get(VMS, &token)
        .await
        .is_problem(401, "unauthenticated");
    assert_eq!(world.get(VMS, &ann).await.status, 200);
    let body = json!({"name": "other", "scopes": ["vms:read"]});
    let refused = world.post(TOKENS, &ann, body).await;
    refused.is_problem(503, "unavailable");
    odd.write(json!({"tokenEpoch": null}), None).await;
    assert_eq!(world.get(VMS, &token).await.status, 200);
}

#[tokio::test]
async fn administrators_read_which_it_is_and_mend_what_is_theirs() {
    let odd = Odd::new().await;
    let world = &odd.world;
    let root = world.user("root", AccessLevel::Admin).await;
    assert_eq!(
        world.get(PLATFORM, &root).await.body.get("unreadable"),
        None
    );
    let unread = json!({
        "signUp": "Sometimes", "requireSecondFactor": "Often", "baseDomain": ["vm.test"],
        "blockedNetworks": "198.51.100.0/24",
    });
    odd.write(unread, Some("requireSecondFactor")).await;
    set_up(world, &root).await;
    let seen = world.get(PLATFORM, &root).await;
    assert_eq!(seen.status, 200, "{seen:?}");
    for field in ["spec.signUp", "spec.requireSecondFactor", "spec.baseDomain"] {
        assert!(seen.text("/unreadable").contains(field), "{seen:?}");
    }
    assert_eq!(seen.text("/signUp"), "Closed");
    assert_eq!(seen.text("/requireSecondFactor"), "Everybody");

    // What is the cluster's may have been set to something.
    for edit in [
        json!({"baseDomain": "vm.test"}),
        json!({"blockedNetworks": ["198.51.100.0/24"]}),
    ] {
        let field = edit.as_object().unwrap().keys().next().unwrap().clone();
        let refused = world.patch(PLATFORM, &root, edit).await;
        assert_eq!(refused.is_problem(422, "invalid").fields(), [field]);
    }
    let certificate = world.delete("/api/v1/admin/certificate", &root).await;
    certificate.is_problem(503, "unavailable");
    let edit = json!({"signUp": "Open", "requireSecondFactor": "Nobody"});
    let mended = world.patch(PLATFORM, &root, edit).await;
    assert_eq!(mended.status, 200, "{mended:?}");
    let left = mended.text("/unreadable");
    assert!(left.contains("spec.baseDomain"), "{left}");
    assert!(!left.contains("spec.signUp"), "{left}");
    assert_eq!(odd.sign_up("joe").await.status, 201);

    let rest = json!({"baseDomain": "vm.test", "blockedNetworks": null});
    odd.write(rest, None).await;
    let seen = world.get(PLATFORM, &root).await;
    assert_eq!(seen.body.get("unreadable"), None, "{seen:?}");
}

#[tokio::test]
async fn a_platform_of_which_nothing_can_be_read_is_not_as_good_as_none() {
    let odd = Odd::new().await;
    let world = &odd.world;
    let ann = world.user("ann", AccessLevel::User).await;
    let sound = odd.platforms.get(names::PLATFORM).await.unwrap();
    for spec in [json!("what"), json!([])] {
        odd.write(spec, Some("signUp")).await;
        odd.sign_up("eve").await.is_problem(403, "sign-up-closed");
        world.get(ME, &ann).await.is_problem(401, "unauthenticated");
    }
    odd.write(sound.data["spec"].clone(), None).await;
    assert_eq!(world.get(ME, &ann).await.status, 200);

    // A status that is in the way says nothing of the settings, and they hold.
    odd.write(json!({"signUp": "Closed"}), None).await;
    let status = Patch::Merge(json!({"status": {"conditions": "what"}}));
    let params = PatchParams::default();
    let written = odd
        .platforms
        .patch_status(names::PLATFORM, &params, &status)
        .await;
    written.unwrap();
    let key = ObjectKey::cluster(names::PLATFORM);
    let platforms = &world.state.caches().platforms;
    world
        .until("it is seen", async || {
            let status = &platforms.get(&key).unwrap().status;
            status.as_ref().is_some_and(|it| it.unreadable.is_some())
        })
        .await;
    odd.sign_up("eve").await.is_problem(403, "sign-up-closed");
    assert_eq!(world.get(ME, &ann).await.status, 200);
}
