//! What using a refresh token does to the tokens of its session: pure, so that it
//! can be tried in every order.
//!
//! Each renewal replaces the refresh token. The one that was replaced is good for
//! another pair for a short time, for the answer may have been lost, or two tabs
//! asked at once, perhaps two replicas: whichever of them the browser keeps in the
//! end is good. One that comes again later than that is in two hands, and neither
//! of them is believed any more.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::crd::{AccessToken, SessionTokens};
use subtle::ConstantTimeEq as _;

/// How long a refresh token that was replaced is good for another pair.
pub(crate) const GRACE: Duration = Duration::from_secs(60);
/// Most refresh tokens of one generation: so many tabs may ask at once.
const MOST_SIBLINGS: usize = 16;
/// Most access tokens that are remembered.
const MOST_ACCESS: usize = 16;

/// Hashes of a new pair of tokens.
pub(crate) struct NewPair {
    pub(crate) access: String,
    pub(crate) refresh: String,
    /// When the access token ends.
    pub(crate) access_expires_at: Timestamp,
}

/// What is to be done with a session whose refresh token was used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rotation {
    /// Store these and hand out the new pair.
    Renewed(SessionTokens),
    /// The token is in two hands: end the session.
    Stolen,
    /// Too many ask at once.
    Crowded,
}

/// The tokens of a new session.
pub(crate) fn first(pair: NewPair, now: Timestamp) -> SessionTokens {
    SessionTokens {
        access: vec![AccessToken {
            hash: pair.access,
            expires_at: Time(pair.access_expires_at),
        }],
        refresh: vec![pair.refresh],
        replaced: Vec::new(),
        rotated_at: Time(now),
    }
}

/// Uses the refresh token with the hash `presented`. The caller has made sure that
/// the session's own id came with it: so it was given out by Kite, whatever it is.
pub(crate) fn rotate(
    tokens: &SessionTokens,
    presented: &str,
    pair: NewPair,
    now: Timestamp,
) -> Rotation {
    let grace_ends = tokens.rotated_at.0 + GRACE;
    let new = AccessToken {
        hash: pair.access,
        expires_at: Time(pair.access_expires_at),
    };
    if holds(&tokens.refresh, presented) {
        let access = still_open(&tokens.access, now, Some(now + GRACE), new);
        return Rotation::Renewed(SessionTokens {
            access,
            refresh: vec![pair.refresh],
            replaced: tokens.refresh.clone(),
            rotated_at: Time(now),
        });
    }
    if !holds(&tokens.replaced, presented) || now > grace_ends {
        return Rotation::Stolen;
    }
    if tokens.refresh.len() >= MOST_SIBLINGS {
        return Rotation::Crowded;
    }
    let mut tokens = tokens.clone();
    tokens.access = still_open(&tokens.access, now, None, new);
    tokens.refresh.push(pair.refresh);
    Rotation::Renewed(tokens)
}

/// Whether the access token with the hash `presented` opens the session; nothing
/// if it is not known.
pub(crate) fn access_until(tokens: &SessionTokens, presented: &str) -> Option<Timestamp> {
    tokens
        .access
        .iter()
        .find(|token| is_same(&token.hash, presented))
        .map(|token| token.expires_at.0)
}

/// The access tokens that still open the session, none of them beyond `latest`,
/// and the new one.
fn still_open(
    access: &[AccessToken],
    now: Timestamp,
    latest: Option<Timestamp>,
    new: AccessToken,
) -> Vec<AccessToken> {
    let mut open: Vec<_> = access
        .iter()
        .filter(|token| token.expires_at.0 > now)
        .map(|token| AccessToken {
            hash: token.hash.clone(),
            expires_at: Time(
                latest.map_or(token.expires_at.0, |latest| token.expires_at.0.min(latest)),
            ),
        })
        .collect();
    open.push(new);
    let beyond = open.len().saturating_sub(MOST_ACCESS);
    open.drain(..beyond);
    open
}

fn holds(hashes: &[String], presented: &str) -> bool {
    hashes.iter().any(|hash| is_same(hash, presented))
}

fn is_same(hash: &str, presented: &str) -> bool {
    hash.as_bytes().ct_eq(presented.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use jiff::ToSpan as _;

    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn pair(n: u32, now: Timestamp) -> NewPair {
        NewPair {
            access: format!("a{n}"),
            refresh: format!("r{n}"),
            access_expires_at: now + 15.minutes(),
        }
    }

    fn renewed(rotation: Rotation) -> SessionTokens {
        match rotation {
            Rotation::Renewed(tokens) => tokens,
            other => panic!("{other:?}"),
        }
    }

    /// After the first renewal a quarter of an hour after the start.
    fn once() -> (SessionTokens, Timestamp) {
        let now = START + 15.minutes();
        let tokens = first(pair(0, START), START);
        (renewed(rotate(&tokens, "r0", pair(1, now), now)), now)
    }

    #[test]
    fn each_renewal_replaces_the_token() {
        let (tokens, now) = once();
        assert_eq!(tokens.refresh, ["r1"]);
        assert_eq!(access_until(&tokens, "a1"), Some(now + 15.minutes()));
        assert_eq!(access_until(&tokens, "a0"), None, "it has ended");
    }

    #[test]
    fn a_lost_answer_is_asked_for_again_and_whichever_is_kept_is_good() {
        let (tokens, now) = once();
        let tokens = renewed(rotate(&tokens, "r0", pair(2, now), now + 10.seconds()));
        assert_eq!(tokens.refresh, ["r1", "r2"]);
        for kept in ["r1", "r2"] {
            let later = now + 10.minutes();
            let next = renewed(rotate(&tokens, kept, pair(3, later), later));
            assert_eq!(next.refresh, ["r3"]);
            assert_eq!(next.replaced, ["r1", "r2"]);
        }
    }

    #[test]
    fn one_that_comes_again_later_is_in_two_hands() {
        let (tokens, now) = once();
        let later = now + GRACE + 1.seconds();
        assert_eq!(
            rotate(&tokens, "r0", pair(2, later), later),
            Rotation::Stolen
        );
        // However long ago it was.
        let tokens = renewed(rotate(&tokens, "r1", pair(2, later), later));
        assert_eq!(
            rotate(&tokens, "r0", pair(3, later), later),
            Rotation::Stolen
        );
    }

    #[test]
    fn asking_again_does_not_make_the_grace_longer() {
        let (mut tokens, now) = once();
        for second in [20, 40, 60] {
            let at = now + second.seconds();
            tokens = renewed(rotate(&tokens, "r0", pair(9, at), at));
        }
        let late = now + 61.seconds();
        assert_eq!(rotate(&tokens, "r0", pair(9, late), late), Rotation::Stolen);
    }

    #[test]
    fn an_access_token_ends_soon_after_it_was_replaced() {
        let now = START + 5.minutes();
        let tokens = first(pair(0, START), START);
        let tokens = renewed(rotate(&tokens, "r0", pair(1, now), now));
        assert_eq!(access_until(&tokens, "a0"), Some(now + GRACE));
    }

    #[test]
    fn the_number_of_tokens_is_bounded() {
        let (mut tokens, now) = once();
        let mut crowded = 0;
        for n in 2..100 {
            match rotate(&tokens, "r0", pair(n, now), now) {
                Rotation::Renewed(next) => tokens = next,
                Rotation::Crowded => crowded += 1,
                Rotation::Stolen => panic!("within the grace"),
            }
        }
        assert!(crowded > 0);
        assert!(tokens.refresh.len() <= MOST_SIBLINGS && tokens.access.len() <= MOST_ACCESS);
    }
}
