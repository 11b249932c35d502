#![allow(clippy::unwrap_used, clippy::panic)]
use proptest::prelude::*;

use super::*;

const ED25519: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKO9ldbqXUWB+gMw90VFK2ZXIlM5RvBXwnm/KM3V61Ut ann@laptop";
const RSA_1024: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQD5dZhw5qb+tGV0ciw1Xadci/eqiu22E688/pkLCD3oHotiO8ZgIwhFwbB5omp6cPC7zrUaeExPf0tyewqqt5ojCZ+07rzIMLfbHzWrTHS7+GeweQGIeg9vtH71yVeXfITgL/D/ehiXFh6OHNR9RRR3lq279JytQPKBjUZMIJDRJw== ann@laptop";
const RSA_2048: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQDLqdUxYiBuIb/OcOrKY3OVYAM2+eVvVfoi1o0YqJJSxLKA/tik1upS/Ab17nUJV9SANZlhI9zLgomQVSLmuja+FJuGL1DSygdCPvx6fWDkIzNr/9y6Fn3PsCFFByYwaXG2i45ZlVuePnqbyrnlWakphGqpAwJje/IYhANzOZLAknjgnO516tjAlAGeTfx5eOECfgMTXU80uMZeT/Twcdjm+QYefUutjLK0QWuIjx49n8pxZLdPEpwbqskDbq9ItOle9glAFJy+K36DG6FWkDWTZJx/JYhcR0p/6nURi6esq1HdKgY/rwbnRUju2zVjHAoaunUPzIGZyWbn+b8UsqKv ann@laptop";
const P256: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBGIPnJ8/YQbFzBtWO1q+UUJNAzrNyorg1H2ut1kp9dOQifqlQQahuEbofpHmKIlbH0upvrd8SW4EWoIAlCfI3lI= ann@laptop";
const P384: &str = "ecdsa-sha2-nistp384 AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBKSN8X5yY3H0ng3SnH8mh/sLwGhwtvqWuI4ISEtUNCr0I8pvqoG0i5xj36vt1xZqrQ5trcmlG/erbGp9lUeua7GhUON5Y8jS0G+CKpfGItc9z9gBRHMjoD7LJ9rxnS/Mww== ann@laptop";
const P521: &str = "ecdsa-sha2-nistp521 AAAAE2VjZHNhLXNoYTItbmlzdHA1MjEAAAAIbmlzdHA1MjEAAACFBAF1OVe95mBbf6YuNqoA7zlrhOihRecHftYM1NoccRmt37lYgFIQH+6K4MxIWhwqGEsJ4Ilt5lDL6IfvXeus2GF+WQBpfFG8kzbYs+fdM9EA6jDA1vnUyZJpxfHHYFM9J6ggSJ1vwA2qVr1TE9CHRsQODeQXEADpgUROVHONQ2B7FhqqVA== ann@laptop";

const SK: &str = "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAICFo/k5LU8863u66YC9eUO2170QduohPURkQnbLa/dczAAAABHNzaDo= ann@token";

const WHOLE: [&str; 5] = [ED25519, RSA_2048, P256, P384, P521];

fn why(text: &str) -> PublicKeyError {
    PublicKey::parse_new(text).unwrap_err()
}

#[test]
fn whole_keys_are_taken_as_they_are() {
    for key in WHOLE {
        assert_eq!(PublicKey::parse_new(key).unwrap().as_str(), key);
        let bare = key.rsplit_once(' ').unwrap().0;
        assert_eq!(PublicKey::parse_new(bare).unwrap().as_str(), bare);
    }
}

#[test]
fn white_space_around_and_between_does_not_matter() {
    let (type_, rest) = ED25519.split_once(' ').unwrap();
    let (data, comment) = rest.split_once(' ').unwrap();
    for text in [
        format!("{ED25519}\n"),
        format!("{ED25519}\r\n"),
        format!("\n\n {ED25519} \n\n"),
        format!("\t{type_}\t{data}\t{comment}\t"),
        format!("{type_}   {data}   {comment}"),
        format!("\u{feff}{ED25519}")
            .trim_start_matches('\u{feff}')
            .to_owned(),
    ] {
        assert_eq!(
            PublicKey::parse_new(&text).unwrap().as_str(),
            ED25519,
            "{text:?}"
        );
    }
    let wordy = format!("{type_} {data} ann's new  laptop é");
    assert_eq!(PublicKey::parse_new(&wordy).unwrap().as_str(), wordy);
}

#[test]
fn what_is_wrong_with_a_key_is_said() {
    use PublicKeyError::{Broken, Empty, Format, Lines, OnlyType, OtherType, Private, Size, Type};
    let data = |key: &str| key.split(' ').nth(1).unwrap().to_owned();
    assert_eq!(why(" \n"), Empty);
    assert_eq!(why(&format!("{ED25519}\n{RSA_2048}")), Lines(2));
    let private = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA";
    assert_eq!(why(private), Private);
    assert_eq!(why("---- BEGIN SSH2 PUBLIC KEY ----"), Format);
    assert!(matches!(why("ssh-dss AAAAB3NzaC1kc3M="), Type { word, .. } if word == "ssh-dss"));
    // Nobody may believe that it counts.
    for option in [
        "no-pty",
        "verify-required,verify-required",
        "restrict,pty",
        "verify-required,from=10.0.0.0/8",
        "command=\"a b\"",
    ] {
        for key in [ED25519, SK] {
            let refused = why(&format!("{option} {key}"));
            let PublicKeyError::Option { option: said } = &refused else {
                panic!("{option}: {refused:?}");
            };
            assert!(option.contains(said.as_str()), "{refused}");
        }
    }
    assert!(matches!(
        why(&format!("verify-required {ED25519}")),
        PublicKeyError::Option { .. }
    ));
    assert_eq!(why("ssh-ed25519"), OnlyType);
    for half in [
        "ssh-ed25519 AAAA".to_owned(),
        "ssh-rsa AAAAB3NzaC1yc2E".to_owned(),
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5".to_owned(),
        format!("ssh-ed25519 {}AAAA", data(ED25519)),
        "ssh-ed25519 §§§§".to_owned(),
    ] {
        assert!(matches!(why(&half), Broken(_)), "{half}: {:?}", why(&half));
    }
    let (said, is) = ("ssh-rsa".to_owned(), "ssh-ed25519".to_owned());
    let swapped = format!("ssh-rsa {} ann@laptop", data(ED25519));
    assert_eq!(why(&swapped), OtherType { said, is });
    assert_eq!(why(RSA_1024), Size(1024));
    // Those who have one are not locked out.
    assert_eq!(PublicKey::parse(RSA_1024).unwrap().as_str(), RSA_1024);
}

#[test]
fn tokens_are_asked_for_what_stands_before_their_keys() {
    for (options, touched, verified) in [
        ("", true, false),
        ("verify-required ", true, true),
        ("no-touch-required ", false, false),
        ("no-touch-required,verify-required ", false, true),
    ] {
        let line = format!("{options}{SK}");
        let key = PublicKey::parse_new(&format!(" {line}\n")).unwrap();
        assert_eq!(key.presence(), Presence { touched, verified }, "{line}");
        assert_eq!((key.as_str(), key.key()), (line.as_str(), SK));
        assert_eq!(key.unnamed(), line.trim_end_matches(" ann@token"));
        assert_eq!(key.clone().without_options().is_ok(), options.is_empty());
        let nameless = PublicKey::parse_new(key.unnamed()).unwrap();
        assert_eq!(nameless.unnamed(), key.unnamed());
    }
}

#[test]
fn bits_of_a_modulus_are_counted_from_its_first() {
    assert_eq!(bits(&[]), 0);
    assert_eq!(bits(&[0x01, 0xff]), 9);
    assert_eq!(bits(&[0x80; 256]), 2048);
    assert_eq!(bits(&[0x7f; 256]), 2047);
}

proptest! {
    #[test]
    fn whatever_is_given_is_taken_or_refused(text in ".{0,200}") {
        let _ = PublicKey::parse(&text);
    }

    /// However much of its end is missing: four characters are three bytes.
    #[test]
    fn no_part_of_a_key_is_one(key in 0..WHOLE.len(), share in 0.0..1.0_f64) {
        let mut words = WHOLE[key].split(' ');
        let (type_, data) = (words.next().unwrap(), words.next().unwrap());
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let end = (data.len() as f64 * share) as usize;
        let part = format!("{type_} {}", &data[..end]);
        prop_assert!(PublicKey::parse(&part).is_err(), "{part}");
    }
}
