#![allow(clippy::unwrap_used)]

use aws_lc_rs::{
    hmac,
    rand::SystemRandom,
    rsa::KeySize,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
        RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
    },
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use serde_json::json;

use super::*;

const ISSUER: &str = "https://login.example.org";

/// A provider with a key for each kind of signature.
struct Provider {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
}

fn now() -> Timestamp {
    Timestamp::now()
}

fn claims() -> Value {
    let now = now().as_second();
    json!({
        "iss": ISSUER, "sub": "248289761001", "aud": "kite", "nonce": "n-0S6_WzA2Mj",
        "iat": now, "exp": now + 300,
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

impl Provider {
    fn new() -> Self {
        Self {
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
            ec: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            ed: Ed25519KeyPair::generate().unwrap(),
        }
    }

    fn rsa_key(&self) -> Value {
        let public = RsaPublicKeyComponents::<Vec<u8>>::from(self.rsa.public_key());
        json!({"kty": "RSA", "kid": "rsa", "use": "sig",
               "n": BASE64.encode(&public.n), "e": BASE64.encode(&public.e)})
    }

    fn keys(&self) -> Vec<Jwk> {
        let point = self.ec.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        let ec = json!({"kty": "EC", "crv": "P-256", "kid": "ec", "alg": "ES256",
                        "x": BASE64.encode(x), "y": BASE64.encode(y)});
        let ed = json!({"kty": "OKP", "crv": "Ed25519", "kid": "ed",
                        "x": BASE64.encode(self.ed.public_key().as_ref())});
        [self.rsa_key(), ec, ed]
            .map(|key| serde_json::from_value(key).unwrap())
            .into()
    }

    fn rsa(&self, how: &'static dyn RsaEncoding, message: &[u8]) -> Vec<u8> {
        let mut signature = vec![0; self.rsa.public_modulus_len()];
        let random = SystemRandom::new();
        self.rsa
            .sign(how, &random, message, &mut signature)
            .unwrap();
        signature
    }

    fn ec(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        self.ec.sign(&random, message).unwrap().as_ref().to_vec()
    }

    /// A token of the kind that most tests use.
    fn token(&self, claims: &Value) -> String {
        token(&json!({"alg": "ES256", "kid": "ec"}), claims, |message| {
            self.ec(message)
        })
    }

    fn check(&self, token: &str) -> Result<Map<String, Value>, Rejected> {
        let expected = Expected {
            issuer: ISSUER,
            client_id: "kite",
            nonce: "n-0S6_WzA2Mj",
            begun: now(),
        };
        verify(token, &self.keys(), &expected, now())
    }

    fn refuses(&self, token: &str) -> bool {
        matches!(self.check(token), Err(Rejected::Wrong(_)))
    }
}

fn token(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let [header, claims] = [header, claims].map(|it| BASE64.encode(it.to_string()));
    let message = format!("{header}.{claims}");
    let signature = BASE64.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

#[test]
fn what_the_providers_own_keys_signed_is_believed() {
    let provider = Provider::new();
    let claims = claims();
    let head = |algorithm: &str, key: &str| json!({"alg": algorithm, "kid": key, "typ": "JWT"});
    for token in [
        provider.token(&claims),
        token(&json!({"alg": "ES256"}), &claims, |it| provider.ec(it)),
        token(&head("EdDSA", "ed"), &claims, |it| {
            provider.ed.sign(it).as_ref().to_vec()
        }),
        token(&head("RS256", "rsa"), &claims, |it| {
            provider.rsa(&RSA_PKCS1_SHA256, it)
        }),
        token(&head("PS256", "rsa"), &claims, |it| {
            provider.rsa(&RSA_PSS_SHA256, it)
        }),
    ] {
        let read = provider.check(&token);
        assert_eq!(read.unwrap()["sub"], "248289761001");
    }
}

#[test]
fn every_claim_must_be_right() {
    let provider = Provider::new();
    let now = now().as_second();
    for claims in [
        with("iss", json!("https://login.example.org/")),
        without("iss"),
        with("aud", json!("other")),
        with("aud", json!(["other"])),
        with("aud", json!([])),
        without("aud"),
        // For others, too, and not said to whom it was given.
        with("aud", json!(["kite", "other"])),
        with("azp", json!("other")),
        with("azp", Value::Null),
        with("exp", json!(now - 61)),
        with("exp", json!("never")),
        without("exp"),
        with("nbf", json!(now + 120)),
        with("iat", json!(now + 120)),
        with("iat", json!(now - 120)),
        with("iat", json!("now")),
        without("iat"),
        with("nonce", json!("n-0S6_WzA2Mk")),
        with("nonce", json!("")),
        without("nonce"),
        with("sub", json!("")),
        with("sub", json!(1)),
        with("sub", json!("s".repeat(256))),
        without("sub"),
    ] {
        assert!(provider.refuses(&provider.token(&claims)), "{claims}");
    }
    let mut several = with("aud", json!(["other", "kite"]));
    several["azp"] = json!("kite");
    for claims in [
        several,
        with("azp", json!("kite")),
        with("exp", json!(now - 30)),
    ] {
        let read = provider.check(&provider.token(&claims));
        assert!(read.is_ok(), "{claims} {read:?}");
    }
}

#[test]
fn no_signature_and_none_with_what_everybody_knows_will_do() {
    let provider = Provider::new();
    let claims = claims();
    for algorithm in ["none", "None", "NONE"] {
        let unsigned = token(&json!({"alg": algorithm, "kid": "ec"}), &claims, |_| {
            Vec::new()
        });
        assert!(provider.refuses(&unsigned), "{algorithm}");
    }
    // The public key as if it were a shared secret, in whatever form.
    let public = provider.rsa_key();
    let modulus = BASE64.decode(public["n"].as_str().unwrap()).unwrap();
    for secret in [
        modulus.as_slice(),
        public["n"].as_str().unwrap().as_bytes(),
        public.to_string().as_bytes(),
        provider.ec.public_key().as_ref(),
        b"",
    ] {
        for kid in ["rsa", "ec"] {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
            let forged = token(&json!({"alg": "HS256", "kid": kid}), &claims, |message| {
                hmac::sign(&key, message).as_ref().to_vec()
            });
            assert!(provider.refuses(&forged));
        }
    }
}

#[test]
fn a_key_is_good_for_its_own_kind_of_signature() {
    let provider = Provider::new();
    let other = Provider::new();
    let claims = claims();
    // Somebody else's key under a known name.
    assert!(provider.refuses(&other.token(&claims)));
    // A key that the header brings along.
    let mut header = json!({"alg": "ES256", "kid": "ec"});
    header["jwk"] = serde_json::to_value(&other.keys()[1]).unwrap();
    assert!(provider.refuses(&token(&header, &claims, |it| other.ec(it))));
    let header = json!({"alg": "ES256", "kid": "ec", "crit": ["exp"]});
    assert!(provider.refuses(&token(&header, &claims, |it| provider.ec(it))));
    for (algorithm, kid) in [
        ("RS256", "ec"),
        ("ES256", "rsa"),
        ("ES384", "ec"),
        ("ES256", "new"),
    ] {
        let header = json!({"alg": algorithm, "kid": kid});
        let read = provider.check(&token(&header, &claims, |it| provider.ec(it)));
        assert_eq!(read, Err(Rejected::UnknownKey), "{algorithm} {kid}");
    }
}

#[test]
fn what_was_changed_on_the_way_is_refused() {
    let provider = Provider::new();
    let good = provider.token(&claims());
    let parts: Vec<&str> = good.split('.').collect();
    let other = BASE64.encode(with("sub", json!("1")).to_string());
    let changed = [
        format!("{}.{other}.{}", parts[0], parts[2]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}", parts[0], parts[1]),
        format!("{good}."),
        format!("{good}.AAAA"),
        String::new(),
        "..".to_owned(),
        good[..good.len() - 2].to_owned(),
    ];
    for token in changed {
        assert!(provider.refuses(&token), "{token}");
    }
}

#[test]
fn keys_to_encrypt_with_sign_nothing() {
    let provider = Provider::new();
    let mut key = provider.rsa_key();
    key["use"] = json!("enc");
    let key: Jwk = serde_json::from_value(key).unwrap();
    assert!(!is_for(&key, Algorithm::RS256));
    let secret = json!({"kty": "oct", "k": "c2VjcmV0", "kid": "oct"});
    let secret: Jwk = serde_json::from_value(secret).unwrap();
    assert!(!is_for(&secret, Algorithm::RS256));
}
