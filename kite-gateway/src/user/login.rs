//! The decision on a login: who asks, and where that leads.

use std::sync::Arc;

use russh::keys::PublicKey;
use russh::server::Auth;

use super::conn::Identity;
use super::handler::UserHandler;
use super::serve::methods;
use crate::audit::Event;
use crate::auth::Verdict;
use crate::metrics::{LoginLabels, Outcome};
use crate::route::{LoginName, Route};

impl UserHandler {
    fn route(&self, user: &str) -> (Option<LoginName>, Option<Arc<Route>>) {
        let login = LoginName::parse(user);
        let route = login.as_ref().and_then(|l| self.conn.shared.routes.find(l));
        (login, route)
    }

    /// Writes a decision down and turns it into the answer.
    pub(super) fn decide(
        &self,
        method: &'static str,
        login: Option<LoginName>,
        route: Option<&Route>,
        verdict: Verdict,
    ) -> Auth {
        let accepted = verdict == Verdict::Accept;
        let outcome = if accepted {
            Outcome::Accepted
        } else {
            Outcome::Rejected
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
            accepted,
            vm: route.map(|r| r.vm.clone()),
        });
        match (verdict, login, route) {
            (Verdict::Accept, Some(login), Some(route)) => {
                let vm = route.vm.clone();
                self.conn.logged_in(Identity { login, vm });
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
        let (login, route) = self.route(user);
        // A name that cannot be one takes the same way as an unknown one.
        let name = login.clone().or_else(|| LoginName::parse("-"));
        let verdict = match name {
            Some(name) if self.passwords <= self.conn.shared.config.max_password_attempts => {
                let authenticator = Arc::clone(&self.conn.shared.authenticator);
                authenticator
                    .password(&name, route.as_deref(), password)
                    .await
            }
            _ => Verdict::Reject,
        };
        self.decide(method, login, route.as_deref(), verdict)
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

/// A rejection; it offers the same methods whatever the name has.
pub(super) fn reject() -> Auth {
    Auth::Reject {
        proceed_with_methods: Some(methods()),
        partial_success: false,
    }
}
