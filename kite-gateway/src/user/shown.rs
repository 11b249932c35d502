//! What somebody comes with to log in, and what is thought of it.

use std::sync::Arc;

use kite_ssh_relay::certificate::{CertificateError, Vouched};
use kite_ssh_relay::login::Offered;
use kite_ssh_relay::verify::Token;
use russh::keys::{HashAlg, PublicKey};

use super::conn::{Conn, shortened};
use crate::audit;
use crate::auth::{Certified, Proof, ProvenKey, Verdict, is_present};
use crate::route::{LoginName, Presence, Route};
use crate::standing::Standing;

/// What somebody comes with, and what is thought of it.
pub(super) struct Claim {
    pub(super) login: Option<LoginName>,
    pub(super) route: Option<Arc<Route>>,
    pub(super) verdict: Verdict,
    pub(super) proof: Proof,
    pub(super) certificate: Option<Vouching>,
}

/// A certificate that an authority has signed.
pub(super) struct Vouching {
    shown: audit::Certificate,
    refused: Option<CertificateError>,
}

impl Vouching {
    /// As the records have it.
    pub(super) fn noted(self) -> audit::Certificate {
        audit::Certificate {
            refused: self.refused.and_then(|error| shortened(&error.to_string())),
            ..self.shown
        }
    }
}

/// A key that somebody shows.
pub(super) struct Shown {
    pub(super) claim: Claim,
    /// What its token has to say.
    presence: Presence,
}

impl Shown {
    fn take(&mut self, vouched: &Vouched, taken: Result<Certified, CertificateError>) {
        let shown = audit::Certificate {
            id: shortened(vouched.key_id()).unwrap_or_default(),
            serial: vouched.serial(),
            authority: vouched.authority().fingerprint(HashAlg::Sha256).to_string(),
            refused: None,
        };
        let refused = match taken {
            Ok(certified) => {
                self.presence = Presence {
                    touched: certified.grant.touch_required,
                    verified: certified.grant.verify_required,
                };
                self.claim.verdict = Verdict::Accept;
                self.claim.proof = Proof::Certificate(Box::new(certified));
                None
            }
            // Anybody can be one that nobody trusts, and call a certificate what they like.
            Err(CertificateError::Authority(_)) => return,
            Err(error) => Some(error),
        };
        self.claim.certificate = Some(Vouching { shown, refused });
    }

    /// Why a certificate is refused that was made by an authority that is trusted here.
    pub(super) fn refused(&self) -> Option<&CertificateError> {
        self.claim.certificate.as_ref()?.refused.as_ref()
    }

    /// What is told to who shows a certificate of that very account: nobody else is, for it
    /// tells that the name leads to a VM of it, as is told to who shows a key.
    pub(super) fn words(&self) -> Option<String> {
        let error = self.refused()?;
        match error {
            CertificateError::Early
            | CertificateError::Expired
            | CertificateError::Address(_)
            | CertificateError::NoAddress
            | CertificateError::ForceCommand
            | CertificateError::Critical(_) => Some(format!("kite: {error}\r\n")),
            // Whom it was made for is not known yet.
            _ => None,
        }
    }

    /// The key was signed with, and its token, if one keeps it, has said that.
    pub(super) fn signed(mut self, token: Option<Token>) -> Claim {
        if !is_present(self.presence, token) {
            self.claim.verdict = Verdict::Reject;
        }
        if let Proof::Key(it) = &mut self.claim.proof {
            it.token = token;
        }
        self.claim
    }
}

/// Looks at a key, or at its certificate.
pub(super) async fn look(
    conn: &Conn,
    login: Option<LoginName>,
    route: Option<Arc<Route>>,
    offered: Offered,
) -> Shown {
    let key = PublicKey::from(offered.key);
    let mut shown = Shown {
        claim: Claim {
            login,
            route: route.clone(),
            verdict: Verdict::Reject,
            proof: Proof::Key(Box::new(ProvenKey {
                key: key.clone(),
                token: None,
            })),
            certificate: None,
        },
        presence: Presence::default(),
    };
    let (authenticator, route) = (&conn.shared.authenticator, route.as_deref());
    let Some(name) = shown.claim.login.clone() else {
        return shown;
    };
    let Some(certificate) = offered.certificate else {
        shown.claim.verdict = authenticator.public_key(&name, route, &key).await;
        shown.presence = authenticator.presence(&name, route, &key).await;
        return shown;
    };
    // Of a name that leads nowhere, too: nobody can tell by the time it takes.
    let verified = conn.shared.workers.run(move || certificate.verify()).await;
    if let Some(Ok(vouched)) = verified.ok().flatten() {
        // Where many share an address, or seem to, it says nothing of who comes.
        let address = conn.peer.ip();
        let is_known = conn.shared.standing(address) != Standing::Many;
        let address = is_known.then_some(address);
        let taken = authenticator.certificate(&name, route, &vouched, address);
        shown.take(&vouched, taken.await);
    }
    shown
}
