//! Whether a webhook is who it should be.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// Verifies certificates as usual, but for one thing that Go allows: a certificate that
/// signed itself as an authority and is trusted may be the server's, too. That is what
/// `openssl req -x509` makes, and many a webhook has.
#[derive(Debug)]
pub(super) struct Verifier {
    /// `None` where nobody is trusted.
    usual: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// What is no certificate means nothing.
    pub(super) fn trusting(
        trusted: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        let usual = if roots.is_empty() {
            None
        } else {
            let roots = Arc::new(roots);
            let usual =
                WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider)).build();
            Some(usual.map_err(|error| error.to_string())?)
        };
        Ok(Self {
            usual,
            trusted,
            provider: Arc::clone(provider),
        })
    }
}

/// Whether nothing else is wrong with a certificate than that it is an authority's.
fn is_authority(error: &Error) -> bool {
    // The library beneath has a type of its own for it, which is not in the tree.
    matches!(error, Error::InvalidCertificate(CertificateError::Other(why))
        if format!("{why:?}").contains("CaUsedAsEndEntity"))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(usual) = &self.usual else {
            return Err(CertificateError::UnknownIssuer.into());
        };
        let verified =
            usual.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(error)
                if is_authority(&error) && self.trusted.iter().any(|it| it == end_entity) =>
            {
                let certificate = ParsedCertificate::try_from(end_entity)?;
                verify_server_name(&certificate, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
