#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::keys::{Derivation, Direction, Hash};

fn keys(suite: Suite) -> Keys {
    let derivation = Derivation {
        hash: Hash::Sha256,
        secret: b"\0\0\0\x01k",
        exchange: b"exchange",
        session: b"session",
    };
    derivation.keys(suite, Direction::ClientToServer)
}

fn pair(suite: Suite) -> (Sealer, Opener) {
    let (mut sealer, mut opener) = (Sealer::new(), Opener::new());
    sealer.rekey(suite, &keys(suite), true).unwrap();
    opener.rekey(suite, &keys(suite), true).unwrap();
    opener.open_wide();
    (sealer, opener)
}

/// Opens all that is whole, by arrivals of so many bytes.
fn opened(opener: &mut Opener, wire: &[u8], step: usize) -> Result<Vec<Vec<u8>>, PacketError> {
    let (mut buffer, mut out) = (Vec::new(), Vec::new());
    for part in wire.chunks(step) {
        buffer.extend_from_slice(part);
        while let Opened::Packet {
            payload, consumed, ..
        } = opener.open(&mut buffer)?
        {
            out.push(buffer[payload].to_vec());
            buffer.drain(..consumed);
        }
    }
    Ok(out)
}

#[test]
fn payloads_of_all_lengths_come_back() {
    for suite in Suite::ALL {
        let (mut sealer, mut opener) = pair(suite);
        let (mut wire, mut sent) = (Vec::new(), Vec::new());
        for length in (1..70).chain([255, 4096, 32 * 1024 + 9, 200_000]) {
            let payload: Vec<u8> = (0..length)
                .map(|it| u8::try_from(it % 251).unwrap())
                .collect();
            let (head, tail) = payload.split_at(length.min(5));
            sealer.seal(head, tail, &mut wire).unwrap();
            sent.push(payload);
        }
        for step in [7, wire.len()] {
            let (_, mut again) = pair(suite);
            let reader = if step == 7 { &mut again } else { &mut opener };
            assert_eq!(opened(reader, &wire, step).unwrap(), sent, "{suite:?}");
        }
        assert_eq!(opener.usage(), sealer.usage());
        assert_eq!(sealer.usage().bytes, wire.len() as u64);
    }
}

#[test]
fn without_keys_blocks_count_the_length() {
    let mut sealer = Sealer::new();
    for length in 1..40 {
        let mut wire = Vec::new();
        sealer.seal(&vec![20; length], &[], &mut wire).unwrap();
        assert_eq!(wire.len() % 8, 0);
        assert!(wire.len() >= 16 || length < 4, "{length}: {}", wire.len());
        let got = opened(&mut Opener::new(), &wire, 1).unwrap();
        assert_eq!(got, [vec![20; length]]);
    }
}

#[test]
fn every_changed_bit_is_seen() {
    for suite in Suite::ALL {
        let (mut sealer, _) = pair(suite);
        let mut wire = Vec::new();
        sealer.seal(b"a message", b"", &mut wire).unwrap();
        for bit in 0..wire.len() * 8 {
            let mut changed = wire.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let (_, mut opener) = pair(suite);
            match opener.open(&mut changed) {
                Err(_) => {}
                // A longer packet, of which the rest never comes.
                Ok(Opened::Part { needed }) => assert!(bit < 32 && needed > wire.len()),
                Ok(Opened::Packet { .. }) => panic!("{suite:?}: bit {bit}"),
            }
        }
    }
}

#[test]
fn packets_come_once_and_in_order() {
    for suite in Suite::ALL {
        let (mut sealer, mut opener) = pair(suite);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        sealer.seal(b"first", b"", &mut first).unwrap();
        sealer.seal(b"other", b"", &mut second).unwrap();
        let again = first.clone();
        let (_, mut other) = pair(suite);
        assert!(
            !matches!(other.open(&mut second), Ok(Opened::Packet { .. })),
            "{suite:?}"
        );
        assert!(matches!(opener.open(&mut first), Ok(Opened::Packet { .. })));
        let mut again = again;
        assert!(
            !matches!(opener.open(&mut again), Ok(Opened::Packet { .. })),
            "{suite:?}"
        );
    }
}

#[test]
fn lengths_that_lie_are_refused_before_anything_is_kept() {
    let mut opener = Opener::new();
    let mut plain = |length: u32| {
        let mut wire = length.to_be_bytes().to_vec();
        opener.open(&mut wire)
    };
    let too_long = |length: u32| PacketError::TooLong {
        length: length.into(),
        longest: LONGEST_PLAIN,
    };
    assert_eq!(plain(u32::MAX), Err(too_long(u32::MAX)));
    assert_eq!(plain(LONGEST_PLAIN + 1), Err(too_long(LONGEST_PLAIN + 1)));
    for length in [0, 1, 4, 5, 13, 15] {
        assert_eq!(plain(length), Err(PacketError::Length { length, block: 8 }));
    }
    // Nor with keys, before the login.
    opener
        .rekey(Suite::Aes128Gcm, &keys(Suite::Aes128Gcm), true)
        .unwrap();
    let mut wire = (LONGEST_PLAIN + 1).to_be_bytes();
    let refused = opener.open(&mut wire);
    assert_eq!(refused, Err(too_long(LONGEST_PLAIN + 1)));
    let (_, mut opener) = pair(Suite::Aes128Gcm);
    let mut wire = (LONGEST + 16).to_be_bytes();
    assert!(matches!(
        opener.open(&mut wire),
        Err(PacketError::TooLong { .. })
    ));
    let mut wire = 17_u32.to_be_bytes();
    let wrong = PacketError::Length {
        length: 17,
        block: 16,
    };
    assert_eq!(opener.open(&mut wire), Err(wrong));
}

#[test]
fn padding_that_lies_is_refused() {
    let packet = |padding: u8| {
        let mut wire = vec![0; 16];
        wire[3] = 12;
        wire[4] = padding;
        Opener::new().open(&mut wire)
    };
    for padding in [0, 3, 11, 12, 255] {
        let wrong = PacketError::Padding {
            padding,
            length: 12,
        };
        assert_eq!(packet(padding), Err(wrong));
    }
    assert!(matches!(packet(10), Ok(Opened::Packet { payload, .. }) if payload.len() == 1));
}

#[test]
fn what_no_peer_takes_is_not_written() {
    let mut wire = vec![1];
    let mut sealer = Sealer::new();
    assert_eq!(sealer.seal(b"", b"", &mut wire), Err(PacketError::Empty));
    assert!(sealer.seal(&vec![0; 35_000], b"", &mut wire).is_err());
    let (mut sealer, _) = pair(Suite::ChaCha20Poly1305);
    let long = vec![0; LONGEST as usize];
    assert!(sealer.seal(b"x", &long, &mut wire).is_err());
    assert_eq!(wire, [1]);
    assert_eq!(sealer.usage(), Usage::default());
}

#[test]
fn keys_change_between_two_packets() {
    let (mut sealer, mut opener) = pair(Suite::Aes256Gcm);
    let mut wire = Vec::new();
    sealer.seal(&[21], b"", &mut wire).unwrap();
    let next = Suite::Ctr(CtrKey::Aes256, Mac::Sha512Etm);
    sealer.rekey(next, &keys(next), false).unwrap();
    sealer.seal(b"under new keys", b"", &mut wire).unwrap();
    let Ok(Opened::Packet {
        consumed, sequence, ..
    }) = opener.open(&mut wire)
    else {
        panic!("NEWKEYS")
    };
    assert_eq!(sequence, 0);
    opener.rekey(next, &keys(next), false).unwrap();
    let Ok(Opened::Packet {
        payload, sequence, ..
    }) = opener.open(&mut wire[consumed..])
    else {
        panic!("under new keys")
    };
    assert_eq!(sequence, 1, "they go on without strict key exchange");
    assert_eq!(&wire[consumed..][payload], b"under new keys");
}

#[test]
fn keys_of_another_suite_are_refused() {
    let wrong = keys(Suite::Aes128Gcm);
    for suite in Suite::ALL {
        let refused = Sealer::new().rekey(suite, &wrong, true).is_err();
        assert_eq!(refused, suite != Suite::Aes128Gcm, "{suite:?}");
        let refused = Opener::new().rekey(suite, &wrong, true).is_err();
        assert_eq!(refused, suite != Suite::Aes128Gcm, "{suite:?}");
    }
}

#[test]
fn suites_are_found_by_their_names() {
    for suite in Suite::ALL {
        let mac = suite.mac().map(|mac| mac.name().as_bytes());
        assert_eq!(Suite::named(suite.cipher().as_bytes(), mac), Some(suite));
    }
    assert_eq!(Suite::named(b"aes128-ctr", None), None);
    assert_eq!(Suite::named(b"aes128-cbc", None), None);
}

#[test]
fn keys_are_due_by_bytes_or_packets() {
    let suite = Suite::ChaCha20Poly1305;
    assert!(!Sealer::new().is_due() && !pair(suite).1.is_due());
    let usage = |packets, bytes| Usage { packets, bytes };
    assert!(!usage(1, 1 << 20).is_due(suite));
    assert!(usage(1, 1 << 30).is_due(suite));
    assert!(!usage(1, 1 << 30).is_due(Suite::Aes128Gcm));
    assert!(usage(MOST_PACKETS / 2, 0).is_due(Suite::Aes128Gcm));
}

proptest! {
    #[test]
    fn whatever_comes_is_a_packet_a_part_or_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        suite in proptest::option::of(proptest::sample::select(&Suite::ALL[..])),
    ) {
        let mut opener = Opener::new();
        if let Some(suite) = suite {
            opener.rekey(suite, &keys(suite), true).unwrap();
        }
        let length = bytes.len();
        let mut buffer = bytes;
        match opener.open(&mut buffer) {
            Ok(Opened::Part { needed }) => prop_assert!(needed > length),
            Ok(Opened::Packet { payload, consumed, .. }) => {
                prop_assert!(!payload.is_empty() && payload.end <= consumed && consumed <= length);
            }
            Err(_) => {}
        }
    }
}
