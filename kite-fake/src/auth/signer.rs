//! The key by which tokens of service accounts are signed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What stands before the point of a key of this curve in its DER form
/// (`SubjectPublicKeyInfo`).
const BEFORE_POINT: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A key for ES256, which follows from the seed of the cluster as all that it makes up:
/// whoever knows the seed knows the key, and each run signs the same.
pub(crate) struct Signer {
    key: SigningKey,
    /// The point of the public key: a byte for its form, x and y.
    point: Vec<u8>,
}

impl Signer {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut bytes = Sha256::digest(format!("kite-fake key of tokens {seed}"));
        // One in four thousand millions is no key.
        let key = loop {
            match SigningKey::from_slice(&bytes) {
                Ok(key) => break key,
                Err(_) => bytes = Sha256::digest(bytes),
            }
        };
        let point = key.verifying_key().to_sec1_point(false).as_bytes().to_vec();
        Self { key, point }
    }

    /// The name of the key, which is a hash of it.
    fn id(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(BEFORE_POINT);
        hash.update(&self.point);
        BASE64.encode(hash.finalize())
    }

    /// A token that says `claims`.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "ES256", "kid": self.id()});
        let part = |value: &Value| BASE64.encode(value.to_string());
        let message = format!("{}.{}", part(&header), part(claims));
        let signature: Signature = self.key.sign(message.as_bytes());
        format!("{message}.{}", BASE64.encode(signature.to_bytes()))
    }

    /// The public key, as a set of one.
    pub(crate) fn keys(&self) -> Value {
        let half = |from: usize, to: usize| BASE64.encode(self.point.get(from..to).unwrap_or(&[]));
        json!({"keys": [{
            "use": "sig",
            "kty": "EC",
            "kid": self.id(),
            "crv": "P-256",
            "alg": "ES256",
            "x": half(1, 33),
            "y": half(33, 65),
        }]})
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use p256::ecdsa::signature::Verifier as _;
    use p256::ecdsa::{Signature, VerifyingKey};

    use super::*;

    #[test]
    fn what_is_signed_is_verified_by_the_published_key() {
        let signer = Signer::of_seed(7);
        let token = signer.sign(&json!({"sub": "x"}));
        assert_eq!(token, Signer::of_seed(7).sign(&json!({"sub": "x"})));
        let keys = signer.keys();
        let mut point = vec![4];
        for half in ["x", "y"] {
            point.extend(
                BASE64
                    .decode(keys["keys"][0][half].as_str().unwrap())
                    .unwrap(),
            );
        }
        let key = VerifyingKey::from_sec1_bytes(&point).unwrap();
        let (message, signature) = token.rsplit_once('.').unwrap();
        let signature = BASE64.decode(signature).unwrap();
        let signature = Signature::from_slice(&signature).unwrap();
        key.verify(message.as_bytes(), &signature).unwrap();
        assert_ne!(Signer::of_seed(8).keys(), keys);
    }
}
