//! Takes what a machine sends. None of these may wait.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use russh::client::{DisconnectReason, Handler, Session};
use russh::keys::{PublicKey, PublicKeyOrCertificate};
use russh::{ChannelId, Sig};

use super::requests::Replies;
use crate::flow::{Item, Queue};

/// The handler of one connection to a machine, with its one channel.
pub(crate) struct VmHandler {
    pub(super) queue: Arc<Queue>,
    pub(super) replies: Replies,
    pub(super) expected: PublicKey,
    /// The host key that was shown when it was not the expected one.
    pub(super) shown: Arc<Mutex<Option<PublicKey>>>,
}

impl Drop for VmHandler {
    fn drop(&mut self) {
        // After a close of the channel nobody takes this any more.
        self.queue.push(Item::Lost);
        self.replies.fail_all();
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
        _: ChannelId,
        data: &[u8],
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        self.queue.push(Item::Data(Bytes::copy_from_slice(data)));
        Ok(())
    }

    async fn extended_data(
        &mut self,
        _: ChannelId,
        kind: u32,
        data: &[u8],
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        self.queue
            .push(Item::Extended(kind, Bytes::copy_from_slice(data)));
        Ok(())
    }

    async fn channel_eof(&mut self, _: ChannelId, _: &mut Session) -> Result<(), Self::Error> {
        self.queue.push(Item::Eof);
        Ok(())
    }

    async fn exit_status(
        &mut self,
        _: ChannelId,
        status: u32,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        self.queue.push(Item::ExitStatus(status));
        Ok(())
    }

    async fn exit_signal(
        &mut self,
        _: ChannelId,
        signal: Sig,
        core_dumped: bool,
        message: &str,
        language: &str,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        self.queue.push(Item::ExitSignal {
            signal,
            core_dumped,
            message: message.to_owned(),
            language: language.to_owned(),
        });
        Ok(())
    }

    async fn channel_close(&mut self, _: ChannelId, _: &mut Session) -> Result<(), Self::Error> {
        self.queue.push(Item::Close);
        self.replies.fail_all();
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
