//! What REST APIs over custom resources have around their handlers.
//!
//! An API whose state is custom resources writes what people ask for into an API server and
//! reads from watched copies. Whatever the resources are, it needs the same: bodies of which
//! all faults are told at once, refusals that name the field, the value and the remedy,
//! edits that count only if nobody else edited meanwhile, creations that may be repeated,
//! lists by the page, answers that show what their client has written before, bounds of
//! memory, an audit log, and an OpenAPI document that says all of that because it is made
//! from the same types. That is here, for [axum], [aide] and [`kite_core::cluster`]; it
//! knows no resource.
//!
//! ```
//! use kite_rest::{Form, ProblemKind};
//! use serde_json::json;
//!
//! let body = json!({ "cpu": "two", "kpu": 1 });
//! let mut form = Form::new(body.as_object().unwrap().clone());
//! assert_eq!(form.required::<u32>("cpu"), None);
//! let problem = form.finish().unwrap_err();
//! assert_eq!(problem.kind(), ProblemKind::Invalid);
//! // Both are told: one has another type, and the other is not a field.
//! assert_eq!(problem.errors().len(), 2);
//! assert_eq!(problem.errors()[0].message, "write a whole number such as 2");
//! ```
//!
//! | Module | What |
//! |---|---|
//! | [`problem`] | refusals as RFC 9457 problem details; what an API server's mean |
//! | [`Form`], [`Input`], [`Sent`], [`Field`] | bodies, read field by field, described as they are read |
//! | [`OneOf`], [`SomeOf`], [`Partial`], [`Listed`], [`Whole`], [`SshKeys`] | fields of more than one part |
//! | [`Vocabulary`] | an application's words for its fields |
//! | [`Answer`], [`Redirect`], [`Items`], [`Page`], [`Shown`] | answers and lists |
//! | [`IfMatch`], [`edit`], [`delete`], [`patch_unchanged`] | writes that nobody else's are lost by |
//! | [`IdempotencyKey`], [`Turns`] | creations that may be asked for again, or twice at a time |
//! | [`finish_new`], [`finish_edit`] | what an API server finds wrong with a body, told with the rest |
//! | [`cache`], [`present`] | watched copies |
//! | [`written`] | `Kite-Written`: clients read what they have written on every replica |
//! | [`budget`], [`held`] | how much memory requests and answers may hold |
//! | [`query`] | parameters of queries, against what the document says |
//! | [`audit`] | one record for each request that changes something |
//! | [`web`] | requests to servers that somebody names |
//! | [`openapi`] | the document |
//! | [`cookie`], [`address`], [`request_id`] | what a browser brings, where a client is, how a request is called |
//!
//! # Feature flags
//!
//! There are none.

pub mod address;
mod answer;
pub mod audit;
mod body;
mod bounds;
pub mod budget;
pub mod cache;
mod choice;
pub mod cookie;
mod described_as;
mod end;
mod field;
mod form;
mod header;
mod headers;
pub mod held;
mod idempotency_key;
mod input;
mod json;
mod lookup;
mod named;
mod nested;
pub mod openapi;
mod paging;
mod patch;
mod place;
mod precondition;
pub mod problem;
pub mod query;
mod redirect;
pub mod request_id;
mod shape;
mod shown;
mod ssh_keys;
mod store;
mod trial;
mod turns;
mod unchanged;
mod vocabulary;
pub mod web;
pub mod written;

pub use self::{
    answer::{Accepted, Answer, Created, Done},
    body::{BODY_LIMIT, Bodies, STRANGERS_BODY_LIMIT},
    bounds::Bounds,
    cache::Cache,
    choice::{OneOf, SomeOf},
    end::{read_end, require_future},
    field::Field,
    form::{Change, Form},
    idempotency_key::{IdempotencyKey, Stamp},
    input::{Input, Sent},
    lookup::present,
    named::{Deleting, LABEL, Named, is_label},
    nested::{Listed, Partial, Whole},
    paging::{Items, PAGE_MEMORY, Page},
    patch::{as_map, change_to_json, texts},
    precondition::{IfMatch, delete, edit, edit_noting, etag_of},
    problem::{FieldError, Problem, ProblemKind},
    redirect::Redirect,
    shape::{CURSOR, DAY, Fault, FaultKind, LINE, Shape, day, faults_by_schema, not_understood},
    shown::Shown,
    ssh_keys::SshKeys,
    store::Store,
    trial::{finish_edit, finish_new, judge_edit, judge_new, whole_of_edit, whole_of_new},
    turns::{Turn, Turns},
    unchanged::patch_unchanged,
    vocabulary::Vocabulary,
};
