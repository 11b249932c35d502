//! Whom a call trusts, and how it is told that somebody is not.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, InvalidMessage,
};

use super::verifier::Verifier;

/// A client that trusts the certificates of a `caBundle`, or the system's where there is
/// none.
pub(super) fn config(authorities: &[u8]) -> Result<Arc<ClientConfig>, String> {
    if authorities.is_empty() {
        static SYSTEM: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
        return SYSTEM
            .get_or_init(|| trusting(rustls_native_certs::load_native_certs().certs))
            .clone();
    }
    // What is no certificate means nothing.
    trusting(CertificateDer::pem_slice_iter(authorities).flatten())
}

fn trusting(
    authorities: impl IntoIterator<Item = CertificateDer<'static>>,
) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Verifier::trusting(authorities.into_iter().collect(), &provider)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A handshake that failed, as Go words it.
pub(super) fn told(error: &io::Error, name: &str) -> String {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(why)) => {
            format!(
                "tls: failed to verify certificate: x509: {}",
                unfit(why, name)
            )
        }
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        Some(Error::AlertReceived(alert)) => format!("remote error: tls: {}", alerted(*alert)),
        Some(other) => format!("tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => error.to_string(),
    }
}

fn unfit(why: &CertificateError, name: &str) -> String {
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::NotValidForNameContext { presented, .. } => misnamed(presented, name),
        CertificateError::NotValidForName => misnamed(&[], name),
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        other => other.to_string(),
    }
}

/// A certificate for others; of its names those count that are of the kind of `name`.
fn misnamed(presented: &[String], name: &str) -> String {
    let is_address = name.parse::<IpAddr>().is_ok();
    let own = presented.iter().map(|other| bare(other));
    let own: Vec<&str> = own
        .filter(|other| other.parse::<IpAddr>().is_ok() == is_address)
        .collect();
    match (own.is_empty(), is_address) {
        (true, true) => {
            format!("cannot validate certificate for {name} because it doesn't contain any IP SANs")
        }
        (true, false) => {
            format!("certificate is not valid for any names, but wanted to match {name}")
        }
        (false, _) => format!("certificate is valid for {}, not {name}", own.join(", ")),
    }
}

/// `DnsName("a")` without what is around it.
fn bare(name: &str) -> &str {
    let quoted = name
        .split_once('"')
        .and_then(|(_, rest)| rest.rsplit_once('"'));
    let bracketed = name
        .split_once('(')
        .and_then(|(_, rest)| rest.rsplit_once(')'));
    quoted.or(bracketed).map_or(name, |(inner, _)| inner)
}

fn alerted(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::BadCertificate => "bad certificate",
        AlertDescription::CertificateRequired => "certificate required",
        AlertDescription::ProtocolVersion => "protocol version not supported",
        AlertDescription::UnrecognisedName => "unrecognized name",
        AlertDescription::InternalError => "internal error",
        _ => "handshake failure",
    }
}

#[cfg(test)]
mod tests {
    use super::{bare, misnamed};

    #[test]
    fn names_are_told_without_their_kind() {
        assert_eq!(bare("DnsName(\"a.b\")"), "a.b");
        assert_eq!(bare("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(bare("a.b"), "a.b");
    }

    #[test]
    fn names_of_the_wanted_kind_are_told() {
        let presented = ["DnsName(\"a.b\")", "IpAddress(192.0.2.1)"].map(str::to_owned);
        assert_eq!(
            misnamed(&presented, "c.d"),
            "certificate is valid for a.b, not c.d"
        );
        assert_eq!(
            misnamed(&presented, "192.0.2.2"),
            "certificate is valid for 192.0.2.1, not 192.0.2.2"
        );
    }
}
