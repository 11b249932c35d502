//! `portforward` of instances: a WebSocket to a port of the guest.

use bytes::Bytes;
use http::{Method, Request, Response};
use kite_fake::actors::HOST_PORTS;
use kite_fake::actors::kind::POD;
use kite_fake::actors::objects::text;
use kite_fake::service::ResponseBody;
use kite_fake::status::Status;
use kube::api::ListParams;
use tokio::net::TcpStream;

use super::Ask;
use super::stream::{Upgrade, carry};
use crate::kubevirt::launcher;

/// Answers the upgrade and carries bytes until either side ends.
pub(super) async fn open(
    ask: &Ask<'_>,
    request: &mut Request<Bytes>,
    port: &str,
) -> Result<Response<ResponseBody>, Status> {
    ask.wants(&Method::GET)?;
    let (port, protocol) = port.split_once('/').unwrap_or((port, "tcp"));
    let Ok(port) = port.parse::<u16>() else {
        return Err(Status::bad_request(format!("invalid port {port:?}")));
    };
    if protocol != "tcp" {
        let what = format!("virtualmachineinstances/portforward over {protocol} of KubeVirt");
        return Err(Status::unsupported(&what));
    }
    let instance = ask.object().await?;
    if text(&instance, "/status/phase") != "Running" {
        return Err(ask.conflict("VMI is not running"));
    }
    let upgrade = Upgrade::of(request)?;
    let address = address(ask, &instance, port).await?;
    let guest = TcpStream::connect(&address)
        .await
        .map_err(|error| Status::internal(format!("dialing VM: dial tcp {address}: {error}")))?;
    Ok(upgrade.answer(async move |client| carry(client, guest).await))
}

/// Where a port of the guest really is.
async fn address(
    ask: &Ask<'_>,
    instance: &kube::api::DynamicObject,
    port: u16,
) -> Result<String, Status> {
    let api = POD.api(&ask.of.client, ask.key.namespace.as_deref());
    let selector = launcher::selector(&ask.key.name);
    let pods = api.list(&ListParams::default().labels(&selector)).await;
    let pods = pods.map_err(|error| super::refused(&error))?.items;
    let pod = launcher::current(instance, &pods);
    let ports = pod.and_then(|pod| pod.metadata.annotations.as_ref()?.get(HOST_PORTS));
    let real = ports.and_then(|ports| {
        let mut pairs = ports.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(of, at)| (of.parse() == Ok(port)).then_some(at))
    });
    match (pod, real) {
        (Some(pod), Some(real)) => Ok(format!("{}:{real}", text(pod, "/status/podIP"))),
        _ => Err(Status::internal(format!(
            "dialing VM: nothing listens on port {port} of the guest"
        ))),
    }
}
