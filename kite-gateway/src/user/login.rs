//! The decision on a login: who asks, and where that leads.

use std::sync::Arc;

use russh::keys::{HashAlg, PublicKey};
use russh::server::Auth;
use russh::{MethodKind, MethodSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::conn::Identity;
use super::enter::suffices;
use super::handler::UserHandler;
use super::serve::methods;
use crate::audit::Event;
use crate::auth::{Proof, Verdict};
use crate::cidr::place;
use crate::metrics::{BanLabels, Banned, LoginLabels, Outcome};
use crate::route::{LoginName, LoginRule, Route, Target, VmKey};
use crate::secret::Secret;
use crate::vm::{DialError, Mailboxes};

impl UserHandler {
    fn route(&self, user: &str) -> (Option<LoginName>, Option<Arc<Route>>) {
        let login = LoginName::parse(user);
        let route = login.as_ref().and_then(|l| self.conn.shared.routes.find(l));
        (login, route)
    }

    /// Writes a decision down and turns it into the answer.
    pub(super) fn decide(
        &mut self,
        method: &'static str,
        login: Option<LoginName>,
        route: Option<&Route>,
        verdict: Verdict,
        proof: Proof,
    ) -> Auth {
        let accepted = verdict == Verdict::Accept;
        let key = match &proof {
            Proof::Key(key) => Some(key.fingerprint(HashAlg::Sha256).to_string()),
            Proof::Password(_) => None,
        };
        let mut proofs = self.proven_for(login.as_ref(), route);
        if accepted {
            proofs.push(proof);
        }
        // One step of two is written down as what it is, and is no login.
        let is_part = accepted && route.is_some_and(|route| !suffices(route.rule, &proofs));
        let outcome = match (accepted, is_part) {
            (_, true) => Outcome::Partial,
            (true, false) => Outcome::Accepted,
            (false, false) => Outcome::Rejected,
        };
        self.conn
            .shared
            .metrics
            .logins_total
            .get_or_create(&LoginLabels { method, outcome })
            .inc();
        self.conn.record(Event::Login {
            login: login.clone(),
            method,
            key,
            accepted: accepted && !is_part,
            partial: is_part,
            vm: route.map(|r| r.vm.clone()),
        });
        match (verdict, login, route) {
            (Verdict::Accept, Some(login), Some(route)) if is_part => {
                self.proven = Some(Proven {
                    login,
                    vm: route.vm.clone(),
                    uid: route.uid.clone(),
                    proofs,
                });
                reject_after_a_key()
            }
            (Verdict::Accept, Some(login), Some(route)) => {
                self.conn.logged_in(Identity {
                    login,
                    vm: route.vm.clone(),
                    uid: route.uid.clone(),
                    owner: route.owner.clone(),
                    proofs,
                    password: self.relayed.take(),
                });
                Auth::Accept
            }
            _ => reject(),
        }
    }

    pub(super) async fn check_password(
        &mut self,
        method: &'static str,
        user: &str,
        password: &str,
    ) -> Auth {
        self.passwords += 1;
        let earliest = Instant::now() + self.conn.shared.config.rejection_time;
        let (login, route) = self.route(user);
        // A name that cannot be one takes the same way as an unknown one.
        let name = login.clone().or_else(|| LoginName::parse("-"));
        let shared = Arc::clone(&self.conn.shared);
        let mut verdict = Verdict::Reject;
        if let Some(name) = name
            && self.passwords <= shared.config.max_password_attempts
        {
            // A banned name takes as long as any other.
            let banned = shared.name_bans.is_banned(&name, Instant::now());
            // Where a key has to come first, no password is right without it: nobody
            // may try out passwords who has none.
            let may_try = |route: &&Route| {
                let proven = self.proven_for(login.as_ref(), Some(route));
                route.rule == LoginRule::KeyOrPassword || !proven.is_empty()
            };
            let route = route.as_deref().filter(|_| !banned).filter(may_try);
            let checked = match route.and_then(Route::decided_by_machine) {
                Some(target) => self.ask_machine(target, password).await,
                None => match shared.authenticator.password(&name, route, password).await {
                    Verdict::Accept => Checked::Right,
                    Verdict::Reject => Checked::Wrong,
                },
            };
            match checked {
                Checked::Right => verdict = Verdict::Accept,
                Checked::Wrong => self.count_failure(&name),
                Checked::Unknown => {}
            }
        }
        if verdict == Verdict::Reject {
            tokio::time::sleep_until(earliest).await;
        }
        let proof = Proof::Password(route.as_ref().and_then(|r| r.password.clone()));
        self.decide(method, login, route.as_deref(), verdict, proof)
    }

    /// Asks a machine that decides on passwords itself. Its own defence sees the
    /// gateway's address only, so that here is what bounds guesses.
    async fn ask_machine(&mut self, target: &Target, password: &str) -> Checked {
        let shared = Arc::clone(&self.conn.shared);
        let place = place(self.conn.peer.ip());
        if shared.relay_bans.is_banned(&place, Instant::now()) {
            return Checked::Unknown;
        }
        // Never closed.
        let Ok(_permit) = shared.relays.acquire().await else {
            return Checked::Unknown;
        };
        let secret = Secret::new(password);
        let cut = CancellationToken::new();
        let mailboxes = Arc::new(Mailboxes::default());
        let dialed = shared.dialer.dial(target, Some(&secret), mailboxes, cut);
        match dialed.await {
            Ok(connection) => {
                tokio::spawn(connection.end());
                self.relayed = Some(secret);
                Checked::Right
            }
            Err(error) => {
                tracing::warn!(%error, user = target.user, "a machine did not take a login");
                if !matches!(error, DialError::Password(_)) {
                    return Checked::Unknown;
                }
                if !self.is_exempt() {
                    shared.relay_bans.failed(&place, Instant::now());
                }
                Checked::Wrong
            }
        }
    }

    fn is_exempt(&self) -> bool {
        let address = self.conn.peer.ip();
        let exempt = &self.conn.shared.config.never_ban;
        exempt.iter().any(|range| range.contains(address))
    }

    /// What was proven on this connection before, for this login to this machine.
    fn proven_for(&self, login: Option<&LoginName>, route: Option<&Route>) -> Vec<Proof> {
        let (Some(login), Some(route)) = (login, route) else {
            return Vec::new();
        };
        self.proven
            .as_ref()
            .filter(|it| it.login == *login && it.vm == route.vm && it.uid == route.uid)
            .map(|it| it.proofs.clone())
            .unwrap_or_default()
    }

    /// A wrong password counts against the address and the name.
    fn count_failure(&self, name: &LoginName) {
        let shared = &self.conn.shared;
        let address = self.conn.peer.ip();
        if self.is_exempt() {
            return;
        }
        let now = Instant::now();
        let bans = [
            (
                Banned::Address,
                shared.address_bans.failed(&place(address), now),
            ),
            (Banned::Name, shared.name_bans.failed(name, now)),
        ];
        for (banned, time) in bans {
            if let Some(time) = time {
                let labels = BanLabels { banned };
                shared.metrics.bans_total.get_or_create(&labels).inc();
                tracing::warn!(%address, login = %name, ?banned, seconds = time.as_secs(), "banned");
            }
        }
    }

    pub(super) async fn check_key(
        &self,
        user: &str,
        key: &PublicKey,
    ) -> (Option<LoginName>, Option<Arc<Route>>, Verdict) {
        let (login, route) = self.route(user);
        let verdict = match &login {
            Some(name) => {
                let authenticator = &self.conn.shared.authenticator;
                authenticator.public_key(name, route.as_deref(), key).await
            }
            None => Verdict::Reject,
        };
        (login, route, verdict)
    }
}

/// What came of a password.
enum Checked {
    Right,
    Wrong,
    /// Nobody could say: no guess that counts, and no login.
    Unknown,
}

/// What was proven so far by who has to prove more.
pub(super) struct Proven {
    login: LoginName,
    vm: VmKey,
    uid: String,
    proofs: Vec<Proof>,
}

/// A key was right, and a password has to follow.
fn reject_after_a_key() -> Auth {
    let passwords = [MethodKind::Password, MethodKind::KeyboardInteractive];
    Auth::Reject {
        proceed_with_methods: Some(MethodSet::from(&passwords[..])),
        partial_success: true,
    }
}

/// A rejection; it offers the same methods whatever the name has.
pub(super) fn reject() -> Auth {
    Auth::Reject {
        proceed_with_methods: Some(methods()),
        partial_success: false,
    }
}
