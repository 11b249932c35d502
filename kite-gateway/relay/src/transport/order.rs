//! Which message may come when: the whole of RFC 4253's and strict key exchange's order in one
//! function without state.

use crate::message::{
    DEBUG, DISCONNECT, EXT_INFO, IGNORE, KEX_INIT, KEX_REPLY, KEXINIT, NEWKEYS, PING, PONG,
    SERVICE_ACCEPT, SERVICE_REQUEST, UNIMPLEMENTED, USERAUTH_REQUEST,
};

/// What a peer is expected to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// The first `KEXINIT`; nothing is agreed on.
    First,
    /// The message of the key exchange of this number.
    Exchange(u8),
    /// `NEWKEYS`.
    NewKeys,
    /// Anything: no key exchange is under way, or the peer has not joined ours.
    Open,
}

/// What is to be done with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Verdict {
    /// It goes on with the key exchange.
    KeyExchange,
    /// It is read here.
    Own,
    /// It means nothing.
    Drop,
    /// It is the layer's above.
    Above,
    /// Nobody knows it, and its sender is told so.
    Unimplemented,
    /// It must not come now.
    Forbidden,
}

/// Judges the message `number`. `strict` says whether the first key exchange is a strict one,
/// in which nothing may come that is not part of it.
#[expect(clippy::match_same_arms, reason = "one arm for each rule")]
pub(super) fn judge(phase: Phase, strict: bool, number: u8) -> Verdict {
    match (phase, number) {
        // No number of a message.
        (_, 0) => Verdict::Forbidden,
        (_, DISCONNECT) => Verdict::Own,
        (Phase::First | Phase::Open, KEXINIT) | (Phase::NewKeys, NEWKEYS) => Verdict::KeyExchange,
        (Phase::Exchange(wanted), _) if wanted == number => Verdict::KeyExchange,
        (Phase::Exchange(_) | Phase::NewKeys, _) if strict => Verdict::Forbidden,
        (_, IGNORE | UNIMPLEMENTED | DEBUG) => Verdict::Drop,
        // Whoever has sent KEXINIT sends nothing but the exchange until it is over.
        (Phase::First | Phase::Exchange(_) | Phase::NewKeys, _) => Verdict::Forbidden,
        (Phase::Open, EXT_INFO | PING) => Verdict::Own,
        // An answer to nothing that was asked.
        (Phase::Open, PONG) => Verdict::Drop,
        (Phase::Open, NEWKEYS | KEX_INIT | KEX_REPLY) => Verdict::Forbidden,
        (Phase::Open, SERVICE_REQUEST | SERVICE_ACCEPT | USERAUTH_REQUEST..PING) => Verdict::Above,
        (Phase::Open, _) => Verdict::Unimplemented,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::match_same_arms, reason = "one arm for each rule")]
    fn every_message_in_every_phase() {
        let phases = [
            Phase::First,
            Phase::Exchange(KEX_INIT),
            Phase::Exchange(KEX_REPLY),
            Phase::NewKeys,
            Phase::Open,
        ];
        for phase in phases {
            for strict in [false, true] {
                for number in 0..=255 {
                    let verdict = judge(phase, strict, number);
                    let expected = match (phase, number) {
                        (_, 0) => Verdict::Forbidden,
                        (_, 1) => Verdict::Own,
                        (Phase::First | Phase::Open, 20)
                        | (Phase::Exchange(KEX_INIT), 30)
                        | (Phase::Exchange(KEX_REPLY), 31)
                        | (Phase::NewKeys, 21) => Verdict::KeyExchange,
                        (Phase::First | Phase::Open, 2..=4) => Verdict::Drop,
                        (_, 2..=4) if !strict => Verdict::Drop,
                        (Phase::Open, 5 | 6 | 50..=191) => Verdict::Above,
                        (Phase::Open, 7 | 192) => Verdict::Own,
                        (Phase::Open, 193) => Verdict::Drop,
                        (Phase::Open, 8..=19 | 22..=29 | 32..=49 | 194..) => Verdict::Unimplemented,
                        (_, 2..) => Verdict::Forbidden,
                    };
                    assert_eq!(verdict, expected, "{phase:?} {strict} {number}");
                }
            }
        }
    }
}
