//! `console` and `vnc` of instances: a WebSocket to the serial line and to the
//! screen. As on a node, each has one viewer, and a new one takes over.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use kite_fake::actors::objects::{text, uid};
use kite_fake::service::ResponseBody;
use kite_fake::status::Status;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::Ask;
use super::stream::{Upgrade, carry};
use crate::guest::{Consoles, Home};
use crate::kubevirt::guests::Guests;

/// Bytes on their way between a viewer and a guest, each way.
const PIPE: usize = 64 * 1024;
/// How often somebody looks whether the instance still runs.
const LOOK: Duration = Duration::from_millis(200);

/// What of an instance is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Device {
    /// Its serial line.
    Serial,
    /// Its screen.
    Screen,
}

impl Device {
    /// That of a subresource.
    pub(super) fn of(verb: &str) -> Option<Self> {
        match verb {
            "console" => Some(Self::Serial),
            "vnc" => Some(Self::Screen),
            _ => None,
        }
    }

    /// Whether an instance has it.
    fn is_in(self, spec: &serde_json::Value) -> bool {
        let field = match self {
            Self::Serial => "autoattachSerialConsole",
            Self::Screen => "autoattachGraphicsDevice",
        };
        spec["domain"]["devices"][field] != false
    }
}

/// Who looks at what, and machines in which nothing runs.
#[derive(Default)]
pub(super) struct Viewers {
    watching: Mutex<HashMap<(String, Device), CancellationToken>>,
    bare: Mutex<HashMap<String, Consoles>>,
}

impl Viewers {
    /// The place of a new viewer; whoever was there goes. `None` when somebody is
    /// there and is to stay.
    fn take(&self, id: &str, device: Device, preserve: bool) -> Option<CancellationToken> {
        let place = CancellationToken::new();
        let mut watching = self.watching.lock();
        watching.retain(|_, before| !before.is_cancelled());
        let key = (id.to_owned(), device);
        if preserve && watching.contains_key(&key) {
            return None;
        }
        if let Some(before) = watching.insert(key, place.clone()) {
            before.cancel();
        }
        Some(place)
    }

    /// What is attached to an instance in which no guest runs.
    fn bare(&self, id: &str, name: &str) -> Consoles {
        let mut bare = self.bare.lock();
        let made = || Consoles::new(name, "user", Home::default());
        bare.entry(id.to_owned()).or_insert_with(made).clone()
    }
}

/// Answers the upgrade and carries bytes until either side ends.
pub(super) async fn open(
    ask: &Ask<'_>,
    request: &mut Request<Bytes>,
    device: Device,
    guests: &dyn Guests,
    viewers: &Arc<Viewers>,
) -> Result<Response<ResponseBody>, Status> {
    ask.wants(&Method::GET)?;
    let instance = ask.object().await?;
    if !device.is_in(&instance.data["spec"]) {
        return Err(Status::bad_request(match device {
            Device::Serial => "No serial consoles are present.",
            Device::Screen => "No graphics devices are present.",
        }));
    }
    let phase = text(&instance, "/status/phase");
    if phase == "Failed" && device == Device::Serial {
        return Err(ask.conflict("VMI is in failed status"));
    }
    if phase != "Running" {
        return Err(Status::bad_request("VMI is not running"));
    }
    let preserve = request.uri().query().is_some_and(|query| {
        let mut pairs = query.split('&');
        device == Device::Screen && pairs.any(|pair| pair == "preserveSession=true")
    });
    let upgrade = Upgrade::of(request)?;
    let id = uid(&instance).to_owned();
    let Some(place) = viewers.take(&id, device, preserve) else {
        let why = "Active VNC connection. Request denied.";
        return Err(Status::new(503, "ServiceUnavailable", why));
    };
    let consoles = guests.consoles(&id);
    let consoles = consoles.unwrap_or_else(|| viewers.bare(&id, &ask.key.name));
    let (key, client) = (ask.key.clone(), ask.of.client.clone());
    let (viewers, guard) = (Arc::clone(viewers), place.clone().drop_guard());
    Ok(upgrade.answer(async move |viewer| {
        // Whoever comes next finds the place free.
        let _guard = guard;
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let attached = async {
            match device {
                Device::Serial => consoles.serial(theirs).await,
                Device::Screen => consoles.screen(theirs).await,
            }
            std::future::pending::<()>().await;
        };
        let over = async {
            loop {
                tokio::time::sleep(LOOK).await;
                let now = key.api(&client).get_opt(&key.name).await;
                if !now.is_ok_and(|now| {
                    now.is_some_and(|it| uid(&it) == id && text(&it, "/status/phase") == "Running")
                }) {
                    viewers.bare.lock().remove(&id);
                    return;
                }
            }
        };
        tokio::select! {
            () = carry(viewer, ours) => {}
            () = attached => {}
            () = over => {}
            () = place.cancelled() => {}
        }
    }))
}
