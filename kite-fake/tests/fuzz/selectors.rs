//! What a request's line says: paths, queries, selectors, media types.

use std::borrow::Cow;

use kite_fake::rest::media;
use kite_fake::rest::options::{ListOptions, WriteOptions};
use kite_fake::rest::path;
use kite_fake::rest::query::Query;
use kite_fake::rest::selector::{FieldSelector, LabelSelector};
use serde_json::json;

use super::input::Input;

const TOKENS: &[&str] = &[
    "a",
    "b",
    "x.io/a",
    " in ",
    " notin ",
    "(",
    ")",
    ",",
    "=",
    "==",
    "!=",
    "!",
    ">",
    "<",
    "1",
    " ",
    "\\",
    "metadata.name",
    "status.phase",
    "é",
    "\t",
];

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let made: String = (0..input.below(16)).map(|_| input.pick(TOKENS)).collect();
    let object = json!({"metadata": {"name": "a", "labels": {"a": "b", "x.io/a": "1"}}});
    for text in [Cow::from(made), String::from_utf8_lossy(data)] {
        if let Ok(selector) = LabelSelector::parse(&text) {
            let matches = selector.matches(&object);
            assert!(
                !selector.is_empty() || matches,
                "an empty selector takes all: {text:?}"
            );
        }
        if let Ok(selector) = FieldSelector::parse(&text) {
            let matches = selector.matches(&object);
            assert!(
                !selector.is_empty() || matches,
                "an empty selector takes all: {text:?}"
            );
        }
        let query = Query::parse(&text);
        for watch in [false, true] {
            let _ = ListOptions::parse(&query, watch);
        }
        let _ = WriteOptions::parse("PatchOptions", false, &query, &text);
        let _ = path::parse(&text);
        for custom in [false, true] {
            let _ = media::accepted(
                Some(&text),
                media::Offer {
                    custom,
                    tables: true,
                },
            );
            let _ = media::content_type(Some(&text), custom);
        }
    }
}
