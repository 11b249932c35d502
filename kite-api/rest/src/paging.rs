//! Lists in pages: so many items after the last one, in the order of their keys,
//! which no change of other objects disturbs.

use aide::{OperationInput, generate::GenContext, openapi::Operation};
use axum::extract::{FromRequestParts, Query};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::request::Parts;
use kite_core::cluster::{Object, ObjectKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{io, sync::Arc};

use crate::{
    problem::{Problem, ProblemKind},
    shape::CURSOR,
};

/// Items of a page unless asked otherwise.
const USUAL: usize = 100;
/// Bytes of a page beyond which it ends, though fewer items are on it than were asked for:
/// a thousand that are as usual are less, and nobody's keys make an answer of any size.
pub const PAGE_MEMORY: usize = 4 << 20;

/// A page of a list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}List")]
#[allow(
    clippy::struct_field_names,
    reason = "lists of Kubernetes are called so too"
)]
#[non_exhaustive]
pub struct Items<T> {
    /// The items of this page, in the order of their names unless told otherwise.
    pub items: Vec<T>,
    /// How many there are on all pages together.
    pub total: usize,
    /// What `after` must say to get the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Which part of a list is asked for.
#[derive(Debug, Default)]
pub struct Page {
    limit: Option<u16>,
    after: Option<Vec<u8>>,
    search: Option<String>,
}

/// As it stands in the query, which was looked at by then.
#[derive(Deserialize, JsonSchema)]
struct PageQuery {
    /// Most items of a page: 1 to 1000, by default 100.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u16>,
    /// What the page before gave as `next`.
    #[schemars(extend("format" = CURSOR))]
    after: Option<String>,
    /// Only what has this text in its name or in what people know it by; upper
    /// and lower case are the same.
    #[schemars(length(max = 100))]
    search: Option<String>,
}

impl Page {
    /// Whether an item with these texts is looked for.
    pub fn wants<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> bool {
        self.search.as_ref().is_none_or(|search| {
            texts
                .into_iter()
                .any(|text| text.to_lowercase().contains(search))
        })
    }

    /// Cuts the page out of all objects that are wanted, which are in the order
    /// of their keys.
    pub fn cut<K: Object, T: Serialize>(&self, all: &[Arc<K>], view: impl Fn(&K) -> T) -> Items<T> {
        self.cut_by(all, Arc::as_ref, |object| view(object))
    }

    /// The same of anything that has an object in it.
    pub fn cut_by<I, K: Object, T: Serialize>(
        &self,
        all: &[I],
        object: impl Fn(&I) -> &K,
        view: impl Fn(&I) -> T,
    ) -> Items<T> {
        self.cut_along(all, |item| cursor(object(item)), view)
    }

    /// The same of anything that is in the order of such texts.
    pub fn cut_along<I, T: Serialize>(
        &self,
        all: &[I],
        place: impl Fn(&I) -> String,
        view: impl Fn(&I) -> T,
    ) -> Items<T> {
        let start = self.after.as_ref().map_or(0, |after| {
            all.partition_point(|item| place(item).as_bytes() <= after.as_slice())
        });
        let limit = self.limit.map_or(USUAL, usize::from);
        let page = &all[start..all.len().min(start + limit)];
        let (mut items, mut bytes) = (Vec::new(), 0);
        for item in page {
            if bytes >= PAGE_MEMORY {
                break;
            }
            let item = view(item);
            bytes += length(&item);
            items.push(item);
        }
        let page = &page[..items.len()];
        let is_last = start + page.len() == all.len();
        Items {
            items,
            total: all.len(),
            next: page
                .last()
                .filter(|_| !is_last)
                .map(|last| URL_SAFE_NO_PAD.encode(place(last))),
        }
    }
}

/// How long an item is as JSON, of which nothing is kept.
fn length(item: &impl Serialize) -> usize {
    struct Count(usize);

    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    // What cannot be written fails where it is.
    let _ = serde_json::to_writer(&mut count, item);
    count.0
}

/// Where an object stands in a list, in the order of caches: by namespace, then
/// by name, of which none has a character before `\0`.
fn cursor<K: Object>(object: &K) -> String {
    let key = ObjectKey::of(object);
    format!("{}\0{}", key.namespace.unwrap_or_default(), key.name)
}

impl<S: Send + Sync> FromRequestParts<S> for Page {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let unread = || Problem::new(ProblemKind::Malformed, "the query cannot be read");
        let Query(query) = Query::<PageQuery>::from_request_parts(parts, state)
            .await
            .map_err(|_| unread())?;
        let after = query.after.map(|text| URL_SAFE_NO_PAD.decode(text));
        Ok(Self {
            limit: query.limit,
            after: after.transpose().map_err(|_| unread())?,
            search: query.search.map(|text| text.to_lowercase()),
        })
    }
}

impl OperationInput for Page {
    fn operation_input(ctx: &mut GenContext, operation: &mut Operation) {
        Query::<PageQuery>::operation_input(ctx, operation);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_page_ends_before_it_is_of_any_size_and_the_next_goes_on() {
        let text = "x".repeat(1 << 20);
        let all: Vec<String> = (0..10).map(|n| format!("{n}{text}")).collect();
        let (mut page, mut lengths) = (Page::default(), Vec::new());
        loop {
            let items = page.cut_along(&all, String::clone, String::clone);
            assert_eq!(items.total, 10);
            lengths.push(items.items.len());
            let Some(next) = items.next else {
                break;
            };
            page.after = Some(URL_SAFE_NO_PAD.decode(next).unwrap());
        }
        assert_eq!(lengths, [4, 4, 2]);
    }
}
