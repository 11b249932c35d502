//! The answers of an API server that are not objects: `Status` (`meta/v1`).
//!
//! [`Status`] is both what a handler returns as its error and, through
//! [`Status::to_json`], the body that goes over the wire.

use std::fmt;

use serde_json::{Map, Value, json};

/// One entry of `details.causes`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// Machine-readable cause, such as `FieldValueInvalid`.
    pub reason: String,
    /// What a person reads.
    pub message: String,
    /// Path of the field, such as `spec.replicas`; empty if there is none.
    pub field: String,
}

impl Cause {
    /// A cause from its three parts.
    pub fn new(
        reason: impl Into<String>,
        message: impl Into<String>,
        field: impl Into<String>,
    ) -> Self {
        Self {
            reason: reason.into(),
            message: message.into(),
            field: field.into(),
        }
    }
}

/// `details` of a `Status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Name of the object that the request was about.
    pub name: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Plural of the resource, or the kind for `Invalid`.
    pub kind: String,
    /// UID of the object that was deleted.
    pub uid: String,
    /// Why, field by field.
    pub causes: Vec<Cause>,
    /// Seconds after which a retry makes sense (also sent as `Retry-After`).
    pub retry_after: Option<u32>,
}

/// A failure (or the success of a deletion) as the API server words it.
///
/// ```
/// use kite_fake::status::Status;
/// let status = Status::not_found("", "configmaps", "a");
/// assert_eq!(status.code, 404);
/// assert_eq!(status.to_json()["message"], "configmaps \"a\" not found");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason; empty where the server gives none.
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
    /// Present (maybe empty) or left out.
    pub details: Option<Box<Details>>,
    /// Fresh `continue` token that a 410 answer to a list offers.
    pub continue_token: Option<String>,
    /// The revision that is still to come; the answer may be another then.
    pub awaits: Option<u64>,
    /// The whole body, where it is not the server that words it.
    pub told: Option<Box<Value>>,
}

/// `plural` or `plural.group`, as messages name a resource or a kind.
pub fn qualified(group: &str, name: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

impl Status {
    /// A failure without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
            awaits: None,
            told: None,
        }
    }

    fn about(
        code: u16,
        reason: &'static str,
        message: String,
        group: &str,
        kind: &str,
        name: &str,
    ) -> Self {
        Self {
            details: Some(Box::new(Details {
                name: name.to_owned(),
                group: group.to_owned(),
                kind: kind.to_owned(),
                ..Details::default()
            })),
            ..Self::new(code, reason, message)
        }
    }

    /// The same answer with details.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// The same answer with causes added to its details.
    #[must_use]
    pub fn with_causes(mut self, causes: impl IntoIterator<Item = Cause>) -> Self {
        self.details
            .get_or_insert_with(Box::default)
            .causes
            .extend(causes);
        self
    }

    /// 400 with reason `BadRequest`.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403 about an object or a resource (empty `name`).
    pub fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let what = qualified(group, plural);
        let message = if name.is_empty() {
            format!("{what} is forbidden: {why}")
        } else {
            format!("{what} \"{name}\" is forbidden: {why}")
        };
        Self::about(403, "Forbidden", message, group, plural, name)
    }

    /// 404 for an object.
    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(group, plural));
        Self::about(404, "NotFound", message, group, plural, name)
    }

    /// 404 for a path that names no resource.
    pub fn no_such_resource() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .with_details(Details::default())
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details(Details::default())
    }

    /// 405 as the storage layer words it, for a verb that a resource lacks.
    pub fn verb_not_supported(group: &str, plural: &str, verb: &str) -> Self {
        let message = format!(
            "{verb} is not supported on resources of kind \"{}\"",
            qualified(group, plural)
        );
        Self::about(405, "MethodNotAllowed", message, group, plural, "")
    }

    /// 409 for a name that is taken.
    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(group, plural));
        Self::about(409, "AlreadyExists", message, group, plural, name)
    }

    /// 409 for a name that is taken, of an object that has a `generateName`.
    pub fn generated_name_exists(group: &str, plural: &str, name: &str) -> Self {
        let mut status = Self::already_exists(group, plural, name);
        status
            .message
            .push_str(", the server was not able to generate a unique name for the object");
        if let Some(details) = &mut status.details {
            details.retry_after = Some(1);
        }
        status
    }

    /// 409 with reason `Conflict`.
    pub fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            qualified(group, plural)
        );
        Self::about(409, "Conflict", message, group, plural, name)
    }

    /// 409: somebody else wrote the object in between.
    pub fn modified(group: &str, plural: &str, name: &str) -> Self {
        Self::conflict(
            group,
            plural,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 410 with reason `Expired`.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 415 with the server's media types.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    /// 422 about an object: the message lists the causes as the server does.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let mut items: Vec<String> = Vec::with_capacity(causes.len());
        for cause in &causes {
            let item = if cause.field.is_empty() {
                cause.message.clone()
            } else {
                format!("{}: {}", cause.field, cause.message)
            };
            if !items.contains(&item) {
                items.push(item);
            }
        }
        let list = match items.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {list}", qualified(group, kind));
        Self::about(422, "Invalid", message, group, kind, name).with_causes(causes)
    }

    /// 500 without a reason, as errors look that the server did not expect.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 500 with reason `InternalError`, as errors look that the server expected of others.
    pub fn internal_error(why: impl Into<String>) -> Self {
        let why = why.into();
        let message = format!("Internal error occurred: {why}");
        Self::new(500, "InternalError", message).with_causes([Cause::new("", why, "")])
    }

    /// 501: what the fake does not do, by name.
    pub fn unsupported(what: &str) -> Self {
        Self::new(
            501,
            "NotImplemented",
            format!("the in-memory API server does not support {what}"),
        )
        .with_details(Details {
            causes: vec![Cause::new("Unsupported", what, "")],
            ..Details::default()
        })
    }

    /// 504: the resourceVersion asked for has not happened yet.
    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        let mut status = Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        );
        status.awaits = Some(asked);
        status.with_details(Details {
            causes: vec![Cause::new(
                "ResourceVersionTooLarge",
                "Too large resource version",
                "",
            )],
            retry_after: Some(1),
            ..Details::default()
        })
    }

    /// 200: the answer to a deletion that left nothing behind.
    pub fn deleted(group: &str, plural: &str, name: &str, uid: &str) -> Self {
        let mut status = Self::about(200, "", String::new(), group, plural, name);
        if let Some(details) = &mut status.details {
            uid.clone_into(&mut details.uid);
        }
        status
    }

    /// Whether this is a failure.
    pub fn is_failure(&self) -> bool {
        self.code >= 400
    }

    /// The body, as Kubernetes' Go types encode it.
    pub fn to_json(&self) -> Value {
        if let Some(told) = &self.told {
            return told.as_ref().clone();
        }
        let mut out = Map::new();
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), token.as_str().into());
        }
        out.insert("kind".into(), "Status".into());
        out.insert("apiVersion".into(), "v1".into());
        out.insert("metadata".into(), metadata.into());
        let word = if self.is_failure() {
            "Failure"
        } else {
            "Success"
        };
        out.insert("status".into(), word.into());
        let mut text = |name: &str, value: &str| {
            if !value.is_empty() {
                out.insert(name.into(), value.into());
            }
        };
        text("message", &self.message);
        text("reason", self.reason);
        if let Some(details) = &self.details {
            out.insert("details".into(), details.to_json());
        }
        if self.is_failure() {
            out.insert("code".into(), self.code.into());
        }
        Value::Object(out)
    }
}

impl Details {
    fn to_json(&self) -> Value {
        let mut out = Map::new();
        for (name, value) in [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ] {
            if !value.is_empty() {
                out.insert(name.into(), value.as_str().into());
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|cause| {
                let mut one = Map::new();
                for (name, value) in [
                    ("reason", &cause.reason),
                    ("message", &cause.message),
                    ("field", &cause.field),
                ] {
                    if !value.is_empty() {
                        one.insert(name.into(), value.as_str().into());
                    }
                }
                Value::Object(one)
            });
            out.insert("causes".into(), causes.collect());
        }
        if let Some(seconds) = self.retry_after {
            out.insert("retryAfterSeconds".into(), json!(seconds));
        }
        Value::Object(out)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.message, self.code, self.reason)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_causes_stand_in_brackets_without_repetition() {
        let cause = |f: &str| Cause::new("FieldValueRequired", "Required value", f);
        let status = Status::invalid(
            "x.io",
            "Thing",
            "a",
            vec![cause("a"), cause("b"), cause("a")],
        );
        assert_eq!(
            status.message,
            "Thing.x.io \"a\" is invalid: [a: Required value, b: Required value]"
        );
        assert_eq!(status.details.map(|d| d.causes.len()), Some(3));
    }

    #[test]
    fn a_success_has_no_code_and_no_message() {
        assert_eq!(
            Status::deleted("", "configmaps", "a", "u").to_json(),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                   "details": {"name": "a", "kind": "configmaps", "uid": "u"}})
        );
    }
}
