#![allow(clippy::unwrap_used)]

use std::process::Command;

use super::*;
use crate::verify::{VerifyError, verify};

/// A key that OpenSSH made.
pub(crate) fn made(kind: &str, bits: &str) -> PrivateKey {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", kind, "-b", bits, "-N", "", "-f"]);
    assert!(keygen.arg(&path).status().unwrap().success());
    PrivateKey::read_openssh_file(&path).unwrap()
}

const KINDS: [(&str, &str); 6] = [
    ("ed25519", "256"),
    ("ecdsa", "256"),
    ("ecdsa", "384"),
    ("ecdsa", "521"),
    ("rsa", "2048"),
    ("rsa", "3072"),
];

#[test]
fn what_a_key_signs_is_its_own_and_nobody_elses() {
    let keys = KINDS.map(|(kind, bits)| SigningKey::new(&made(kind, bits)).unwrap());
    for (key, (kind, bits)) in keys.iter().zip(KINDS) {
        let other = SigningKey::new(&made(kind, bits)).unwrap();
        for &algorithm in key.algorithms() {
            // Numbers of a signature with a high bit, or short ones, come now and then.
            for round in 0..20_u8 {
                let signature = key.sign(algorithm, &[round]).unwrap();
                let public = key.public();
                assert_eq!(verify(public, algorithm, &signature, &[round]), Ok(None));
                let wrong = Err(VerifyError::Wrong);
                assert_eq!(verify(public, algorithm, &signature, b"other"), wrong);
                let others = verify(other.public(), algorithm, &signature, &[round]);
                assert_eq!(others, wrong);
                let longer = [&signature[..], &[0]].concat();
                assert!(verify(public, algorithm, &longer, &[round]).is_err());
                let shorter = &signature[..signature.len() - 1];
                assert!(verify(public, algorithm, shorter, &[round]).is_err());
            }
        }
        for algorithm in Algorithm::ALL {
            if !key.algorithms().contains(&algorithm) {
                assert_eq!(key.sign(algorithm, b""), Err(SignError(algorithm)));
                let signature = key.sign(key.algorithms()[0], b"").unwrap();
                let refused = verify(key.public(), algorithm, &signature, b"");
                assert_eq!(refused, Err(VerifyError::Algorithm(algorithm.name())));
            }
        }
    }
}

#[test]
fn a_signature_by_one_hash_is_none_by_the_other() {
    let key = SigningKey::new(&made("rsa", "2048")).unwrap();
    let signature = key.sign(Algorithm::RsaSha256, b"data").unwrap();
    let refused = verify(key.public(), Algorithm::RsaSha512, &signature, b"data");
    assert_eq!(refused, Err(VerifyError::Algorithm("rsa-sha2-512")));
}

#[test]
fn keys_that_do_not_sign_are_refused_with_a_word() {
    let small = SigningKey::new(&made("rsa", "1024")).unwrap_err();
    assert!(small.to_string().contains("2048 to 8192 bits"), "{small}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "secret", "-f"]);
    assert!(keygen.arg(&path).status().unwrap().success());
    let encrypted = PrivateKey::read_openssh_file(&path).unwrap();
    let refused = SigningKey::new(&encrypted).unwrap_err();
    assert_eq!(refused, KeyError::Encrypted);
}
