//! What a new password tells of: VMs whose keys or password came since the one before, by
//! whatever way.

use ::http::Method;
use kite_api::proof::{Asks, operations};
use kite_core::{
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteVirtualMachine},
    names,
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::{
    lists::new_vm,
    world::{Answer, PASSWORD, World, request, send},
};

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPiqyTxtME/fP/AjvyYbmGxAINhZ4sLF0vR2kkzvYbEg ann";
const OTHER_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtYnCyTnNYS2XJtKk4jXv9yq3sTzjS0wTS3b1g2Jm3B ops";
const VMS: &str = "/api/v1/vms";
const WEB: &str = "/api/v1/vms/web";
const SINCE: &str = "hy3ons.github.io/access-since";

/// Ann, who sets one password after the other.
struct Ann {
    password: String,
    token: String,
    round: u32,
}

impl Ann {
    async fn new(world: &World) -> Self {
        let token = world.user("ann", AccessLevel::User).await;
        Self {
            password: PASSWORD.to_owned(),
            token,
            round: 0,
        }
    }

    async fn change(&mut self, world: &World) -> Answer {
        self.round += 1;
        let new = format!("battery staple {}", self.round);
        let body = json!({"currentPassword": self.password, "newPassword": new});
        let changed = world.post("/api/v1/me/password", &self.token, body).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        self.password = new;
        changed.text("/token").clone_into(&mut self.token);
        changed
    }

    /// The VMs that another password tells of.
    async fn told(&mut self, world: &World) -> Vec<String> {
        let changed = self.change(world).await;
        let told = changed.body["vmAccessSincePassword"].as_array().unwrap();
        let names = told.iter().map(|it| it["name"].as_str().unwrap());
        names.map(str::to_owned).collect()
    }

    async fn edit(&self, world: &World, edit: Value) {
        let edited = world.patch(WEB, &self.token, edit).await;
        assert_eq!(edited.status, 200, "{edited:?}");
    }

    async fn make(&self, world: &World, path: &str, body: Value) {
        let made = world.post(path, &self.token, body).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
}

/// What somebody with `kubectl` does; the API has seen it when this returns.
async fn kubectl(world: &World, patch: Value) {
    let key = ObjectKey::namespaced(names::user_namespace("ann"), "web");
    let manager = FieldManager::new("kubectl");
    let edited: KiteVirtualMachine = world
        .cluster
        .merge_patch(manager, &key, &patch)
        .await
        .unwrap();
    world.state.caches().vms.caught_up_with(&edited).await;
}

#[test]
fn every_operation_that_opens_a_vm_is_among_these_tests() {
    let opens = |asks: &Asks| match asks {
        Asks::For(fields) | Asks::ForOthersOr(fields) => {
            fields.contains(&"sshPublicKeys") || fields.contains(&"sshPassword")
        }
        Asks::Never | Asks::Always | Asks::ForOthers | Asks::BesidePassword => false,
    };
    let opening = operations().filter(|(_, asks)| opens(asks));
    let opening: Vec<_> = opening.map(|(id, _)| id).collect();
    assert_eq!(opening, ["claimOffer", "createVm", "editVm"]);
}

#[tokio::test]
async fn a_new_password_tells_of_vms_that_another_key_or_password_opens() {
    let world = World::new().await;
    let mut ann = Ann::new(&world).await;
    ann.make(&world, VMS, new_vm("web")).await;
    assert_eq!(ann.told(&world).await, [""; 0]);
    for edit in [
        json!({"sshPublicKeys": [KEY]}),
        json!({"sshPassword": "staple of the machine"}),
        json!({"sshPublicKeys": [OTHER_KEY]}),
        json!({"sshPublicKeys": [KEY], "cpu": 2}),
    ] {
        ann.edit(&world, edit.clone()).await;
        // There by the same write.
        let web = world.vm("ann", "web").await.unwrap();
        let since = web.annotations()[SINCE].clone();
        let changed = ann.change(&world).await;
        let told = json!([{"name": "web", "changedAt": since}]);
        assert_eq!(changed.body["vmAccessSincePassword"], told, "{edit}");
        // It is older than the password now.
        assert_eq!(ann.told(&world).await, [""; 0], "{edit}");
    }
}

#[tokio::test]
async fn a_new_password_tells_of_nothing_that_opens_no_vm() {
    let world = World::new().await;
    let mut ann = Ann::new(&world).await;
    let mut vm = new_vm("web");
    vm["sshPublicKeys"] = json!([KEY, OTHER_KEY]);
    ann.make(&world, VMS, vm).await;
    assert_eq!(ann.told(&world).await, ["web"]);
    for edit in [
        json!({"cpu": 2}),
        json!({"startOnConnect": true}),
        // One fewer, and the other by another name.
        json!({"sshPublicKeys": [KEY]}),
        json!({"sshPublicKeys": [KEY.replace(" ann", " laptop")]}),
    ] {
        ann.edit(&world, edit.clone()).await;
        assert_eq!(ann.told(&world).await, [""; 0], "{edit}");
    }
    for path in [format!("{WEB}/stop"), format!("{WEB}/start")] {
        let switched = world.post(&path, &ann.token, json!({})).await;
        assert_eq!(switched.status, 200, "{switched:?}");
    }
    assert_eq!(ann.told(&world).await, [""; 0]);
    // What came and went since then opens nothing.
    ann.edit(&world, json!({"sshPublicKeys": [OTHER_KEY]}))
        .await;
    ann.edit(&world, json!({"sshPublicKeys": []})).await;
    assert_eq!(ann.told(&world).await, [""; 0]);
    ann.edit(&world, json!({"sshPublicKeys": [OTHER_KEY]}))
        .await;
    assert_eq!(world.delete(WEB, &ann.token).await.status, 202);
    assert_eq!(ann.told(&world).await, [""; 0]);
}

#[tokio::test]
async fn a_new_password_tells_of_vms_that_were_made_since_with_keys() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let mut ann = Ann::new(&world).await;
    let offer = json!({"name": "small", "cpu": 1, "memory": "1Gi", "disk": "4Gi",
                       "image": "debian-12"});
    let offered = world.post("/api/v1/admin/offers", &root, offer).await;
    assert_eq!(offered.status, 201, "{offered:?}");
    let claim = "/api/v1/offers/small/claim";
    ann.make(
        &world,
        claim,
        json!({"name": "claimed", "sshPublicKeys": [KEY]}),
    )
    .await;
    let mut vm = new_vm("by-password");
    vm["sshPassword"] = json!("staple of the machine");
    ann.make(&world, VMS, vm).await;
    ann.make(&world, VMS, new_vm("closed")).await;
    let mut vm = new_vm("by-root");
    vm["sshPublicKeys"] = json!([KEY]);
    let made = world.post(&format!("{VMS}?owner=ann"), &root, vm).await;
    assert_eq!(made.status, 201, "{made:?}");
    let expected = ["by-password", "by-root", "claimed"];
    assert_eq!(ann.told(&world).await, expected);
    assert_eq!(ann.told(&world).await, [""; 0]);
}

#[tokio::test]
async fn a_new_password_tells_of_it_whoever_opened_the_vm() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let mut ann = Ann::new(&world).await;
    ann.make(&world, VMS, new_vm("web")).await;
    let of_ann = format!("{WEB}?owner=ann");
    let edit = json!({"sshPublicKeys": [KEY]});
    let edited = world.patch(&of_ann, &root, edit).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    assert_eq!(ann.told(&world).await, ["web"]);

    let body = json!({"name": "opens", "scopes": ["vms:access"]});
    let made = world.post("/api/v1/me/tokens", &ann.token, body).await;
    let edit = json!({"sshPublicKeys": [OTHER_KEY]});
    let edited = world.patch(WEB, made.text("/token"), edit).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    assert_eq!(ann.told(&world).await, ["web"]);

    // Found before it was written down.
    kubectl(&world, json!({"spec": {"sshPublicKeys": [KEY]}})).await;
    assert_eq!(ann.told(&world).await, ["web"]);
}

#[tokio::test]
async fn a_vm_of_which_nothing_is_noted_is_told_of() {
    let world = World::new().await;
    let mut ann = Ann::new(&world).await;
    let mut vm = new_vm("web");
    vm["sshPublicKeys"] = json!([KEY]);
    ann.make(&world, VMS, vm).await;
    assert_eq!(ann.told(&world).await, ["web"]);
    assert_eq!(ann.told(&world).await, [""; 0]);
    // As it was made by an earlier version, or replaced as a whole.
    kubectl(&world, json!({"metadata": {"annotations": null}})).await;
    let changed = ann.change(&world).await;
    assert_eq!(changed.text("/vmAccessSincePassword/0/name"), "web");
    assert!(
        !changed
            .text("/vmAccessSincePassword/0/changedAt")
            .is_empty()
    );
}

#[tokio::test]
async fn what_another_replica_has_just_opened_is_told_of() {
    let world = World::new().await;
    let other = world.replica().await;
    let mut ann = Ann::new(&world).await;
    ann.make(&world, VMS, new_vm("web")).await;
    world
        .until("the VM is seen there", async || {
            let asked = request(Method::GET, WEB, &ann.token, None);
            send(&other, asked).await.status == 200
        })
        .await;
    let edit = json!({"sshPublicKeys": [KEY]});
    let asked = request(Method::PATCH, WEB, &ann.token, Some(edit));
    let edited = send(&other, asked).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    assert_eq!(ann.told(&world).await, ["web"]);
}

#[tokio::test]
async fn what_came_before_an_administrators_password_is_told_with_ones_own() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let mut ann = Ann::new(&world).await;
    ann.make(&world, VMS, new_vm("web")).await;
    assert_eq!(ann.told(&world).await, [""; 0]);
    ann.edit(&world, json!({"sshPublicKeys": [KEY]})).await;
    let edit = json!({"sshPublicKeys": [OTHER_KEY]});
    let edited = world.patch("/api/v1/me", &ann.token, edit).await;
    assert_eq!(edited.status, 200, "{edited:?}");

    let given = "given by the administrator";
    let set = json!({ "password": given });
    let set = world.patch("/api/v1/admin/users/ann", &root, set).await;
    assert_eq!(set.status, 200, "{set:?}");
    let body = json!({"username": "ann", "password": given});
    let signed_in = world.post("/api/v1/auth/sign-in", "", body).await;
    signed_in.text("/token").clone_into(&mut ann.token);
    given.clone_into(&mut ann.password);
    let changed = ann.change(&world).await;
    assert_eq!(changed.text("/vmAccessSincePassword/0/name"), "web");
    assert_eq!(changed.text("/keysSincePassword/0/publicKey"), OTHER_KEY);
    let changed = ann.change(&world).await;
    for told in ["vmAccessSincePassword", "keysSincePassword"] {
        assert_eq!(changed.body[told], json!([]), "{told}");
    }
}
