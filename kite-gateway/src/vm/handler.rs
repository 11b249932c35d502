//! Takes what a machine sends. None of these may wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use parking_lot::Mutex;
use russh::client::{ChannelOpenHandle, DisconnectReason, Handler, Msg, Session};
use russh::keys::{PublicKey, PublicKeyOrCertificate};
use russh::{Channel, ChannelId, Sig};
use tokio::sync::mpsc;

use super::incoming::{Incoming, Origin};
use super::mailboxes::Mailboxes;
use super::requests::Replies;
use crate::flow::Item;

/// Channels that a machine may have open towards the user at a time.
const MAX_INCOMING: usize = 128;

/// The handler of one connection to a machine.
pub(crate) struct VmHandler {
    pub(super) mailboxes: Arc<Mailboxes>,
    pub(super) replies: Replies,
    /// Takes channels that the machine opens.
    pub(super) incoming: mpsc::UnboundedSender<Incoming>,
    pub(super) expected: PublicKey,
    /// The host key that was shown when it was not the expected one.
    pub(super) shown: Arc<Mutex<Option<PublicKey>>>,
}

impl Drop for VmHandler {
    fn drop(&mut self) {
        self.mailboxes.lose_all();
        self.replies.fail_all();
    }
}

impl VmHandler {
    /// Hands a channel on; dropping `reply` refuses it.
    fn opened(&self, origin: Origin, channel: Channel<Msg>, reply: ChannelOpenHandle) {
        if self.mailboxes.opened() >= MAX_INCOMING {
            return;
        }
        let mailboxes = Arc::clone(&self.mailboxes);
        // Without a taker the channel is refused by being dropped.
        let _ = self
            .incoming
            .send(Incoming::new(origin, channel, mailboxes, reply));
    }
}

impl Handler for VmHandler {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        key: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        let key = key.public_key();
        let known = key.key_data() == self.expected.key_data();
        if !known {
            *self.shown.lock() = Some(key);
        }
        Ok(known)
    }

    async fn data(
        &mut self,
        id: ChannelId,
        data: &[u8],
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        self.mailboxes
            .deliver(id, Item::Data(Bytes::copy_from_slice(data)));
        Ok(())
    }

    async fn extended_data(
        &mut self,
        id: ChannelId,
        kind: u32,
        data: &[u8],
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        let data = Bytes::copy_from_slice(data);
        self.mailboxes.deliver(id, Item::Extended(kind, data));
        Ok(())
    }

    async fn channel_eof(&mut self, id: ChannelId, _: &mut Session) -> Result<(), Self::Error> {
        self.mailboxes.deliver(id, Item::Eof);
        Ok(())
    }

    async fn exit_status(
        &mut self,
        id: ChannelId,
        status: u32,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        self.mailboxes.deliver(id, Item::ExitStatus(status));
        Ok(())
    }

    async fn exit_signal(
        &mut self,
        id: ChannelId,
        signal: Sig,
        core_dumped: bool,
        message: &str,
        language: &str,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        self.mailboxes.deliver(
            id,
            Item::ExitSignal {
                signal,
                core_dumped,
                message: message.to_owned(),
                language: language.to_owned(),
            },
        );
        Ok(())
    }

    async fn channel_close(&mut self, id: ChannelId, _: &mut Session) -> Result<(), Self::Error> {
        self.mailboxes.deliver(id, Item::Close);
        Ok(())
    }

    async fn channel_open_confirmation(
        &mut self,
        id: ChannelId,
        _: u32,
        _: u32,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        self.mailboxes.confirmed(id);
        Ok(())
    }

    async fn channel_success(&mut self, _: ChannelId, _: &mut Session) -> Result<(), Self::Error> {
        self.replies.answer(true);
        Ok(())
    }

    async fn channel_failure(&mut self, _: ChannelId, _: &mut Session) -> Result<(), Self::Error> {
        self.replies.answer(false);
        Ok(())
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        if self.mailboxes.agent.load(Ordering::Relaxed) {
            self.opened(Origin::Agent, channel, reply);
        }
        Ok(())
    }

    async fn server_channel_open_x11(
        &mut self,
        channel: Channel<Msg>,
        address: &str,
        port: u32,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        if self.mailboxes.x11.load(Ordering::Relaxed) {
            let address = address.to_owned();
            self.opened(Origin::X11 { address, port }, channel, reply);
        }
        Ok(())
    }

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        channel: Channel<Msg>,
        connected: &str,
        connected_port: u32,
        address: &str,
        port: u32,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        let origin = Origin::Tcpip {
            connected: connected.to_owned(),
            connected_port,
            address: address.to_owned(),
            port,
        };
        if self.mailboxes.forwards {
            self.opened(origin, channel, reply);
        }
        Ok(())
    }

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        channel: Channel<Msg>,
        path: &str,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        let path = path.to_owned();
        if self.mailboxes.forwards {
            self.opened(Origin::Streamlocal { path }, channel, reply);
        }
        Ok(())
    }

    // The defaults of these accept, and nobody would take what comes.

    async fn server_channel_open_session(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_direct_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn disconnected(
        &mut self,
        reason: DisconnectReason<Self::Error>,
    ) -> Result<(), Self::Error> {
        match reason {
            DisconnectReason::ReceivedDisconnect(_) => Ok(()),
            DisconnectReason::Error(error) => Err(error),
        }
    }
}
