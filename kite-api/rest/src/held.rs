//! What answers hold of this process's memory until whoever asked has read them.
//!
//! An answer is written down at once, in one piece. Who reads none of it has it lie here
//! for as long as a connection may: so a large one takes its share of a budget, which is
//! given back with its last byte, or is refused.

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, Method, header};

use crate::{
    audit::note,
    budget::{OwnersBudget, OwnersShare},
    problem::{Problem, ProblemKind},
};

/// What is shorter takes no share: a connection holds as much anyway.
const FREE: usize = 16 * 1024;

/// The whole body of an answer, as its response says to [`hold`].
#[derive(Clone)]
struct Whole(Bytes);

/// What is sent of a body, and its share of the memory.
struct Held {
    body: Bytes,
    _share: OwnersShare,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// A response of JSON that is written down already.
pub(crate) fn response(body: Vec<u8>) -> Response {
    // There would be room in it for as much again.
    let body = Bytes::from(body.into_boxed_slice());
    let mut response = Response::new(Body::from(body.clone()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    if body.len() >= FREE {
        response.extensions_mut().insert(Whole(body));
    }
    response
}

/// Has a large answer take its share of the memory, for the account that asked.
pub async fn hold(State(memory): State<OwnersBudget>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let mut response = next.run(request).await;
    let Some(Whole(body)) = response.extensions_mut().remove::<Whole>() else {
        return response;
    };
    // Of what is asked by HEAD nothing is sent.
    if method == Method::HEAD {
        return response;
    }
    let mut account = None;
    note(|notes| account = notes.account().map(str::to_owned));
    // Strangers have one share together.
    match memory.take(&account.unwrap_or_default(), body.len()) {
        Ok(share) => {
            let held = Held {
                body,
                _share: share,
            };
            *response.body_mut() = Body::from(Bytes::from_owner(held));
            response
        }
        Err(problem) if method.is_safe() => problem.into_response(),
        // Only its answer is missing.
        Err(problem) => {
            let done = "what this request asked for was done: look before you repeat it";
            let done = Problem::new(ProblemKind::Unavailable, done);
            problem.and(done).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_is_free_and_what_is_large_is_marked() {
        for (length, is_marked) in [(0, false), (FREE - 1, false), (FREE, true)] {
            let response = response(vec![b' '; length]);
            let whole = response.extensions().get::<Whole>();
            assert_eq!(whole.is_some(), is_marked, "{length}");
            assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
        }
    }
}
