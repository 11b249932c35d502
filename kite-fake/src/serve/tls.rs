//! A certificate authority that is made for one server, and the server's certificate.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// How long a client has for the handshake.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);

/// The names by which a cluster's API server is called.
const NAMES: [&str; 7] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
];

/// What accepts connections to `address`, and the authority in PEM.
pub(super) fn acceptor(address: IpAddr) -> io::Result<(TlsAcceptor, String)> {
    let (authority, issuer) = authority().map_err(io::Error::other)?;
    let mut names: Vec<String> = NAMES.map(str::to_owned).into();
    // Whoever listens everywhere is reached by addresses that nobody knows here.
    if !address.is_unspecified() && !address.is_loopback() {
        names.push(address.to_string());
    }
    let (certificate, key) = server(names, &issuer).map_err(io::Error::other)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), authority))
}

fn authority() -> Result<(String, Issuer<'static, KeyPair>), rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "kite-fake");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
    ];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), Issuer::new(params, key)))
}

fn server(
    names: Vec<String>,
    issuer: &Issuer<'static, KeyPair>,
) -> Result<(rcgen::Certificate, PrivateKeyDer<'static>), rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "kube-apiserver");
    // Strict clients (Python since 3.13) want to see who issued it.
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((certificate, key.into()))
}
