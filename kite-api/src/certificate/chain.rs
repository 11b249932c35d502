//! [`Chain`]: a certificate with those that vouch for it, and the key to it.

use jiff::Timestamp;
use rustls::{
    crypto::aws_lc_rs::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use schemars::JsonSchema;
use serde::Serialize;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// Most certificates in a chain.
const LONGEST: usize = 10;

/// What a certificate says of itself. Its key is not among it.
#[derive(Serialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CertificateFacts")]
pub(super) struct Facts {
    /// The DNS names for which it is.
    names: Vec<String>,
    /// Who it is of, in the words of whoever issued it.
    subject: String,
    /// Who issued it.
    issuer: String,
    /// Since when it is good.
    #[schemars(extend("format" = "date-time"))]
    not_before: String,
    /// Until when it is good.
    #[schemars(extend("format" = "date-time"))]
    not_after: String,
    /// Whole days until it ends; below zero when it has.
    days_left: i64,
    /// Whether it is for the base domain, where the web page is.
    covers_base_domain: bool,
    /// Whether it is for every name right below the base domain.
    covers_wildcard: bool,
}

/// Certificates in the order in which servers send them: the server's own first.
pub(super) struct Chain(Vec<CertificateDer<'static>>);

impl Chain {
    /// Reads PEM. The error is what to tell of the field.
    pub(super) fn parse(pem: &str) -> Result<Self, String> {
        if pem.contains("PRIVATE KEY-----") {
            return Err("holds a private key: put that into privateKey".to_owned());
        }
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let all = all.map_err(|_| "is broken PEM: copy all of it, with its first and last line")?;
        if all.is_empty() {
            return Err(
                "has no certificate: write PEM, from -----BEGIN CERTIFICATE----- to \
                        -----END CERTIFICATE-----"
                    .to_owned(),
            );
        }
        if all.len() > LONGEST {
            return Err(format!(
                "has {} certificates: leave out those that do not lead to the first, at most \
                 {LONGEST}",
                all.len()
            ));
        }
        let chain = Self(all);
        chain.read()?;
        Ok(chain)
    }

    /// The certificates, read. There is at least one.
    fn read(&self) -> Result<Vec<X509Certificate<'_>>, String> {
        let mut certificates = Vec::new();
        for (n, der) in (1..).zip(&self.0) {
            match X509Certificate::from_der(der) {
                Ok(([], certificate)) => certificates.push(certificate),
                _ => return Err(format!("number {n} is no certificate: copy all of it")),
            }
        }
        Ok(certificates)
    }

    /// What its first certificate says, `None` if that cannot be read.
    pub(super) fn facts(&self, base_domain: Option<&str>, now: Timestamp) -> Option<Facts> {
        let all = self.read().ok()?;
        let first = all.first()?;
        let names = names_of(first);
        let time = |seconds| Timestamp::from_second(seconds).ok();
        let not_before = time(first.validity().not_before.timestamp())?;
        let not_after = time(first.validity().not_after.timestamp())?;
        Some(Facts {
            covers_base_domain: base_domain.is_some_and(|it| covers(&names, it)),
            covers_wildcard: base_domain.is_some_and(|it| covers_below(&names, it)),
            names,
            subject: first.subject().to_string(),
            issuer: first.issuer().to_string(),
            not_before: not_before.to_string(),
            not_after: not_after.to_string(),
            days_left: (not_after.as_second() - now.as_second()).div_euclid(24 * 3600),
        })
    }

    /// Everything that would keep browsers from trusting it at `domain`, in words;
    /// whether they know who signed its last certificate is not looked at.
    pub(super) fn check(&self, domain: &str, now: Timestamp) -> Result<(), String> {
        let all = self.read()?;
        let first = all.first().ok_or("has no certificate")?;
        // One that signed itself often says that it is an authority.
        if first.is_ca() && all.len() > 1 {
            let what = "begins with a certificate authority's certificate";
            let remedy = "write the server's own first, then the one that signed it, and so on";
            return Err(format!("{what}: {remedy}"));
        }
        for (n, pair) in all.windows(2).enumerate() {
            let [signed, issuer] = pair else { continue };
            let is_next = signed.issuer().as_raw() == issuer.subject().as_raw()
                && signed.verify_signature(Some(issuer.public_key())).is_ok();
            if !is_next {
                return Err(format!(
                    "number {} ({}) did not sign number {} ({}): write the server's own first, \
                     then the one that signed it, and so on",
                    n + 2,
                    issuer.subject(),
                    n + 1,
                    signed.subject()
                ));
            }
        }
        for (n, certificate) in all.iter().enumerate() {
            let validity = certificate.validity();
            let number = n + 1;
            if validity.not_after.timestamp() <= now.as_second() {
                let ended = validity.not_after;
                return Err(format!("number {number} expired at {ended}: get a new one"));
            }
            if validity.not_before.timestamp() > now.as_second() {
                let begins = validity.not_before;
                return Err(format!("number {number} is not good before {begins}"));
            }
        }
        if let Ok(Some(usage)) = first.extended_key_usage()
            && !usage.value.server_auth
            && !usage.value.any
        {
            return Err("is not for servers: get one for server authentication".to_owned());
        }
        let names = names_of(first);
        if !covers(&names, domain) {
            let names = names.join(", ");
            return Err(format!(
                "is for {names:?} and not for {domain}, where the web page is: get one for \
                 {domain} and, if VMs shall have it, *.{domain}"
            ));
        }
        Ok(())
    }

    /// Whether the private key is that of the first certificate. The error is what
    /// to tell of the key's field, and has nothing of the key.
    pub(super) fn check_key(&self, pem: &str) -> Result<(), String> {
        if pem.contains("ENCRYPTED") {
            return Err("is encrypted: write it as it is, without a passphrase".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| {
            "is no private key in PEM: copy all of it, from -----BEGIN PRIVATE KEY----- to \
             -----END PRIVATE KEY-----"
        })?;
        let key = any_supported_type(&key)
            .map_err(|_| "is of a kind that servers do not use: RSA, ECDSA or Ed25519")?;
        let public = key.public_key().ok_or("has no public half")?;
        let all = self.read()?;
        let first = all.first().ok_or("has no certificate")?;
        if public.as_ref() == first.public_key().raw {
            Ok(())
        } else {
            Err(
                "is not the key of the certificate: write the one that it was requested with"
                    .into(),
            )
        }
    }
}

/// The DNS names of a certificate. Browsers look at no others.
fn names_of(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map(|names| &names.value.general_names);
    let names = names.into_iter().flatten();
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

/// Whether one of the names is `domain`, or stands for it with a `*` in the place
/// of its first label.
fn covers(names: &[String], domain: &str) -> bool {
    let wildcard = domain.split_once('.').map(|(_, rest)| format!("*.{rest}"));
    names
        .iter()
        .any(|name| name == domain || Some(name) == wildcard.as_ref())
}

/// Whether one of the names stands for every name right below `domain`.
fn covers_below(names: &[String], domain: &str) -> bool {
    names.contains(&format!("*.{domain}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_label() {
        let names = |names: &[&str]| names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        let wildcard = names(&["*.vm.test"]);
        assert!(covers_below(&wildcard, "vm.test"));
        assert!(!covers(&wildcard, "vm.test"));
        assert!(covers(&wildcard, "kite.vm.test"));
        assert!(!covers(&wildcard, "a.kite.vm.test"));
        assert!(covers(&names(&["vm.test"]), "vm.test"));
        assert!(!covers(&names(&["*.test"]), "test"));
    }
}
