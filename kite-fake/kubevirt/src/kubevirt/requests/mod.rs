//! `subresources.kubevirt.io`: what people and programs ask of VMs directly.

mod console;
mod forward;
mod freeze;
mod instance;
mod power;
mod stream;
mod volume;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use kite_fake::actors::kind::Key;
use kite_fake::actors::{Catalog, Context, Rules};
use kite_fake::clock::Clock;
use kite_fake::server::status_response;
use kite_fake::service::{Extension, ResponseBody};
use kite_fake::status::Status;
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::kinds::{INSTANCE, VIRTUAL_MACHINE};
use crate::kubevirt::guests::{Guests, NoGuests};

/// The paths that [`VmSubresources`] answers.
pub const SUBRESOURCES: &str = "/apis/subresources.kubevirt.io/";

/// The group that failures name.
const GROUP: &str = "kubevirt.io";

/// Plays virt-api's subresources: the power, the disks and the migration of
/// VMs, what is asked of running instances, and streams to their ports, serial
/// lines and screens. What is not played answers 501 with its name.
pub struct VmSubresources {
    client: Client,
    catalog: Catalog,
    clock: Arc<dyn Clock>,
    rules: Arc<Rules>,
    guests: Arc<dyn Guests>,
    viewers: Arc<console::Viewers>,
}

impl std::fmt::Debug for VmSubresources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VmSubresources").finish_non_exhaustive()
    }
}

/// What an answer has in it.
enum Told {
    /// Nothing: it is done.
    Done,
    /// Nothing: it will be done.
    Accepted,
    /// This.
    Value(Value),
}

#[async_trait]
impl Extension for VmSubresources {
    async fn handle(&self, mut request: Request<Bytes>) -> Response<ResponseBody> {
        if let Some(answer) = self.stream(&mut request).await {
            return answer.unwrap_or_else(|status| {
                status_response(&status).map(|body| Full::new(body).boxed_unsync())
            });
        }
        let (code, body) = match self.answer(&request).await {
            Ok(Told::Done) => (StatusCode::OK, Bytes::new()),
            Ok(Told::Accepted) => (StatusCode::ACCEPTED, Bytes::new()),
            Ok(Told::Value(value)) => (StatusCode::OK, Bytes::from(value.to_string())),
            Err(status) => {
                return status_response(&status).map(|body| Full::new(body).boxed_unsync());
            }
        };
        let filled = !body.is_empty();
        let mut response = Response::new(Full::new(body).boxed_unsync());
        *response.status_mut() = code;
        if filled {
            let json = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
        }
        response
    }
}

impl VmSubresources {
    /// Does what is asked by `client`.
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self {
            client,
            catalog: Catalog::default(),
            clock,
            rules: Arc::new(Rules::instant()),
            guests: Arc::new(NoGuests),
            viewers: Arc::default(),
        }
    }

    /// Attaches consoles to these guests. An instance in which none of them runs
    /// has a serial line and a screen, too, of a machine of its own.
    #[must_use]
    pub fn with_guests(mut self, guests: Arc<dyn Guests>) -> Self {
        self.guests = guests;
        self
    }

    /// Heeds these rules where guests are asked for something.
    #[must_use]
    pub fn with_rules(mut self, rules: &Arc<Rules>) -> Self {
        self.rules = Arc::clone(rules);
        self
    }

    /// What is a stream of bytes; `None` for all else.
    async fn stream(
        &self,
        request: &mut Request<Bytes>,
    ) -> Option<Result<Response<ResponseBody>, Status>> {
        let path = request.uri().path().strip_prefix(SUBRESOURCES)?.to_owned();
        let parts: Vec<&str> = path.splitn(7, '/').collect();
        let [
            "v1" | "v1alpha3",
            "namespaces",
            namespace,
            "virtualmachineinstances",
            name,
            verb,
            ref rest @ ..,
        ] = parts[..]
        else {
            return None;
        };
        let (method, body) = (request.method().clone(), Bytes::new());
        let ask = Ask {
            of: self,
            key: Key::new(&INSTANCE, Some(namespace), name),
            verb: verb.to_owned(),
            method: &method,
            body: &body,
        };
        match (verb, rest) {
            ("portforward", [port]) => Some(forward::open(&ask, request, port).await),
            (verb, []) => {
                let device = console::Device::of(verb)?;
                let (guests, viewers) = (self.guests.as_ref(), &self.viewers);
                Some(console::open(&ask, request, device, guests, viewers).await)
            }
            _ => None,
        }
    }

    async fn answer(&self, request: &Request<Bytes>) -> Result<Told, Status> {
        let path = request.uri().path();
        let path = path.strip_prefix(SUBRESOURCES).unwrap_or_default();
        let parts: Vec<&str> = path.split('/').collect();
        let [
            "v1" | "v1alpha3",
            "namespaces",
            namespace,
            plural,
            name,
            ref verb @ ..,
        ] = parts[..]
        else {
            return Err(Status::no_such_resource());
        };
        let kind = match plural {
            "virtualmachines" => &VIRTUAL_MACHINE,
            "virtualmachineinstances" => &INSTANCE,
            _ => return Err(Status::no_such_resource()),
        };
        let ask = Ask {
            of: self,
            key: Key::new(kind, Some(namespace), name),
            verb: verb.join("/"),
            method: request.method(),
            body: request.body(),
        };
        if plural == "virtualmachines" {
            match ask.verb.as_str() {
                "start" => power::start(&ask).await,
                "stop" => power::stop(&ask).await,
                "restart" => power::restart(&ask).await,
                "migrate" => power::migrate(&ask).await,
                "addvolume" => volume::add(&ask).await,
                "removevolume" => volume::remove(&ask).await,
                _ => Err(ask.unsupported()),
            }
        } else {
            match ask.verb.as_str() {
                "pause" => instance::pause(&ask, true).await,
                "unpause" => instance::pause(&ask, false).await,
                "freeze" => freeze::freeze(&ask).await,
                "unfreeze" => freeze::thaw(&ask).await,
                "softreboot" => instance::soft_reboot(&ask).await,
                "reset" => instance::reset(&ask).await,
                "guestosinfo" => instance::guest_info(&ask).await,
                "evacuate/cancel" => instance::cancel_evacuation(&ask).await,
                "addvolume" => volume::add(&ask).await,
                "removevolume" => volume::remove(&ask).await,
                _ => Err(ask.unsupported()),
            }
        }
    }
}

/// A request for something of a VM or an instance.
struct Ask<'a> {
    of: &'a VmSubresources,
    key: Key,
    verb: String,
    method: &'a Method,
    body: &'a Bytes,
}

impl Ask<'_> {
    fn unsupported(&self) -> Status {
        Status::unsupported(&format!(
            "{}/{} of KubeVirt",
            self.key.kind.plural, self.verb
        ))
    }

    /// Whether a VM is meant, not an instance.
    fn is_machine(&self) -> bool {
        self.key.kind == VIRTUAL_MACHINE
    }

    /// The resource that failures name: in the singular.
    fn resource(&self) -> &'static str {
        if self.is_machine() {
            "virtualmachine"
        } else {
            "virtualmachineinstance"
        }
    }

    fn wants(&self, method: &Method) -> Result<(), Status> {
        if self.method == method {
            Ok(())
        } else {
            Err(Status::method_not_allowed())
        }
    }

    /// The body; an empty one is no options.
    fn options(&self) -> Result<Value, Status> {
        if self.body.is_empty() {
            return Ok(json!({}));
        }
        serde_json::from_slice(self.body).map_err(|error| {
            Status::bad_request(format!(
                "Can not unmarshal Request body to struct, error: {error}"
            ))
        })
    }

    fn conflict(&self, why: &str) -> Status {
        Status::conflict(GROUP, self.resource(), &self.key.name, why)
    }

    /// The object that is asked.
    async fn object(&self) -> Result<DynamicObject, Status> {
        let found = self.get(&self.key).await?;
        found.ok_or_else(|| Status::not_found(GROUP, self.resource(), &self.key.name))
    }

    /// The instance of the name that is asked for.
    async fn instance(&self) -> Result<Option<DynamicObject>, Status> {
        let key = Key::new(&INSTANCE, self.key.namespace.as_deref(), &self.key.name);
        self.get(&key).await
    }

    async fn get(&self, key: &Key) -> Result<Option<DynamicObject>, Status> {
        let api = key.api(&self.of.client);
        api.get_opt(&key.name).await.map_err(|e| refused(&e))
    }

    /// What actors work with.
    fn context(&self) -> Context {
        let of = self.of;
        let (client, clock) = (of.client.clone(), Arc::clone(&of.clock));
        Context::new(client, clock, Arc::clone(&of.rules), of.catalog.clone())
    }

    fn now(&self) -> String {
        kite_fake::clock::rfc3339(self.of.clock.now())
    }

    async fn set_status(&self, status: Value, dry_run: bool) -> Result<(), Status> {
        let refresh = self.of.catalog.refresh(&self.of.client).await;
        refresh.map_err(|e| refused(&e))?;
        let subresource = self.of.catalog.has_status(&self.key.kind);
        let patch = json!({"status": status});
        self.patch(&self.key, patch, subresource, dry_run).await
    }

    async fn set(&self, patch: Value, dry_run: bool) -> Result<(), Status> {
        self.patch(&self.key, patch, false, dry_run).await
    }

    async fn patch(
        &self,
        key: &Key,
        patch: Value,
        status: bool,
        dry_run: bool,
    ) -> Result<(), Status> {
        let params = PatchParams {
            field_manager: Some("virt-api".to_owned()),
            dry_run,
            ..PatchParams::default()
        };
        let (api, patch) = (key.api(&self.of.client), Patch::Merge(patch));
        let done = if status {
            api.patch_status(&key.name, &params, &patch).await
        } else {
            api.patch(&key.name, &params, &patch).await
        };
        done.map(drop).map_err(|e| refused(&e))
    }
}

/// Whether options ask for a trial only.
fn is_trial(options: &Value) -> bool {
    options["dryRun"][0] == "All"
}

/// What the API server said to the extension, said to whoever asked it.
fn refused(error: &kube::Error) -> Status {
    match error {
        kube::Error::Api(status) => {
            let known = ["NotFound", "Conflict", "Forbidden", "Invalid", "BadRequest"];
            let reason = known.into_iter().find(|reason| *reason == status.reason);
            Status::new(
                status.code,
                reason.unwrap_or_default(),
                status.message.clone(),
            )
        }
        error => Status::internal(error.to_string()),
    }
}
