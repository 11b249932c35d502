//! Joins one channel that a machine opened (agent, X11, a forwarded connection)
//! with one that the gateway opens towards the user.

use std::sync::Arc;

use russh::server::{Handle, Msg};
use russh::{Channel, ChannelOpenFailure};

use super::conn::Conn;
use super::pump::Ends;
use crate::budget::Share;
use crate::vm::{Incoming, Origin};

/// Opens the user's side, answers the machine, and carries everything until the
/// channel is over.
pub(crate) async fn relay(conn: Arc<Conn>, incoming: Incoming) {
    let counted = conn.count(incoming.origin.name());
    let (purpose, detail) = (incoming.origin.purpose(), incoming.origin.detail());
    let down = Arc::clone(&incoming.queue);
    let (up, ended) = carry(&conn, incoming).await;
    counted.ended(
        purpose,
        detail.as_deref(),
        up,
        down.total(),
        ended.to_owned(),
    );
    down.close();
}

/// Gives how many bytes went to the machine and why the channel ended.
async fn carry(conn: &Conn, incoming: Incoming) -> (u64, &'static str) {
    let Incoming {
        origin,
        writer: machine,
        queue,
        reply,
        kept,
    } = incoming;
    let Some(_paid) = conn.share().and_then(Share::open) else {
        reply.reject(ChannelOpenFailure::ResourceShortage).await;
        return (0, "no memory left");
    };
    let Some(handle) = conn.handle() else {
        return (0, "user gone");
    };
    let opened = tokio::select! {
        opened = open(&handle, &origin) => opened,
        () = conn.gone.cancelled() => return (0, "user gone"),
    };
    let channel = match opened {
        Ok(channel) => channel,
        Err(russh::Error::ChannelOpenFailure(reason)) => {
            reply.reject(reason).await;
            return (0, "refused by the user");
        }
        Err(_) => {
            reply.reject(ChannelOpenFailure::ConnectFailed).await;
            return (0, "user gone");
        }
    };
    // Data comes by the handler; an unread half would stop the connection.
    let (_, user) = channel.split();
    let id = user.id().into();
    let link = conn.adopt(id);
    reply.accept().await;
    let ends = Ends {
        conn,
        link: &link,
        down: &queue,
        user: &user,
        handle: &handle,
        machine: &machine,
        wire: kept.wire(),
        is_session: false,
    };
    let ended = ends.pump(&conn.shared.draining).await;
    conn.remove(id);
    (link.up.total(), ended)
}

async fn open(handle: &Handle, origin: &Origin) -> Result<Channel<Msg>, russh::Error> {
    match origin {
        Origin::Agent => handle.channel_open_agent().await,
        Origin::X11 { address, port } => handle.channel_open_x11(address, *port).await,
        Origin::Tcpip {
            connected,
            connected_port,
            address,
            port,
        } => {
            handle
                .channel_open_forwarded_tcpip(connected, *connected_port, address, *port)
                .await
        }
        Origin::Streamlocal { path } => handle.channel_open_forwarded_streamlocal(path).await,
    }
}
