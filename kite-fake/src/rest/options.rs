//! Options of verbs: `ListOptions`, `CreateOptions`, `DeleteOptions` and so on.

use serde_json::Value;

use super::query::Query;
use super::selector::{FieldSelector, LabelSelector};
use crate::field_manager::{MAX_MANAGER, is_printable, manager_errors};
use crate::go;
use crate::status::{Cause, Status};

/// 422 about an options object.
pub(crate) fn invalid_options(kind: &str, causes: Vec<Cause>) -> Status {
    Status::invalid("meta.k8s.io", kind, "", causes)
}

/// How unknown and duplicate fields of a body are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// Dropped silently.
    Ignore,
    /// Dropped with a `Warning` header.
    #[default]
    Warn,
    /// Refused.
    Strict,
}

/// Options of create, update and patch.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// Nothing is stored.
    pub dry_run: bool,
    /// Who owns the fields; from the parameter or the `User-Agent`.
    pub manager: String,
    /// `force`, if it was given: takes over conflicting fields of an apply.
    pub force: Option<bool>,
    /// Treatment of unknown fields.
    pub validation: FieldValidation,
}

impl WriteOptions {
    /// Reads the options of `kind` (`CreateOptions`, `UpdateOptions` or `PatchOptions`);
    /// `apply` tells whether the request is a server-side apply.
    ///
    /// # Errors
    /// 422 for values that the server does not know or that do not fit together.
    pub fn parse(kind: &str, apply: bool, query: &Query, user_agent: &str) -> Result<Self, Status> {
        let mut causes = Vec::new();
        let given = query.text("fieldManager");
        match kind {
            "PatchOptions" if apply && given.is_empty() => causes.push(Cause::new(
                "FieldValueRequired",
                "Required value: is required for apply patch",
                "fieldManager",
            )),
            "PatchOptions" if !apply && query.has("force") => causes.push(Cause::new(
                "FieldValueForbidden",
                "Forbidden: may not be specified for non-apply patch",
                "force",
            )),
            _ => {}
        }
        let dry_run = dry_run(query.all("dryRun"), &mut causes);
        check_manager(given, &mut causes);
        let validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                causes.push(Cause::new(
                    "FieldValueNotSupported",
                    format!(
                        "Unsupported value: \"{other}\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
                    ),
                    "fieldValidation",
                ));
                FieldValidation::Warn
            }
        };
        if !causes.is_empty() {
            return Err(invalid_options(kind, causes));
        }
        Ok(Self {
            dry_run,
            manager: if given.is_empty() {
                manager_of(user_agent)
            } else {
                given.to_owned()
            },
            force: query.has("force").then(|| query.flag("force")),
            validation,
        })
    }
}

fn check_manager(name: &str, causes: &mut Vec<Cause>) {
    causes.extend(
        manager_errors(name)
            .into_iter()
            .map(|(reason, message)| Cause::new(reason, message, "fieldManager")),
    );
}

/// The default field manager: the user agent up to its first slash.
fn manager_of(user_agent: &str) -> String {
    let mut name = String::new();
    let head = user_agent.split('/').next().unwrap_or_default();
    for c in head.chars().filter(|c| is_printable(*c)) {
        if name.len() + c.len_utf8() > MAX_MANAGER {
            break;
        }
        name.push(c);
    }
    name
}

fn dry_run<'a>(values: impl Iterator<Item = &'a str>, causes: &mut Vec<Cause>) -> bool {
    let values: Vec<&str> = values.collect();
    if values.iter().any(|v| *v != "All") {
        let list = serde_json::to_string(&values).unwrap_or_default();
        causes.push(Cause::new(
            "FieldValueNotSupported",
            format!("Unsupported value: {list}: supported values: \"All\""),
            "dryRun",
        ));
    }
    !values.is_empty()
}

/// What becomes of the objects that a deleted one owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They stay, without their owner.
    Orphan,
    /// They go afterwards.
    Background,
    /// They go first.
    Foreground,
}

/// Options of delete and deletecollection.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    /// Nothing is deleted.
    pub dry_run: bool,
    /// Explicit propagation.
    pub propagation: Option<Propagation>,
    /// `orphanDependents` was given as false: the answer tells by its code
    /// whether the object waits.
    pub cascades: bool,
    /// The object must have this uid.
    pub uid: Option<String>,
    /// The object must have this resourceVersion.
    pub resource_version: Option<String>,
    /// Grace period in seconds, for pods.
    pub grace_seconds: Option<i64>,
}

impl DeleteOptions {
    /// Reads the options from the body if there is one, else from the query.
    ///
    /// # Errors
    /// 400 for a body that is no `DeleteOptions`, 422 for unknown values.
    pub fn parse(query: &Query, body: Option<&Value>) -> Result<Self, Status> {
        let mut causes = Vec::new();
        let mut out = Self::default();
        let policy;
        let mut orphan = None;
        if let Some(body) = body {
            check_options_body(body)?;
            let runs = body["dryRun"].as_array().into_iter().flatten();
            out.dry_run = dry_run(runs.filter_map(Value::as_str), &mut causes);
            policy = body["propagationPolicy"].as_str().map(str::to_owned);
            orphan = body["orphanDependents"].as_bool();
            let conditions = &body["preconditions"];
            out.uid = conditions["uid"].as_str().map(str::to_owned);
            out.resource_version = conditions["resourceVersion"].as_str().map(str::to_owned);
            out.grace_seconds = body["gracePeriodSeconds"].as_i64();
        } else {
            out.dry_run = dry_run(query.all("dryRun"), &mut causes);
            policy = query.get("propagationPolicy").map(str::to_owned);
            if query.has("orphanDependents") {
                orphan = Some(query.flag("orphanDependents"));
            }
            out.grace_seconds = match query.text("gracePeriodSeconds") {
                "" => None,
                text => Some(text.parse().map_err(|_| {
                    Status::bad_request(format!(
                        "strconv.ParseInt: parsing {}: invalid syntax",
                        go::quote(text)
                    ))
                })?),
            };
        }
        out.cascades = orphan == Some(false);
        if let (Some(policy), Some(_)) = (&policy, orphan) {
            causes.push(Cause::new(
                "FieldValueInvalid",
                format!(
                    "Invalid value: \"{policy}\": orphanDependents and deletionPropagation cannot be both set"
                ),
                "propagationPolicy",
            ));
        }
        out.propagation = match policy.as_deref() {
            None => orphan.map(|o| {
                if o {
                    Propagation::Orphan
                } else {
                    Propagation::Background
                }
            }),
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some(other) => {
                causes.push(Cause::new(
                    "FieldValueNotSupported",
                    format!(
                        "Unsupported value: \"{other}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                    ),
                    "propagationPolicy",
                ));
                None
            }
        };
        if causes.is_empty() {
            Ok(out)
        } else {
            Err(invalid_options("DeleteOptions", causes))
        }
    }
}

fn check_options_body(body: &Value) -> Result<(), Status> {
    if !body.is_object() && !body.is_null() {
        let kind = crate::patch::kind_of(body);
        return Err(Status::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {kind} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )));
    }
    let kind = body["kind"].as_str().unwrap_or("DeleteOptions");
    let version = body["apiVersion"].as_str().unwrap_or("v1");
    if kind == "DeleteOptions" {
        return check_options_types(body).map_err(Status::bad_request);
    }
    Err(Status::bad_request(format!(
        "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
    )))
}

/// What the decoder says of members that have a wrong type.
fn check_options_types(body: &Value) -> Result<(), String> {
    type Fits = fn(&Value) -> bool;
    let strings: Fits = |v| v.as_array().is_some_and(|v| v.iter().all(Value::is_string));
    let members: [(&str, &str, Fits); 7] = [
        ("/gracePeriodSeconds", "int64", Value::is_i64),
        ("/preconditions", "v1.Preconditions", Value::is_object),
        ("/preconditions/uid", "types.UID", Value::is_string),
        ("/preconditions/resourceVersion", "string", Value::is_string),
        ("/orphanDependents", "bool", Value::is_boolean),
        (
            "/propagationPolicy",
            "v1.DeletionPropagation",
            Value::is_string,
        ),
        ("/dryRun", "[]string", strings),
    ];
    for (pointer, expected, fits) in members {
        let Some(found) = body.pointer(pointer) else {
            continue;
        };
        if !found.is_null() && !fits(found) {
            let of = match pointer.rsplit_once('/') {
                Some(("", _)) | None => "DeleteOptions",
                Some(_) => "Preconditions",
            };
            return Err(format!(
                "json: cannot unmarshal {} into Go struct field {of}.{} of type {expected}",
                crate::patch::kind_of(found),
                pointer.trim_start_matches('/').replace('/', ".")
            ));
        }
    }
    Ok(())
}

/// `resourceVersionMatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// The state at that very revision.
    Exact,
    /// That revision or a newer one.
    NotOlderThan,
}

/// Options of list, watch and deletecollection.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// Selects by labels.
    pub labels: LabelSelector,
    /// Selects by fields.
    pub fields: FieldSelector,
    /// Watch instead of list.
    pub watch: bool,
    /// Page size; 0 is none.
    pub limit: usize,
    /// Token of an earlier page.
    pub continue_token: Option<String>,
    /// As given; empty if absent.
    pub resource_version: String,
    /// How to read it.
    pub version_match: Option<Match>,
    /// Seconds after which a watch ends.
    pub timeout_seconds: Option<u64>,
    /// BOOKMARK events are welcome.
    pub bookmarks: bool,
    /// The watch starts with the present objects and a marking BOOKMARK.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads the options; `watch` tells whether the request is a watch, which
    /// the path may say, too.
    ///
    /// # Errors
    /// 400 for what cannot be parsed, 422 for what does not fit together.
    pub fn parse(query: &Query, watch: bool) -> Result<Self, Status> {
        let number = |name: &str| -> Result<Option<i64>, Status> {
            match query.get(name) {
                None => Ok(None),
                Some(text) => parse_int(text).map(Some),
            }
        };
        let timeout = number("timeoutSeconds")?;
        let limit = number("limit")?.unwrap_or(0);
        let mut out = Self {
            labels: LabelSelector::parse(query.text("labelSelector"))?,
            fields: FieldSelector::parse(query.text("fieldSelector"))?,
            watch,
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: query
                .get("continue")
                .filter(|c| !c.is_empty())
                .map(str::to_owned),
            resource_version: query.text("resourceVersion").to_owned(),
            version_match: None,
            timeout_seconds: timeout
                .and_then(|t| u64::try_from(t).ok())
                .filter(|t| *t > 0),
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query
                .has("sendInitialEvents")
                .then(|| query.flag("sendInitialEvents")),
        };
        // What a watch may ask is checked where the parameter says that it is one.
        let causes = out.check_match(query.text("resourceVersionMatch"), query.flag("watch"));
        if causes.is_empty() {
            Ok(out)
        } else {
            Err(invalid_options("ListOptions", causes))
        }
    }

    /// `ValidateListOptions` of the API machinery.
    fn check_match(&mut self, given: &str, watch: bool) -> Vec<Cause> {
        let forbidden = |field: &str, why: &str| {
            Cause::new("FieldValueForbidden", format!("Forbidden: {why}"), field)
        };
        let unsupported = |value: &str, supported: &str| {
            Cause::new(
                "FieldValueNotSupported",
                format!("Unsupported value: \"{value}\": supported values: {supported}"),
                "resourceVersionMatch",
            )
        };
        let field = "resourceVersionMatch";
        self.version_match = match given {
            "Exact" => Some(Match::Exact),
            "NotOlderThan" => Some(Match::NotOlderThan),
            _ => None,
        };
        let mut causes = Vec::new();
        if watch {
            if self.send_initial_events.is_some() {
                if given != "NotOlderThan" {
                    causes.push(forbidden(
                        field,
                        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                    ));
                }
            } else if !given.is_empty() {
                causes.push(forbidden(
                    field,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if !given.is_empty() && given != "NotOlderThan" {
                causes.push(unsupported(given, "\"NotOlderThan\""));
            }
            if !given.is_empty() && self.continue_token.is_some() {
                causes.push(forbidden(
                    field,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            return causes;
        }
        if !given.is_empty() {
            if self.resource_version.is_empty() {
                causes.push(forbidden(
                    field,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if self.continue_token.is_some() {
                causes.push(forbidden(
                    field,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if self.version_match.is_none() {
                causes.push(unsupported(given, "\"Exact\", \"NotOlderThan\", \"\""));
            }
            if given == "Exact" && self.resource_version == "0" {
                causes.push(forbidden(
                    field,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if self.send_initial_events.is_some() {
            causes.push(forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ));
        }
        causes
    }
}

/// A resourceVersion parameter as a number: 0 if absent, or what is wrong with it.
///
/// # Errors
/// The text of the error: a list answers it with 400, a get or a watch with 500.
pub fn resource_version(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| {
        let why = if digits {
            "value out of range"
        } else {
            "invalid syntax"
        };
        format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}"
        )
    })
}

/// A number as Go reads it.
fn parse_int(text: &str) -> Result<i64, Status> {
    text.parse().map_err(|_| {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let all = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let why = if all {
            "value out of range"
        } else {
            "invalid syntax"
        };
        Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn refused(query: &str) -> Status {
        let query = Query::parse(query);
        ListOptions::parse(&query, query.flag("watch")).unwrap_err()
    }

    #[test]
    fn numbers_are_read_as_in_go() {
        let why = |query: &str| refused(query).message;
        assert_eq!(
            why("limit="),
            "strconv.ParseInt: parsing \"\": invalid syntax"
        );
        assert_eq!(
            why("limit=99999999999999999999&timeoutSeconds=1.5"),
            "strconv.ParseInt: parsing \"1.5\": invalid syntax"
        );
        assert_eq!(
            why("limit=99999999999999999999"),
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range"
        );
        assert!(
            resource_version("-1")
                .unwrap_err()
                .ends_with("invalid syntax")
        );
        assert!(
            resource_version("99999999999999999999")
                .unwrap_err()
                .ends_with("value out of range")
        );
    }

    #[test]
    fn a_watch_by_path_is_checked_as_a_list() {
        let query = Query::parse("sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
        let refused = ListOptions::parse(&query, true).unwrap_err();
        assert!(
            refused
                .message
                .contains("sendInitialEvents is forbidden for list")
        );
    }
}
