//! A request's body, taken in as far as its length, its time and the memory of this
//! process allow.

use std::{sync::LazyLock, time::Duration};

use axum::{
    body::{Body, HttpBody as _},
    extract::Request,
};
use http_body_util::BodyExt as _;

use crate::{
    budget::{AnyShare, OfAccount, OwnersBudget},
    problem::{Problem, ProblemKind},
    vocabulary::Vocabulary,
};

/// Most bytes of a body.
pub const BODY_LIMIT: usize = 256 * 1024;
/// Most bytes of a body of whom nobody knows: what signs people in and up is short.
pub const STRANGERS_BODY_LIMIT: usize = 4 * 1024;
/// How long a body of somebody unknown may take. Everybody else has the time that there
/// is for a request.
const STRANGERS_TIME: Duration = Duration::from_secs(10);
/// By how much the memory for a body grows.
const STEP: usize = 4 * 1024;

/// Most bytes of memory that one object of JSON takes with its first field, and one item
/// or field more: what the allocator gives for `serde_json`'s tree with its spare room.
const OF_OBJECT: usize = 768;
const OF_ITEM: usize = 160;

/// How the bodies of an application's requests are read: a part of its state
/// ([`FromRef`](axum::extract::FromRef)).
#[derive(Clone, Debug)]
pub struct Bodies {
    pub(crate) memory: OwnersBudget,
    pub(crate) vocabulary: Vocabulary,
}

impl Bodies {
    /// Bodies that hold no more than `memory` together.
    pub fn new(memory: OwnersBudget) -> Self {
        let vocabulary = Vocabulary::new();
        Self { memory, vocabulary }
    }

    /// With an application's words for their fields.
    #[must_use]
    pub fn speaking(mut self, vocabulary: Vocabulary) -> Self {
        self.vocabulary = vocabulary;
        self
    }
}

/// Reads all of a body, and what it holds of the budget.
pub(crate) async fn read(
    memory: &OwnersBudget,
    request: Request,
) -> Result<(Vec<u8>, AnyShare), Problem> {
    let account = request.extensions().get::<OfAccount>();
    let share = memory.share(account.map(|it| &*it.0))?;
    let body = request.into_body();
    match share {
        AnyShare::OfAccount(_) => take_in(body, share, BODY_LIMIT).await,
        AnyShare::OfStranger(_) => {
            let reading = take_in(body, share, STRANGERS_BODY_LIMIT);
            tokio::time::timeout(STRANGERS_TIME, reading)
                .await
                .unwrap_or_else(|_| {
                    let seconds = STRANGERS_TIME.as_secs();
                    Err(Problem::new(
                        ProblemKind::Malformed,
                        format!(
                            "the body was not complete within {seconds} seconds: send it at once"
                        ),
                    ))
                })
        }
    }
}

async fn take_in(
    mut body: Body,
    mut share: AnyShare,
    limit: usize,
) -> Result<(Vec<u8>, AnyShare), Problem> {
    let too_large = || {
        Problem::new(
            ProblemKind::TooLarge,
            format!("the body has more than {limit} bytes: send less"),
        )
    };
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(too_large());
    }
    let mut read: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Problem::new(
                ProblemKind::Malformed,
                "the body ended before it was complete",
            )
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let length = read.len() + data.len();
        if length > limit {
            return Err(too_large());
        }
        if length > read.capacity() {
            let room = length.next_multiple_of(STEP);
            share.grow(room - read.capacity())?;
            read.reserve_exact(room - read.len());
        }
        read.extend_from_slice(&data);
    }
    Ok((read, share))
}

/// Most bytes that `text` takes when it is read as JSON: some dozen for a letter, where it
/// is made to.
pub(crate) fn cost_of_json(text: &[u8]) -> usize {
    static COSTS: LazyLock<[usize; 256]> = LazyLock::new(|| {
        let mut costs = [1; 256];
        costs[usize::from(b'{')] = OF_OBJECT;
        costs[usize::from(b'[')] = OF_ITEM;
        costs[usize::from(b',')] = OF_ITEM;
        costs
    });
    text.iter().map(|byte| COSTS[usize::from(*byte)]).sum()
}
