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

use super::{
    ApiRecord, Outcome,
    notes::{Notes, Noting, noting},
};
use crate::{auth::address_in, problem::ProblemKind, state::ApiState, web::layers::request_id};

/// Where every path of the document begins, whatever the router is nested below.
const BASE: &str = "/api/v1/";
/// Most characters of a path that are written down.
const LONGEST_PATH: usize = 512;

/// Names of operations, by path and method.
#[derive(Debug, Default)]
pub(crate) struct Operations(HashMap<String, HashMap<Method, String>>);

impl Operations {
    /// Those of an OpenAPI document.
    pub(crate) fn of(document: &Value) -> Self {
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
pub(crate) async fn audit(
    State((state, operations)): State<(ApiState, Arc<Operations>)>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let operation = path.and_then(|path| operations.find(path.as_str(), request.method()));
    let record = ApiRecord {
        time: Timestamp::now(),
        event: "request",
        request: request_id(request.headers()),
        operation,
        method: request.method().to_string(),
        path: request.uri().path().chars().take(LONGEST_PATH).collect(),
        address: address_in(request.headers(), request.extensions(), &state),
        user: None,
        by: None,
        outcome: Outcome::Failed,
        status: None,
        problem: None,
        sign_in: None,
        remarks: Vec::new(),
        changes: Vec::new(),
        further_changes: 0,
    };
    let pending = Arc::new(Pending {
        is_write: record.operation.is_some() && !request.method().is_safe(),
        state,
        record: Mutex::new(record),
        answer: Mutex::new(None),
        notes: Mutex::default(),
    });
    let response = noting(pending.clone(), next.run(request)).await;
    let problem = response.extensions().get::<ProblemKind>().copied();
    *pending.answer.lock() = Some((response.status(), problem));
    response
}

/// A request that is being served. It is written down when nothing works on it any more:
/// also where the client has left, and what must not end half way went on.
struct Pending {
    state: ApiState,
    is_write: bool,
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
        let (record, notes) = (self.record.get_mut(), std::mem::take(self.notes.get_mut()));
        match *self.answer.get_mut() {
            Some((status, problem)) => {
                if !is_worth_it(self.is_write, status, problem, &notes) {
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
        record.user = notes.user;
        record.by = notes.by;
        record.sign_in = notes.sign_in;
        record.remarks.extend(notes.remarks);
        record.changes = notes.changes;
        record.further_changes = notes.further_changes;
        self.state.audit().record(record);
    }
}

/// Strangers must not fill the log with what changes nothing and guesses at nothing.
fn is_worth_it(
    is_write: bool,
    status: StatusCode,
    problem: Option<ProblemKind>,
    notes: &Notes,
) -> bool {
    let is_known = notes.user.is_some();
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
        || (is_write && (is_known || status.is_success()))
}
