//! Requests below an object that have a body of a kind of their own: all of admission
//! sees that body, and nothing else.

use serde_json::{Map, Value};

use super::{Options, Write};
use crate::server::{ApiServer, Call, policies};
use crate::status::Status;

/// How the parameters of a connection are read.
const FLAGS: [&str; 4] = ["stdin", "stdout", "stderr", "tty"];

impl ApiServer {
    /// Asks policies and webhooks about something that is made below an object, and gives
    /// what webhooks made of it.
    pub(in crate::server) fn admit_below(
        &mut self,
        call: &Call,
        body: Value,
        dry_run: bool,
    ) -> Result<Value, Status> {
        let write = Write {
            call,
            operation: "CREATE",
            name: call.name(),
            options: Options::Write("CreateOptions"),
            dry_run,
            old: None,
        };
        self.admit_body(&write, body)
    }

    /// Asks policies and webhooks about a connection to an object.
    pub(in crate::server) fn admit_connection(&mut self, call: &Call) -> Result<(), Status> {
        let write = Write {
            call,
            operation: "CONNECT",
            name: call.name(),
            options: Options::None,
            dry_run: false,
            old: None,
        };
        self.admit_body(&write, connection(call)).map(drop)
    }

    /// Asks policies and webhooks about another scale of an object.
    pub(in crate::server) fn admit_scale(
        &mut self,
        call: &Call,
        wanted: Value,
        current: &Value,
        dry_run: bool,
    ) -> Result<Value, Status> {
        let write = Write {
            call,
            operation: "UPDATE",
            name: call.name(),
            options: Options::Write("UpdateOptions"),
            dry_run,
            old: Some(current),
        };
        self.admit_body(&write, wanted)
    }

    /// Asks webhooks about a review, which policies never see.
    pub(in crate::server) fn admit_review(
        &mut self,
        call: &Call,
        body: Value,
        dry_run: bool,
    ) -> Result<Value, Status> {
        if !self.has_hooks() {
            return Ok(body);
        }
        let write = Write {
            call,
            operation: "CREATE",
            name: "",
            options: Options::Write("CreateOptions"),
            dry_run,
            old: None,
        };
        let body = self
            .mutate_by_hooks(&write, Some(body))?
            .unwrap_or_default();
        self.validate_by_hooks(&write, Some(&body))?;
        Ok(body)
    }

    fn admit_body(&mut self, write: &Write<'_>, body: Value) -> Result<Value, Status> {
        let hooked = self.has_hooks();
        let body = if hooked {
            self.mutate_by_hooks(write, Some(body))?.unwrap_or_default()
        } else {
            body
        };
        self.ask_policies(write.call, write.operation, Some(&body), write.old)?;
        if hooked {
            self.validate_by_hooks(write, Some(&body))?;
        }
        Ok(body)
    }
}

/// The options of a connection, from the query.
fn connection(call: &Call) -> Value {
    let mut out = Map::new();
    if let Some((_, version, kind)) = policies::own_kind(call) {
        out.insert("kind".into(), kind.into());
        out.insert("apiVersion".into(), version.into());
    }
    for name in FLAGS {
        if call.query.flag(name) {
            out.insert(name.into(), true.into());
        }
    }
    let container = call.query.text("container");
    if !container.is_empty() {
        out.insert("container".into(), container.into());
    }
    let words: Vec<&str> = call.query.all("command").collect();
    if !words.is_empty() {
        out.insert("command".into(), words.into());
    }
    let ports: Vec<i64> = call
        .query
        .all("ports")
        .filter_map(|it| it.parse().ok())
        .collect();
    if !ports.is_empty() {
        out.insert("ports".into(), ports.into());
    }
    out.into()
}
