//! Remote forwards (RFC 4254 §7.1): the machine listens, and what connects
//! there is carried to the user. Each has a connection of its own to the machine.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::conn::Conn;
use super::enter::{EnterError, enter, refused};
use super::relay::relay;
use crate::audit::Purpose;
use crate::metrics::Way;
use crate::vm::{Mailboxes, VmConnection};

/// Forwards that one connection may have.
const MAX_FORWARDS: usize = 64;
/// The user's other traffic waits while a forward is set up (SSH wants the
/// answers to such requests in order), so a machine must be quick.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where a machine listens for a user.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Listen {
    /// On an address and port.
    Tcp(String, u32),
    /// On a socket.
    Socket(String),
}

impl Listen {
    fn detail(&self) -> String {
        match self {
            Self::Tcp(address, port) => format!("{address}:{port}"),
            Self::Socket(path) => path.clone(),
        }
    }
}

/// The forwards of one user's connection.
#[derive(Default)]
pub(crate) struct Forwards {
    stops: HashMap<Listen, CancellationToken>,
}

impl Forwards {
    /// Has the machine listen. Gives the port, which the machine chooses for
    /// port 0; `None` when it does not listen.
    pub(crate) async fn start(&mut self, conn: &Arc<Conn>, listen: Listen) -> Option<u32> {
        if self.stops.len() >= MAX_FORWARDS || self.stops.contains_key(&listen) {
            return None;
        }
        // A connection of its own takes as much as a channel.
        let paid = match conn.pay() {
            Ok(paid) => paid,
            Err(why) => {
                tracing::info!(connection = conn.number, %why, "no remote forward");
                return None;
            }
        };
        let cut = CancellationToken::new();
        let guard = cut.clone().drop_guard();
        let (vm, port) = match tokio::time::timeout(PATIENCE, open(conn, &listen, cut)).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => {
                tracing::info!(connection = conn.number, %error, "no remote forward");
                return None;
            }
            Err(_) => {
                tracing::info!(connection = conn.number, "no remote forward: VM too slow");
                return None;
            }
        };
        let listen = match listen {
            Listen::Tcp(address, 0) => Listen::Tcp(address, port),
            other => other,
        };
        let stop = conn.gone.child_token();
        self.stops.insert(listen.clone(), stop.clone());
        let (conn, tasks) = (Arc::clone(conn), &conn.shared.tasks);
        tasks.spawn(async move {
            let (_guard, _paid) = (guard, paid);
            let counted = conn.count("forward");
            serve(&conn, vm, &listen, stop).await;
            counted.ended(
                Purpose::Forward,
                Some(&listen.detail()),
                0,
                0,
                "closed".to_owned(),
            );
        });
        Some(port)
    }

    /// Has the machine stop listening; connections that it took go on.
    pub(crate) fn stop(&mut self, listen: &Listen) -> bool {
        match self.stops.remove(listen) {
            Some(stop) => {
                stop.cancel();
                true
            }
            None => false,
        }
    }
}

async fn open(
    conn: &Conn,
    listen: &Listen,
    cut: CancellationToken,
) -> Result<(VmConnection, u32), EnterError> {
    let strain = conn.shared.metrics.strain(Way::Down);
    let mailboxes = Mailboxes::forwarding(strain, conn.share().cloned());
    let vm = enter(conn, Arc::new(mailboxes), cut).await?;
    let answer = match listen {
        Listen::Tcp(address, port) => match vm.handle.tcpip_forward(address, *port).await {
            // The machine names the port only where it chose it.
            Ok(0) => Ok(*port),
            other => other,
        },
        Listen::Socket(path) => vm.handle.streamlocal_forward(path).await.map(|()| 0),
    };
    match answer {
        Ok(port) => Ok((vm, port)),
        Err(error) => {
            vm.end().await;
            Err(refused(conn, error))
        }
    }
}

async fn serve(conn: &Arc<Conn>, mut vm: VmConnection, listen: &Listen, stop: CancellationToken) {
    let relays = TaskTracker::new();
    loop {
        tokio::select! {
            incoming = vm.incoming.recv() => match incoming {
                Some(incoming) => {
                    relays.spawn(relay(Arc::clone(conn), incoming));
                }
                None => break,
            },
            () = stop.cancelled() => break,
        }
    }
    if !conn.gone.is_cancelled() {
        // Where this fails the machine is gone, and with it its listener.
        let _ = match listen {
            Listen::Tcp(address, port) => vm.handle.cancel_tcpip_forward(address, *port).await,
            Listen::Socket(path) => vm.handle.cancel_streamlocal_forward(path).await,
        };
    }
    relays.close();
    tokio::select! {
        () = relays.wait() => {}
        () = conn.gone.cancelled() => {}
    }
    vm.end().await;
}
