//! Where the web page of an installation is.

use std::time::Duration;

use kite_core::{
    conditions,
    crd::{KitePlatform, KitePlatformStatus, platform_condition},
    names,
};
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

use super::{Error, object::ObjectName};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// Where people find the web page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// At this address.
    At(String),
    /// At none yet, for this reason.
    Nowhere(String),
}

impl Page {
    /// What the platform's status says; nothing while that may still change by itself.
    fn of(status: &KitePlatformStatus) -> Option<Self> {
        if let Some(url) = &status.url {
            return Some(Self::At(url.clone()));
        }
        let condition = conditions::find(&status.conditions, platform_condition::WEB_EXPOSED)?;
        let is_pending = condition.reason == "Pending";
        (!is_pending).then(|| Self::Nowhere(condition.message.clone()))
    }
}

/// Where the web page is, as soon as the controller has said so; waits for that for
/// `longest` at most.
///
/// # Errors
/// An [`Error`] if the API server refuses to say. That there is no page yet is none.
pub async fn page(client: &Client, longest: Duration) -> Result<Page, Error> {
    let platforms = Api::<KitePlatform>::all(client.clone());
    let started = Instant::now();
    loop {
        let platform = platforms.get_opt(names::PLATFORM).await;
        let platform = platform.map_err(|error| Error::of(&ObjectName::platform(), error))?;
        let status = platform.and_then(|it| it.status).unwrap_or_default();
        if let Some(page) = Page::of(&status) {
            return Ok(page);
        }
        if started.elapsed() >= longest {
            let of_type = platform_condition::WEB_EXPOSED;
            let pending = conditions::find(&status.conditions, of_type);
            let why = match pending {
                Some(condition) => condition.message.clone(),
                None => format!(
                    "the controller has not said where yet: kubectl get kiteplatform {} tells it",
                    names::PLATFORM
                ),
            };
            return Ok(Page::Nowhere(why));
        }
        sleep(PAUSE).await;
    }
}
