#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::*;

/// What OpenSSH's tool does with those arguments in a directory.
fn keygen(directory: &Path, arguments: &[&str]) {
    let mut keygen = Command::new("ssh-keygen");
    let done = keygen.arg("-q").args(arguments).current_dir(directory);
    assert!(done.status().unwrap().success(), "{arguments:?}");
}

/// The blob in a file of a public key or a certificate.
fn blob(path: &Path) -> Vec<u8> {
    let line = std::fs::read_to_string(path).unwrap();
    BASE64_STANDARD
        .decode(line.split_whitespace().nth(1).unwrap())
        .unwrap()
}

struct Made {
    directory: tempfile::TempDir,
    authority: KeyData,
}

impl Made {
    fn new(kind: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        keygen(directory.path(), &["-t", kind, "-N", "", "-f", "ca"]);
        let blob = blob(&directory.path().join("ca.pub"));
        let authority = KeyData::decode(&mut &blob[..]).unwrap();
        Self {
            directory,
            authority,
        }
    }

    /// A certificate of a key, with the arguments that OpenSSH's tool takes.
    fn certificate(&self, kind: &str, arguments: &[&str]) -> Vec<u8> {
        let path = self.directory.path();
        for old in ["key", "key.pub", "key-cert.pub"] {
            let _ = std::fs::remove_file(path.join(old));
        }
        keygen(path, &["-t", kind, "-N", "", "-f", "key"]);
        let all = [&["-s", "ca", "-I", "anna's"], arguments, &["key.pub"]].concat();
        keygen(path, &all);
        blob(&path.join("key-cert.pub"))
    }

    fn check(&self, blob: &[u8], claim: &Claim<'_>) -> Result<Grant, CertificateError> {
        let certificate = Certificate::decode(blob)?.verify()?;
        certificate.check(claim, |key| *key == self.authority)
    }
}

/// In 2024.
const NOW: u64 = 1_720_000_000;

fn claim() -> Claim<'static> {
    Claim {
        principal: "anna",
        address: Some([192, 0, 2, 7].into()),
        now: NOW,
    }
}

const VALID: [&str; 4] = ["-n", "bert,anna", "-V", "20240101Z:20250101Z"];

#[test]
fn certificates_of_all_kinds_by_authorities_of_all_kinds() {
    for authority in ["ed25519", "ecdsa", "rsa"] {
        let made = Made::new(authority);
        for kind in ["ed25519", "ecdsa", "rsa"] {
            let blob = made.certificate(kind, &[&VALID[..], &["-z", "7"]].concat());
            let grant = made.check(&blob, &claim()).unwrap();
            let expected = Grant {
                valid_before: Some(1_735_689_600),
                pty: true,
                port_forwarding: true,
                agent_forwarding: true,
                x11_forwarding: true,
                touch_required: true,
                verify_required: false,
            };
            assert_eq!(grant, expected, "{kind} by {authority}");
            let vouched = Certificate::decode(&blob).unwrap().verify().unwrap();
            assert_eq!((vouched.key_id(), vouched.serial()), ("anna's", 7));
        }
    }
}

#[test]
fn who_it_is_not_for_is_refused_with_a_word() {
    let made = Made::new("ed25519");
    let valid = made.certificate("ed25519", &VALID);
    let refused = |blob: &[u8], claim: &Claim<'_>| made.check(blob, claim).unwrap_err();
    let at = |now| Claim { now, ..claim() };
    let bounds = [1_704_067_200, 1_735_689_600];
    assert_eq!(refused(&valid, &at(bounds[0] - 1)), CertificateError::Early);
    assert!(made.check(&valid, &at(bounds[0])).is_ok());
    assert!(made.check(&valid, &at(bounds[1] - 1)).is_ok());
    assert_eq!(refused(&valid, &at(bounds[1])), CertificateError::Expired);
    let other = Claim {
        principal: "ann",
        ..claim()
    };
    assert_eq!(
        refused(&valid, &other),
        CertificateError::Principal("ann".into())
    );
    let nobody = made.certificate("ed25519", &["-V", "20240101Z:20250101Z"]);
    assert_eq!(refused(&nobody, &claim()), CertificateError::NoPrincipal);
    let host = made.certificate("ed25519", &[&VALID[..], &["-h"]].concat());
    assert_eq!(refused(&host, &claim()), CertificateError::Host);
    let another = Made::new("ed25519");
    let error = another.check(&valid, &claim()).unwrap_err();
    assert!(matches!(error, CertificateError::Authority(_)), "{error}");
}

#[test]
fn conditions_are_kept_or_refused() {
    let made = Made::new("ed25519");
    let with = |options: &[&str]| {
        let options = options.iter().flat_map(|option| ["-O", option]);
        let all: Vec<_> = VALID.into_iter().chain(options).collect();
        made.certificate("ed25519", &all)
    };
    let bare = made.check(&with(&["clear"]), &claim()).unwrap();
    assert!(!bare.pty && !bare.port_forwarding && !bare.agent_forwarding && !bare.x11_forwarding);
    let some = with(&["no-pty", "no-touch-required", "verify-required"]);
    let some = made.check(&some, &claim()).unwrap();
    assert!(!some.pty && some.port_forwarding && !some.touch_required && some.verify_required);

    let forced = made.check(&with(&["force-command=id"]), &claim());
    assert_eq!(forced, Err(CertificateError::ForceCommand));
    let unknown = made.check(&with(&["critical:moon@example.com=full"]), &claim());
    let name = "moon@example.com".to_owned();
    assert_eq!(unknown, Err(CertificateError::Critical(name)));

    for (networks, is_in) in [
        ("192.0.2.0/24", true),
        ("192.0.2.7", true),
        ("10.0.0.0/8,192.0.2.7/32", true),
        ("0.0.0.0/0", true),
        ("192.0.2.8", false),
        ("192.0.2.0/29,2001:db8::/32", true),
        ("10.0.0.0/8", false),
        ("2001:db8::/32", false),
    ] {
        let blob = with(&[&format!("source-address={networks}")]);
        for address in ["192.0.2.7", "::ffff:192.0.2.7"] {
            let claim = Claim {
                address: Some(address.parse().unwrap()),
                ..claim()
            };
            assert_eq!(made.check(&blob, &claim).is_ok(), is_in, "{networks}");
        }
    }
    let blob = with(&["source-address=0.0.0.0/0"]);
    let nowhere = Claim {
        address: None,
        ..claim()
    };
    let unknown = made.check(&blob, &nowhere);
    assert_eq!(unknown, Err(CertificateError::NoAddress));
    assert!(made.check(&with(&["no-pty"]), &nowhere).is_ok());
    for broken in [
        "",
        "x",
        "192.0.2.0/33",
        "192.0.2/24",
        "192.0.2.7/24",
        "192.0.2.0/24,x",
        "!10.0.0.0/8,192.0.2.0/24",
        "192.0.2.7, 10.0.0.1",
    ] {
        assert!(!is_within([192, 0, 2, 7].into(), broken), "{broken}");
    }
    let six = |networks| is_within("2001:db8::7".parse().unwrap(), networks);
    assert!(six("2001:db8::/32") && six("2001:db8::7") && !six("2001:db9::/32"));
    assert!(six("::/0") && !six("0.0.0.0/0"));
}

#[test]
fn every_changed_byte_is_seen() {
    let made = Made::new("ed25519");
    let valid = made.certificate("ed25519", &VALID);
    assert!(made.check(&valid, &claim()).is_ok());
    for at in 0..valid.len() {
        let mut changed = valid.clone();
        changed[at] ^= 1;
        assert!(made.check(&changed, &claim()).is_err(), "byte {at}");
    }
    for length in 0..valid.len() {
        assert!(made.check(&valid[..length], &claim()).is_err(), "{length}");
    }
    assert!(made.check(&[&valid[..], &[0]].concat(), &claim()).is_err());
}
