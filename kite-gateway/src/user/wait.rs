//! Waiting for a machine that a login starts, and telling how it comes along.

use std::time::Duration;

use tokio::time::Instant;

use super::conn::Conn;
use super::enter::{EnterError, current};
use crate::route::{Route, VmState};

/// How often the route is looked at; it is in memory.
const LOOK: Duration = Duration::from_millis(250);
/// How often something new is told: a disk that is being made would fill the screen.
const TELL: Duration = Duration::from_secs(3);

/// A wait for a machine.
pub(super) struct Waiting<'a> {
    conn: &'a Conn,
    until: Instant,
    told: Option<(String, Instant)>,
}

impl<'a> Waiting<'a> {
    /// A wait, if the machine does not run and a login is to start it.
    pub(super) async fn of(conn: &'a Conn) -> Result<Option<Self>, EnterError> {
        let route = current(conn).await?;
        let waits = route.start_on_connect
            && conn.crowd().is_none()
            && matches!(route.state, VmState::Stopped(_) | VmState::Starting(_));
        Ok(waits.then(|| Self {
            conn,
            until: Instant::now() + conn.shared.config.start_deadline,
            told: None,
        }))
    }

    /// Has the machine started and gives what there is to tell; nothing when the wait
    /// is over: the machine runs, or entering it says why not.
    pub(super) async fn next(&mut self) -> Result<Option<String>, EnterError> {
        loop {
            let route = current(self.conn).await?;
            let why = match &route.state {
                VmState::Running if route.target.is_some() => return Ok(None),
                VmState::Unavailable(_) => return Ok(None),
                VmState::Running => "its keys are not there yet".to_owned(),
                VmState::Starting(why) => why.clone(),
                VmState::Stopped(_) => self.start(&route).await?,
            };
            if Instant::now() >= self.until {
                let seconds = self.conn.shared.config.start_deadline.as_secs();
                return Err(unavailable(
                    &route,
                    format!("it does not run after {seconds} s: {why}"),
                ));
            }
            let is_news = self
                .told
                .as_ref()
                .is_none_or(|(told, at)| *told != why && at.elapsed() >= TELL);
            if is_news {
                let line = format!("kite: VM {}: {why}", route.vm);
                self.told = Some((why, Instant::now()));
                return Ok(Some(line));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn start(&self, route: &Route) -> Result<String, EnterError> {
        match self.conn.shared.starts.start(route).await {
            Ok(()) => Ok("it was switched off, and is started".to_owned()),
            Err(why) => Err(unavailable(
                route,
                format!("it is switched off, and cannot be started: {why}"),
            )),
        }
    }
}

fn unavailable(route: &Route, why: String) -> EnterError {
    EnterError::Unavailable {
        vm: route.vm.clone(),
        why,
    }
}
