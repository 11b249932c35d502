//! What values of options can be: what can be none is told before anything is done.

use std::{net::IpAddr, str::FromStr as _};

use clap::builder::RangedU64ValueParser;
use kite_core::{crd::GatewayReference, names};
use kite_render::install::{Containers, Process};

/// Numbers of pods.
pub(super) fn count() -> RangedU64ValueParser<u16> {
    RangedU64ValueParser::new().range(1..=100)
}

pub(super) fn namespace(text: &str) -> Result<String, String> {
    judged(text, names::is_label, || {
        "a namespace has 1 to 63 letters in lower case, digits and hyphens inside".to_owned()
    })
}

/// The name of an object of most kinds.
pub(super) fn object(text: &str) -> Result<String, String> {
    judged(text, names::is_subdomain, || {
        "a name has 1 to 253 letters in lower case, digits, and hyphens and dots inside".to_owned()
    })
}

pub(super) fn domain(text: &str) -> Result<String, String> {
    judged(
        text,
        |it| it.len() <= 190 && names::is_subdomain(it),
        || {
            "write a domain such as vm.example.org, in lower case and of at most 190 characters"
                .to_owned()
        },
    )
}

pub(super) fn host(text: &str) -> Result<String, String> {
    judged(text, names::is_host, || {
        "write a host name or an address, such as ssh.example.org or 192.0.2.1".to_owned()
    })
}

pub(super) fn registry(text: &str) -> Result<String, String> {
    judged(text.trim_end_matches('/'), Containers::is_registry, || {
        "write it without http:// and with a path in lower case, such as registry.example.org/kite"
            .to_owned()
    })
}

pub(super) fn tag(text: &str) -> Result<String, String> {
    judged(text, Containers::is_tag, || {
        "write a tag such as 0.1.0, or a digest: sha256: and 64 digits in hexadecimal".to_owned()
    })
}

fn judged(
    text: &str,
    is_valid: impl Fn(&str) -> bool,
    remedy: impl Fn() -> String,
) -> Result<String, String> {
    if is_valid(text) {
        Ok(text.to_owned())
    } else {
        Err(remedy())
    }
}

/// A Gateway of the Gateway API.
pub(super) fn gateway(text: &str) -> Result<GatewayReference, String> {
    let parsed = text.split_once('/');
    let parsed =
        parsed.filter(|(namespace, name)| names::is_label(namespace) && names::is_subdomain(name));
    let (namespace, name) = parsed.ok_or("write NAMESPACE/NAME of the Gateway, in lower case")?;
    Ok(GatewayReference {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

pub(super) fn range(text: &str) -> Result<String, String> {
    let parsed = || {
        let (address, prefix) = text.split_once('/')?;
        let bits = if IpAddr::from_str(address).ok()?.is_ipv4() {
            32
        } else {
            128
        };
        (prefix.parse::<u8>().ok()? <= bits).then(|| text.to_owned())
    };
    parsed().ok_or_else(|| {
        format!("{text} is no range: write it as 10.0.0.1/32, 10.0.0.0/24 or 2001:db8::/32")
    })
}

/// Whom to ask for names: a namespace, or addresses.
pub(super) fn resolver(text: &str) -> Result<String, String> {
    if text.contains('/') {
        range(text)
    } else {
        namespace(text)
    }
}

pub(super) fn parameter(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// An option of a process.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) process: Process,
    pub(super) name: String,
    pub(super) value: String,
}

pub(super) fn variable(text: &str) -> Result<Variable, String> {
    let parsed = || {
        let (process, rest) = text.split_once(':')?;
        let process = match process {
            "controller" => Process::Controller,
            "gateway" => Process::Gateway,
            "api" => Process::Api,
            _ => return None,
        };
        let (name, value) = rest.split_once('=').filter(|(name, _)| !name.is_empty())?;
        Some(Variable {
            process,
            name: name.to_owned(),
            value: value.to_owned(),
        })
    };
    parsed().ok_or_else(|| {
        "write controller:NAME=VALUE, gateway:NAME=VALUE or api:NAME=VALUE".to_owned()
    })
}
