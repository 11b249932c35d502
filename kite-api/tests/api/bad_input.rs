//! Every parameter, header and field of the OpenAPI document, each once with a value that it
//! cannot have and with nothing else wrong: the answer names it, repeats the value unless
//! it may be a secret, and says what to write. `docs/bad-input.md` is what is answered.

mod cases;
mod page;

use http::Method;
use kite_core::crd::AccessLevel;
use serde_json::{Value, json};

use self::cases::{Case, Edge, Place, cases, edges, operations};
use crate::data::{snapshot, volume};
use crate::world::{Answer, PASSWORD, World, request, send};

/// What code says of values, and people do not.
const OF_CODE: [&str; 8] = [
    "invalid type",
    "invalid value",
    "unknown variant",
    "missing field",
    "expected",
    "deserialize",
    "in body",
    "at line",
];
/// Fields that hold secrets, or into which one may get by mistake: the key into that of
/// the certificate, the client's secret into that of its key.
const SECRET: [&str; 10] = [
    "password",
    "currentPassword",
    "newPassword",
    "sshPassword",
    "token",
    "invite",
    "code",
    "certificate",
    "privateKey",
    "clientSecretKey",
];

fn is_secret(place: &str) -> bool {
    place.split('.').any(|name| SECRET.contains(&name)) || place == "state"
}

/// A world in which each operation has what its path names.
async fn world() -> (World, String) {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    world.user("ann", AccessLevel::User).await;
    world.bootstrap_secret().await;
    let vm = json!({"name": "web", "cpu": 1, "memory": "1Gi", "disk": "4Gi", "image": "debian-12"});
    let offer = json!({"name": "small", "cpu": 1, "memory": "1Gi", "disk": "4Gi",
                       "image": "debian-12"});
    for (path, body) in [("/api/v1/vms", vm), ("/api/v1/admin/offers", offer)] {
        let made = world.post(path, &root, body).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    let web = world.vm("root", "web").await.unwrap();
    // As the examples of the document call it.
    snapshot(&world, &web, "before-the-update", json!({})).await;
    volume(&world, "root", "data", json!({"phase": "Available"})).await;
    (world, root)
}

/// What is answered to one wrong value: the message, once all of the answer is held.
fn held(case: &Case, answer: &Answer) -> Result<String, String> {
    let flaw = |what: &str| Err(format!("{case}: {what}: {} {}", answer.status, answer.body));
    let (status, kind) = match case.place {
        Place::Header(_) => (400, "urn:kite:problem:malformed"),
        Place::Query(_) | Place::Body(_) => (422, "urn:kite:problem:invalid"),
    };
    if answer.status != status || answer.body["type"] != kind {
        return flaw("is not refused as what it is");
    }
    let place = case.place.name();
    if answer.fields() != [place] {
        return flaw("names other fields");
    }
    let error = &answer.body["errors"][0];
    if is_secret(place) {
        let shown = answer.body.to_string();
        if error.get("value").is_some() || shown.contains(cases::SECRET) {
            return flaw("repeats what may be a secret");
        }
    } else if error.get("value") != Some(&case.wrong) {
        return flaw("does not repeat the value");
    }
    let message = error["message"].as_str().unwrap_or_default();
    if !message.contains("write ") {
        return flaw("does not say what to write");
    }
    let detail = answer.text("/detail");
    if OF_CODE
        .iter()
        .any(|it| message.contains(it) || detail.contains(it))
    {
        return flaw("speaks of code");
    }
    Ok(message.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wrong_value_is_told_with_its_field_and_what_to_write() {
    let (world, root) = world().await;
    let document = kite_api::openapi_document();
    let cases = cases(&document);
    let parameters = cases
        .iter()
        .filter(|it| matches!(it.place, Place::Query(_)));
    assert!(parameters.count() > 30);
    assert!(cases.len() > 200, "{}", cases.len());
    let mut flaws = Vec::new();
    let mut told = Vec::new();
    for case in &cases {
        match held(case, &send(&world.router, case.ask(&root)).await) {
            Ok(message) => told.push((case, message)),
            Err(flaw) => flaws.push(flaw),
        }
    }
    assert!(
        flaws.is_empty(),
        "{} flaws:\n{}",
        flaws.len(),
        flaws.join("\n")
    );
    page::hold(&told);
}

/// Fields whose bounds are this API's own: what is within them is taken.
const OWN: [&str; 5] = ["name", "scopes", "sshPassword", "password", "returnTo"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_bound_of_the_document_is_held() {
    let (world, root) = world().await;
    let document = kite_api::openapi_document();
    let edges = edges(&document);
    assert!(edges.len() > 80, "{}", edges.len());
    let has = |request: &str, place: &str, bound: &str| {
        edges.iter().any(|it| {
            let case = &it.beyond;
            case.request == request && case.place.name() == place && it.bound == bound
        })
    };
    for (request, place) in [
        ("POST me/password", "newPassword"),
        ("POST admin/users", "password"),
        ("PATCH admin/users/{name}", "password"),
        ("POST auth/sign-up", "password"),
        ("POST auth/bootstrap", "password"),
        ("POST vms", "sshPassword"),
        ("PATCH vms/{name}", "sshPassword"),
        ("POST vms", "name"),
        ("POST offers/{name}/claim", "name"),
        ("POST admin/offers", "name"),
        ("POST me/tokens", "name"),
        ("POST me/identities", "returnTo"),
    ] {
        for bound in ["minLength", "maxLength"] {
            assert!(has(request, place, bound), "{request}: {place}: {bound}");
        }
    }
    assert!(has("POST me/tokens", "scopes", "minItems"));
    let mut flaws = Vec::new();
    for edge in &edges {
        let case = &edge.beyond;
        let answer = send(&world.router, case.ask(&root)).await;
        let place = case.place.name();
        let names_it = answer.fields().contains(&place);
        if answer.status != 422 || !names_it {
            let told = (answer.status, answer.fields());
            flaws.push(format!(
                "{}: {place}: {}: {told:?}",
                case.request, edge.bound
            ));
        }
    }
    // Sign-up counts who comes, and the bootstrap token is good once.
    let is_own = |it: &&Edge| {
        let case = &it.beyond;
        OWN.contains(&case.place.name()) && !case.request.contains("auth/")
    };
    for edge in edges.iter().filter(is_own) {
        let case = &edge.beyond;
        let place = case.place.name();
        let within = Some(edge.within.clone());
        let ask = request(case.method.clone(), &case.path, &root, within);
        let answer = send(&world.router, ask).await;
        if answer.status == 422 && answer.fields().contains(&place) {
            let told = &answer.body["errors"];
            let of = format!("{}: {place}: {}", case.request, edge.bound);
            flaws.push(format!("{of}: what is within is refused: {told}"));
        }
    }
    assert!(
        flaws.is_empty(),
        "{} flaws:\n{}",
        flaws.len(),
        flaws.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_right_otherwise_is_not_refused_for_its_form() {
    // Else a walk over wrong values would hold nothing: something else may be refused.
    let (world, root) = world().await;
    let document = kite_api::openapi_document();
    for operation in operations(&document) {
        // These would end the session that asks.
        if ["changePassword", "signOutEveryone"].contains(&operation.id) {
            continue;
        }
        // Of a certificate the document can only show how it begins and ends.
        let example = operation.example();
        let example = example.filter(|_| operation.id != "putCertificate");
        for body in operation.right_body().into_iter().chain(example) {
            let ask = request(operation.method.clone(), &operation.path, &root, Some(body));
            let answer = send(&world.router, ask).await;
            assert_ne!(answer.status, 422, "{}: {answer:?}", operation.id);
            assert_ne!(answer.status, 400, "{}: {answer:?}", operation.id);
        }
    }
}

#[tokio::test]
async fn a_parameter_that_an_operation_does_not_have_is_refused_everywhere() {
    let (world, root) = world().await;
    let document = kite_api::openapi_document();
    let mut count = 0;
    for operation in operations(&document) {
        let path = format!("{}?onwer=bob", operation.path);
        let ask = request(
            operation.method.clone(),
            &path,
            &root,
            operation.right_body(),
        );
        let answer = send(&world.router, ask).await;
        // Providers, and what links to them, add what they like.
        if operation.path.contains("/auth/oidc/") {
            assert_ne!(answer.status, 422, "{path}: {answer:?}");
            continue;
        }
        count += 1;
        answer.is_problem(422, "invalid");
        assert_eq!(answer.fields(), ["onwer"], "{path}");
        assert_eq!(answer.text("/errors/0/value"), "bob");
        let message = answer.text("/errors/0/message");
        assert!(message.starts_with("is not a parameter of this request"));
        assert!(message.contains("write one of") || message.contains("leave it out"));
    }
    assert!(count > 50, "{count}");
}

#[tokio::test]
async fn what_is_no_operation_is_asked_with_any_parameters() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    for path in [
        "/?onwer=bob",
        "/icon.svg?v=2",
        "/health?x=1",
        "/api/v1/openapi.json?x=1",
        "/api/v1/reference?x=1",
        "/api/v1/reference.css?v=2",
    ] {
        assert_eq!(world.get(path, "").await.status, 200, "{path}");
    }
    // Beside the handshake nothing is wrong with this.
    let socket = world.get("/api/v1/console?x=1", &root).await;
    assert!(socket.fields().is_empty(), "{socket:?}");
    // A method that the path does not have is refused as such.
    let ask = request(Method::PUT, "/api/v1/vms?onwer=bob", &root, None);
    send(&world.router, ask)
        .await
        .is_problem(405, "method-not-allowed");
}

#[tokio::test]
async fn below_a_prefix_queries_are_looked_at_the_same_way() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let api = kite_api::api_router(world.state.clone());
    let nested = axum::Router::new()
        .nest("/clouds/api/v1/kite", api.clone())
        .nest_service("/service", api);
    for prefix in ["/clouds/api/v1/kite", "/service"] {
        let ask = async |path: &str| {
            let ask = request(Method::GET, &format!("{prefix}{path}"), &root, None);
            send(&nested, ask).await
        };
        assert_eq!(ask("/api/v1/vms?all=true").await.status, 200, "{prefix}");
        let refused = ask("/api/v1/vms?onwer=bob&all=maybe").await;
        refused.is_problem(422, "invalid");
        assert_eq!(refused.fields(), ["onwer", "all"]);
    }
}

#[tokio::test]
async fn of_an_object_all_that_is_wrong_is_told_at_once() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    // A type, a name that is none and a host that only the API server knows to be none.
    let edit = json!({
        "gateway": {"publicPort": "x", "publicHsot": "y", "publicHost": "a b"},
        "exposure": {"gateway": {"name": "A B", "namespace": 5}},
    });
    let refused = world.patch("/api/v1/admin/platform", &root, edit).await;
    refused.is_problem(422, "invalid");
    let mut fields = refused.fields();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "exposure.gateway.name",
            "exposure.gateway.namespace",
            "gateway.publicHost",
            "gateway.publicHsot",
            "gateway.publicPort",
        ]
    );
    let body = json!({"username": "ann", "password": PASSWORD,
                      "quota": {"vms": 1, "cpu": [], "memory": "lots", "disk": "9Gi"},
                      "sshPublicKeys": [1]});
    let refused = world.post("/api/v1/admin/users", &root, body).await;
    refused.is_problem(422, "invalid");
    assert_eq!(
        refused.fields(),
        ["sshPublicKeys[0]", "quota.cpu", "quota.memory"]
    );
    let values: Vec<Value> = vec![json!(1), json!([]), json!("lots")];
    for (n, value) in values.iter().enumerate() {
        assert_eq!(&refused.body["errors"][n]["value"], value);
    }
}

#[tokio::test]
async fn each_wrong_item_of_a_list_is_told_at_once() {
    let (world, root) = world().await;
    let key =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKO9ldbqXUWB+gMw90VFK2ZXIlM5RvBXwnm/KM3V61Ut ann";
    // Two that are texts and no keys, between others.
    let keys = json!({"sshPublicKeys": [3, key, "x", null, "y"]});
    let refused = world.patch("/api/v1/me", &root, keys.clone()).await;
    refused.is_problem(422, "invalid");
    let mut fields = refused.fields();
    fields.sort_unstable();
    let all = [0, 2, 3, 4].map(|n| format!("sshPublicKeys[{n}]"));
    assert_eq!(fields, all);
    for error in refused.body["errors"].as_array().unwrap() {
        let place = error["field"].as_str().unwrap();
        let n: usize = place["sshPublicKeys[".len()..place.len() - 1]
            .parse()
            .unwrap();
        assert_eq!(error["value"], keys["sshPublicKeys"][n], "{error}");
    }
}

#[tokio::test]
async fn a_field_that_is_there_twice_is_refused_by_its_name() {
    let (world, root) = world().await;
    let ask = |path: &str, body: &'static str| {
        let ask = request(Method::PATCH, path, &root, Some(Value::Null));
        let (parts, _) = ask.into_parts();
        send(&world.router, http::Request::from_parts(parts, body.into()))
    };
    let edit = r#"{"cpu": 2, "powerState": "Off", "cpu": 4}"#;
    let refused = ask("/api/v1/vms/web", edit).await;
    refused.is_problem(422, "invalid");
    assert_eq!(refused.fields(), ["cpu"]);
    let detail = "cpu: is there 2 times: write it once";
    assert_eq!(refused.text("/detail"), detail);
    let vm = world.vm("root", "web").await.unwrap();
    assert_eq!(vm.spec.cpu, 1);

    let edit = r#"{"gateway": {"publicPort": 22, "publicPort": 23}, "storageClass": "a",
                   "storageClass": "b"}"#;
    let refused = ask("/api/v1/admin/platform", edit).await;
    refused.is_problem(422, "invalid");
    assert_eq!(refused.fields(), ["gateway.publicPort", "storageClass"]);
    // What may be a secret is not repeated.
    let refused = ask(
        "/api/v1/admin/users/ann",
        r#"{"password": "hush hush hush", "password": "hush hush hush"}"#,
    )
    .await;
    assert_eq!(refused.fields(), ["password"]);
    assert!(!refused.body.to_string().contains("hush"), "{refused:?}");
}

#[tokio::test]
async fn a_small_request_has_no_huge_answer() {
    let (world, root) = world().await;
    let told = |answer: &Answer| answer.body["errors"].as_array().unwrap().len();
    let keys = json!({"sshPublicKeys": vec![1; 5_000]});
    let unknown: serde_json::Map<_, _> = (0..5_000).map(|n| (format!("x{n}"), json!(1))).collect();
    for body in [keys, unknown.into()] {
        let answer = world.patch("/api/v1/me", &root, body).await;
        answer.is_problem(422, "invalid");
        assert_eq!(told(&answer), 50);
        assert!(answer.text("/detail").contains("and more"), "{answer:?}");
    }
    let names: Vec<_> = (0..5_000).map(|n| format!("x{n}")).collect();
    let answer = world
        .get(&format!("/api/v1/vms?{}", names.join("&")), &root)
        .await;
    answer.is_problem(422, "invalid");
    assert_eq!(told(&answer), 50);
}

#[tokio::test]
async fn what_may_be_a_secret_is_not_repeated_however_it_is_spelt() {
    let (world, root) = world().await;
    let provider = |name: &str| json!({"signInProviders": [{name: "hush"}]});
    for body in [
        provider("client_secret"),
        provider("Secret"),
        json!({"signInProviders": {"clientSecret": "hush"}}),
        json!({"api-key": "hush"}),
    ] {
        let answer = world.patch("/api/v1/admin/platform", &root, body).await;
        answer.is_problem(422, "invalid");
        assert!(!answer.body.to_string().contains("hush"), "{answer:?}");
    }
    for name in ["client_secret", "apikey", "ticket", "access_token"] {
        let answer = world.get(&format!("/api/v1/vms?{name}=hush"), &root).await;
        assert_eq!(answer.fields(), [name]);
        assert!(!answer.body.to_string().contains("hush"), "{answer:?}");
    }
}
