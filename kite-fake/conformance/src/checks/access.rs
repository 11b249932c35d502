//! Who may what.

use serde_json::{Value, json};

use crate::Checked;
use crate::answer::ensure;
use crate::site::{Site, core, map, maps};

table! { Access;
    the_server_knows_who_asks:
        "SelfSubjectReview tells the user's name and groups.",
        "kubectl auth whoami.";
    impersonation_is_another_user:
        "With impersonation headers a request is that user's.",
        "Administrators find out what others may.";
    without_a_role_all_is_forbidden:
        "A user without a role is refused with 403, and told what they may not do.",
        "Nothing is allowed by default.";
    roles_allow_what_they_name:
        "A Role and a RoleBinding allow their verbs on their resources, and nothing else.",
        "Least rights.";
    roles_may_name_objects:
        "A rule with resourceNames allows those objects only, and no list.",
        "One Secret and no other.";
    access_can_be_asked:
        "SubjectAccessReview answers as a request would be.",
        "Other servers ask before they act.";
    own_access_can_be_asked:
        "SelfSubjectAccessReview answers for the caller.",
        "kubectl auth can-i.";
    nobody_grants_what_they_lack:
        "A user cannot make a Role with rights that they do not have.",
        "Rights do not grow by themselves.";
    service_accounts_have_tokens:
        "TokenRequest gives a token that TokenReview knows as the ServiceAccount.",
        "Workloads prove who they are.";
    wrong_tokens_are_not_known:
        "TokenReview of another text is not authenticated.",
        "Nobody is let in by guessing.";
    impersonating_groups_needs_a_user:
        "Impersonating a group without a user is 400.",
        "A request is always somebody's.";
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// Lets a user do what the rules say in a namespace.
async fn grant(s: &Site, ns: &str, user: &str, rules: Value) -> Checked {
    let (name, path) = (s.unique(), format!("/apis/{RBAC}/v1/namespaces/{ns}"));
    let role = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": name}, "rules": rules});
    s.post(&format!("{path}/roles"), &role).await?.expect(201)?;
    let binding = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name}, "subjects": [{"kind": "User", "name": user}]});
    s.post(&format!("{path}/rolebindings"), &binding)
        .await?
        .expect(201)?;
    Ok(())
}

/// Waits until a grant is in force, which takes a real server a moment.
async fn effective(s: &Site, ns: &str, user: &str, verb: &str, resource: &str) -> Checked {
    for _ in 0..600 {
        let review = review(ns, user, verb, resource);
        let answer = s
            .post(
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                &review,
            )
            .await?
            .expect(201)?;
        if *answer.at("/status/allowed") == true {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    ensure(false, format!("{user} may still not {verb} {resource}"))
}

fn review(ns: &str, user: &str, verb: &str, resource: &str) -> Value {
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": user,
        "resourceAttributes": {"namespace": ns, "verb": verb, "resource": resource}}})
}

fn reads(verbs: &[&str]) -> Value {
    json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}])
}

async fn the_server_knows_who_asks(s: Site) -> Checked {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = s
        .post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review)
        .await?
        .expect(201)?;
    ensure(
        !answer.text("/status/userInfo/username").is_empty(),
        "a name",
    )?;
    let groups = answer
        .at("/status/userInfo/groups")
        .as_array()
        .cloned()
        .unwrap_or_default();
    ensure(
        groups.iter().any(|g| g == "system:authenticated"),
        format!("the groups are {groups:?}"),
    )
}

async fn impersonation_is_another_user(s: Site) -> Checked {
    let user = s.unique();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = s.as_user(&user).post(path, &review).await?.expect(201)?;
    answer
        .is("/status/userInfo/username", user)?
        .is("/status/userInfo/groups", json!(["system:authenticated"]))?;
    Ok(())
}

async fn without_a_role_all_is_forbidden(s: Site) -> Checked {
    let (ns, user) = (s.namespace().await?, s.unique());
    let other = s.as_user(&user);
    let answer = other.get(&maps(&ns)).await?.refused(403, "Forbidden")?;
    answer.is("/message", format!(
        "configmaps is forbidden: User \"{user}\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"{ns}\""
    ))?;
    other
        .get(&format!("{}/none", maps(&ns)))
        .await?
        .refused(403, "Forbidden")?;
    other
        .post(&maps(&ns), &map("a", &json!({})))
        .await?
        .refused(403, "Forbidden")?;
    other
        .get(&format!("{}?watch=true", maps(&ns)))
        .await?
        .refused(403, "Forbidden")?;
    Ok(())
}

async fn roles_allow_what_they_name(s: Site) -> Checked {
    let (ns, other_ns, user) = (s.namespace().await?, s.namespace().await?, s.unique());
    s.post(&maps(&ns), &map("a", &json!({})))
        .await?
        .expect(201)?;
    grant(&s, &ns, &user, reads(&["get"])).await?;
    effective(&s, &ns, &user, "get", "configmaps").await?;
    let other = s.as_user(&user);
    other.get(&format!("{}/a", maps(&ns))).await?.expect(200)?;
    other
        .get(&format!("{}/none", maps(&ns)))
        .await?
        .refused(404, "NotFound")?;
    other.get(&maps(&ns)).await?.refused(403, "Forbidden")?;
    other
        .delete(&format!("{}/a", maps(&ns)))
        .await?
        .refused(403, "Forbidden")?;
    other
        .get(&format!("{}/a", core(&ns, "secrets")))
        .await?
        .refused(403, "Forbidden")?;
    other
        .get(&format!("{}/a", maps(&other_ns)))
        .await?
        .refused(403, "Forbidden")?;
    Ok(())
}

async fn roles_may_name_objects(s: Site) -> Checked {
    let (ns, user) = (s.namespace().await?, s.unique());
    for name in ["a", "b"] {
        s.post(&maps(&ns), &map(name, &json!({})))
            .await?
            .expect(201)?;
    }
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    grant(&s, &ns, &user, rules).await?;
    effective(&s, &ns, &user, "get", "secrets").await?;
    let other = s.as_user(&user);
    other.get(&format!("{}/a", maps(&ns))).await?.expect(200)?;
    other
        .get(&format!("{}/b", maps(&ns)))
        .await?
        .refused(403, "Forbidden")?;
    other.get(&maps(&ns)).await?.refused(403, "Forbidden")?;
    other
        .get(&format!("{}?fieldSelector=metadata.name%3Da", maps(&ns)))
        .await?
        .expect(200)?
        .lists(&["a"])?;
    Ok(())
}

async fn access_can_be_asked(s: Site) -> Checked {
    let (ns, user) = (s.namespace().await?, s.unique());
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    s.post(path, &review(&ns, &user, "get", "configmaps"))
        .await?
        .expect(201)?
        .is("/status/allowed", false)?;
    grant(&s, &ns, &user, reads(&["get"])).await?;
    effective(&s, &ns, &user, "get", "configmaps").await?;
    s.post(path, &review(&ns, &user, "delete", "configmaps"))
        .await?
        .expect(201)?
        .is("/status/allowed", false)?;
    let mut master = review(&ns, &user, "delete", "configmaps");
    master["spec"]["groups"] = json!(["system:masters"]);
    s.post(path, &master)
        .await?
        .expect(201)?
        .is("/status/allowed", true)?;
    Ok(())
}

async fn own_access_can_be_asked(s: Site) -> Checked {
    let (ns, user) = (s.namespace().await?, s.unique());
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"namespace": ns, "verb": "get", "resource": "configmaps"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    s.post(path, &review)
        .await?
        .expect(201)?
        .is("/status/allowed", true)?;
    s.as_user(&user)
        .post(path, &review)
        .await?
        .expect(201)?
        .is("/status/allowed", false)?;
    Ok(())
}

async fn nobody_grants_what_they_lack(s: Site) -> Checked {
    let (ns, user) = (s.namespace().await?, s.unique());
    let rules = json!([{"apiGroups": [RBAC], "resources": ["roles"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    grant(&s, &ns, &user, rules).await?;
    effective(&s, &ns, &user, "get", "configmaps").await?;
    let path = format!("/apis/{RBAC}/v1/namespaces/{ns}/roles");
    let role = |name: &str, verbs: &[&str]| {
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role",
        "metadata": {"name": name}, "rules": reads(verbs)})
    };
    let other = s.as_user(&user);
    other
        .post(&path, &role("same", &["get"]))
        .await?
        .expect(201)?;
    let answer = other
        .post(&path, &role("more", &["get", "delete"]))
        .await?
        .refused(403, "Forbidden")?;
    answer.says("is attempting to grant RBAC permissions not currently held")?;
    Ok(())
}

async fn service_accounts_have_tokens(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
    let path = core(&ns, "serviceaccounts");
    s.post(&path, &account).await?.expect(201)?;
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = s
        .post(&format!("{path}/a/token"), &request)
        .await?
        .expect(201)?;
    let token = answer
        .has("/status/expirationTimestamp")?
        .text("/status/token");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let answer = s
        .post("/apis/authentication.k8s.io/v1/tokenreviews", &review)
        .await?
        .expect(201)?;
    let answer = answer.is("/status/authenticated", true)?;
    answer.is(
        "/status/user/username",
        format!("system:serviceaccount:{ns}:a"),
    )?;
    Ok(())
}

async fn wrong_tokens_are_not_known(s: Site) -> Checked {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "wrong"}});
    let answer = s
        .post("/apis/authentication.k8s.io/v1/tokenreviews", &review)
        .await?
        .expect(201)?;
    ensure(
        *answer.at("/status/authenticated") != true,
        "not authenticated",
    )
}

async fn impersonating_groups_needs_a_user(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let other = s.with_header("impersonate-group", "somebody");
    let answer = other.get(&maps(&ns)).await?;
    ensure(
        answer.code == 400 || answer.code == 500,
        format!("refused, not {}", answer.code),
    )?;
    answer.says("without impersonating a user")?;
    Ok(())
}
