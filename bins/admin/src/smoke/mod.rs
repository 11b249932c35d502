//! The whole way of a user through an installation, to see whether it works: a user is
//! made, signs in, makes a VM, logs in to it through the gateway, and goes again.
//!
//! Whatever happens, what was made is taken away, and nothing else is touched: the user
//! has a name of its own, carries a label, and all else belongs to it. What a test that
//! was killed has left behind the next one takes away.

mod door;
mod person;
mod place;
mod report;
#[cfg(test)]
mod tests;
mod web;

use std::{sync::Arc, time::Duration};

use http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kite_core::{
    conditions,
    crd::{KiteImage, VmPhase},
};
use kube::{Client, ResourceExt as _};
use rand::rng;
use russh::keys::{Algorithm, PrivateKey};
use serde_json::json;
use tokio::time::{Instant, sleep};

pub use self::{
    door::{Address, HostKey},
    person::{ENDS, LABEL},
    report::{Done, News, Report, State, Step},
};
use self::{
    door::{Door, Refusal},
    person::{MEMORY_GIB, PAUSE, Person, fresh_name, sweep},
    place::{Place, image},
    report::{Failure, Record, Stopped, Waiting},
    web::Web,
};

/// What the VM is called.
const VM: &str = "smoke";
/// Waits of a whole test, at most, each of [`Options::timeout`].
const WAITS: i32 = 12;

/// How an installation is tried.
#[derive(Clone, Debug)]
pub struct Options {
    /// Namespace in which Kite runs.
    pub namespace: String,
    /// What stands before `/api/v1`, if the platform does not say it.
    pub api_url: Option<String>,
    /// Where the gateway is, if the platform does not say it.
    pub gateway: Option<Address>,
    /// How the gateway is known, if not by the platform's status or by its Secret.
    pub host_key: Option<HostKey>,
    /// Whether any host key is right where nothing is known of it. The one that is
    /// shown first is then the only one.
    pub accept_host_key: bool,
    /// Name of the image; by default the smallest that is ready.
    pub image: Option<String>,
    /// How long each step may wait.
    pub timeout: Duration,
    /// How long the gateway may not know the VM's keys yet.
    pub unknown: Duration,
    /// Whether user and VM stay.
    pub keep: bool,
}

/// Tries an installation, and tells of it meanwhile. When `stop` comes to its end the
/// test is broken off; what it made is taken away also then.
pub async fn run(
    client: &Client,
    options: &Options,
    stop: impl Future<Output = ()>,
    mut told: impl FnMut(&News<'_>),
) -> Report {
    let name = fresh_name();
    let last = if options.keep {
        Step::Login
    } else {
        Step::NothingLeft
    };
    let mut record = Record::new(&options.namespace, &name, last, &mut told);
    let person = Person::new(client, &name, options.timeout);
    let walk = Walk {
        client,
        options,
        person,
    };
    let ended = tokio::select! {
        biased;
        () = stop => None,
        ended = walk.whole(&mut record) => Some(ended),
    };
    match ended {
        Some(Ok(())) => {}
        Some(Err(Stopped)) => walk.clean_up(&mut record).await,
        None => {
            record.interrupted();
            walk.clean_up(&mut record).await;
        }
    }
    record.report()
}

struct Walk<'a> {
    client: &'a Client,
    options: &'a Options,
    person: Person<'a>,
}

impl Walk<'_> {
    async fn whole(&self, record: &mut Record<'_>) -> Result<(), Stopped> {
        let place = record
            .take(Step::Platform, async |_| {
                Place::find(self.client, self.options).await
            })
            .await?;
        // Others' leftovers are no reason for this one to fail.
        for user in sweep(self.client).await {
            record.swept(user);
        }
        let web = record
            .take(Step::Api, async |_| self.api(&place).await)
            .await?;
        let door = record
            .take(Step::Gateway, async |_| Self::gateway(&place.door).await)
            .await?;
        let image = record
            .take(Step::Image, async |it| self.image(it).await)
            .await?;
        record
            .take(Step::User, async |it| {
                self.person.join(&image, self.ends(), it).await
            })
            .await?;
        let token = record
            .take(Step::SignIn, async |_| self.sign_in(&web).await)
            .await?;
        let key = record
            .take(Step::Vm, async |_| self.make_vm(&web, &token, &image).await)
            .await?;
        record
            .take(Step::Running, async |it| {
                self.running(&web, &token, it).await
            })
            .await?;
        record
            .take(Step::Login, async |it| self.log_in(&door, &key, it).await)
            .await?;
        if self.options.keep {
            return Ok(());
        }
        record
            .take(Step::DeleteVm, async |it| {
                self.delete_vm(&web, &token, it).await
            })
            .await?;
        record
            .take(Step::DeleteUser, async |it| self.person.leave(it).await)
            .await?;
        record
            .take(Step::NothingLeft, async |it| {
                self.person.is_forgotten(it).await
            })
            .await
    }

    /// Takes away what there is of the user.
    async fn clean_up(&self, record: &mut Record<'_>) {
        if self.options.keep || !record.has(Step::User) {
            return;
        }
        // What came of it is in the record.
        let _ = record
            .take(Step::CleanUp, async |it| {
                self.person.leave(it).await?;
                self.person.is_forgotten(it).await
            })
            .await;
    }

    /// When this test is over at the latest; nothing if its user is to be kept.
    fn ends(&self) -> Option<Timestamp> {
        let longest = SignedDuration::try_from(self.options.timeout).ok()?;
        let whole = longest.checked_mul(WAITS)?;
        (!self.options.keep).then(|| Timestamp::now().saturating_add(whole).ok())?
    }

    async fn api(&self, place: &Place) -> Result<(Web, String), Failure> {
        let web = Web::at(&place.api, self.options.timeout)?;
        web.expect(StatusCode::OK, Method::GET, "health", None, None)
            .await?;
        let told = format!("{} answers", web.base());
        Ok((web, told))
    }

    /// The gateway as it is known from now on.
    async fn gateway(door: &Door) -> Result<(Door, String), Failure> {
        let (shown, pinned) = door.knock().await.map_err(|it| failed(&it))?;
        let note = if door.expected.is_empty() {
            "a host key that was compared with nothing, as --accept-host-key says:"
        } else {
            "the right host key"
        };
        let told = format!("{} has {note} {shown}", door.address);
        Ok((pinned, told))
    }

    async fn image(&self, waiting: &mut Waiting<'_, '_>) -> Result<(KiteImage, String), Failure> {
        let since = Instant::now();
        loop {
            match image(self.client, self.options.image.as_deref()).await? {
                Ok(image) => {
                    let told = format!("{} is ready", image.name_any());
                    return Ok((image, told));
                }
                Err(waits) => waiting.on(&waits),
            }
            self.person
                .patience(since, "no image is ready", waiting)
                .await?;
        }
    }

    async fn sign_in(&self, web: &Web) -> Result<(String, String), Failure> {
        let Person { name, password, .. } = &self.person;
        let body = json!({ "username": name, "password": password });
        let path = "auth/sign-in";
        let answer = web
            .expect(StatusCode::OK, Method::POST, path, None, Some(&body))
            .await?;
        let token = answer["token"].as_str();
        let token = token.ok_or_else(|| Failure::new("the answer has no token"))?;
        Ok((token.to_owned(), format!("{name} has signed in")))
    }

    async fn make_vm(
        &self,
        web: &Web,
        token: &str,
        image: &KiteImage,
    ) -> Result<(Arc<PrivateKey>, String), Failure> {
        let wrong = |error: &dyn std::error::Error| Failure::new(error.to_string());
        let key = PrivateKey::random(&mut rng(), Algorithm::Ed25519).map_err(|it| wrong(&it))?;
        let public = key.public_key().to_openssh().map_err(|it| wrong(&it))?;
        let body = json!({
            "name": VM,
            "cpu": 1,
            "memory": format!("{MEMORY_GIB}Gi"),
            "disk": image.least_disk(),
            "image": image.name_any(),
            "sshId": self.person.name,
            "sshPublicKeys": [public],
        });
        let token = Some(token);
        web.expect(StatusCode::CREATED, Method::POST, "vms", token, Some(&body))
            .await?;
        Ok((Arc::new(key), format!("a VM of {}", image.name_any())))
    }

    async fn running(
        &self,
        web: &Web,
        token: &str,
        waiting: &mut Waiting<'_, '_>,
    ) -> Result<((), String), Failure> {
        let since = Instant::now();
        let path = format!("vms/{VM}");
        loop {
            let answer = web
                .expect(StatusCode::OK, Method::GET, &path, Some(token), None)
                .await?;
            let phase = answer["status"]["phase"].as_str().unwrap_or("not begun");
            if phase == format!("{:?}", VmPhase::Running) {
                return Ok(((), "the VM runs".to_owned()));
            }
            let why = self.why_not_ready().await?;
            waiting.on(&with_reason(phase, &why));
            self.person
                .patience(since, "the VM does not run", waiting)
                .await?;
        }
    }

    /// What the VM's conditions say of it; nothing before anybody has looked at it.
    async fn why_not_ready(&self) -> Result<String, Failure> {
        let status = self.person.vm(VM).await?.and_then(|it| it.status);
        let status = status.unwrap_or_default();
        let ready = conditions::find(&status.conditions, "Ready");
        Ok(ready.map_or_else(String::new, |it| it.message.clone()))
    }

    /// Logs in until that works: the guest may still be starting.
    async fn log_in(
        &self,
        door: &Door,
        key: &Arc<PrivateKey>,
        waiting: &mut Waiting<'_, '_>,
    ) -> Result<((), String), Failure> {
        let word = format!("kite-{:016x}", rand::random::<u64>());
        let command = format!("echo {word}");
        let since = Instant::now();
        loop {
            let refusal = match door.run(&self.person.name, Arc::clone(key), &command).await {
                Ok(said) if said.lines().any(|line| line.trim() == word) => {
                    return Ok(((), format!("a command ran in the VM, by {}", door.address)));
                }
                Ok(said) => Refusal::Command(Some(0), said),
                Err(refusal) => refusal,
            };
            waiting.on(&refusal.to_string());
            let longest = match refusal {
                Refusal::Stranger(..) => Duration::ZERO,
                Refusal::Rejected(..) => self.options.unknown.min(self.options.timeout),
                Refusal::Silent(..) | Refusal::Broken(..) | Refusal::Command(..) => {
                    self.options.timeout
                }
            };
            if since.elapsed() >= longest {
                return Err(failed(&refusal));
            }
            sleep(PAUSE).await;
        }
    }

    async fn delete_vm(
        &self,
        web: &Web,
        token: &str,
        waiting: &mut Waiting<'_, '_>,
    ) -> Result<((), String), Failure> {
        let path = format!("vms/{VM}");
        let accepted = StatusCode::ACCEPTED;
        web.expect(accepted, Method::DELETE, &path, Some(token), None)
            .await?;
        let since = Instant::now();
        while self.person.vm(VM).await?.is_some() {
            waiting.on(&self.why_not_ready().await?);
            self.person
                .patience(since, "the VM is still there", waiting)
                .await?;
        }
        Ok(((), "the VM is gone".to_owned()))
    }
}

/// How far something is and why, if that is known.
fn with_reason(phase: &str, why: &str) -> String {
    let parts: Vec<_> = [phase, why]
        .into_iter()
        .filter(|it| !it.is_empty())
        .collect();
    parts.join(": ")
}

fn failed(refusal: &Refusal) -> Failure {
    let message = refusal.to_string();
    match refusal {
        Refusal::Stranger(..) => Failure::with_remedy(
            message,
            "something else answers there: see where the address leads; or the gateway was not \
             restarted after its Secret kite-gateway-host-key was changed",
        ),
        _ => Failure::new(message),
    }
}
