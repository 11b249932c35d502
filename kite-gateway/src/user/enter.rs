//! Entering the machine that a user logged in to.

use std::sync::Arc;

use kite_ssh_relay::io::Connection;
use tokio::time::Instant;

use super::conn::{Conn, Crowd};
use crate::auth::{Proof, Verdict};
use crate::machine::DialError;
use crate::metrics::KindLabels;
use crate::route::{LoginName, LoginRule, Route, VmKey, VmState};

/// Why there is no machine behind a channel. Only who logged in gets to read it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnterError {
    #[error("kite: not logged in")]
    NoLogin,
    #[error("kite: the login name \"{0}\" no longer leads to the VM that you logged in to")]
    Moved(LoginName),
    #[error("kite: what you logged in with no longer opens VM {0}")]
    Withdrawn(VmKey),
    #[error("kite: VM {vm}: {crowd}; end some and log in again")]
    Crowded { vm: VmKey, crowd: Crowd },
    #[error("kite: VM {vm}: {why}")]
    Unavailable { vm: VmKey, why: String },
    #[error("kite: VM {vm} cannot be entered: {error}")]
    Dial { vm: VmKey, error: Box<DialError> },
}

/// The route as it is now: the machine may have moved since the login, but it
/// must be the one that the user logged in to, and still be open to them.
pub(super) async fn current(conn: &Conn) -> Result<Arc<Route>, EnterError> {
    let identity = conn.identity().ok_or(EnterError::NoLogin)?;
    let route = conn
        .shared
        .routes
        .find(&identity.login)
        .filter(|route| route.vm == identity.vm && route.uid == identity.uid)
        .ok_or_else(|| EnterError::Moved(identity.login.clone()))?;
    let authenticator = &conn.shared.authenticator;
    let withdrawn = || EnterError::Withdrawn(route.vm.clone());
    if !suffices(route.rule, &identity.proofs) {
        return Err(withdrawn());
    }
    // Who decides itself is asked when it is entered.
    if route.decided_by_machine().is_some() {
        return Ok(route);
    }
    for proof in &identity.proofs {
        let verdict = authenticator
            .still_holds(&identity.login, &route, proof)
            .await;
        if verdict != Verdict::Accept {
            return Err(withdrawn());
        }
    }
    Ok(route)
}

/// Whether a login with these is one by the rule.
pub(super) fn suffices(rule: LoginRule, proofs: &[Proof]) -> bool {
    let has_key = proofs
        .iter()
        .any(|proof| matches!(proof, Proof::Key(_) | Proof::Certificate(_)));
    let has_password = proofs
        .iter()
        .any(|proof| matches!(proof, Proof::Password(_)));
    match rule {
        LoginRule::KeyOrPassword => has_key || has_password,
        LoginRule::KeyAndPassword => has_key && has_password,
    }
}

/// Opens a connection to the user's machine, and logs in there, unless it was `entered` by the
/// login itself. What the machine says to whoever logs in goes to `banner`.
pub(super) async fn enter(
    conn: &Conn,
    entered: Option<Connection>,
    banner: &mut (dyn FnMut(Vec<u8>) + Send),
) -> Result<Connection, EnterError> {
    let route = current(conn).await?;
    if let Some(crowd) = conn.crowd() {
        return Err(EnterError::Crowded {
            vm: route.vm.clone(),
            crowd,
        });
    }
    if let Some(entered) = entered {
        return Ok(entered);
    }
    let unavailable = |why: &str| EnterError::Unavailable {
        vm: route.vm.clone(),
        why: why.to_owned(),
    };
    match &route.state {
        VmState::Running => {}
        VmState::Stopped(why) | VmState::Unavailable(why) => return Err(unavailable(why)),
        VmState::Starting(why) => {
            return Err(unavailable(&format!("{why}; try again in a moment")));
        }
    }
    let target = route
        .target
        .as_ref()
        .ok_or_else(|| unavailable("its keys are not there yet; try again in a moment"))?;
    let started = Instant::now();
    let metrics = &conn.shared.metrics;
    let entered = conn.shared.entrance.enter(target, None, banner).await;
    match entered {
        Ok(connection) => {
            let took = started.elapsed().as_secs_f64();
            metrics.backend_seconds.observe(took);
            Ok(connection)
        }
        Err(error) => {
            let kind = error.kind();
            let failures = &metrics.backend_failures_total;
            failures.get_or_create(&KindLabels { kind }).inc();
            tracing::warn!(vm = %route.vm, %error, "cannot enter a VM");
            if matches!(error, DialError::HostKey { .. } | DialError::Refused(_)) {
                conn.shared.routes.doubt(&route);
            }
            Err(EnterError::Dial {
                vm: route.vm.clone(),
                error: Box::new(error),
            })
        }
    }
}
