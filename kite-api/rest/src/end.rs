//! When something shall end: never in the past.

use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::form::Form;

/// Reads `expiresAt`. The days are those after which it ends unless told otherwise,
/// and those after which it ends at the latest.
pub fn read_end(form: &mut Form, (usual, longest): (i64, i64)) -> Timestamp {
    let now = Timestamp::now();
    let day = |days: i64| now + (days * 24).hours();
    let end: Option<Time> = form.optional("expiresAt");
    let end = end.map_or_else(|| day(usual), |time| time.0);
    if end <= now || end > day(longest) {
        form.error(
            "expiresAt",
            format!("write a time in the future, at most {longest} days away"),
        );
    }
    end
}

/// Refuses a `field` with an end that is over already: what it is given would end at once.
/// `otherwise` is what else to do, in the words after "or".
pub fn require_future(form: &mut Form, field: &str, end: Option<&Time>, otherwise: &str) {
    if end.is_some_and(|end| end.0 <= Timestamp::now()) {
        form.error(
            field,
            format!("is in the past: write a time in the future, or {otherwise}"),
        );
    }
}
