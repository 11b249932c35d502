//! The OpenAPI 3.1 document: made from the handlers' own types, so that it says
//! what they take and answer.
//!
//! Types add what they stand for ([`kite_rest::Sent`] the body and what is
//! wrong with bodies, [`kite_identity::Caller`] the ways to sign in and 401, …);
//! what an operation refuses beside is said where it is routed
//! ([`kite_rest::openapi::about`]).

pub(crate) mod examples;
#[cfg(test)]
mod tests;

use aide::openapi::{Components, Info, License, OpenApi, Server, Tag};
use kite_identity::openapi::security_schemes;
use kite_rest::openapi::add_components;

/// Groups of operations, with what they are for.
const TAGS: [(&str, &str); 9] = [
    ("auth", "Signing up, in and out"),
    ("me", "One's own account"),
    ("vms", "Virtual machines"),
    ("snapshots", "Disks of VMs as they were at one moment"),
    ("volumes", "Disks apart from VMs"),
    ("catalogue", "What VMs can be made from: images and offers"),
    ("events", "News as they happen"),
    ("admin", "For administrators"),
    ("platform", "What everybody may know"),
];

/// The document before the operations are added.
pub(crate) fn begin() -> OpenApi {
    let mut components = Components {
        security_schemes: security_schemes(),
        ..Components::default()
    };
    add_components(&mut components);
    OpenApi {
        info: Info {
            title: "Kite".to_owned(),
            summary: Some("Self-service virtual machines on Kubernetes".to_owned()),
            description: Some(
                "Writes are desired state; `status` says what was seen. Every refusal is a \
                 problem document (RFC 9457) that names fields, values and remedies."
                    .to_owned(),
            ),
            license: Some(License {
                name: "Apache-2.0".to_owned(),
                identifier: Some("Apache-2.0".to_owned()),
                ..License::default()
            }),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Info::default()
        },
        servers: vec![Server {
            url: "/".to_owned(),
            ..Server::default()
        }],
        tags: TAGS
            .map(|(name, description)| Tag {
                name: name.to_owned(),
                description: Some(description.to_owned()),
                ..Tag::default()
            })
            .into(),
        components: Some(components),
        ..OpenApi::default()
    }
}
