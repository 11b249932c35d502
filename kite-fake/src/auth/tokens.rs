//! Bearer tokens, whom they speak for and to whom.

use std::collections::HashMap;
use std::fmt;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::Identity;

/// The audience of the API server itself, and who issues tokens of service accounts.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// Bearer tokens that the server recognises. Only digests are kept, so that
/// finding one takes no longer for a token that is nearly right.
#[derive(Clone, Default)]
pub struct Tokens(HashMap<[u8; 32], Token>);

/// What is known of a token.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    /// Whom it speaks for.
    pub(crate) identity: Identity,
    /// Until when; for good if not set.
    pub(crate) until: Option<Timestamp>,
    /// To whom, where that is not the API server alone.
    pub(crate) audiences: Vec<String>,
}

impl Token {
    /// Those of the audiences `asked` to whom it speaks.
    pub(crate) fn audiences_among(&self, asked: &[String]) -> Vec<String> {
        let speaks = |audience: &&String| match self.audiences.as_slice() {
            [] => *audience == ISSUER,
            own => own.contains(audience),
        };
        asked.iter().filter(speaks).cloned().collect()
    }

    /// Whether it speaks to the API server.
    pub(crate) fn is_for_server(&self) -> bool {
        self.audiences.is_empty() || self.audiences.iter().any(|it| it == ISSUER)
    }
}

impl Tokens {
    fn digest(token: &str) -> [u8; 32] {
        Sha256::digest(token.as_bytes()).into()
    }

    /// Lets a token speak for a user to the API server, until a time or for good.
    /// Expired ones are dropped on the way.
    pub fn insert(
        &mut self,
        token: &str,
        identity: Identity,
        now: Timestamp,
        until: Option<Timestamp>,
    ) {
        self.insert_for(token, identity, now, until, Vec::new());
    }

    /// Lets a token speak for a user to `audiences`: to the API server alone where there
    /// are none.
    pub fn insert_for(
        &mut self,
        token: &str,
        identity: Identity,
        now: Timestamp,
        until: Option<Timestamp>,
        audiences: Vec<String>,
    ) {
        self.0
            .retain(|_, token| token.until.is_none_or(|end| end > now));
        let token_of = Token {
            identity,
            until,
            audiences,
        };
        self.insert_digest(Self::digest(token), token_of);
    }

    /// The digests of the tokens with what is known of them, in the order of the
    /// digests.
    pub(crate) fn digests(&self) -> Vec<([u8; 32], &Token)> {
        let mut all: Vec<_> = self.0.iter().map(|(digest, it)| (*digest, it)).collect();
        all.sort_unstable_by_key(|(digest, _)| *digest);
        all
    }

    /// Lets the token of a digest speak for a user, as [`insert`](Self::insert) does.
    pub(crate) fn insert_digest(&mut self, digest: [u8; 32], token: Token) {
        self.0.insert(digest, token);
    }

    /// What is known of a token, if it is valid at that time, whoever it speaks to.
    pub(crate) fn get(&self, token: &str, now: Timestamp) -> Option<&Token> {
        let found = self.0.get(&Self::digest(token))?;
        found.until.is_none_or(|end| end > now).then_some(found)
    }

    /// Whose token it is, if it is valid at that time and speaks to the API server.
    pub fn find(&self, token: &str, now: Timestamp) -> Option<&Identity> {
        let found = self.get(token, now)?;
        found.is_for_server().then_some(&found.identity)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_and_never_shown() {
        let mut tokens = Tokens::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        tokens.insert("secret-token", Identity::admin(), at(0), Some(at(10)));
        let master =
            |t: &Tokens, token: &str, now| t.find(token, now).is_some_and(Identity::is_master);
        assert!(master(&tokens, "secret-token", at(9)));
        assert!(!master(&tokens, "secret-token", at(10)));
        assert!(!master(&tokens, "secret-tokem", at(0)));
        assert!(!format!("{tokens:?}").contains("secret"));
    }

    #[test]
    fn a_token_speaks_to_its_audiences() {
        let mut tokens = Tokens::default();
        let now = Timestamp::UNIX_EPOCH;
        let words = |words: &[&str]| -> Vec<String> { words.iter().map(|&it| it.into()).collect() };
        tokens.insert("own", Identity::admin(), now, None);
        tokens.insert_for("api", Identity::admin(), now, None, words(&["api", "b"]));
        assert!(tokens.find("own", now).is_some());
        assert!(tokens.find("api", now).is_none());
        let among = |token: &str, asked: &[&str]| {
            let known = tokens.get(token, now).unwrap();
            known.audiences_among(&words(asked))
        };
        assert_eq!(among("api", &["x", "api"]), ["api"]);
        assert_eq!(among("own", &["x", ISSUER]), [ISSUER]);
        assert!(among("own", &["api"]).is_empty());
    }
}
