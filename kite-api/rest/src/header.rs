//! Headers that cannot be: told by name, value and what to write, as fields are.

use http::{HeaderMap, HeaderName};
use serde_json::Value;

use crate::{
    problem::{FieldError, Problem, ProblemKind},
    query::shortened,
};

/// The refusal of a request with a header that cannot be. `called` is how people write it.
pub fn refused(headers: &HeaderMap, header: &HeaderName, called: &str, message: &str) -> Problem {
    let given = headers.get_all(header).iter();
    // Bytes that are no text are shown in its place.
    let given = given.map(|it| shortened(&String::from_utf8_lossy(it.as_bytes())));
    let mut given: Vec<_> = given.map(Value::from).take(MOST_REPEATED).collect();
    let value = match given.len() {
        1 => given.pop(),
        _ => Some(given.into()),
    };
    let detail = format!("{called}: {message}");
    Problem::new(ProblemKind::Malformed, detail).with_error(FieldError {
        field: called.to_owned(),
        value,
        message: message.to_owned(),
    })
}

/// Most values of one header that are repeated.
const MOST_REPEATED: usize = 8;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::{HeaderValue, header};

    use super::*;

    #[test]
    fn a_small_refusal_repeats_what_was_given() {
        let mut headers = HeaderMap::new();
        let mut told = |value: &[u8]| {
            let value = HeaderValue::from_bytes(value).unwrap();
            headers.append(header::IF_MATCH, value);
            let problem = refused(&headers, &header::IF_MATCH, "If-Match", "write *");
            let [error] = problem.errors() else {
                panic!("{problem:?}");
            };
            assert_eq!(error.field, "If-Match");
            error.value.clone().unwrap()
        };
        assert_eq!(told(b"a\xff"), "a\u{fffd}");
        let both = told("b".repeat(5_000).as_bytes());
        assert_eq!(both[0], "a\u{fffd}");
        assert_eq!(both[1].as_str().unwrap().len(), 200);
        for _ in 0..20 {
            assert!(told(b"c").as_array().unwrap().len() <= MOST_REPEATED);
        }
    }
}
