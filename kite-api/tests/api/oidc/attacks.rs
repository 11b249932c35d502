//! What somebody may try who stands between, or sends others a link.

use std::sync::atomic::Ordering;

use serde_json::json;

use super::{FLOW, START, come_back, leave, location, provider::Signed, set, sign_in, world};
use crate::{refresh::Jar, world::send};

/// The way back with another value for one of its parameters.
fn with(back: &str, name: &str, value: &str) -> String {
    let (path, query) = back.split_once('?').unwrap();
    let parts: Vec<String> = query
        .split('&')
        .map(|part| match part.split_once('=') {
            Some((found, _)) if found == name => format!("{name}={value}"),
            _ => part.to_owned(),
        })
        .collect();
    format!("{path}?{}", parts.join("&"))
}

#[tokio::test]
async fn another_browsers_way_back_signs_nobody_in() {
    let (world, provider) = world().await;
    let (mut eve, mut ann) = (Jar::default(), Jar::default());
    let evil = leave(&world.router, &mut eve, &provider, START).await;
    // Ann did not begin, or began another one.
    let refused = come_back(&world.router, &mut ann, &evil).await;
    refused.is_problem(400, "sign-in-failed");
    let own = leave(&world.router, &mut ann, &provider, START).await;
    let refused = come_back(&world.router, &mut ann, &evil).await;
    refused.is_problem(400, "sign-in-failed");
    let bare = format!("{START}/callback");
    for wrong in [with(&own, "state", ""), with(&own, "state", "x"), bare] {
        let refused = come_back(&world.router, &mut ann, &wrong).await;
        refused.is_problem(400, "sign-in-failed");
    }
    // Her own is not ended by that.
    let done = come_back(&world.router, &mut ann, &own).await;
    location(&done);
}

#[tokio::test]
async fn a_cookie_that_was_tampered_with_or_planted_is_worth_nothing() {
    let (world, provider) = world().await;
    let mut jar = Jar::default();
    let back = leave(&world.router, &mut jar, &provider, START).await;
    let sealed = jar.0[FLOW].clone();
    let mut bytes = sealed.clone().into_bytes();
    bytes[40] = if bytes[40] == b'A' { b'B' } else { b'A' };
    for wrong in [
        String::from_utf8(bytes).unwrap(),
        "AAAA".to_owned(),
        "x".repeat(9000),
    ] {
        jar.0.insert(FLOW.to_owned(), wrong);
        let refused = come_back(&world.router, &mut jar.clone(), &back).await;
        refused.is_problem(400, "sign-in-failed");
    }
    // Without the prefix another host could have set it.
    let planted = Jar([("kite_oidc".to_owned(), sealed.clone())].into());
    let refused = come_back(&world.router, &mut planted.clone(), &back).await;
    refused.is_problem(400, "sign-in-failed");
    jar.0.insert(FLOW.to_owned(), sealed);
    location(&come_back(&world.router, &mut jar, &back).await);
}

#[tokio::test]
async fn neither_code_nor_cookie_is_good_a_second_time() {
    let (world, provider) = world().await;
    let mut jar = Jar::default();
    let back = leave(&world.router, &mut jar, &provider, START).await;
    let mut copy = jar.clone();
    location(&come_back(&world.router, &mut jar, &back).await);
    let refused = come_back(&world.router, &mut copy, &back).await;
    refused.is_problem(400, "sign-in-failed");
    assert!(!copy.0.contains_key(FLOW));
    assert!(!refused.body.to_string().contains("script"), "{refused:?}");
}

#[tokio::test]
async fn another_sign_ins_code_fits_neither_verifier_nor_nonce() {
    let (world, provider) = world().await;
    let (mut eve, mut ann) = (Jar::default(), Jar::default());
    let evil = leave(&world.router, &mut eve, &provider, START).await;
    let own = leave(&world.router, &mut ann, &provider, START).await;
    let code = evil
        .split("code=")
        .nth(1)
        .unwrap()
        .split('&')
        .next()
        .unwrap();
    let mixed = with(&own, "code", code);
    let refused = come_back(&world.router, &mut ann, &mixed).await;
    refused.is_problem(400, "sign-in-failed");
    for claims in [
        json!({"sub": "1001", "nonce": "another"}),
        json!({"sub": "1001", "nonce": null}),
        json!({"sub": "1001", "aud": "other"}),
        json!({"sub": "1001", "iss": "https://login.example.org"}),
        json!({"sub": "1001", "azp": "other"}),
        json!({"sub": "1001", "exp": 1}),
        json!({"sub": "1001", "iat": 1}),
        json!({"sub": ""}),
        json!({"sub": null}),
    ] {
        provider.says(claims.clone());
        let (jar, refused) = sign_in(&world, &provider).await;
        refused.is_problem(400, "sign-in-failed");
        assert!(jar.0.is_empty(), "{claims}");
    }
}

#[tokio::test]
async fn tokens_that_are_not_signed_by_the_provider_prove_nothing() {
    let (world, provider) = world().await;
    for signed in [Signed::Not, Signed::WithThePublicKey, Signed::WithANewKey] {
        provider.play(|play| play.signed = signed);
        let (jar, refused) = sign_in(&world, &provider).await;
        refused.is_problem(400, "sign-in-failed");
        assert!(jar.0.is_empty(), "{signed:?}");
    }
    // An unknown key has the provider's asked for again, but not each time.
    let asked = || provider.key_requests.load(Ordering::Relaxed);
    assert_eq!(asked(), 1);
    for _ in 0..3 {
        sign_in(&world, &provider).await;
    }
    assert_eq!(asked(), 1);
}

#[tokio::test]
async fn a_new_key_of_the_provider_is_found_after_a_while() {
    let (world, provider) = world().await;
    location(&sign_in(&world, &provider).await.1);
    provider.publish_new_key();
    let refused = sign_in(&world, &provider).await.1;
    refused.is_problem(400, "sign-in-failed");
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(11)).await;
    tokio::time::resume();
    location(&sign_in(&world, &provider).await.1);
}

#[tokio::test]
async fn people_are_sent_to_pages_of_kite_only() {
    let (world, _) = world().await;
    for wish in [
        "https://evil.test",
        "//evil.test",
        "/%5Cevil.test",
        "%5C%5Cevil.test",
        "/%09/evil.test",
        "javascript:alert(1)",
        "",
    ] {
        let answer = world.get(&format!("{START}?returnTo={wish}"), "").await;
        let fields = answer.is_problem(422, "invalid").fields();
        assert_eq!(fields, ["returnTo"], "{wish}");
    }
}

#[tokio::test]
async fn the_host_header_does_not_say_where_the_provider_sends_people() {
    let (world, _) = world().await;
    for host in ["evil.test", "kite.test.evil.test", "kite.test@evil.test"] {
        let mut request = super::get(&Jar::default(), START);
        let headers = request.headers_mut();
        headers.insert("host", host.parse().unwrap());
        headers.insert("x-forwarded-host", host.parse().unwrap());
        let answer = send(&world.router, request).await;
        let back =
            "redirect_uri=https%3A%2F%2Fkite.test%2Fapi%2Fv1%2Fauth%2Foidc%2Fstaff%2Fcallback&";
        assert!(location(&answer).contains(back), "{host} {answer:?}");
    }
}

#[tokio::test]
async fn an_answer_of_another_provider_is_refused() {
    let (world, provider) = world().await;
    let ask = async |change: &str| {
        let mut jar = Jar::default();
        let back = leave(&world.router, &mut jar, &provider, START).await;
        come_back(&world.router, &mut jar, &format!("{back}{change}")).await
    };
    let wrong = "&iss=https%3A%2F%2Flogin.example.org";
    ask(wrong).await.is_problem(400, "sign-in-failed");
    location(&ask(&format!("&iss={}", provider.issuer)).await);
    location(&ask("").await);
    // One that always names itself must.
    let second = super::Provider::start().await;
    let names = json!({"authorization_response_iss_parameter_supported": true});
    second.play(|play| play.document = names);
    set(&world, &second, json!({"signUp": true})).await;
    let mut jar = Jar::default();
    let back = leave(&world.router, &mut jar, &second, START).await;
    let refused = come_back(&world.router, &mut jar, &back).await;
    refused.is_problem(400, "sign-in-failed");
}

#[tokio::test]
async fn who_edits_the_provider_ends_what_was_begun_with_it() {
    let (world, provider) = world().await;
    let mut jar = Jar::default();
    let back = leave(&world.router, &mut jar, &provider, START).await;
    let second = super::Provider::start().await;
    set(&world, &second, json!({"signUp": true})).await;
    let refused = come_back(&world.router, &mut jar, &back).await;
    refused.is_problem(400, "sign-in-failed");
}

#[tokio::test]
async fn what_the_provider_says_of_errors_is_not_repeated() {
    let (world, provider) = world().await;
    let mut jar = Jar::default();
    let back = leave(&world.router, &mut jar, &provider, START).await;
    let state = back.split("state=").nth(1).unwrap();
    let evil = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let path = format!("{START}/callback?state={state}&error={evil}&error_description={evil}");
    let refused = come_back(&world.router, &mut jar, &path).await;
    refused.is_problem(400, "sign-in-failed");
    assert!(!refused.body.to_string().contains("script"), "{refused:?}");
}

#[tokio::test]
async fn beginning_again_and_again_is_slowed_down() {
    let (world, _) = world().await;
    for _ in 0..120 {
        location(&world.get(START, "").await);
    }
    let refused = world.get(START, "").await;
    refused.is_problem(429, "too-many-requests");
}
