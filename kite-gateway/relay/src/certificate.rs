//! Certificates of users (OpenSSH's `PROTOCOL.certkeys`).

use std::net::IpAddr;

use ipnet::IpNet;
use ssh_encoding::Decode as _;
use ssh_key::certificate::CertType;
use ssh_key::public::KeyData;

use crate::algorithm::Algorithm;
use crate::verify::verify;
use crate::wire::Fields;

/// A certificate that somebody shows. Nothing in it is true before [`Certificate::verify`].
#[derive(Debug, Clone)]
pub struct Certificate {
    read: Box<ssh_key::Certificate>,
    /// What the authority signs.
    signed: Vec<u8>,
    signature: Vec<u8>,
}

/// A certificate that an authority has signed, whoever that is. What it says is nothing
/// before [`Vouched::check`].
#[derive(Debug, Clone)]
pub struct Vouched(Box<ssh_key::Certificate>);

/// What a certificate allows.
#[expect(clippy::struct_excessive_bools, reason = "each stands for itself")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The end of its validity, in seconds since 1970; `None` where there is none.
    pub valid_before: Option<u64>,
    /// Terminals may be asked for.
    pub pty: bool,
    /// Ports may be forwarded, both ways.
    pub port_forwarding: bool,
    /// The agent may be forwarded.
    pub agent_forwarding: bool,
    /// X11 may be forwarded.
    pub x11_forwarding: bool,
    /// A token has to be touched.
    pub touch_required: bool,
    /// A token has to know who touches it.
    pub verify_required: bool,
}

/// Who shows a certificate, where and when.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The name that has to be among its principals.
    pub principal: &'a str,
    /// Where the client is, if that is known.
    pub address: Option<IpAddr>,
    /// Seconds since 1970.
    pub now: u64,
}

/// Why a certificate is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// It cannot be read.
    #[error("a certificate that cannot be read")]
    Malformed,
    /// It is one of a host.
    #[error("the certificate is one of a host, not of a user")]
    Host,
    /// No authority that is trusted has signed it.
    #[error("the certificate is by {0}, which is not trusted here")]
    Authority(String),
    /// The authority did not sign it.
    #[error("the certificate's signature is not that of its authority")]
    Signature,
    /// It is too early.
    #[error("the certificate is not valid yet")]
    Early,
    /// It is too late.
    #[error("the certificate has expired")]
    Expired,
    /// It is for nobody, which stands for everybody elsewhere.
    #[error("the certificate names no principal")]
    NoPrincipal,
    /// It is for others.
    #[error("the certificate is not for {0}")]
    Principal(String),
    /// It is for clients elsewhere.
    #[error("the certificate is not for clients at {0}")]
    Address(IpAddr),
    /// It is for clients at certain addresses, and nobody knows where this one is.
    #[error("the certificate is for clients at certain addresses, and yours is not seen here")]
    NoAddress,
    /// It allows one command, which nobody here sees to.
    #[error("the certificate allows one command only (force-command), which is not offered here")]
    ForceCommand,
    /// It has a condition that nobody here knows.
    #[error("the certificate has a condition that is not known here: {0}")]
    Critical(String),
}

impl Certificate {
    /// Reads one as messages carry it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn decode(blob: &[u8]) -> Result<Self, CertificateError> {
        let reader = &mut &*blob;
        let read = ssh_key::Certificate::decode(reader).map_err(|_| CertificateError::Malformed)?;
        if !reader.is_empty() {
            return Err(CertificateError::Malformed);
        }
        let signed = signed_part(blob).ok_or(CertificateError::Malformed)?;
        let mut rest = Fields(&blob[signed.len()..]);
        let signature = rest.string().map_err(|_| CertificateError::Malformed)?;
        Ok(Self {
            read: Box::new(read),
            signed: signed.to_vec(),
            signature: signature.to_vec(),
        })
    }

    /// The key that it is of.
    #[must_use]
    pub fn key(&self) -> &KeyData {
        self.read.public_key()
    }

    /// Whether its authority has signed it, on whatever thread; it takes some hundred
    /// microseconds at most.
    ///
    /// # Errors
    /// It has not.
    pub fn verify(self) -> Result<Vouched, CertificateError> {
        let authority = self.read.signature_key();
        let algorithm = Fields(&self.signature).string().ok();
        let algorithm = algorithm.and_then(Algorithm::named);
        let (algorithm, _) = algorithm.ok_or(CertificateError::Signature)?;
        verify(authority, algorithm, &self.signature, &self.signed)
            .map_err(|_| CertificateError::Signature)?;
        Ok(Vouched(self.read))
    }
}

impl Vouched {
    /// The key that it is of.
    #[must_use]
    pub fn key(&self) -> &KeyData {
        self.0.public_key()
    }

    /// The key of the authority that has signed it.
    #[must_use]
    pub fn authority(&self) -> &KeyData {
        self.0.signature_key()
    }

    /// What the authority calls it, for logs; any text.
    #[must_use]
    pub fn key_id(&self) -> &str {
        self.0.key_id()
    }

    /// Its number.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.0.serial()
    }

    /// What it allows, if it is the claim's, and by an authority that `is_trusted`. The
    /// authority is judged first, then its kind and whom it names: other errors come only
    /// where these are right.
    ///
    /// # Errors
    /// It is not taken.
    pub fn check(
        &self,
        claim: &Claim<'_>,
        is_trusted: impl FnOnce(&KeyData) -> bool,
    ) -> Result<Grant, CertificateError> {
        let authority = self.authority();
        // Also where a certificate signs another.
        if !is_trusted(authority) || authority.is_certificate() {
            let print = authority.fingerprint(ssh_key::HashAlg::Sha256);
            return Err(CertificateError::Authority(print.to_string()));
        }
        if self.0.cert_type() != CertType::User {
            return Err(CertificateError::Host);
        }
        let principals = self.0.valid_principals();
        if principals.is_empty() {
            return Err(CertificateError::NoPrincipal);
        }
        if !principals.iter().any(|it| it == claim.principal) {
            return Err(CertificateError::Principal(claim.principal.to_owned()));
        }
        if claim.now < self.0.valid_after() {
            return Err(CertificateError::Early);
        }
        if claim.now >= self.0.valid_before() {
            return Err(CertificateError::Expired);
        }
        let mut verify_required = false;
        for (name, value) in self.0.critical_options().iter() {
            match name.as_str() {
                "source-address" => {
                    let address = claim.address.ok_or(CertificateError::NoAddress)?;
                    if !is_within(address, value) {
                        return Err(CertificateError::Address(address));
                    }
                }
                "verify-required" => verify_required = true,
                "force-command" => return Err(CertificateError::ForceCommand),
                _ => return Err(CertificateError::Critical(name.clone())),
            }
        }
        let allows = |name: &str| self.0.extensions().contains_key(name);
        Ok(Grant {
            valid_before: Some(self.0.valid_before()).filter(|end| *end != u64::MAX),
            pty: allows("permit-pty"),
            port_forwarding: allows("permit-port-forwarding"),
            agent_forwarding: allows("permit-agent-forwarding"),
            x11_forwarding: allows("permit-X11-forwarding"),
            touch_required: !allows("no-touch-required"),
            verify_required,
        })
    }
}

/// All but the last field, as it came: what is written anew might be other bytes.
fn signed_part(blob: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields(blob);
    let name = fields.string().ok()?;
    let (algorithm, _) = Algorithm::named(name).or_else(|| {
        name.starts_with(b"ssh-rsa-")
            .then_some((Algorithm::RsaSha512, true))
    })?;
    // The nonce, and the key in as many fields as its kind has.
    let of_the_key = match algorithm {
        Algorithm::Ed25519 => 1,
        Algorithm::SkEcdsaP256 => 3,
        _ => 2,
    };
    for _ in 0..=of_the_key {
        fields.string().ok()?;
    }
    // The serial and the type; who it is for; validity; options, extensions, what is reserved;
    // the authority.
    fields.bytes(8 + 4).ok()?;
    for _ in 0..2 {
        fields.string().ok()?;
    }
    fields.bytes(8 + 8).ok()?;
    for _ in 0..4 {
        fields.string().ok()?;
    }
    Some(&blob[..blob.len() - fields.0.len()])
}

/// Whether an address is in one of the networks of a list. A list of which a part cannot be
/// read, or names an address within a network for the network, has nobody in it, as with
/// OpenSSH.
fn is_within(address: IpAddr, networks: &str) -> bool {
    let address = address.to_canonical();
    let networks = networks.split(',').map(|network| {
        let single = network.parse::<IpAddr>().map(IpNet::from);
        let range = single.or_else(|_| network.parse::<IpNet>()).ok()?;
        (range.trunc() == range).then_some(range)
    });
    let networks: Option<Vec<_>> = networks.collect();
    networks.is_some_and(|all| all.iter().any(|range| range.contains(&address)))
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
mod tests;
