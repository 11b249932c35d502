//! Get and list.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::{ApiServer, Call, Outcome, Produced};
use crate::go_json;
use crate::registry::Resource;
use crate::rest::options::{ListOptions, Match, resource_version};
use crate::status::Status;
use crate::store::{Key, Object, Stored};

/// What a list found.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) items: Vec<Object>,
    pub(crate) revision: u64,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<usize>,
}

/// Where a paged list goes on.
struct Continue {
    /// State to list, or `None` for whatever is there now.
    revision: Option<u64>,
    after: Key,
    /// How many objects follow, where nothing is selected: counted once.
    left: Option<u64>,
}

/// Version of the tokens.
const VERSION: &str = "meta.k8s.io/v1";

impl Continue {
    fn encode(&self) -> String {
        // The server's own tokens are opaque, too: base64 of JSON.
        let text = json!({
            "v": VERSION,
            "rv": self.revision.map_or(-1, |r| i64::try_from(r).unwrap_or(-1)),
            "start": format!("{}/{}\u{0}", self.after.namespace, self.after.name),
            "left": self.left,
        });
        URL_SAFE_NO_PAD.encode(text.to_string())
    }

    fn decode(token: &str) -> Result<Self, Status> {
        let fail = |why: &str| {
            Status::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| {
            let foreign = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
            let at = token.find(foreign).unwrap_or(token.len());
            fail(&format!("illegal base64 data at input byte {at}"))
        })?;
        let value = go_json::read(&bytes).map_err(|why| fail(&why))?;
        let version = value["v"].as_str().unwrap_or_default();
        if version != VERSION {
            return Err(fail(&format!(
                "server does not recognize this encoded version {version}"
            )));
        }
        let revision = value["rv"].as_i64().unwrap_or_default();
        if revision == 0 {
            return Err(fail(&format!(
                "incorrect encoded start resourceVersion (version {VERSION})"
            )));
        }
        let start = value["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            return Err(fail(&format!(
                "encoded start key empty (version {VERSION})"
            )));
        }
        let dots = |part: &str| part.is_empty() || part == "." || part == "..";
        let key = start.trim_end_matches('\u{0}');
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        if dots(name) || namespace == "." || namespace == ".." {
            return Err(fail(start));
        }
        Ok(Self {
            revision: u64::try_from(revision).ok(),
            after: Key::new(namespace, name),
            left: value["left"].as_u64(),
        })
    }
}

impl ApiServer {
    /// The object as a client of `resource`'s version sees it, where no webhook converts
    /// it: see [`seen`](Self::seen).
    pub(crate) fn view(resource: &Resource, object: &Object) -> Object {
        if resource.version == resource.storage_version && object.epoch() == resource.epoch {
            return object.clone();
        }
        object.view(&resource.version, resource.epoch, |value| {
            super::rules::convert(resource, value)
        })
    }

    /// GET of one object.
    pub(crate) fn get(&mut self, call: &Call) -> Result<Outcome, Status> {
        let asked =
            resource_version(call.query.text("resourceVersion")).map_err(Status::internal)?;
        self.not_from_the_future(asked)?;
        let object = self
            .store
            .get(&call.resource.collection(), &call.key())
            .ok_or_else(|| call.not_found())?
            .clone();
        Ok(Outcome {
            body: Produced::Object(self.seen(&call.resource, &object)?),
            code: 200,
        })
    }

    /// Whether a state has come to be.
    pub(crate) fn not_from_the_future(&self, asked: u64) -> Result<(), Status> {
        let current = self.store.revision();
        if asked > current {
            return Err(Status::too_large_resource_version(asked, current));
        }
        Ok(())
    }

    /// The objects that the path and options select, page by page.
    pub(crate) fn list(&mut self, call: &Call, options: &ListOptions) -> Result<List, Status> {
        let current = self.store.revision();
        let mut asked = 0;
        let mut after = None;
        let mut exact = None;
        let mut left = None;
        let mut limit = options.limit;
        if let Some(token) = &options.continue_token {
            let at = Continue::decode(token)?;
            if !matches!(options.resource_version.as_str(), "" | "0") {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            exact = at.revision;
            left = at.left.filter(|_| exact.is_some());
            after = Some(at.after);
        } else {
            asked = resource_version(&options.resource_version)
                .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
        }
        let paged = limit > 0 && asked > 0 && options.version_match.is_none();
        if options.version_match == Some(Match::Exact) || paged {
            // A paged list of a revision is a list of that very revision.
            exact = Some(asked);
        } else if options.resource_version == "0" && after.is_none() {
            // Served from the watch cache, which does not page.
            limit = 0;
        }
        self.not_from_the_future(exact.unwrap_or(asked))?;
        if exact.is_some_and(|revision| self.compaction.has_forgotten(revision)) {
            return Err(expired(after.as_ref()));
        }
        let collection = call.resource.collection();
        let namespace = space(call);
        let single = single(call, options).filter(|_| after.is_none());
        let converted: Vec<(Key, Object)>;
        let objects: Box<dyn Iterator<Item = (&Key, &Object)>> = match (exact, &single) {
            (None, Some(key)) => Box::new(
                self.store
                    .get(&collection, key)
                    .map(|o| (key, o))
                    .into_iter(),
            ),
            (Some(revision), _) if revision != current => Box::new(
                self.store
                    .past(&collection, namespace, after.as_ref(), revision)
                    .map_err(|_| expired(after.as_ref()))?
                    .filter(|(k, _)| single.as_ref().is_none_or(|s| *k == s)),
            ),
            _ => Box::new(self.store.range(&collection, namespace, after.as_ref())),
        };
        let objects = if call.resource.conversion.is_some() {
            let pairs = objects.map(|(key, object)| (key.clone(), object.clone()));
            converted = self.pairs_seen(&call.resource, pairs.unzip())?;
            Box::new(converted.iter().map(|(key, object)| (key, object)))
        } else {
            objects
        };
        let revision = exact.unwrap_or(current);
        let selecting = !options.labels.is_empty() || !options.fields.is_empty();
        let mut list = List {
            revision,
            ..List::default()
        };
        let mut end: Option<&Key> = None;
        let mut remaining = 0;
        for (key, object) in objects {
            if limit > 0 && list.items.len() >= limit {
                remaining += 1;
                // How many of the rest are selected is not looked at: the next
                // page may be empty.
                if selecting {
                    break;
                }
                if let Some(left) = left.and_then(|left| usize::try_from(left).ok()) {
                    remaining = left.saturating_sub(list.items.len()).max(1);
                    break;
                }
                continue;
            }
            let object = Self::listed(&call.resource, object);
            if selecting && !selects(options, &object) {
                continue;
            }
            list.items.push(object);
            end = Some(key);
        }
        if remaining > 0
            && let Some(after) = end
        {
            let token = Continue {
                revision: Some(revision),
                after: after.clone(),
                left: u64::try_from(remaining).ok().filter(|_| !selecting),
            };
            list.continue_token = Some(token.encode());
            list.remaining = (!selecting).then_some(remaining);
        }
        Ok(list)
    }
}

/// The namespace that a list is of; all of them if none is named.
fn space(call: &Call) -> Option<&str> {
    let namespace = call.target.namespace.as_deref();
    namespace.filter(|_| call.resource.namespaced)
}

/// The only object that a list can have, if it asks for one by its name.
fn single(call: &Call, options: &ListOptions) -> Option<Key> {
    let namespace = space(call);
    let name = options.fields.exact("metadata.name");
    let name = name.filter(|_| namespace.is_some() || !call.resource.namespaced)?;
    Some(Key::new(namespace.unwrap_or_default(), name))
}

impl ApiServer {
    /// An object of a list, unless a webhook has converted it for that already.
    fn listed(resource: &Resource, object: &Object) -> Object {
        match resource.conversion {
            Some(_) => object.clone(),
            None => Self::view(resource, object),
        }
    }

    fn pairs_seen(
        &mut self,
        resource: &Resource,
        (keys, objects): (Vec<Key>, Vec<Object>),
    ) -> Result<Vec<(Key, Object)>, Status> {
        let seen = self.all_seen(resource, &objects)?;
        Ok(keys.into_iter().zip(seen).collect())
    }
}

/// Whether an object is in the selection.
pub(crate) fn selects(options: &ListOptions, object: &Stored) -> bool {
    options.labels.matches_by(|name| object.label(name))
        && options.fields.matches_by(|path| object.field(path))
}

fn expired(after: Option<&Key>) -> Status {
    match after {
        None => Status::expired("The resourceVersion for the provided list is too old."),
        Some(after) => {
            let mut status = Status::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
            );
            status.continue_token = Some(
                Continue {
                    revision: None,
                    after: after.clone(),
                    left: None,
                }
                .encode(),
            );
            status
        }
    }
}
