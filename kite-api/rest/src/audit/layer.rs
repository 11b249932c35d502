//! What writes one record for each request that is worth one.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::Response,
};
use http::{Method, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    ApiAudit, ApiRecord, Of, Outcome,
    notes::{Notes, Noting, noting},
    reads::Reads,
};
use crate::{
    address::address_in, budget::IsSignedIn, openapi::BASE, problem::ProblemKind,
    request_id::request_id,
};

/// Below this is what administrators see of others, whatever handlers say of it.
const ADMINISTRATION: &str = "admin/";
/// Most characters of a path that are written down.
const LONGEST_PATH: usize = 512;

/// What the layer knows beside the request.
pub struct Auditor {
    audit: Arc<dyn ApiAudit>,
    operations: Operations,
    proxies: usize,
    of_nobody: &'static [&'static str],
    reads: Reads,
}

impl Auditor {
    /// Gives records of these operations to `audit`. So many trusted `proxies` append to
    /// `X-Forwarded-For`. The operations `of_nobody` are below `admin/` and show nothing of
    /// anybody.
    pub fn new(
        audit: Arc<dyn ApiAudit>,
        operations: Operations,
        proxies: usize,
        of_nobody: &'static [&'static str],
    ) -> Self {
        Self {
            audit,
            operations,
            proxies,
            of_nobody,
            reads: Reads::default(),
        }
    }
}

/// Names of operations, by path and method.
#[derive(Debug, Default)]
pub struct Operations(HashMap<String, HashMap<Method, String>>);

impl Operations {
    /// Those of an OpenAPI document.
    pub fn of(document: &Value) -> Self {
        let paths = document["paths"].as_object().into_iter().flatten();
        let operations = paths.map(|(path, methods)| {
            let methods = methods.as_object().into_iter().flatten();
            let methods = methods.filter_map(|(method, operation)| {
                let method = method.to_uppercase().parse().ok()?;
                Some((method, operation["operationId"].as_str()?.to_owned()))
            });
            (path.clone(), methods.collect())
        });
        Self(operations.collect())
    }

    fn find(&self, path: &str, method: &Method) -> Option<String> {
        let at = path.rfind(BASE)?;
        self.0.get(&path[at..])?.get(method).cloned()
    }
}

/// Serves a request, and writes it down.
pub async fn audit(State(auditor): State<Arc<Auditor>>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map_or("", MatchedPath::as_str);
    let operation = auditor.operations.find(path, request.method());
    let sort = auditor.sort(operation.as_deref(), request.method(), path);
    let record = ApiRecord {
        time: Timestamp::now(),
        event: "request",
        request: request_id(request.headers()),
        operation,
        method: request.method().to_string(),
        path: request.uri().path().chars().take(LONGEST_PATH).collect(),
        address: address_in(request.headers(), request.extensions(), auditor.proxies),
        user: None,
        by: None,
        of: None,
        outcome: Outcome::Failed,
        status: None,
        problem: None,
        sign_in: None,
        remarks: Vec::new(),
        changes: Vec::new(),
        further_changes: 0,
    };
    let pending = Arc::new(Pending {
        auditor,
        sort,
        record: Mutex::new(record),
        answer: Mutex::new(None),
        notes: Mutex::default(),
    });
    let mut response = noting(pending.clone(), next.run(request)).await;
    let problem = response.extensions().get::<ProblemKind>().copied();
    *pending.answer.lock() = Some((response.status(), problem));
    if pending.notes.lock().account().is_some() {
        response.extensions_mut().insert(IsSignedIn);
    }
    response
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    /// To change something.
    Write,
    /// To see something: of others, if nothing else is said of it.
    ReadOfOthers,
    /// To see something: one's own, if nothing else is said of it.
    Read,
    /// None of these, such as the page.
    Other,
}

impl Auditor {
    fn sort(&self, operation: Option<&str>, method: &Method, path: &str) -> Sort {
        let Some(operation) = operation else {
            return Sort::Other;
        };
        if !method.is_safe() {
            return Sort::Write;
        }
        let at = path.rfind(BASE).map(|at| at + BASE.len());
        let below = at.and_then(|at| path.get(at..)).unwrap_or_default();
        if below.starts_with(ADMINISTRATION) && !self.of_nobody.contains(&operation) {
            Sort::ReadOfOthers
        } else {
            Sort::Read
        }
    }
}

impl Sort {
    /// Of whom it is, where that is not known.
    fn otherwise(self) -> Option<Of> {
        (self == Self::ReadOfOthers).then_some(Of::Everybody)
    }
}

/// A request that is being served. It is written down when nothing works on it any more:
/// also where the client has left, and what must not end half way went on.
struct Pending {
    auditor: Arc<Auditor>,
    sort: Sort,
    record: Mutex<ApiRecord>,
    answer: Mutex<Option<(StatusCode, Option<ProblemKind>)>>,
    notes: Mutex<Notes>,
}

impl Noting for Pending {
    fn notes(&self) -> &Mutex<Notes> {
        &self.notes
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut notes = std::mem::take(self.notes.get_mut());
        let record = self.record.get_mut();
        // What no handler has said anything of is said to be of all.
        let of = notes.of.take().or_else(|| self.sort.otherwise());
        record.user = notes.user.take();
        record.by = notes.by.take();
        record.of = of.filter(|of| !is_own(of, record.user.as_deref()));
        match *self.answer.get_mut() {
            Some((status, problem)) => {
                let is_worth_it = is_worth_it(self.sort, status, problem, record, &notes);
                if !is_worth_it && !is_new_read(self.sort, status, record, &self.auditor.reads) {
                    return;
                }
                record.status = Some(status.as_u16());
                record.problem = problem.map(ProblemKind::name);
                record.outcome = match status {
                    status if status.is_server_error() => Outcome::Failed,
                    status if status.is_client_error() => Outcome::Refused,
                    _ => Outcome::Done,
                };
            }
            None if notes.are_empty() => return,
            None => {
                let left = "the client left before it was answered";
                record.remarks.push(left.to_owned());
            }
        }
        record.time = Timestamp::now();
        record.sign_in = notes.sign_in;
        record.remarks.extend(notes.remarks);
        record.changes = notes.changes;
        record.further_changes = notes.further_changes;
        self.auditor.audit.record(record);
    }
}

/// Strangers must not fill the log with what changes nothing and guesses at nothing.
fn is_worth_it(
    sort: Sort,
    status: StatusCode,
    problem: Option<ProblemKind>,
    record: &ApiRecord,
    notes: &Notes,
) -> bool {
    let is_known = record.user.is_some();
    // Nobody looked at what was sent.
    let is_turned_away = matches!(
        problem,
        Some(ProblemKind::TooManyRequests | ProblemKind::Unavailable | ProblemKind::NotReady)
    );
    if notes.changes.is_empty() && !is_known && is_turned_away {
        return false;
    }
    !notes.are_empty()
        || status == StatusCode::FORBIDDEN
        || (sort == Sort::Write && (is_known || status.is_success()))
}

fn is_own(of: &Of, user: Option<&str>) -> bool {
    matches!(of, Of::Account(account) if user == Some(account))
}

/// Whether somebody is shown what is another's, for the first time in a while.
fn is_new_read(sort: Sort, status: StatusCode, record: &ApiRecord, reads: &Reads) -> bool {
    let is_read = matches!(sort, Sort::Read | Sort::ReadOfOthers);
    if !is_read || !status.is_success() || record.user.is_none() || record.of.is_none() {
        return false;
    }
    let what = (
        (&record.user, &record.by, record.address),
        (&record.operation, &record.path, &record.of),
    );
    reads.is_new(format!("{what:?}"), Instant::now())
}
