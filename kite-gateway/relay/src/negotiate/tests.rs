#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn offer(ciphers: &[&str], macs: &[&str]) -> Offer {
    Offer {
        ciphers: Names::of(ciphers),
        macs: Names::of(macs),
        compression: Names::of(&["none"]),
        languages: Names::default(),
    }
}

fn side(kex: &[&str], host_keys: &[&str], ciphers: &[&str], macs: &[&str]) -> KexInit {
    KexInit {
        cookie: [7; 16],
        kex: Names::of(kex),
        host_keys: Names::of(host_keys),
        up: offer(ciphers, macs),
        down: offer(ciphers, macs),
        guesses: false,
    }
}

#[test]
fn the_client_prefers() {
    let client = side(
        &["b", "a"],
        &["y", "x"],
        &["aes128-ctr", "aes128-gcm@openssh.com"],
        &["n", "m"],
    );
    let server = side(
        &["a", "b"],
        &["x", "y"],
        &["aes128-gcm@openssh.com", "aes128-ctr"],
        &["m", "n"],
    );
    let agreed = negotiate(&client, &server).unwrap();
    assert_eq!((agreed.kex, agreed.host_key), (&b"b"[..], &b"y"[..]));
    assert_eq!(agreed.up.cipher, b"aes128-ctr");
    assert_eq!(agreed.down.mac, Some(&b"n"[..]));
    assert!(!agreed.strict && !agreed.ext_info);
}

#[test]
fn a_cipher_with_a_tag_needs_no_mac() {
    let client = side(&["a"], &["x"], &["aes128-gcm@openssh.com"], &["one"]);
    let server = side(&["a"], &["x"], &["aes128-gcm@openssh.com"], &["another"]);
    let agreed = negotiate(&client, &server).unwrap();
    assert_eq!(agreed.up.mac, None);
    let other = |macs: &[&str]| side(&["a"], &["x"], &["aes128-ctr"], macs);
    let (client, server) = (other(&["one"]), other(&["another"]));
    let refused = negotiate(&client, &server).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no MAC in common: the client has one, the server another"
    );
}

#[test]
fn signs_are_no_methods() {
    let signs = [STRICT_CLIENT, STRICT_SERVER, EXT_INFO_CLIENT, "ext-info-s"];
    let everything = side(&signs, &["x"], &["c"], &["m"]);
    let refused = negotiate(&everything, &everything).unwrap_err();
    assert_eq!(refused.what, "key exchange method");
    let client = side(
        &[STRICT_CLIENT, EXT_INFO_CLIENT, "a"],
        &["x"],
        &["c"],
        &["m"],
    );
    let server = side(&["a", STRICT_SERVER], &["x"], &["c"], &["m"]);
    let agreed = negotiate(&client, &server).unwrap();
    assert_eq!(agreed.kex, b"a");
    assert!(agreed.strict && agreed.ext_info);
    // Each side has its own sign: the other's means nothing.
    let server = side(&["a", STRICT_CLIENT], &["x"], &["c"], &["m"]);
    assert!(!negotiate(&client, &server).unwrap().strict);
}

#[test]
fn a_guess_is_right_where_both_prefer_the_same() {
    let right = |client: [&[&str]; 2], server: [&[&str]; 2]| {
        let [client, server] = [client, server].map(|[kex, keys]| side(kex, keys, &["c"], &["m"]));
        negotiate(&client, &server).unwrap().guess_is_right
    };
    assert!(right([&["a", "b"], &["x"]], [&["a"], &["x", "y"]]));
    // What is chosen is the client's guess, and yet it is dropped (RFC 4253 §7).
    assert!(!right([&["a", "b"], &["x"]], [&["b", "a"], &["x"]]));
    assert!(!right([&["a"], &["x", "y"]], [&["a"], &["y", "x"]]));
}

#[test]
fn each_empty_list_is_named() {
    let whole = side(&["a"], &["x"], &["c"], &["m"]);
    let without = |change: fn(&mut KexInit)| {
        let mut server = whole.clone();
        change(&mut server);
        negotiate(&whole, &server).unwrap_err().what
    };
    assert_eq!(
        without(|it| it.kex = Names::default()),
        "key exchange method"
    );
    assert_eq!(
        without(|it| it.host_keys = Names::default()),
        "host key algorithm"
    );
    assert_eq!(without(|it| it.up.ciphers = Names::default()), "cipher");
    assert_eq!(without(|it| it.down.macs = Names::default()), "MAC");
    assert_eq!(
        without(|it| it.down.compression = Names::default()),
        "compression"
    );
}

#[test]
fn what_is_no_kexinit_is_refused() {
    let whole = side(&["a"], &["x"], &["c"], &["m"]).encode();
    assert_eq!(KexInit::decode(&[]), Err(KexInitError::Short));
    assert_eq!(KexInit::decode(&[21]), Err(KexInitError::Other(21)));
    for end in 1..whole.len() {
        assert_eq!(
            KexInit::decode(&whole[..end]),
            Err(KexInitError::Short),
            "{end}"
        );
    }
    let longer = [&whole[..], &[0, 0]].concat();
    assert_eq!(KexInit::decode(&longer), Err(KexInitError::Long(2)));
    // A list that claims more than there is.
    let mut lies = whole;
    lies[17..21].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(KexInit::decode(&lies), Err(KexInitError::Short));
}

#[test]
fn names_that_are_no_text_are_kept_as_they_are() {
    let mut odd = side(&["a"], &["x"], &["c"], &["m"]);
    odd.kex = Names(b"caf\xe9,,a".to_vec());
    let back = KexInit::decode(&odd.encode()).unwrap();
    assert_eq!(back, odd);
    assert_eq!(back.kex.iter().collect::<Vec<_>>(), [&b"caf\xe9"[..], b"a"]);
    assert_eq!(back.kex.to_string(), "caf\\xe9,,a");
    assert_eq!(
        negotiate(&back, &side(&["a"], &["x"], &["c"], &["m"]))
            .unwrap()
            .kex,
        b"a"
    );
}

proptest! {
    #[test]
    fn whatever_comes_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let payload = [&[KEXINIT][..], &bytes].concat();
        if let Ok(read) = KexInit::decode(&payload) {
            prop_assert_eq!(KexInit::decode(&read.encode()), Ok(read));
        }
    }
}
