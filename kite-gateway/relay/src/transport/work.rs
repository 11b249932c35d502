//! What takes time in a key exchange: agreeing on a secret, signing, verifying.
//!
//! A machine gives it out, so that whoever drives many of them decides where and how many at
//! once it is done: strangers make a server work.

use std::sync::Arc;

use ssh_encoding::Decode as _;
use ssh_key::public::KeyData;

use crate::algorithm::Algorithm;
use crate::kex::{BadValue, Begun, Exchange, Method, Secret, exchange_hash};
use crate::message::KEX_REPLY;
use crate::sign::{SignError, SigningKey};
use crate::verify::{VerifyError, verify};
use crate::wire::{Fields, Malformed, Message};

/// Why a key exchange fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// The peer's value is none of the method.
    #[error(transparent)]
    Value(#[from] BadValue),
    /// The host key does not sign.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// The server's signature is not that of its host key.
    #[error("the server does not have the host key that it shows: {0}")]
    Verify(#[from] VerifyError),
    /// The server's host key cannot be read.
    #[error("a host key that cannot be read")]
    HostKey,
    /// The server's answer cannot be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// Both sides' first words of an exchange, which its hash is of.
#[derive(Debug)]
pub(super) struct Inputs {
    pub(super) method: Method,
    pub(super) algorithm: Algorithm,
    pub(super) client_version: Vec<u8>,
    pub(super) server_version: Vec<u8>,
    pub(super) client_init: Vec<u8>,
    pub(super) server_init: Vec<u8>,
}

#[derive(Debug)]
enum Kind {
    Answer {
        client_value: Vec<u8>,
        host_key: Arc<SigningKey>,
    },
    Finish {
        client_value: Vec<u8>,
        begun: Begun,
        reply: Vec<u8>,
    },
}

/// One side's part of a key exchange; some ten microseconds with most methods and keys, a
/// millisecond where an RSA key signs.
#[derive(Debug)]
#[must_use = "the key exchange waits for it"]
pub struct Work {
    inputs: Inputs,
    kind: Kind,
}

/// What came of a [`Work`].
#[derive(Debug)]
#[must_use = "the key exchange waits for it"]
pub struct Done(pub(super) Result<Outcome, WorkError>);

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) method: Method,
    pub(super) algorithm: Algorithm,
    pub(super) secret: Secret,
    pub(super) hash: Vec<u8>,
    /// The server's host key.
    pub(super) host_key: Vec<u8>,
    /// What a server answers.
    pub(super) reply: Option<Vec<u8>>,
}

impl Work {
    pub(super) fn answer(inputs: Inputs, host_key: Arc<SigningKey>, client_value: Vec<u8>) -> Self {
        let kind = Kind::Answer {
            client_value,
            host_key,
        };
        Self { inputs, kind }
    }

    pub(super) fn finish(
        inputs: Inputs,
        begun: Begun,
        client_value: Vec<u8>,
        reply: Vec<u8>,
    ) -> Self {
        let kind = Kind::Finish {
            client_value,
            begun,
            reply,
        };
        Self { inputs, kind }
    }

    /// Does it, on whatever thread.
    pub fn run(self) -> Done {
        let Self { inputs, kind } = self;
        Done(match kind {
            Kind::Answer {
                client_value,
                host_key,
            } => answer(&inputs, &client_value, &host_key),
            Kind::Finish {
                client_value,
                begun,
                reply,
            } => finish(&inputs, &client_value, begun, &reply),
        })
    }
}

impl Inputs {
    fn hash(&self, host_key: &[u8], values: [&[u8]; 2], secret: &Secret) -> Vec<u8> {
        let exchange = Exchange {
            client_version: &self.client_version,
            server_version: &self.server_version,
            client_init: &self.client_init,
            server_init: &self.server_init,
            host_key,
            client_value: values[0],
            server_value: values[1],
        };
        exchange_hash(self.method.hash(), &exchange, secret)
    }
}

fn answer(inputs: &Inputs, client: &[u8], key: &SigningKey) -> Result<Outcome, WorkError> {
    let (server, secret) = inputs.method.answer(client)?;
    let hash = inputs.hash(key.blob(), [client, &server], &secret);
    let signature = key.sign(inputs.algorithm, &hash)?;
    let reply = Message::new(KEX_REPLY).string(key.blob()).string(server);
    Ok(Outcome {
        method: inputs.method,
        algorithm: inputs.algorithm,
        secret,
        hash,
        host_key: key.blob().to_vec(),
        reply: Some(reply.string(signature).done()),
    })
}

fn finish(
    inputs: &Inputs,
    client: &[u8],
    begun: Begun,
    reply: &[u8],
) -> Result<Outcome, WorkError> {
    let mut fields = Fields(reply);
    fields.byte()?;
    let (blob, server, signature) = (fields.string()?, fields.string()?, fields.string()?);
    fields.end()?;
    let reader = &mut &*blob;
    let host_key = KeyData::decode(reader).map_err(|_| WorkError::HostKey)?;
    if !reader.is_empty() {
        return Err(WorkError::HostKey);
    }
    let secret = begun.finish(server)?;
    let hash = inputs.hash(blob, [client, server], &secret);
    verify(&host_key, inputs.algorithm, signature, &hash)?;
    Ok(Outcome {
        method: inputs.method,
        algorithm: inputs.algorithm,
        secret,
        hash,
        host_key: blob.to_vec(),
        reply: None,
    })
}
