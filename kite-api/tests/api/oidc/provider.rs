//! An OpenID Connect provider that does as it is told, wrong things included. The
//! right ones are those of the `oidc-provider` package in another test.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use ::http::{HeaderMap, StatusCode, header};
use aws_lc_rs::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use axum::{
    Form, Json, Router,
    extract::State,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

/// How ID tokens are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    Well,
    /// With a key that the key document does not have yet.
    WithANewKey,
    Not,
    /// With the public key as a shared secret.
    WithThePublicKey,
}

/// What the provider says of whoever comes by, and how.
pub struct Play {
    /// Of the person; what is null is left out of the ID token.
    pub claims: Value,
    /// What only the user info has.
    pub user_info: Value,
    pub signed: Signed,
    /// What the discovery document has beside or instead.
    pub document: Value,
    /// The client's secret, if it has one.
    pub secret: Option<String>,
    pub is_down: bool,
    codes: HashMap<String, Asked>,
    keys: Vec<(String, EcdsaKeyPair)>,
}

/// What an authorization request said.
#[derive(Clone)]
struct Asked {
    nonce: String,
    challenge: String,
    redirect_uri: String,
}

#[derive(Clone)]
pub struct Provider {
    pub issuer: String,
    pub play: Arc<Mutex<Play>>,
    /// Requests for keys, and for anything.
    pub key_requests: Arc<AtomicUsize>,
    pub requests: Arc<AtomicUsize>,
    /// Requests for tokens, with which client secrets come.
    pub tokens: Arc<AtomicUsize>,
}

fn new_key(name: &str) -> (String, EcdsaKeyPair) {
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    (name.to_owned(), key)
}

impl Provider {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let provider = Self {
            issuer: format!("http://{address}"),
            play: Arc::new(Mutex::new(Play {
                claims: json!({"sub": "1001", "preferred_username": "ann"}),
                user_info: json!({}),
                signed: Signed::Well,
                document: json!({}),
                secret: None,
                is_down: false,
                codes: HashMap::new(),
                keys: vec![new_key("first")],
            })),
            key_requests: Arc::default(),
            requests: Arc::default(),
            tokens: Arc::default(),
        };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .route("/me", get(user_info))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    pub fn play(&self, change: impl FnOnce(&mut Play)) {
        change(&mut self.play.lock().unwrap());
    }

    /// Says who comes by.
    pub fn says(&self, claims: Value) {
        self.play(|play| play.claims = claims);
    }

    /// From now on there is one key more, which may sign.
    pub fn publish_new_key(&self) {
        self.play(|play| {
            if play.keys.len() == 1 {
                play.keys.push(new_key("second"));
            }
            play.signed = Signed::Well;
        });
    }

    /// What the person does at the provider: the path and query of the way back.
    pub fn authorize(&self, url: &str) -> String {
        let url = Url::parse(url).unwrap();
        assert!(
            url.as_str()
                .starts_with(&format!("{}/authorize?", self.issuer))
        );
        let query: HashMap<_, _> = url.query_pairs().into_owned().collect();
        assert_eq!(query["response_type"], "code");
        assert_eq!(query["code_challenge_method"], "S256");
        assert!(query["scope"].split(' ').any(|scope| scope == "openid"));
        let asked = Asked {
            nonce: query["nonce"].clone(),
            challenge: query["code_challenge"].clone(),
            redirect_uri: query["redirect_uri"].clone(),
        };
        let code = BASE64.encode(Sha256::digest(query["state"].as_bytes()));
        let back = Url::parse(&asked.redirect_uri).unwrap();
        self.play(|play| {
            play.codes.insert(code.clone(), asked);
        });
        let state = &query["state"];
        format!("{}?code={code}&state={state}", back.path())
    }
}

impl Play {
    fn id_token(&self, issuer: &str, nonce: &str) -> String {
        let now = Timestamp::now().as_second();
        let mut claims = json!({
            "iss": issuer, "aud": "kite", "nonce": nonce, "iat": now, "exp": now + 300,
        });
        for (name, value) in self.claims.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
            .as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        let (id, key) = self.keys.last().unwrap();
        let fresh = new_key("second");
        let (algorithm, id) = match self.signed {
            Signed::Well => ("ES256", id.as_str()),
            Signed::WithANewKey => ("ES256", fresh.0.as_str()),
            Signed::Not => ("none", id.as_str()),
            Signed::WithThePublicKey => ("HS256", id.as_str()),
        };
        let header = json!({"alg": algorithm, "kid": id});
        let [header, claims] = [header, claims].map(|it| BASE64.encode(it.to_string()));
        let message = format!("{header}.{claims}");
        let sign = |key: &EcdsaKeyPair| {
            let signature = key.sign(&SystemRandom::new(), message.as_bytes());
            signature.unwrap().as_ref().to_vec()
        };
        let signature = match self.signed {
            Signed::Well => sign(key),
            Signed::WithANewKey => sign(&fresh.1),
            Signed::Not => Vec::new(),
            Signed::WithThePublicKey => {
                let secret = hmac::Key::new(hmac::HMAC_SHA256, key.public_key().as_ref());
                hmac::sign(&secret, message.as_bytes()).as_ref().to_vec()
            }
        };
        format!("{message}.{}", BASE64.encode(signature))
    }
}

fn refuse(status: u16, error: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    // What a page must never show.
    let body = json!({"error": error, "error_description": "<script>alert(1)</script>"});
    (status, Json(body)).into_response()
}

async fn discovery(State(provider): State<Provider>) -> Response {
    provider.requests.fetch_add(1, Ordering::Relaxed);
    let play = provider.play.lock().unwrap();
    if play.is_down {
        return refuse(503, "down");
    }
    let issuer = &provider.issuer;
    let mut document = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "userinfo_endpoint": format!("{issuer}/me"),
    });
    for (name, value) in play.document.as_object().unwrap() {
        document[name] = value.clone();
    }
    Json(document).into_response()
}

async fn keys(State(provider): State<Provider>) -> Json<Value> {
    provider.requests.fetch_add(1, Ordering::Relaxed);
    provider.key_requests.fetch_add(1, Ordering::Relaxed);
    let play = provider.play.lock().unwrap();
    let of = |(id, key): &(String, EcdsaKeyPair)| {
        let point = key.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        json!({"kty": "EC", "crv": "P-256", "kid": id, "use": "sig",
               "x": BASE64.encode(x), "y": BASE64.encode(y)})
    };
    let mut keys: Vec<Value> = play.keys.iter().map(of).collect();
    // Others have keys of kinds that Kite does not know.
    keys.push(json!({"kty": "PQC", "kid": "later"}));
    Json(json!({"keys": keys}))
}

async fn token(
    State(provider): State<Provider>,
    headers: HeaderMap,
    Form(form): Form<HashMap<String, String>>,
) -> Response {
    provider.requests.fetch_add(1, Ordering::Relaxed);
    provider.tokens.fetch_add(1, Ordering::Relaxed);
    let mut play = provider.play.lock().unwrap();
    let login = headers.get(header::AUTHORIZATION);
    let is_known = match &play.secret {
        None => login.is_none() && form.get("client_id").is_some_and(|id| id == "kite"),
        Some(secret) => {
            let expected =
                base64::engine::general_purpose::STANDARD.encode(format!("kite:{secret}"));
            login.is_some_and(|it| it.to_str().unwrap() == format!("Basic {expected}"))
        }
    };
    if !is_known {
        return refuse(401, "invalid_client");
    }
    // A code is good once.
    let Some(asked) = form.get("code").and_then(|code| play.codes.remove(code)) else {
        return refuse(400, "invalid_grant");
    };
    let verifier = form.get("code_verifier").map_or("", String::as_str);
    let challenge = BASE64.encode(Sha256::digest(verifier.as_bytes()));
    if challenge != asked.challenge || form.get("redirect_uri") != Some(&asked.redirect_uri) {
        return refuse(400, "invalid_grant");
    }
    let id_token = play.id_token(&provider.issuer, &asked.nonce);
    Json(json!({"id_token": id_token, "access_token": "opaque", "token_type": "Bearer"}))
        .into_response()
}

async fn user_info(State(provider): State<Provider>, headers: HeaderMap) -> Response {
    provider.requests.fetch_add(1, Ordering::Relaxed);
    if headers
        .get(header::AUTHORIZATION)
        .is_none_or(|it| it != "Bearer opaque")
    {
        return refuse(401, "invalid_token");
    }
    let play = provider.play.lock().unwrap();
    let mut told = json!({"sub": play.claims["sub"]});
    for (name, value) in play.user_info.as_object().unwrap() {
        told[name] = value.clone();
    }
    Json(told).into_response()
}
