//! Accounts by administrators.

use ::http::{Method, Request};
use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KiteUser},
};
use serde_json::{Value, json};

use crate::{
    gate::Gate,
    world::{PASSWORD, World, request, send},
};

const USERS: &str = "/api/v1/admin/users";

#[tokio::test]
async fn an_administrator_creates_edits_and_deletes_accounts() {
    let world = World::new().await;
    let admin = world.user("root", AccessLevel::Admin).await;
    let body = json!({
        "username": "ann", "email": "ann@kite.test", "password": PASSWORD,
        "accessLevel": "Manager", "quota": {"vms": 2, "cpu": 4, "memory": "8Gi", "disk": "50Gi"},
    });
    let made = world.post(USERS, &admin, body.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.text("/accessLevel"), "Manager");
    assert_eq!(made.text("/quota/disk"), "50Gi");
    world
        .post(USERS, &admin, body)
        .await
        .is_problem(409, "taken");
    assert_eq!(world.get(USERS, &admin).await.names(), ["ann", "root"]);
    let ann = world.sign_in("ann").await;

    let path = "/api/v1/admin/users/ann";
    let edit = json!({"accessLevel": "User", "quota": null, "email": null});
    let edited = world.patch(path, &admin, edit).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    assert_eq!(edited.body["quota"]["vms"], 5, "the level's again");
    assert!(edited.body.get("email").is_none());
    assert_eq!(world.get(path, &admin).await.body, edited.body);

    let gone = world.delete(path, &admin).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    world.get(path, &admin).await.is_problem(404, "not-found");
    world
        .get("/api/v1/me", &ann)
        .await
        .is_problem(401, "unauthenticated");
    let key = ObjectKey::cluster("ann");
    assert!(
        world
            .cluster
            .get_opt::<KiteUser>(&key)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn nobody_else_gets_near_accounts() {
    let world = World::new().await;
    world.user("root", AccessLevel::Admin).await;
    for (name, level) in [
        ("reader", AccessLevel::ReadOnly),
        ("user", AccessLevel::User),
        ("manager", AccessLevel::Manager),
    ] {
        let token = world.user(name, level).await;
        let body = json!({"username": "eve", "password": PASSWORD});
        let answers = [
            world.get(USERS, &token).await,
            world.get("/api/v1/admin/users/root", &token).await,
            world.get("/api/v1/admin/users/nobody", &token).await,
            world.post(USERS, &token, body).await,
            world
                .patch(
                    "/api/v1/admin/users/root",
                    &token,
                    json!({"suspended": true}),
                )
                .await,
            world
                .patch(
                    &format!("/api/v1/admin/users/{name}"),
                    &token,
                    json!({"accessLevel": "Admin"}),
                )
                .await,
            world.delete("/api/v1/admin/users/root", &token).await,
        ];
        for answer in answers {
            answer.is_problem(403, "forbidden");
        }
    }
}

#[tokio::test]
async fn an_administrator_cannot_give_the_own_account_away() {
    let world = World::new().await;
    let admin = world.user("root", AccessLevel::Admin).await;
    let path = "/api/v1/admin/users/root";
    for edit in [json!({"accessLevel": "User"}), json!({"suspended": true})] {
        world
            .patch(path, &admin, edit)
            .await
            .is_problem(403, "forbidden");
    }
    world
        .delete(path, &admin)
        .await
        .is_problem(403, "forbidden");
    let same = json!({"accessLevel": "Admin", "email": "root@kite.test"});
    assert_eq!(world.patch(path, &admin, same).await.status, 200);
}

#[tokio::test]
async fn two_administrators_who_take_it_from_each_other_leave_one() {
    let lower = json!({"accessLevel": "User"});
    let suspend = json!({"suspended": true});
    for edit in [Some(lower), Some(suspend), None] {
        let world = World::new().await;
        let ann = world.user("ann", AccessLevel::Admin).await;
        let bob = world.user("bob", AccessLevel::Admin).await;
        let writes = |request: &Request<kube::client::Body>| {
            request.method() == Method::PATCH && request.uri().path().contains("/kiteusers/")
        };
        let (here, first) = Gate::replica(&world, |it| it, writes).await;
        let (there, second) = Gate::replica(&world, |it| it, writes).await;
        let ask = |name: &str, token: &str| {
            let method = edit.as_ref().map_or(Method::DELETE, |_| Method::PATCH);
            request(method, &format!("{USERS}/{name}"), token, edit.clone())
        };
        let both = async {
            // Each has seen that the other is one.
            first.holds_one().await;
            second.holds_one().await;
            first.let_on(9);
            second.let_on(9);
        };
        let (one, other, ()) = tokio::join!(
            send(&here, ask("bob", &ann)),
            send(&there, ask("ann", &bob)),
            both
        );
        let refused = [&one, &other]
            .into_iter()
            .find(|it| it.status == 409)
            .unwrap_or_else(|| panic!("{one:?} {other:?}"));
        assert!(refused.text("/detail").contains("no administrator left"));
        let mut left = 0;
        for name in ["ann", "bob"] {
            let key = ObjectKey::cluster(name);
            let user: Option<KiteUser> = world.cluster.get_opt(&key).await.unwrap();
            left += usize::from(user.is_some_and(|user| {
                user.spec.access_level == AccessLevel::Admin && !user.spec.suspended
            }));
        }
        assert!(left > 0, "{edit:?}: {one:?} {other:?}");
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_named() {
    let world = World::new().await;
    let admin = world.user("root", AccessLevel::Admin).await;
    let body = json!({
        "username": "ann", "accessLevel": "Boss", "quota": {"vms": "many"}, "sshPublicKeys": "x",
    });
    let refused = world.post(USERS, &admin, body).await;
    let fields = refused.is_problem(422, "invalid").fields();
    let quota = ["quota.vms", "quota.cpu", "quota.memory", "quota.disk"];
    assert_eq!(fields[..2], ["accessLevel", "sshPublicKeys"]);
    assert_eq!(fields[2..], quota);

    let body = json!({"username": "ann", "sshPublicKeys": ["not a key"]});
    let refused = world.post(USERS, &admin, body).await;
    assert_eq!(
        refused.is_problem(422, "invalid").fields(),
        ["sshPublicKeys[0]"]
    );
    assert_eq!(refused.text("/errors/0/value"), "not a key");

    // What only the API server knows, with the rest.
    let body = json!({"username": "Ann X", "email": "nobody", "accessLevel": "Boss"});
    let refused = world.post(USERS, &admin, body).await;
    let fields = refused.is_problem(422, "invalid").fields();
    assert_eq!(fields, ["accessLevel", "email", "username"]);

    let path = "/api/v1/admin/users/root";
    let body = json!({"email": "nobody", "quota": {"vms": "many"}});
    let refused = world.patch(path, &admin, body).await;
    let fields = refused.is_problem(422, "invalid").fields();
    assert_eq!(fields[..4], quota);
    assert_eq!(fields[4..], ["email"]);
    let refused = world.patch(path, &admin, json!({"username": "x"})).await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["username"]);
    let refused = world
        .patch(path, &admin, json!({"accessLevel": null}))
        .await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["accessLevel"]);
}

#[tokio::test]
async fn an_edit_does_not_take_the_address_of_another() {
    let world = World::new().await;
    let admin = world.user("root", AccessLevel::Admin).await;
    for (name, email) in [("ann", "ann@kite.test"), ("bob", "bob@kite.test")] {
        let body = json!({"username": name, "email": email, "password": PASSWORD});
        assert_eq!(world.post(USERS, &admin, body).await.status, 201);
    }
    let path = "/api/v1/admin/users/bob";
    let anns = json!({"email": "Ann@kite.test"});
    let refused = world.patch(path, &admin, anns).await;
    assert_eq!(refused.is_problem(409, "taken").fields(), ["email"]);
    let own = json!({"email": "BOB@kite.test"});
    assert_eq!(world.patch(path, &admin, own).await.status, 200);
}

#[tokio::test]
async fn of_a_quota_what_is_not_named_stays_and_null_takes_it_away() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    world.user("ann", AccessLevel::User).await;
    let set = async |more: Value| {
        let mut quota = json!({"vms": 2, "cpu": 4, "memory": "4Gi", "disk": "20Gi"});
        for (name, value) in more.as_object().unwrap() {
            quota[name] = value.clone();
        }
        let body = json!({ "quota": quota });
        let set = world.patch("/api/v1/admin/users/ann", &root, body).await;
        assert_eq!(set.status, 200, "{set:?}");
        let quota = set.body["quota"].clone();
        (quota["snapshots"].clone(), quota["volumeDisk"].clone())
    };
    let both = (json!(3), json!("8Gi"));
    assert_eq!(
        set(json!({"snapshots": 3, "volumeDisk": "8Gi"})).await,
        both
    );
    assert_eq!(set(json!({})).await, both);
    let one = (Value::Null, json!("8Gi"));
    assert_eq!(set(json!({"snapshots": null})).await, one);
}
