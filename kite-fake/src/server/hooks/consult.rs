//! How a request asks others although the server does not wait.
//!
//! A request that comes to a webhook ends there, before it has any effect, with what is
//! to be asked; the shell asks, and gives the request again with what was said. It is
//! worked on from the beginning then, with the same identifiers and the same time, so
//! that what a webhook saw and what is stored are the same object. An answer counts for
//! the very question: where something else has changed meanwhile, it is asked anew.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use jiff::Timestamp;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::clock::Ids;
use crate::hooks::{HookCall, Said};
use crate::rest::path::{self, Route};
use crate::server::{Answer, ApiServer, Begun};
use crate::status::{Details, Status};

/// What is asked, but for the uid of the question.
pub(in crate::server) type Digest = [u8; 32];

/// What tells a question from others.
pub(in crate::server) fn digest(
    who: &str,
    call: &HookCall,
    api_version: &str,
    request: &Map<String, Value>,
) -> Digest {
    let mut hash = Sha256::new()
        .chain_update(who)
        .chain_update([0])
        .chain_update(call.url())
        .chain_update([0])
        .chain_update(&call.authorities)
        .chain_update([0])
        .chain_update(api_version);
    for (member, value) in request {
        hash = hash
            .chain_update([0])
            .chain_update(member)
            .chain_update([0])
            .chain_update(value.to_string());
    }
    hash.finalize().into()
}

/// A version 4 UUID for a question: the same for the same one.
pub(in crate::server) fn uid(of: Digest, seed: u64) -> String {
    let seeded = Sha256::new()
        .chain_update(of)
        .chain_update(seed.to_le_bytes())
        .finalize();
    let first = seeded
        .iter()
        .take(8)
        .fold(0, |all, byte| (all << 8) | u64::from(*byte));
    Ids::new(first).uid()
}

/// How long a request may take, whatever it waits for.
const LIMIT: Duration = Duration::from_secs(34);

/// How often a request may ask: a bound for configurations that change with each answer.
const MAX_ROUNDS: u32 = 256;

/// A request that cannot go on before somebody was asked. It has had no effect so far.
#[derive(Debug)]
pub struct Ask {
    calls: Vec<HookCall>,
    digests: Vec<Digest>,
    request: Request<Bytes>,
    consultation: Consultation,
}

impl Ask {
    /// The calls to make, all at once.
    pub fn calls(&self) -> &[HookCall] {
        &self.calls
    }
}

/// What a request was told so far.
#[derive(Debug)]
pub(crate) struct Consultation {
    ids: Ids,
    now: Timestamp,
    rounds: u32,
    /// The time that is left, in whole seconds.
    left: Duration,
    /// No time is left to ask anybody else.
    late: bool,
    said: HashMap<Digest, Said>,
    wanted: Vec<(Digest, HookCall)>,
}

impl Consultation {
    fn new(ids: Ids, now: Timestamp) -> Self {
        Self {
            ids,
            now,
            rounds: 0,
            left: LIMIT,
            late: false,
            said: HashMap::new(),
            wanted: Vec::new(),
        }
    }
}

/// The placeholder of an error with which a request ends that asks.
fn asking() -> Status {
    Status::internal("webhooks are being asked")
}

fn timed_out() -> Status {
    let why =
        "Timeout: request did not complete within requested timeout - context deadline exceeded";
    Status::new(504, "Timeout", why).with_details(Details::default())
}

impl ApiServer {
    /// Works on a request that may come to ask others, with what it was told so far.
    pub(in crate::server) fn consult(
        &mut self,
        request: Request<Bytes>,
        consultation: Consultation,
    ) -> Begun {
        let again = request.clone();
        let now = consultation.now;
        self.own_ids();
        self.parked = Some(std::mem::replace(&mut self.ids, consultation.ids));
        self.consultation = Some(consultation);
        let (answer, unwritten) = self.work(request, now);
        self.own_ids();
        match self.consultation.take() {
            Some(mut consultation) if !consultation.wanted.is_empty() => {
                let wanted = std::mem::take(&mut consultation.wanted);
                let (digests, calls) = wanted.into_iter().unzip();
                let ask = Ask {
                    calls,
                    digests,
                    request: again,
                    consultation,
                };
                (Answer::Ask(Box::new(ask)), None)
            }
            _ => (answer, unwritten),
        }
    }

    /// Draws identifiers for no request in particular: after one that asked others, also
    /// if it did not come to its end.
    pub(in crate::server) fn own_ids(&mut self) {
        if let Some(ids) = self.parked.take() {
            self.ids = ids;
        }
    }

    /// The seed of the cluster, whatever the present request draws from.
    pub(in crate::server) fn seed(&self) -> u64 {
        self.parked.as_ref().unwrap_or(&self.ids).seed()
    }

    /// Begins a request that may come to ask others.
    pub(in crate::server) fn begin_asking(
        &mut self,
        request: Request<Bytes>,
        now: Timestamp,
    ) -> Begun {
        let consultation = Consultation::new(self.ids.branch(), now);
        self.consult(request, consultation)
    }

    /// Goes on with a request, now that its calls were made; `said` is in their order.
    pub fn resume_asked(&mut self, ask: Ask, said: Vec<Said>, now: Timestamp) -> Answer {
        let (answer, unwritten) = self.go_on(ask, said, now);
        crate::server::finish(answer, unwritten)
    }

    pub(crate) fn go_on(&mut self, ask: Ask, said: Vec<Said>, now: Timestamp) -> Begun {
        let mut consultation = ask.consultation;
        consultation.rounds += 1;
        consultation.said.extend(ask.digests.into_iter().zip(said));
        consultation.late = consultation.rounds >= MAX_ROUNDS;
        if !takes_its_time(&ask.request) {
            let passed = now.duration_since(consultation.now).unsigned_abs();
            consultation.late |= passed >= LIMIT;
            // A second that has begun counts as a whole one.
            let passed = Duration::from_secs(passed.as_secs());
            consultation.left = LIMIT.saturating_sub(passed);
        }
        self.consult(ask.request, consultation)
    }

    /// Whether the request that is being handled waits for somebody.
    pub(in crate::server) fn is_asking(&self) -> bool {
        let waits = |it: &Consultation| !it.wanted.is_empty();
        self.consultation.as_ref().is_some_and(waits)
    }

    /// What is said to a review, and the uid of the question; `who` is asked, and each of
    /// several at one place by itself.
    ///
    /// # Errors
    /// Nothing yet: the request has to end here; or there is no time left to ask.
    pub(in crate::server) fn said(
        &mut self,
        who: &str,
        mut call: HookCall,
        (api_version, kind): (&str, &str),
        mut request: Map<String, Value>,
    ) -> Result<(String, Said), Status> {
        let Some(consultation) = &mut self.consultation else {
            // The server itself writes, as part of something else.
            return Err(Status::internal("there is nobody who could ask a webhook"));
        };
        let digest = digest(who, &call, api_version, &request);
        let uid = uid(digest, consultation.ids.seed());
        if consultation.late {
            return Err(timed_out());
        }
        if let Some(said) = consultation.said.get(&digest) {
            return Ok((uid, said.clone()));
        }
        if consultation
            .wanted
            .iter()
            .all(|(other, _)| *other != digest)
        {
            request.insert("uid".into(), uid.into());
            let review =
                serde_json::json!({"kind": kind, "apiVersion": api_version, "request": request});
            call.body = Bytes::from(review.to_string());
            call.timeout = call.timeout.min(consultation.left);
            consultation.wanted.push((digest, call));
        }
        Err(asking())
    }
}

/// Deletions of collections have no limit.
fn takes_its_time(request: &Request<Bytes>) -> bool {
    let Route::Resource(target) = path::parse(request.uri().path()) else {
        return false;
    };
    *request.method() == Method::DELETE && target.name.is_none()
}
