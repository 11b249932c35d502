//! The server proper: requests in, answers out; no I/O, no clock, no entropy of
//! its own.
//!
//! [`ApiServer::handle`] takes a request and the time and gives an [`Answer`].
//! A watch is an answer that goes on: [`ApiServer::poll`] gives what has
//! happened since. The tower service and the HTTP server are shells around this.

mod access;
mod accounts;
mod admission;
mod aggregation;
mod allocations;
mod body;
mod budgets;
mod certificates;
#[cfg(test)]
mod certificates_tests;
mod commit;
mod compaction;
mod components;
mod conversion;
#[cfg(test)]
mod core_tests;
pub mod crds;
mod create;
mod delete;
mod endings;
mod escalation;
mod fresh;
mod graceful;
mod hooks;
mod impersonation;
mod issuer;
mod limits;
mod lines;
mod log;
mod metrics;
mod owner_references;
mod patch;
mod pod_security;
mod pods;
mod policies;
mod pretty;
mod quota;
mod read;
mod respond;
mod reviews;
mod rules;
mod scale;
mod scopes;
mod size;
mod subresources;
mod support;
mod tokens;
mod update;
pub(crate) mod usage;
pub mod watch;
mod webhooks;

#[cfg(test)]
mod custom_tests;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;

use crate::auth::{Attributes, Identity, Tokens};
use crate::clock::Ids;
use crate::discovery;
use crate::extension::Extension;
use crate::go_json;
use crate::openapi::Documents;
use crate::registry::{Origin, Registry, Resource};
use crate::rest::media::{self, Accepted, Encoding, Offer};
use crate::rest::options::{DeleteOptions, ListOptions, WriteOptions};
use crate::rest::path::{self, Route, Target};
use crate::rest::query::Query;
use crate::status::Status;
use crate::store::{Key, Store};
pub(crate) use access::verb;
use allocations::Allocations;
pub use hooks::Ask;
use hooks::{Consultation, Hooks};
pub use log::{Counts, Logged, Mark, RequestLog, Since};
use respond::Unwritten;
pub use support::{Row, SUPPORT, Support, markdown as support_table};
pub use watch::Watch;
pub use webhooks::{Marked, Refused, Review, Surroundings, Webhook};

/// Largest body that is read, in bytes, as in a real API server.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// How many requests the log remembers.
const LOGGED: usize = 4096;

/// What a request got.
#[derive(Debug)]
pub enum Answer {
    /// A whole response.
    Response(Response<Bytes>),
    /// A stream of events.
    Watch(Box<Watch>),
    /// The client asked for a state that is still to come.
    NotYet(Box<NotYet>),
    /// Webhooks of the cluster are to be asked first; nothing has happened so far. See
    /// [`ApiServer::resume_asked`].
    Ask(Box<Ask>),
    /// Somebody else answers; the request carries the caller's [`Identity`].
    Extension(Arc<dyn Extension>, Box<Request<Bytes>>),
}

/// A request for a state from the future: the shell waits a little for it and
/// asks again, or gives up.
#[derive(Debug)]
pub struct NotYet {
    /// The revision that the client wants to see.
    pub revision: u64,
    /// What to answer when it does not come.
    pub otherwise: Response<Bytes>,
    /// Fires with every change of the store.
    pub changes: tokio::sync::watch::Receiver<u64>,
    /// What the log says if it does not come.
    entry: Logged,
}

/// An answer, and the text of a long list that is still to be written into it.
pub(crate) type Begun = (Answer, Option<Unwritten>);

/// The in-memory API server.
#[derive(Debug)]
pub struct ApiServer {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    documents: Documents,
    pub(crate) ids: Ids,
    pub(crate) tokens: Tokens,
    /// What signs tokens, once one is wanted.
    #[cfg(feature = "oidc")]
    signer: std::sync::OnceLock<crate::auth::Signer>,
    pub(crate) rbac: bool,
    /// Whether who names owners needs rights on them.
    owner_references_enforced: bool,
    /// Whether every Pod runs as an account that is there.
    pub(crate) service_accounts: bool,
    pub(crate) extensions: Vec<(String, Arc<dyn Extension>)>,
    webhooks: Vec<Arc<dyn Webhook>>,
    /// The webhooks that stored configurations name.
    hooks: Hooks,
    /// What the request that is being handled asked others.
    consultation: Option<Consultation>,
    /// The identifiers that go on when that request is done: it draws from others, so that
    /// it may be begun again.
    parked: Option<Ids>,
    /// Policies that changed the object of the present request, and want to see it again
    /// when others have.
    reinvocable: Vec<policies::Invocation>,
    /// What a new cluster has that nobody has looked at yet.
    fresh: Vec<&'static fresh::Part>,
    /// What Services have.
    pub(crate) allocations: parking_lot::Mutex<Allocations>,
    compaction: compaction::Compaction,
    last_line: lines::LastLine,
    log: RequestLog,
    /// `Warning` headers of the request that is being handled.
    warnings: Vec<String>,
    /// The list that answers it, if it is a long one.
    unwritten: Option<Unwritten>,
    /// Time of the request that is being handled.
    pub(crate) now: Timestamp,
}

/// What every handler needs to know of its request.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) target: Target,
    pub(crate) resource: Arc<Resource>,
    pub(crate) query: Query,
    pub(crate) accepted: Accepted,
    pub(crate) content_type: Option<String>,
    pub(crate) user_agent: String,
    pub(crate) identity: Identity,
    pub(crate) body: Bytes,
    pub(crate) now: Timestamp,
    /// Policies and webhooks were asked already: about the subresource that this is the
    /// object of.
    pub(crate) admitted: bool,
}

impl Call {
    /// Key of the object that the path names.
    fn key(&self) -> Key {
        Key::new(
            self.namespace(),
            self.target.name.clone().unwrap_or_default(),
        )
    }

    /// Namespace of the objects concerned, empty for cluster-scoped ones.
    fn namespace(&self) -> &str {
        if self.resource.namespaced {
            self.target.namespace.as_deref().unwrap_or_default()
        } else {
            ""
        }
    }

    fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    /// The same request on the object itself.
    fn without_subresource(&self) -> Self {
        let mut call = self.clone();
        call.target.subresource = None;
        call.admitted = true;
        call
    }

    /// The verb of the request, as authorization names it.
    fn verb(&self) -> &'static str {
        access::verb(&self.method, &self.target, &self.query)
    }

    /// What the request wants, if it were of another verb.
    fn wish(&self, verb: &str) -> Attributes {
        Attributes {
            verb: verb.to_owned(),
            group: self.resource.group.clone(),
            resource: self.resource.plural.clone(),
            subresource: self.target.subresource.clone().unwrap_or_default(),
            name: self.name().to_owned(),
            namespace: self.namespace().to_owned(),
            path: String::new(),
        }
    }

    fn not_found(&self) -> Status {
        Status::not_found(&self.resource.group, &self.resource.plural, self.name())
    }

    fn write_options(&self, kind: &str) -> Result<WriteOptions, Status> {
        let apply = patch::Format::of(self).is_ok_and(|format| format == patch::Format::Apply);
        WriteOptions::parse(kind, apply, &self.query, &self.user_agent)
    }
}

/// What a write produced.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) body: Produced,
    pub(crate) code: u16,
}

/// The body of an [`Outcome`].
#[derive(Debug)]
pub(crate) enum Produced {
    Object(crate::store::Object),
    Value(Value),
    Status(Status),
}

impl ApiServer {
    /// An empty server: built-in resources, no objects.
    pub fn new(seed: u64, history: usize) -> Self {
        Self {
            store: Store::new(history),
            registry: Registry::built_in(),
            documents: Documents::new(crate::builtin::json_schema),
            ids: Ids::new(seed),
            tokens: Tokens::default(),
            #[cfg(feature = "oidc")]
            signer: std::sync::OnceLock::new(),
            rbac: false,
            owner_references_enforced: false,
            service_accounts: false,
            extensions: Vec::new(),
            webhooks: Vec::new(),
            hooks: Hooks::default(),
            consultation: None,
            parked: None,
            reinvocable: Vec::new(),
            fresh: Vec::new(),
            allocations: parking_lot::Mutex::default(),
            compaction: compaction::Compaction::default(),
            last_line: lines::LastLine::default(),
            log: RequestLog::new(LOGGED),
            warnings: Vec::new(),
            unwritten: None,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    /// The resources that are served now.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Lets an extension answer all paths below `prefix`.
    pub fn extend(&mut self, prefix: &str, extension: Arc<dyn Extension>) {
        self.extensions.retain(|(p, _)| p != prefix);
        self.extensions.push((prefix.to_owned(), extension));
    }

    /// What was asked so far.
    pub fn log(&self) -> &RequestLog {
        &self.log
    }

    /// The same, to forget or to read through a lock.
    pub fn log_mut(&mut self) -> &mut RequestLog {
        &mut self.log
    }

    /// Forgets what was asked so far.
    pub fn clear_log(&mut self) {
        self.log.clear();
    }

    /// The objects.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Answers one request.
    pub fn handle(&mut self, request: Request<Bytes>, now: Timestamp) -> Answer {
        let (answer, unwritten) = self.begin(request, now);
        finish(answer, unwritten)
    }

    /// Answers one request, but for the text of a long list, which [`finish`]
    /// writes: the server is not needed for that.
    pub(crate) fn begin(&mut self, request: Request<Bytes>, now: Timestamp) -> Begun {
        self.consultation = None;
        self.own_ids();
        if (self.hooks.is_empty() || is_read(&request)) && !self.registry.converts() {
            return self.work(request, now);
        }
        self.begin_asking(request, now)
    }

    fn work(&mut self, request: Request<Bytes>, now: Timestamp) -> Begun {
        self.now = now;
        self.unwritten = None;
        self.warnings.clear();
        self.store.cool();
        self.compaction.catch_up(now, self.store.revision());
        let (parts, body) = request.into_parts();
        let route = path::parse(parts.uri.path());
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let wanted = access::attributes(&parts.method, parts.uri.path(), &route, &query);
        let user_agent = header_text(&parts, &http::header::USER_AGENT).unwrap_or_default();
        let mut entry = logged(&wanted, user_agent);
        let accept = parts.headers.get(http::header::ACCEPT).cloned();
        let accept = accept.as_ref().and_then(|it| it.to_str().ok());
        // The description of the API is for programs.
        let pretty =
            pretty::asked(accept, &query, user_agent) && !parts.uri.path().starts_with("/openapi/");
        let answer = match self.authenticate(&parts, &wanted) {
            Ok(identity) => {
                entry.user.clone_from(&identity.name);
                self.allow(&identity, &wanted)
                    .and_then(|()| self.dispatch(parts, body, route, query, identity))
            }
            Err(status) => Err(status),
        };
        let mut answer = answer.unwrap_or_else(|status| self.failed(&status));
        if self.is_asking() {
            // One request is one entry: it is written when it is answered.
            return (answer, None);
        }
        let warnings = std::mem::take(&mut self.warnings);
        if let Answer::Response(response) = &mut answer {
            respond::add_warnings(response, &warnings);
            let told = if response.status().is_success() {
                Some(Encoding::Json)
            } else {
                media::of_failures(accept)
            };
            let other = told.filter(|told| *told != Encoding::Json);
            if let Some(told) = other
                && respond::is_json(response)
            {
                if let Ok(status) = respond::in_encoding(response.clone(), told) {
                    *response = status;
                }
            } else if (pretty || told.is_none()) && respond::is_json(response) {
                if let Some(list) = self.unwritten.take() {
                    write(response, list);
                }
                if respond::is_json(response) {
                    *response.body_mut() = go_json::indented(response.body());
                }
            }
        }
        entry.code = match &mut answer {
            Answer::Response(response) => response.status().as_u16(),
            Answer::Watch(_) | Answer::Extension(..) | Answer::Ask(_) => 200,
            Answer::NotYet(wait) => {
                // One request is one entry: it is written when it is answered.
                entry.code = wait.otherwise.status().as_u16();
                wait.entry = entry;
                return (answer, None);
            }
        };
        self.log.record(entry);
        (answer, self.unwritten.take())
    }

    /// The answer to a request whose state did not come in time.
    pub fn give_up(&mut self, wait: NotYet) -> Response<Bytes> {
        self.log.record(wait.entry);
        wait.otherwise
    }

    fn failed(&self, status: &Status) -> Answer {
        let otherwise = respond::status(status);
        match status.awaits {
            Some(revision) => self.not_yet(revision, otherwise),
            None => Answer::Response(otherwise),
        }
    }

    fn not_yet(&self, revision: u64, otherwise: Response<Bytes>) -> Answer {
        Answer::NotYet(Box::new(NotYet {
            revision,
            otherwise,
            changes: self.store.subscribe_all(),
            entry: Logged::default(),
        }))
    }

    fn dispatch(
        &mut self,
        parts: Parts,
        body: Bytes,
        route: Route,
        query: Query,
        identity: Identity,
    ) -> Result<Answer, Status> {
        let path = parts.uri.path();
        let extension = self
            .extensions
            .iter()
            .find(|(prefix, _)| path.starts_with(prefix.as_str()))
            .map(|(_, extension)| extension.clone());
        if let Some(extension) = extension {
            let mut request = Request::from_parts(parts, body);
            request.extensions_mut().insert(identity);
            return Ok(Answer::Extension(extension, Box::new(request)));
        }
        let target = match route {
            Route::Document | Route::Version(_) => {
                return self.document(&parts, &query).map(Answer::Response);
            }
            Route::Resource(target) => target,
        };
        let Some(resource) = self
            .registry
            .get(&target.group, &target.version, &target.plural)
            .cloned()
        else {
            if self.registry.is_built_in_group(&target.group) {
                return Err(Status::no_such_resource());
            }
            return Ok(Answer::Response(respond::page_not_found()));
        };
        if !fits_scope(&target, &resource) {
            if resource.is_custom() {
                return Ok(Answer::Response(respond::page_not_found()));
            }
            return Err(Status::no_such_resource());
        }
        if !self.fresh.is_empty() {
            self.bear(&resource);
        }
        self.warnings.extend(resource.deprecation.clone());
        let header = |name: http::HeaderName| header_text(&parts, &name);
        let offer = Offer {
            custom: resource.is_custom(),
            tables: has_tables(&target, &resource),
        };
        let call = Call {
            // Custom resources are served by verb, and a HEAD is a get there.
            method: match parts.method {
                Method::HEAD if resource.is_custom() => Method::GET,
                ref other => other.clone(),
            },
            target,
            accepted: media::accepted(header(http::header::ACCEPT), offer)?,
            resource,
            query,
            content_type: header(http::header::CONTENT_TYPE).map(str::to_owned),
            user_agent: header(http::header::USER_AGENT)
                .unwrap_or_default()
                .to_owned(),
            identity,
            body,
            now: self.now,
            admitted: false,
        };
        self.resource_request(&call)
    }

    /// A document about the API itself.
    fn document(&mut self, parts: &Parts, query: &Query) -> Result<Response<Bytes>, Status> {
        let text = |name| header_text(parts, &name).unwrap_or_default();
        let path = parts.uri.path();
        let accept = text(http::header::ACCEPT);
        let known = text(http::header::IF_NONE_MATCH);
        if path == "/metrics" {
            return Ok(respond::document(self.metrics(), known));
        }
        let asked = discovery::Asked { accept, query };
        if let Some(found) = discovery::document(&self.registry, path, asked) {
            let routed = discovery::is_routed(&self.registry, path);
            if routed && parts.method != Method::GET {
                return Err(Status::method_not_allowed());
            }
            if found.etag.is_some() || !(routed || discovery::is_negotiated(path)) {
                return Ok(respond::document(found, known));
            }
            let encoding = match media::document(accept, routed)? {
                // Not a kind: it is written as it is.
                _ if !discovery::is_negotiated(path) => Encoding::Json,
                encoding => encoding,
            };
            return respond::in_encoding(respond::document(found, known), encoding);
        }
        if let Some(found) = self.issuer_document(parts)? {
            return Ok(respond::document(found, known));
        }
        match self.documents.document(&self.registry, path, asked) {
            Ok(Some(found)) => return Ok(respond::document(found, known)),
            Ok(None) if path.starts_with("/openapi/v3/") => return Ok(respond::empty(404)),
            Err(_) => return Ok(respond::empty(406)),
            Ok(None) => {}
        }
        match path::parse(path) {
            Route::Version(target) if self.registry.is_built_in_group(&target.group) => {
                Err(Status::no_such_resource())
            }
            _ => Ok(respond::page_not_found()),
        }
    }

    fn resource_request(&mut self, call: &Call) -> Result<Answer, Status> {
        if let Some(outcome) = self.subresource(call)? {
            return Ok(Answer::Response(respond::outcome(call, &outcome)?));
        }
        let posts_to_all = call.resource.namespaced && call.target.namespace.is_none();
        if call.resource.origin == Origin::Virtual {
            return self.answered(call);
        }
        let outcome = match (&call.method, &call.target.name) {
            (&Method::GET, None) => return self.list_or_watch(call),
            (&Method::GET, Some(_)) if call.target.watch_prefix => {
                return self.list_or_watch(call);
            }
            (&Method::GET, Some(_)) => self.get(call)?,
            (&Method::POST | &Method::DELETE, None) if posts_to_all => {
                return Err(Status::method_not_allowed());
            }
            (&Method::POST, None) => self.create(call)?,
            (&Method::POST, Some(_)) if call.resource.is_custom() => self.create(call)?,
            (&Method::PUT, Some(_)) => self.put(call)?,
            (&Method::PATCH, Some(_)) => self.patch(call)?,
            (&Method::DELETE, Some(_)) => self.delete(call)?,
            (&Method::DELETE, None) => return self.delete_collection(call),
            (&Method::PUT | &Method::PATCH, None) if call.resource.is_custom() => {
                return Err(Status::bad_request("name must be provided"));
            }
            _ => return Err(Status::method_not_allowed()),
        };
        Ok(Answer::Response(respond::outcome(call, &outcome)?))
    }

    fn list_or_watch(&mut self, call: &Call) -> Result<Answer, Status> {
        let watch = call.target.watch_prefix || call.query.flag("watch");
        let mut options = ListOptions::parse(&call.query, watch)?;
        crate::registry::selectable::convert(&call.resource, &mut options)?;
        if watch {
            return self.open_watch(call, options);
        }
        let list = self.list(call, &options)?;
        self.unwritten = respond::long_list(call, &list);
        if self.unwritten.is_some() {
            return Ok(Answer::Response(respond::json(200, Bytes::new())));
        }
        Ok(Answer::Response(respond::list(call, &list)?))
    }

    fn delete_options(call: &Call) -> Result<DeleteOptions, Status> {
        if call.body.is_empty() {
            return DeleteOptions::parse(&call.query, None);
        }
        let encoding = media::content_type(call.content_type.as_deref(), false)?;
        let body = parse_text(&call.body, encoding).map_err(|why| {
            Status::bad_request(match encoding {
                Encoding::Protobuf => why,
                Encoding::Json => format!("{}{why}", body::NOT_READ),
                Encoding::Yaml => format!("error converting YAML to JSON: yaml: {why}"),
            })
        })?;
        DeleteOptions::parse(&call.query, Some(&body))
    }
}

/// Writes what [`ApiServer::begin`] left to be written.
pub(crate) fn finish(mut answer: Answer, unwritten: Option<Unwritten>) -> Answer {
    if let (Answer::Response(response), Some(list)) = (&mut answer, unwritten) {
        write(response, list);
    }
    answer
}

/// Writes a list into a response that has everything else.
fn write(response: &mut Response<Bytes>, list: Unwritten) {
    let head = std::mem::take(response);
    *response = list
        .write(head)
        .unwrap_or_else(|status| respond::status(&status));
}

/// A `Status` as a response, for shells that refuse a request themselves.
pub fn status_response(status: &Status) -> Response<Bytes> {
    respond::status(status)
}

fn header_text<'a>(parts: &'a Parts, name: &http::HeaderName) -> Option<&'a str> {
    parts.headers.get(name).and_then(|v| v.to_str().ok())
}

fn logged(wanted: &Attributes, user_agent: &str) -> Logged {
    let resource = if wanted.resource.is_empty() {
        wanted.path.clone()
    } else {
        let mut name = crate::status::qualified(&wanted.group, &wanted.resource);
        if !wanted.subresource.is_empty() {
            name = format!("{name}/{}", wanted.subresource);
        }
        name
    };
    Logged {
        verb: wanted.verb.clone(),
        resource,
        namespace: wanted.namespace.clone(),
        name: wanted.name.clone(),
        user: String::new(),
        user_agent: user_agent.to_owned(),
        code: 0,
    }
}

/// Whether a path has a namespace exactly where the resource wants one; lists
/// and watches also go over all namespaces.
fn fits_scope(target: &Target, resource: &Resource) -> bool {
    if resource.namespaced {
        return target.namespace.is_some() || target.name.is_none();
    }
    target.namespace.is_none() || (target.group.is_empty() && target.plural == "namespaces")
}

/// Whether a request only reads. Some that are made by GET connect to something, which
/// admission decides about.
fn is_read(request: &Request<Bytes>) -> bool {
    let connects = |name: &str| ["exec", "attach", "portforward", "proxy"].contains(&name);
    matches!(*request.method(), Method::GET | Method::HEAD)
        && !request.uri().path().split('/').any(connects)
}

/// Whether an answer can be a Table: what is only asked, or only done, is in none.
fn has_tables(target: &Target, resource: &Resource) -> bool {
    let done = ["binding", "eviction", "token"];
    let is_done = |name: &str| done.contains(&name);
    let is_kept = resource.origin != Origin::Virtual || resource.verbs.contains(&"list");
    is_kept && !target.subresource.as_deref().is_some_and(is_done)
}

/// Parses a body; one in protobuf that does not say what it is has the options of a
/// deletion.
fn parse_text(body: &[u8], encoding: Encoding) -> Result<Value, String> {
    match encoding {
        Encoding::Json => go_json::read(body),
        Encoding::Yaml => crate::rest::yaml::parse(body),
        Encoding::Protobuf => {
            crate::protobuf::decode(body, ("v1", "DeleteOptions")).map_err(|e| e.to_string())
        }
    }
}

impl ApiServer {
    /// Forgets the history up to now, as an etcd compaction does.
    pub fn compact(&mut self) {
        self.store.compact();
    }
}
