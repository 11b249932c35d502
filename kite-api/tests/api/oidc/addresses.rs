//! Whose an email address is.

use kite_core::crd::AccessLevel;
use serde_json::{Value, json};

use super::{location, me, sign_in, user, world};
use crate::world::PASSWORD;

fn person(subject: &str, name: &str) -> Value {
    json!({"sub": subject, "preferred_username": name, "email": "ann@corp.test",
           "email_verified": true})
}

#[tokio::test]
async fn an_address_goes_to_whom_the_provider_has_verified_it_for() {
    let (world, provider) = world().await;
    // Somebody says that it is theirs, in signing up or later.
    let body = json!({"username": "eve", "password": PASSWORD, "email": "Ann@corp.test"});
    let made = world.post("/api/v1/auth/sign-up", "", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    provider.says(person("1001", "ann"));
    let (jar, done) = sign_in(&world, &provider).await;
    location(&done);
    assert_eq!(me(&world, &jar).await.text("/email"), "ann@corp.test");
    let eve = user(&world, "eve").await;
    assert_eq!(eve.spec.email, None);
    // Nothing else of it is touched.
    assert_eq!(
        world.get("/api/v1/me", made.text("/token")).await.status,
        200
    );
}

#[tokio::test]
async fn an_address_that_somebody_answers_for_stays() {
    let (world, provider) = world().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let bob = world.user("bob", AccessLevel::User).await;
    // He says so, and then an administrator does.
    for (path, token) in [("/api/v1/me", &bob), ("/api/v1/admin/users/bob", &root)] {
        let edit = json!({"email": "ann@corp.test"});
        let edited = world.patch(path, token, edit).await;
        assert_eq!(edited.status, 200, "{edited:?}");
    }
    provider.says(person("1001", "ann"));
    let (jar, done) = sign_in(&world, &provider).await;
    location(&done);
    assert_eq!(me(&world, &jar).await.body.get("email"), None);
    let bob = user(&world, "bob").await;
    assert_eq!(bob.spec.email.as_deref(), Some("ann@corp.test"));
}
