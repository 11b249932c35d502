//! Looks again at connections that are logged in: whether what their users logged in
//! with still opens the machine, and for how long they may last.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::conn::Conn;
use super::enter::{EnterError, current};
use super::serve::Shared;
use crate::route::Route;

/// Time between two looks. Routes are in memory, and one that has not changed is not
/// looked at again.
const EVERY: Duration = Duration::from_secs(1);
/// How long before a bound strikes its user is told; of short bounds half of them.
const WARNING: Duration = Duration::from_secs(60);
/// A route that is not there may be on its way back: an object that could not be read
/// for a moment is no reason to end what it led to.
const MISSING: Duration = Duration::from_secs(30);

/// Ends connections whose user may not have them any more, until it is dropped.
pub(crate) async fn review(shared: Arc<Shared>) {
    let mut seen: HashMap<u64, Seen> = HashMap::new();
    loop {
        tokio::time::sleep(EVERY).await;
        let open = shared.sessions.logged_in();
        let now = Instant::now();
        let mut still = HashMap::with_capacity(open.len());
        for conn in open {
            let before = seen.remove(&conn.number);
            let mut it = before.unwrap_or_else(|| Seen::new(&conn, now));
            if let Some(why) = it.look(&conn, now).await {
                tracing::info!(connection = conn.number, why, "a session is ended");
                conn.kill(&why);
            }
            still.insert(conn.number, it);
        }
        seen = still;
    }
}

/// What was seen of a connection.
struct Seen {
    since: Instant,
    /// The route by which it was last found to be in order.
    route: Option<Arc<Route>>,
    /// Since when there is no route.
    missing: Option<Instant>,
    carried: u64,
    /// When something was carried last.
    used: Instant,
    /// The user was told that the connection has lasted long, or that nothing is sent.
    is_told_of_age: bool,
    is_told_of_rest: bool,
}

impl Seen {
    fn new(conn: &Conn, now: Instant) -> Self {
        Self {
            since: now,
            route: None,
            missing: None,
            carried: conn.carried(),
            used: now,
            is_told_of_age: false,
            is_told_of_rest: false,
        }
    }

    /// Why the connection has to end, if it has to.
    async fn look(&mut self, conn: &Conn, now: Instant) -> Option<String> {
        let config = &conn.shared.config;
        let carried = conn.carried();
        if std::mem::replace(&mut self.carried, carried) != carried {
            self.used = now;
        }
        let is_over = |most: Duration, since| !most.is_zero() && now - since >= most;
        self.warn(conn, now);
        if is_over(config.session_longest, self.since) {
            let seconds = config.session_longest.as_secs();
            return Some(format!(
                "this connection has lasted {seconds} s, as long as it may; log in again"
            ));
        }
        if is_over(config.session_idle, self.used) {
            let seconds = config.session_idle.as_secs();
            return Some(format!(
                "nothing was sent either way for {seconds} s; log in again"
            ));
        }
        self.right(conn, now).await
    }

    /// Tells the user of an end that comes soon.
    fn warn(&mut self, conn: &Conn, now: Instant) {
        let config = &conn.shared.config;
        let is_near = |most: Duration, since| {
            !most.is_zero() && now - since >= most.saturating_sub(WARNING.min(most / 2))
        };
        if is_near(config.session_longest, self.since) && !self.is_told_of_age {
            self.is_told_of_age = true;
            let left = (self.since + config.session_longest).saturating_duration_since(now);
            conn.warn(format!(
                "this connection ends in {} s, as it has lasted as long as it may",
                left.as_secs()
            ));
        }
        // Whoever goes on is told anew before the next time.
        let is_idle = is_near(config.session_idle, self.used);
        if is_idle && !self.is_told_of_rest {
            let left = (self.used + config.session_idle).saturating_duration_since(now);
            conn.warn(format!(
                "this connection ends in {} s unless something is sent",
                left.as_secs()
            ));
        }
        self.is_told_of_rest = is_idle;
    }

    /// Why the user has no right to it any more.
    async fn right(&mut self, conn: &Conn, now: Instant) -> Option<String> {
        let identity = conn.identity()?;
        let Some(route) = conn.shared.routes.find(&identity.login) else {
            let missing = *self.missing.get_or_insert(now);
            let moved = || EnterError::Moved(identity.login.clone());
            return (now - missing >= MISSING).then(|| plain(&moved()));
        };
        self.missing = None;
        if self
            .route
            .as_ref()
            .is_some_and(|it| Arc::ptr_eq(it, &route))
        {
            return None;
        }
        match current(conn).await {
            Ok(looked_at) => {
                self.route = Some(looked_at);
                None
            }
            // It has gone this very moment.
            Err(EnterError::Moved(_)) if conn.shared.routes.find(&identity.login).is_none() => None,
            Err(error) => Some(plain(&error)),
        }
    }
}

/// What the user reads, without the name that all goodbyes begin with.
fn plain(error: &EnterError) -> String {
    let text = error.to_string();
    text.strip_prefix("kite: ").unwrap_or(&text).to_owned()
}
