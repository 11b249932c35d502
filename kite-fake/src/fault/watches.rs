//! Watches that break, are late, or show several changes as one.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::answers;
use super::layer::ResponseBody;
use super::shared::Participant;
use crate::go_json;

/// Watch events are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    /// Until then, or until released.
    pub(super) until: Option<Instant>,
    /// Changes of one object become one.
    pub(super) merge: bool,
    /// A deletion and the creation that follows become one change.
    pub(super) hide_recreates: bool,
}

impl Hold {
    /// Whether it is in force at `now`.
    pub(super) fn lasts(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

/// What is done to all watches of a participant.
#[derive(Clone, Debug, Default)]
pub(super) struct Control {
    pub(super) hold: Option<Hold>,
    /// How often all watches ended.
    pub(super) ends: u64,
    /// How often all watches expired.
    pub(super) expires: u64,
}

/// The body of a watch under control. With `starts_with_state` the state that
/// the watch begins with is not held back.
pub(super) fn filter(
    body: ResponseBody,
    participant: Arc<Participant>,
    life: u64,
    starts_with_state: bool,
) -> ResponseBody {
    let control = participant.control.subscribe();
    let (ends, expires) = {
        let now = control.borrow();
        (now.ends, now.expires)
    };
    let filter = Filter {
        body,
        partial: BytesMut::new(),
        held: Vec::new(),
        last_hold: None,
        control,
        ends,
        expires,
        is_state: starts_with_state,
        is_inner_over: false,
        is_over: false,
        participant,
        life,
    };
    let frames = stream::unfold(filter, |mut filter| async move {
        let bytes = filter.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), filter))
    });
    StreamBody::new(frames)
        .map_err(|never| match never {})
        .boxed_unsync()
}

struct Filter {
    body: ResponseBody,
    partial: BytesMut,
    held: Vec<Bytes>,
    last_hold: Option<Hold>,
    control: watch::Receiver<Control>,
    ends: u64,
    expires: u64,
    /// What comes is the state that the watch begins with.
    is_state: bool,
    is_inner_over: bool,
    is_over: bool,
    participant: Arc<Participant>,
    life: u64,
}

impl Filter {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.participant.is_dead(self.life) {
                return std::future::pending().await;
            }
            let control = self.control.borrow_and_update().clone();
            if self.is_over || control.ends > self.ends {
                return None;
            }
            if control.expires > self.expires {
                self.is_over = true;
                return Some(answers::expired_event());
            }
            let now = Instant::now();
            let hold = control
                .hold
                .filter(|hold| !self.is_state && hold.lasts(now));
            match hold {
                Some(hold) => self.last_hold = Some(hold),
                None if !self.held.is_empty() => {
                    let lines = self.flush();
                    if !lines.is_empty() {
                        return Some(lines);
                    }
                }
                None if self.is_inner_over => return None,
                None => {}
            }
            let late = async {
                match hold.and_then(|hold| hold.until) {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // The sender lives as long as this.
                _ = self.control.changed() => {}
                frame = self.body.frame(), if !self.is_inner_over => match frame {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            self.partial.extend_from_slice(&data);
                        }
                        let lines = self.lines();
                        if hold.is_some() {
                            self.held.extend(lines);
                        } else if !lines.is_empty() {
                            return Some(join(&lines));
                        }
                    }
                    Some(Err(_)) | None => self.is_inner_over = true,
                },
                () = late => {}
            }
        }
    }

    /// The whole lines that have come.
    fn lines(&mut self) -> Vec<Bytes> {
        let mut lines = Vec::new();
        while let Some(end) = self.partial.iter().position(|b| *b == b'\n') {
            let line = self.partial.split_to(end + 1).freeze();
            if self.is_state && marks_end_of_state(&line) {
                self.is_state = false;
            }
            lines.push(line);
        }
        lines
    }

    fn flush(&mut self) -> Bytes {
        let late = std::mem::take(&mut self.held);
        match self.last_hold.take() {
            Some(hold) if hold.merge => join(&merge(late, hold.hide_recreates)),
            _ => join(&late),
        }
    }
}

fn marks_end_of_state(line: &Bytes) -> bool {
    let text = b"k8s.io/initial-events-end";
    line.windows(text.len()).any(|window| window == text)
}

fn join(lines: &[Bytes]) -> Bytes {
    let mut out = BytesMut::with_capacity(lines.iter().map(Bytes::len).sum());
    for line in lines {
        out.extend_from_slice(line);
    }
    out.freeze()
}

/// What is left of the changes of one object.
struct Seen {
    first: String,
    last: String,
    uid: String,
    at: usize,
    object: Value,
}

/// Makes one change of the changes of each object, where its last one was.
fn merge(lines: Vec<Bytes>, hide_recreates: bool) -> Vec<Bytes> {
    let mut seen: BTreeMap<(String, String), Seen> = BTreeMap::new();
    let mut out: BTreeMap<usize, Bytes> = BTreeMap::new();
    for (at, line) in lines.into_iter().enumerate() {
        let event: Value = serde_json::from_slice(&line).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let change = text(&event["type"]);
        if !["ADDED", "MODIFIED", "DELETED"].contains(&change.as_str()) {
            out.insert(at, line);
            continue;
        }
        let metadata = &event["object"]["metadata"];
        let key = (text(&metadata["namespace"]), text(&metadata["name"]));
        let uid = text(&metadata["uid"]);
        match seen.get_mut(&key) {
            Some(before) if before.uid == uid || hide_recreates => {
                before.last = change;
                before.at = at;
                before.uid = uid;
                before.object = event["object"].clone();
            }
            _ => {
                let fresh = Seen {
                    first: change.clone(),
                    last: change,
                    uid,
                    at,
                    object: event["object"].clone(),
                };
                if let Some(before) = seen.insert(key, fresh) {
                    out.extend(before.line());
                }
            }
        }
    }
    out.extend(seen.into_values().filter_map(|seen| seen.line()));
    out.into_values().collect()
}

impl Seen {
    /// The one change, unless the object came and went.
    fn line(&self) -> Option<(usize, Bytes)> {
        let change = match (self.first.as_str(), self.last.as_str()) {
            ("ADDED", "DELETED") => return None,
            (_, "DELETED") => "DELETED",
            ("ADDED", _) => "ADDED",
            _ => "MODIFIED",
        };
        Some((self.at, go_json::event(change, &self.object).into()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn lines(events: &[(&str, &str, &str, u64)]) -> Vec<Bytes> {
        let line = |(change, name, uid, version): &(&str, &str, &str, u64)| {
            let metadata = json!({"name": name, "uid": uid, "resourceVersion": version});
            let event = json!({"type": change, "object": {"metadata": metadata}});
            Bytes::from(format!("{event}\n"))
        };
        events.iter().map(line).collect()
    }

    fn merged(events: &[(&str, &str, &str, u64)], hide: bool) -> Vec<String> {
        let show = |line: Bytes| {
            let event: Value = serde_json::from_slice(&line).unwrap();
            let metadata = &event["object"]["metadata"];
            format!(
                "{} {} {} {}",
                event["type"], metadata["name"], metadata["uid"], metadata["resourceVersion"]
            )
            .replace('"', "")
        };
        merge(lines(events), hide).into_iter().map(show).collect()
    }

    #[test]
    fn changes_of_an_object_become_one() {
        let events = [
            ("MODIFIED", "a", "1", 2),
            ("ADDED", "b", "2", 3),
            ("MODIFIED", "a", "1", 4),
            ("MODIFIED", "b", "2", 5),
            ("ADDED", "c", "3", 6),
            ("DELETED", "c", "3", 7),
            ("DELETED", "a", "1", 8),
        ];
        assert_eq!(merged(&events, false), ["ADDED b 2 5", "DELETED a 1 8"]);
    }

    #[test]
    fn a_recreation_is_hidden_only_on_request() {
        let events = [("DELETED", "a", "1", 2), ("ADDED", "a", "2", 3)];
        assert_eq!(merged(&events, false), ["DELETED a 1 2", "ADDED a 2 3"]);
        assert_eq!(merged(&events, true), ["MODIFIED a 2 3"]);
    }
}
