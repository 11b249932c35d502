//! Query strings.

use crate::percent::decode;

/// The parameters of a URL, in order, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses `a=b&c=d`; what is not valid UTF-8 after decoding is replaced. As
    /// in Go, a pair with a semicolon or a broken escape is dropped.
    pub fn parse(text: &str) -> Self {
        Self(
            text.split('&')
                .filter(|pair| !pair.is_empty() && !pair.contains(';') && is_escaped(pair))
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(name, true), decode(value, true))
                })
                .collect(),
        )
    }

    /// The first value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    /// The first value of a parameter, empty if it is not there.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    /// Whether a parameter is there at all.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A boolean as Kubernetes converts it: absent, `0` and `false` (in any
    /// case) are false, all else is true.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|v| v != "0" && !v.eq_ignore_ascii_case("false"))
    }
}

/// Whether every `%` begins an escape.
fn is_escaped(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| {
        let mut digits = rest.bytes();
        let mut digit = || digits.next().is_some_and(|b| b.is_ascii_hexdigit());
        digit() && digit()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_may_repeat() {
        let q = Query::parse("labelSelector=a%3Db%2Cc&dryRun=All&dryRun=All&watch&x=a+b&y=%zz");
        assert_eq!(q.text("labelSelector"), "a=b,c");
        assert_eq!(q.all("dryRun").count(), 2);
        assert!(q.flag("watch") && !q.flag("force"));
        assert_eq!(q.text("x"), "a b");
        assert!(!q.has("y"), "a broken escape drops the pair");
    }
}
