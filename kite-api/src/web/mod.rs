//! HTTP as such: bodies, answers, lists, and what surrounds every request.

mod answer;
mod body;
mod bounds;
mod end;
mod field;
mod form;
mod found;
pub(crate) mod header;
pub(crate) mod held;
mod input;
mod json;
pub(crate) mod layers;
mod nested;
pub(crate) mod once;
mod paging;
mod place;
mod precondition;
pub(crate) mod query;
mod shape;
mod shown;
mod ssh_keys;
mod trial;
mod turns;
pub(crate) mod written;

#[cfg(test)]
pub(crate) use self::shape::Shape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::body::{BODY_LIMIT, STRANGERS_BODY_LIMIT};
pub(crate) use self::{
    answer::{Accepted, Answer, Created, Done},
    bounds::Bounds,
    end::{read_end, require_future},
    field::Field,
    form::{Change, Form},
    found::Found,
    input::{Input, Sent},
    nested::{Listed, Partial},
    once::{Once, Stamp},
    paging::{Items, PAGE_MEMORY, Page},
    precondition::{IfMatch, delete, edit, edit_noting, tag_of},
    shape::{CURSOR, DAY, LINE, day},
    shown::Shown,
    ssh_keys::SshKeys,
    trial::{finish_edit, finish_new, judge_edit, judge_new, whole_of_edit, whole_of_new},
    turns::Turns,
};

/// What stands for one object in a path.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Named {
    /// Its name.
    pub(crate) name: String,
}

/// What a deletion answers.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Deleting {
    /// What is deleted.
    name: String,
    /// Always true: it goes, and is gone when it cannot be found any more.
    deleting: bool,
}

impl Deleting {
    pub(crate) fn of(name: String) -> Accepted<Self> {
        Answer::new(Self {
            name,
            deleting: true,
        })
    }
}

/// How long a DNS label may be.
pub(crate) const LABEL: Bounds = Bounds::between(1, 63);

/// Whether `text` is a DNS label and so fit to name an object. What is not must
/// not get into a path of the API server; the CRD refuses it in words.
pub(crate) fn is_label(text: &str) -> bool {
    LABEL.hold(text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}
