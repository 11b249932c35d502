//! The decision on a login: who asks, and where that leads.

use std::sync::Arc;
use std::time::Duration;

use kite_core::cidr::place;
use kite_ssh_relay::io::{Connection, ConnectionError, Event as Said, Workers};
use kite_ssh_relay::login::{self, Asked, LoginError, Methods, Offered, Prompt, Request};
use kite_ssh_relay::transport::TransportError;
use parking_lot::Mutex;
use russh::keys::HashAlg;
use tokio::time::Instant;

use super::conn::{Conn, Identity};
use super::enter::suffices;
use super::progress::Progress;
use super::shown::{Claim, Shown, Vouching, look};
use crate::audit::Event;
use crate::auth::{Proof, Verdict};
use crate::machine::DialError;
use crate::metrics::{BanLabels, Banned, LoginLabels, Outcome};
use crate::route::{LoginName, LoginRule, Route, Target, VmKey};
use crate::standing::Standing;

/// The login method by which a server may ask, and say something beside.
const INTERACTIVE: &str = "keyboard-interactive";
/// What a user reads whose password nobody has looked at.
const BUSY: &str = "the password was not checked, as too much is going on: try again in a moment";

/// What was decided on a try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Decided {
    /// The user is in.
    Accept,
    /// It was right, and a password has to follow.
    Part,
    Reject,
    /// The key is worth a signature.
    Probed,
    /// The password is asked for, after these words.
    Ask(&'static str),
}

/// Why a login ends without one; the client is told.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoginEnd {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error("too many tries to log in")]
    Tries,
}

impl From<TransportError> for LoginEnd {
    fn from(error: TransportError) -> Self {
        Self::Connection(error.into())
    }
}

/// The login of one connection.
pub(super) struct Login {
    conn: Arc<Conn>,
    workers: Workers,
    passwords: usize,
    tries: usize,
    refused: usize,
    /// Why something was refused, for whoever may know.
    words: Option<String>,
    /// What was proven so far, where more than one thing has to be.
    proven: Option<Proven>,
    /// The machine that has taken the password itself, entered by it; behind a lock as a
    /// connection is for one thread at a time.
    entered: Mutex<Option<Connection>>,
}

impl Login {
    pub(super) fn new(conn: &Arc<Conn>) -> Self {
        Self {
            conn: Arc::clone(conn),
            workers: conn.shared.workers.clone(),
            passwords: 0,
            tries: 0,
            refused: 0,
            words: None,
            proven: None,
            entered: Mutex::default(),
        }
    }

    /// The machine that has taken the password itself, entered by it; once.
    pub(super) fn entered(&self) -> Option<Connection> {
        self.entered.lock().take()
    }

    /// Lets somebody in. The login is decided then, and not yet told: until it is, words can
    /// be said.
    pub(super) async fn run(
        &mut self,
        user: &mut Connection,
        progress: &Progress,
    ) -> Result<login::Server, LoginEnd> {
        let mut server = loop {
            // Before there are keys nothing else comes.
            if let Said::Keyed = user.next().await? {
                progress.is_keyed();
                let transport = user.transport();
                let session = transport.session_id().unwrap_or_default();
                let host_key = transport.host_key().unwrap_or_default();
                break login::Server::new(session, host_key);
            }
        };
        while self.step(user, &mut server).await? != Some(Decided::Accept) {}
        let client = String::from_utf8_lossy(user.transport().peer_version()).into_owned();
        // A connection logs in once.
        let _ = self.conn.client.set(client);
        progress.is_logged_in();
        Ok(server)
    }

    /// Takes what the client says next, and answers all but a login that is accepted.
    async fn step(
        &mut self,
        user: &mut Connection,
        login: &mut login::Server,
    ) -> Result<Option<Decided>, LoginEnd> {
        let Said::Message { sequence } = user.next().await? else {
            return Ok(None);
        };
        let (name, request) = match login.take(user.message())? {
            Asked::Reply(reply) => {
                user.send(&reply, &[])?;
                return Ok(None);
            }
            Asked::Nothing => return Ok(None),
            Asked::Unimplemented => {
                user.unimplemented(sequence)?;
                return Ok(None);
            }
            Asked::Request { user, request } => (user, request),
        };
        let name = String::from_utf8_lossy(&name).into_owned();
        let decided = self.judge(&name, request, login).await?;
        // Questions and keys that are worth a signature are steps on the way.
        self.tries += 1;
        self.refused += usize::from(decided == Decided::Reject);
        let most = self.conn.shared.config.max_auth_requests;
        if decided != Decided::Accept && (self.refused > most || self.tries > 4 * most) {
            return Err(LoginEnd::Tries);
        }
        let answer = match decided {
            Decided::Accept => return Ok(Some(decided)),
            Decided::Part => login.accept_in_part(PASSWORDS)?,
            Decided::Reject => {
                if let Some(words) = self.words.take() {
                    user.send(&login.banner(words.as_bytes())?, &[])?;
                }
                login.reject(METHODS)?
            }
            Decided::Probed => login.try_key()?,
            Decided::Ask(words) => {
                let prompt = Prompt {
                    text: "Password: ".into(),
                    echo: false,
                };
                login.ask(words, &[prompt])?
            }
        };
        user.send(&answer, &[])?;
        Ok(Some(decided))
    }

    async fn judge(
        &mut self,
        name: &str,
        request: Request,
        login: &mut login::Server,
    ) -> Result<Decided, LoginEnd> {
        Ok(match request {
            Request::None | Request::Unknown(_) => Decided::Reject,
            Request::Password(password) => self.try_password("password", name, &password).await,
            Request::Interactive => Decided::Ask(""),
            Request::Answers(answers) => {
                let answer = answers.first().map_or(&[][..], |it| it.as_slice());
                self.try_password(INTERACTIVE, name, answer).await
            }
            Request::Probe(offered) => {
                let shown = self.look(name, *offered).await;
                if shown.claim.verdict == Verdict::Accept {
                    Decided::Probed
                } else if shown.refused().is_some() {
                    // Clients sign for no key that is refused.
                    self.decide("publickey", shown.claim)
                } else {
                    Decided::Reject
                }
            }
            Request::Key(offered, proof) => {
                let verified = self.workers.run(move || proof.verify()).await;
                let Some(Ok(verified)) = verified.ok().flatten() else {
                    return Ok(Decided::Reject);
                };
                login.verified(&verified)?;
                let shown = self.look(name, *offered).await;
                self.decide("publickey", shown.signed(verified.token()))
            }
        })
    }

    /// Looks at a key, or at its certificate.
    async fn look(&mut self, user: &str, offered: Offered) -> Shown {
        let (login, route) = self.route(user);
        let shown = look(&self.conn, login, route, offered).await;
        self.words = shown.words();
        shown
    }

    fn route(&self, user: &str) -> (Option<LoginName>, Option<Arc<Route>>) {
        let login = LoginName::parse(user);
        let route = login.as_ref().and_then(|l| self.conn.shared.routes.find(l));
        (login, route)
    }

    /// Writes a decision down and turns it into the answer.
    fn decide(&mut self, method: &'static str, claim: Claim) -> Decided {
        let Claim {
            login,
            route,
            verdict,
            proof,
            certificate,
        } = claim;
        let route = route.as_deref();
        let mut accepted = verdict == Verdict::Accept;
        let key = match &proof {
            Proof::Key(it) => Some(&it.key),
            Proof::Certificate(it) => Some(&it.key),
            Proof::Password(_) => None,
        };
        let key = key.map(|key| key.fingerprint(HashAlg::Sha256).to_string());
        let certificate = certificate.map(Vouching::noted);
        let mut proofs = self.proven_for(login.as_ref(), route);
        if accepted {
            proofs.push(proof);
        }
        // One step of two is written down as what it is, and is no login.
        let is_part = accepted && route.is_some_and(|route| !suffices(route.rule, &proofs));
        if let (true, false, Some(login), Some(route)) = (accepted, is_part, &login, route) {
            // Unless the connection is over meanwhile.
            accepted = self.conn.logged_in(Identity {
                login: login.clone(),
                vm: route.vm.clone(),
                uid: route.uid.clone(),
                owner: route.owner.clone(),
                proofs: proofs.clone(),
            });
        }
        let is_unchecked = verdict == Verdict::Unchecked;
        let outcome = match (accepted, is_part) {
            (_, true) => Outcome::Partial,
            (true, false) => Outcome::Accepted,
            (false, false) if is_unchecked => Outcome::Unchecked,
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
            certificate,
            accepted: accepted && !is_part,
            partial: is_part,
            unchecked: is_unchecked,
            vm: route.map(|r| r.vm.clone()),
            uid: route.map(|r| r.uid.clone()).filter(|uid| !uid.is_empty()),
            owner: route.and_then(|r| r.owner.clone()),
        });
        match (login, route) {
            (Some(login), Some(route)) if is_part => {
                self.proven = Some(Proven {
                    login,
                    vm: route.vm.clone(),
                    uid: route.uid.clone(),
                    proofs,
                });
                Decided::Part
            }
            (Some(login), Some(route)) if accepted => {
                self.remember_place(&login, route);
                Decided::Accept
            }
            _ if is_unchecked => self.try_again(method),
            _ => Decided::Reject,
        }
    }

    /// From here that login has succeeded. An address that many clients share is
    /// nobody's.
    fn remember_place(&self, login: &LoginName, route: &Route) {
        let (shared, address) = (&self.conn.shared, self.conn.peer.ip());
        if shared.standing(address) != Standing::Many {
            shared.known_places.add(login, &route.uid, address);
        }
    }

    /// Tells the user that nobody has looked at the password. Where passwords are asked
    /// for, it is asked for once more. The method `password` has no words for that: its
    /// client reads it as the reason why the connection ends.
    fn try_again(&self, method: &str) -> Decided {
        let may_try = self.passwords < self.conn.shared.config.max_password_attempts;
        if method == INTERACTIVE && may_try {
            return Decided::Ask(BUSY);
        }
        self.conn.kill(BUSY);
        Decided::Reject
    }

    /// Looks at a password, whatever its bytes are.
    async fn try_password(&mut self, method: &'static str, user: &str, password: &[u8]) -> Decided {
        self.passwords += 1;
        let earliest = Instant::now() + self.conn.shared.config.rejection_time;
        let (login, route) = self.route(user);
        // A name that cannot be one takes the same way as an unknown one.
        let name = login.clone().or_else(|| LoginName::parse("-"));
        let relayed = route.as_deref().and_then(Route::decided_by_machine);
        let mut verdict = Verdict::Reject;
        if let Some(name) = name
            && self.passwords <= self.conn.shared.config.max_password_attempts
            && !self.is_banned_here()
        {
            verdict = if let Some(target) = relayed {
                self.ask_machine(target, password, earliest).await
            } else {
                // No password that was set here has other bytes than those of UTF-8.
                let password = String::from_utf8_lossy(password);
                self.ask(&name, login.as_ref(), route.as_deref(), &password)
                    .await
            };
            if verdict == Verdict::Reject {
                // Accounts of a host have no keys by which their owners would get in
                // while strangers guess: there only addresses are banned.
                self.count_failure(relayed.is_none().then_some(&name));
            }
            if relayed.is_some() && verdict == Verdict::Unchecked {
                // To be told so would tell which names are accounts of the host.
                verdict = Verdict::Reject;
            }
        }
        if verdict != Verdict::Accept {
            tokio::time::sleep_until(earliest).await;
        }
        let proof = Proof::Password(route.as_ref().and_then(|r| r.password.clone()));
        let claim = Claim {
            login,
            route,
            verdict,
            proof,
            certificate: None,
        };
        self.decide(method, claim)
    }

    /// Whether the address was banned, maybe while this connection was open.
    fn is_banned_here(&self) -> bool {
        let bans = &self.conn.shared.address_bans;
        !self.is_exempt() && bans.is_banned(&place(self.conn.peer.ip()), Instant::now())
    }

    /// Whether that login has succeeded from this address before: whoever guesses at
    /// it elsewhere must not keep its owner out.
    fn is_at_home(&self, name: &LoginName, route: &Route) -> bool {
        let address = self.conn.peer.ip();
        let known = &self.conn.shared.known_places;
        known.has(name, &route.uid, address)
    }

    /// Asks the authenticator.
    async fn ask(
        &self,
        name: &LoginName,
        login: Option<&LoginName>,
        route: Option<&Route>,
        password: &str,
    ) -> Verdict {
        let shared = &self.conn.shared;
        // A banned name takes as long as any other.
        let banned = !self.is_trusted()
            && shared.name_bans.is_banned(name, Instant::now())
            && !route.is_some_and(|route| self.is_at_home(name, route));
        // Where a key has to come first, no password is right without it: nobody may
        // try out passwords who has none.
        let may_try = |route: &&Route| {
            let proven = self.proven_for(login, Some(route));
            route.rule == LoginRule::KeyOrPassword || !proven.is_empty()
        };
        let route = route.filter(|_| !banned).filter(may_try);
        shared.authenticator.password(name, route, password).await
    }

    /// Asks a machine that decides on passwords itself. Its own defence sees the
    /// gateway's address only, so that here is what bounds guesses, also from addresses
    /// that many share. What is not decided by `by` is undecided.
    async fn ask_machine(&mut self, target: &Target, password: &[u8], by: Instant) -> Verdict {
        let shared = Arc::clone(&self.conn.shared);
        let place = place(self.conn.peer.ip());
        let trusted = self.is_trusted();
        let asking = async {
            // Who is trusted does not stand in line with those who guess.
            let _permit = if trusted {
                None
            } else {
                match shared.relays.acquire().await {
                    Ok(permit) => Some(permit),
                    Err(_) => return Err(Verdict::Unchecked),
                }
            };
            // Counted before it is known: whoever hangs up meanwhile has guessed, too.
            let mut ban = None;
            if !trusted {
                if shared.relay_bans.is_banned(&place, Instant::now()) {
                    return Err(Verdict::Reject);
                }
                ban = shared.relay_bans.failed(&place, Instant::now());
            }
            let mut silent = |_: Vec<u8>| {};
            let dialed = shared.entrance.enter(target, Some(password), &mut silent);
            let dialed = dialed.await;
            let is_guess = matches!(
                dialed,
                Err(DialError::Password(_) | DialError::MoreThanPassword(_))
            );
            if !trusted && !is_guess {
                shared.relay_bans.forgive(&place, ban);
            } else if let Some(time) = ban {
                self.tell_ban(Banned::Relay, target.user.as_str(), time);
            }
            dialed.map_err(|error| {
                tracing::info!(%error, user = target.user, "a machine did not take a login");
                if is_guess {
                    Verdict::Reject
                } else {
                    Verdict::Unchecked
                }
            })
        };
        match tokio::time::timeout_at(by, asking).await {
            Ok(Ok(connection)) => {
                *self.entered.lock() = Some(connection);
                Verdict::Accept
            }
            Ok(Err(verdict)) => verdict,
            Err(_) => Verdict::Unchecked,
        }
    }

    /// Whether nothing counts against the address.
    fn is_exempt(&self) -> bool {
        let standing = self.conn.shared.standing(self.conn.peer.ip());
        matches!(standing, Standing::Trusted | Standing::Many)
    }

    /// Whether the operator trusts the address.
    fn is_trusted(&self) -> bool {
        self.conn.shared.standing(self.conn.peer.ip()) == Standing::Trusted
    }

    fn tell_ban(&self, banned: Banned, login: &str, time: Duration) {
        let labels = BanLabels { banned };
        let bans = &self.conn.shared.metrics.bans_total;
        bans.get_or_create(&labels).inc();
        let address = self.conn.peer.ip();
        tracing::warn!(%address, login, ?banned, seconds = time.as_secs(), "banned");
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

    /// A wrong password counts against the address, unless many share it, and against
    /// the name if one is given.
    fn count_failure(&self, name: Option<&LoginName>) {
        if self.is_trusted() {
            return;
        }
        let shared = &self.conn.shared;
        let now = Instant::now();
        let login = name.map_or("", LoginName::as_str);
        let place = place(self.conn.peer.ip());
        if !self.is_exempt()
            && let Some(time) = shared.address_bans.failed(&place, now)
        {
            self.tell_ban(Banned::Address, login, time);
        }
        if let Some(time) = name.and_then(|name| shared.name_bans.failed(name, now)) {
            self.tell_ban(Banned::Name, login, time);
        }
    }
}

/// What was proven so far by who has to prove more.
struct Proven {
    login: LoginName,
    vm: VmKey,
    uid: String,
    proofs: Vec<Proof>,
}

/// The login methods that are offered, always the same ones: they must not tell
/// what a name has.
const METHODS: Methods = Methods {
    key: true,
    password: true,
    interactive: true,
};

/// Those that remain when a key was right and a password has to follow.
const PASSWORDS: Methods = Methods {
    key: false,
    password: true,
    interactive: true,
};
