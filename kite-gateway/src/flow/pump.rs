//! Carries items from a queue to the other side, waiting for its window.

use std::time::Duration;

use bytes::Bytes;
use russh::server::Handle;
use russh::{ChannelWriteHalf, client, server};

use super::{Item, Queue, Wire};

/// `SSH_EXTENDED_DATA_STDERR` (RFC 4254 §5.2).
pub(crate) const STDERR: u32 = 1;
/// Exit status when the VM's connection broke, as `ssh` itself uses.
const LOST: u32 = 255;
/// How long a session's EOF waits for the exit status that most often follows.
const EXIT_PATIENCE: Duration = Duration::from_secs(1);

/// Who sees what a VM sends before the user does.
pub(crate) trait Witness: Sync {
    /// Sees one thing. An error says to the user why the channel goes no further.
    fn sees(&self, item: &Item) -> impl Future<Output = Result<(), String>> + Send;
}

/// How a direction came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// Its sender closed the channel and everything was delivered.
    Closed,
    /// Its sender's connection is gone.
    Lost,
    /// Its receiver is gone.
    Gone,
    /// It may not go on.
    Stopped,
}

/// Carries what the VM sent to the user, in order: data, EOF, exit status or
/// signal, close. The witness sees each thing first.
///
/// A session's EOF (`is_session`) goes behind its exit status when that comes
/// soon: `PuTTY`, dropbear and others close a channel on EOF, and once they have,
/// russh has closed it, too, and would send no status any more. RFC 4254 has no
/// order of the two.
pub(crate) async fn to_user(
    queue: &Queue,
    writer: &ChannelWriteHalf<server::Msg>,
    wire: &Wire,
    handle: &Handle,
    witness: &impl Witness,
    is_session: bool,
) -> Ended {
    let mut waits = is_session;
    let mut held = None;
    loop {
        let ready = wire.ready().await;
        let next = match held.take() {
            Some(item) => Some(item),
            None => queue.pop().await,
        };
        let Some(mut item) = next else {
            return Ended::Gone;
        };
        if is_exit(&item) {
            waits = false;
        }
        if waits && matches!(item, Item::Eof) {
            waits = false;
            match tokio::time::timeout(EXIT_PATIENCE, queue.pop()).await {
                Ok(Some(exit)) if is_exit(&exit) => {
                    held = Some(item);
                    item = exit;
                }
                Ok(Some(other)) => held = Some(other),
                // A command may close its output and run on.
                Ok(None) | Err(_) => {}
            }
        }
        if let Err(why) = witness.sees(&item).await {
            notice(writer, &why, LOST).await;
            return Ended::Stopped;
        }
        let bytes = item.data();
        let sent = match item {
            Item::Data(data) => writer.data_bytes(data).await.is_ok(),
            Item::Extended(kind, data) => writer.extended_data_bytes(kind, data).await.is_ok(),
            Item::Eof => writer.eof().await.is_ok(),
            Item::ExitStatus(status) => writer.exit_status(status).await.is_ok(),
            Item::ExitSignal {
                signal,
                core_dumped,
                message,
                language,
            } => handle
                .exit_signal_request(writer.id(), signal, core_dumped, message, language)
                .await
                .is_ok(),
            Item::Close => {
                let _ = writer.close().await;
                return Ended::Closed;
            }
            Item::Lost => {
                notice(writer, "kite: the connection to the VM was lost", LOST).await;
                return Ended::Lost;
            }
        };
        if !sent {
            return Ended::Gone;
        }
        wire.given(ready, bytes);
    }
}

fn is_exit(item: &Item) -> bool {
    matches!(item, Item::ExitStatus(_) | Item::ExitSignal { .. })
}

/// Carries what the user sent to the VM.
pub(crate) async fn to_vm(
    queue: &Queue,
    writer: &ChannelWriteHalf<client::Msg>,
    wire: &Wire,
) -> Ended {
    loop {
        let ready = wire.ready().await;
        let Some(item) = queue.pop().await else {
            return Ended::Gone;
        };
        let bytes = item.data();
        let sent = match item {
            Item::Data(data) => writer.data_bytes(data).await.is_ok(),
            Item::Extended(kind, data) => writer.extended_data_bytes(kind, data).await.is_ok(),
            Item::Eof => writer.eof().await.is_ok(),
            // A client has no exit status to tell (RFC 4254 §6.10).
            Item::ExitStatus(_) | Item::ExitSignal { .. } => true,
            Item::Close => {
                let _ = writer.close().await;
                return Ended::Closed;
            }
            Item::Lost => return Ended::Lost,
        };
        if !sent {
            return Ended::Gone;
        }
        wire.given(ready, bytes);
    }
}

/// Tells the user something on standard error.
pub(crate) async fn tell(writer: &ChannelWriteHalf<server::Msg>, text: &str) {
    // CR LF: on a terminal in raw mode a bare LF would leave the cursor astray.
    let line = Bytes::from(format!("{text}\r\n"));
    // Fails only when the user is gone.
    let _ = writer.extended_data_bytes(STDERR, line).await;
}

/// Tells the user something on standard error and ends the channel.
pub(crate) async fn notice(writer: &ChannelWriteHalf<server::Msg>, text: &str, status: u32) {
    tell(writer, text).await;
    // Each of these fails only when the user is gone.
    let _ = writer.eof().await;
    let _ = writer.exit_status(status).await;
    let _ = writer.close().await;
}
