//! A watch that a check reads event by event.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

use super::answer::{Failure, differs};

/// How long an event may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// An event of a watch.
#[derive(Debug, Clone)]
pub(super) struct Event {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub(super) kind: String,
    pub(super) object: Value,
}

impl Event {
    /// The name of its object.
    pub(super) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The resourceVersion that it carries.
    pub(super) fn version(&self) -> &str {
        let metadata = &self.object["metadata"];
        metadata["resourceVersion"].as_str().unwrap_or_default()
    }
}

/// An open watch.
pub(super) struct Watching {
    pub(super) request: String,
    pub(super) body: Body,
    pub(super) read: BytesMut,
}

impl Watching {
    /// The next event; `None` if the server ended the watch.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        let found = tokio::time::timeout(PATIENCE, self.line()).await;
        let Ok(line) = found else {
            return differs(format!("{}: no event in {PATIENCE:?}", self.request));
        };
        let Some(line) = line? else {
            return Ok(None);
        };
        let Ok(value) = serde_json::from_slice::<Value>(&line) else {
            return differs(format!("{}: an event is no JSON", self.request));
        };
        let kind = value["type"].as_str().unwrap_or_default().to_owned();
        let object = value["object"].clone();
        Ok(Some(Event { kind, object }))
    }

    async fn line(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(end).freeze();
                self.read.advance(1);
                return Ok(Some(line));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.read.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => {
                    return differs(format!("{}: the stream broke: {error}", self.request));
                }
            }
        }
    }

    /// The next event, which has to be of this kind and object.
    pub(super) async fn expect(&mut self, kind: &str, name: &str) -> Result<Event, Failure> {
        match self.next().await? {
            Some(event) if event.kind == kind && (name.is_empty() || event.name() == name) => {
                Ok(event)
            }
            other => {
                let request = &self.request;
                differs(format!(
                    "{request}: {kind} of {name:?} was due, there came {other:?}"
                ))
            }
        }
    }

    /// Fails unless the server ends the watch now.
    pub(super) async fn ends(&mut self) -> Result<(), Failure> {
        match self.next().await? {
            None => Ok(()),
            Some(event) => differs(format!("{}: {event:?} after the end", self.request)),
        }
    }
}
