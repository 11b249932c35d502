//! russh's client.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use ::russh::client::{self, Handle};
use ::russh::keys::PrivateKeyWithHashAlg;
use ::russh::{ChannelMsg, Limits, Preferred, cipher, kex, mac};

use super::{Algorithm, REKEY};
use crate::common::Trusting;
use crate::interop::lab::Lab;
use crate::interop::process::QUICK;
use crate::interop::table::{Outcome, fine};

/// With nothing else than that.
pub async fn forced(lab: &Lab, (kind, name): Algorithm) -> Outcome {
    let mut preferred = Preferred::default();
    let unknown = |()| format!("it does not know {name}");
    match kind {
        "kex" => {
            let signs = [
                kex::EXTENSION_SUPPORT_AS_CLIENT,
                kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
            ];
            let name = kex::Name::try_from(name).map_err(unknown)?;
            preferred.kex = Cow::Owned([&[name], &signs[..]].concat());
        }
        "host key" => {
            let name = name.parse().map_err(|_| unknown(()))?;
            preferred.key = Cow::Owned(vec![name]);
        }
        "cipher" => {
            let name = cipher::Name::try_from(name).map_err(unknown)?;
            preferred.cipher = Cow::Owned(vec![name]);
        }
        _ => {
            let name = mac::Name::try_from(name).map_err(unknown)?;
            preferred.mac = Cow::Owned(vec![name]);
            preferred.cipher = Cow::Owned(vec![cipher::AES_128_CTR]);
        }
    }
    let config = client::Config {
        preferred,
        ..client::Config::default()
    };
    cat(lab, config, 1).await
}

/// Two megabytes both ways.
pub async fn load(lab: &Lab, rekeys: bool) -> Outcome {
    let mut config = client::Config::default();
    if rekeys {
        let bytes = usize::try_from(REKEY).unwrap();
        config.limits = Limits::new(bytes, bytes, Duration::from_secs(3600));
    }
    cat(lab, config, 2).await
}

async fn cat(lab: &Lab, config: client::Config, megabytes: usize) -> Outcome {
    let data = std::fs::read(lab.file(megabytes)).map_err(|error| error.to_string())?;
    let back = tokio::time::timeout(QUICK, through(lab, config, &data)).await;
    let back = back.map_err(|_| "it hung".to_owned())?;
    let back = back.map_err(|error| error.to_string())?;
    if back == data {
        return fine();
    }
    Err(format!("{} other bytes", back.len()))
}

async fn through(
    lab: &Lab,
    config: client::Config,
    data: &[u8],
) -> Result<Vec<u8>, ::russh::Error> {
    let connecting = client::connect(Arc::new(config), lab.bed.address, Trusting);
    let mut handle: Handle<Trusting> = connecting.await?;
    let key = PrivateKeyWithHashAlg::new(Arc::new(lab.bed.user_key.clone()), None);
    handle.authenticate_publickey("web", key).await?;
    let channel = handle.channel_open_session().await?;
    channel.exec(true, "cat").await?;
    let (mut from, to) = channel.split();
    let writing = async {
        to.data(data).await?;
        to.eof().await
    };
    let reading = async {
        let mut back = Vec::new();
        while let Some(message) = from.wait().await {
            if let ChannelMsg::Data { data } = message {
                back.extend_from_slice(&data);
            }
        }
        back
    };
    let (written, back) = tokio::join!(writing, reading);
    written?;
    Ok(back)
}
