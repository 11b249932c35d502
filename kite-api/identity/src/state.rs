//! [`Accounts`]: what whoever signs people in works with.

mod lookups;
pub(crate) mod noted_uses;
mod orphans;
pub(crate) mod replicas;
mod seen_factors;

use std::{net::IpAddr, sync::Arc, time::Duration};

use kite_core::{
    cidr::Cidr,
    cluster::{ClusterExt as _, ObjectKey},
    crd::{KitePlatform, KitePlatformSpec, KitePlatformStatus},
    names,
};
use kite_rest::{Problem, Store, Vocabulary, audit::Audited, web::Reach};
use parking_lot::Mutex;
use tokio::time::Instant;

use self::{
    lookups::Lookups, noted_uses::NotedUses, orphans::Orphans, replicas::Replicas,
    seen_factors::SeenFactors,
};
use crate::{
    cluster_ranges::ClusterRanges,
    copies::Copies,
    counts::Counts,
    passwords::Passwords,
    providers::Providers,
    throttle::{Limits, Source, Throttle},
};

/// How people sign in, by this process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The namespace of the Secrets that are sealed with, and of the bootstrap token
    /// (`kite`).
    pub namespace: String,
    /// Whether cookies are for TLS alone: for a server that is reached by HTTPS only.
    pub secure_cookies: bool,
    /// Origins such as `https://kite.example.org` whose pages may use the cookie though the
    /// `Host` header does not name them, as behind a proxy that rewrites it.
    pub origins: Vec<String>,
    /// How many proxies in front of this server append to `X-Forwarded-For`; none by
    /// default, and the header is ignored.
    pub trusted_proxies: usize,
    /// Ranges of addresses behind each of which there may be many clients: nobody waits
    /// there for what others did.
    pub never_throttle: Vec<Cidr>,
    /// How long a session lasts (12 hours).
    pub session_lifetime: Duration,
    /// How long a token in a browser's cookie opens its session before it must be renewed
    /// (15 minutes).
    pub access_lifetime: Duration,
    /// How long a sign-in, or a password that was told again, counts as proof of who one
    /// is (10 minutes).
    pub proof_lifetime: Duration,
    /// How long the application lets a request take (30 seconds): by that it is known how
    /// long one may still be writing that has read a key before it was replaced.
    pub request_timeout: Duration,
    /// How long no replica of an earlier version may have been seen before hashes are taken
    /// out of accounts (10 minutes).
    pub take_in_after: Duration,
    /// How many passwords are hashed at once, where there is memory for as many (the number
    /// of processors).
    pub hashing: usize,
    /// Bytes that the hashes of passwords may work on at a time (128 MiB).
    pub password_memory: usize,
    /// Whether sign-in providers may be on this very machine, by HTTP: for a demo and for
    /// tests.
    pub local_providers: bool,
    /// The server that this process is, among its replicas, such as the name of its pod.
    /// Where it is known, and the account may list pods and Leases in the namespace, it is
    /// seen whether all replicas keep passwords out of accounts; until that is so they are
    /// written into accounts as well, as hashes.
    pub server: Option<String>,
    /// The application's words for fields, where no body says them.
    pub vocabulary: Vocabulary,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: names::PLATFORM_NAMESPACE.to_owned(),
            secure_cookies: false,
            origins: Vec::new(),
            trusted_proxies: 0,
            never_throttle: Vec::new(),
            session_lifetime: Duration::from_secs(12 * 3600),
            access_lifetime: Duration::from_secs(15 * 60),
            proof_lifetime: Duration::from_secs(10 * 60),
            request_timeout: Duration::from_secs(30),
            take_in_after: Duration::from_secs(10 * 60),
            hashing: std::thread::available_parallelism().map_or(1, usize::from),
            password_memory: 128 << 20,
            local_providers: false,
            server: None,
            vocabulary: Vocabulary::default(),
        }
    }
}

/// What signing in and out works with, for all requests of a process. Cheap to clone; a part
/// of an application's state ([`FromRef`](axum::extract::FromRef)).
#[derive(Clone)]
pub struct Accounts {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<Store>,
    copies: Copies,
    settings: Settings,
    passwords: Passwords,
    sign_in: Throttle,
    sign_up: Throttle,
    sign_up_turn: tokio::sync::Mutex<()>,
    second_factor: Throttle,
    provider_sign_in: Throttle,
    providers: Providers,
    lookups: Lookups,
    cluster_ranges: ClusterRanges,
    noted_uses: NotedUses,
    seen_factors: SeenFactors,
    orphans: Orphans,
    replicas: Replicas,
    /// When somebody last looked for the bootstrap Secret, and whether it was there.
    bootstrap_seen: Mutex<Option<(Instant, bool)>>,
    counts: Counts,
}

impl Accounts {
    /// The accounts that are kept in the cluster of `store`. Fails if no password can be
    /// hashed here.
    ///
    /// # Errors
    /// A problem if no password can be hashed here.
    pub async fn new(
        store: Arc<Store>,
        copies: Copies,
        settings: Settings,
    ) -> Result<Self, Problem> {
        let counts = Counts::default();
        let hashing = counts.hashing().clone();
        let passwords = Passwords::new(settings.hashing, settings.password_memory, hashing).await?;
        let reach = if settings.local_providers {
            Reach::Here
        } else {
            Reach::default()
        };
        Ok(Self {
            inner: Arc::new(Inner {
                store,
                copies,
                settings,
                passwords,
                sign_in: Throttle::new(Limits::SIGN_IN),
                sign_up: Throttle::new(Limits::SIGN_UP),
                sign_up_turn: tokio::sync::Mutex::default(),
                second_factor: Throttle::new(Limits::SECOND_FACTOR),
                provider_sign_in: Throttle::new(Limits::PROVIDER),
                providers: Providers::new(reach),
                lookups: Lookups::default(),
                cluster_ranges: ClusterRanges::default(),
                noted_uses: NotedUses::default(),
                seen_factors: SeenFactors::default(),
                orphans: Orphans::default(),
                replicas: Replicas::default(),
                bootstrap_seen: Mutex::default(),
                counts,
            }),
        })
    }

    /// The watched copies.
    pub fn caches(&self) -> &Copies {
        &self.inner.copies
    }

    /// What is counted.
    pub fn counts(&self) -> &Counts {
        &self.inner.counts
    }

    /// The cluster: what is written is noted for the audit log.
    pub fn cluster(&self) -> &Audited {
        self.inner.store.cluster()
    }

    /// The same, with what the writes of bodies need.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// How people sign in.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Where the object `name` in the namespace of the settings is.
    pub fn own_key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(&self.settings().namespace, name)
    }

    /// What hashes passwords.
    pub fn passwords(&self) -> &Passwords {
        &self.inner.passwords
    }

    /// Where `address` is, to whoever counts guesses: whether it is one of its owner's, or
    /// what lies between clients and the application, such as a node.
    pub(crate) fn source_of(&self, address: Option<IpAddr>) -> Source<'static> {
        Source {
            is_shared: address.is_some_and(|address| self.is_shared(address)),
            ..Source::from(address)
        }
    }

    fn is_shared(&self, address: IpAddr) -> bool {
        let never = &self.settings().never_throttle;
        if never.iter().any(|range| range.contains(address)) {
            return true;
        }
        self.platform_object().is_some_and(|platform| {
            let ranges = self.inner.cluster_ranges.of(&platform);
            ranges.iter().any(|range| range.contains(address))
        })
    }

    /// Guards passwords and the bootstrap token.
    pub(crate) fn sign_in_throttle(&self) -> &Throttle {
        &self.inner.sign_in
    }

    /// Guards codes of second factors.
    pub(crate) fn second_factor_throttle(&self) -> &Throttle {
        &self.inner.second_factor
    }

    /// Guards sign-ins at providers.
    pub(crate) fn provider_throttle(&self) -> &Throttle {
        &self.inner.provider_sign_in
    }

    /// What sign-in providers said of themselves.
    pub(crate) fn providers(&self) -> &Providers {
        &self.inner.providers
    }

    /// Guards the making of accounts.
    pub(crate) fn sign_up_throttle(&self) -> &Throttle {
        &self.inner.sign_up
    }

    /// Held by whoever makes an account for themselves.
    pub(crate) fn sign_up_turn(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.sign_up_turn
    }

    /// Leave to ask the API server about tokens.
    pub(crate) fn lookups(&self) -> &Lookups {
        &self.inner.lookups
    }

    /// When the use of API tokens was last written down here.
    pub(crate) fn noted_uses(&self) -> &NotedUses {
        &self.inner.noted_uses
    }

    /// Whose second factor was seen here lately.
    pub(crate) fn seen_factors(&self) -> &SeenFactors {
        &self.inner.seen_factors
    }

    /// Passwords that no account named when it was last looked.
    pub(crate) fn orphans(&self) -> &Orphans {
        &self.inner.orphans
    }

    /// What is known of replicas of earlier versions.
    pub(crate) fn replicas(&self) -> &Replicas {
        &self.inner.replicas
    }

    /// Whether the bootstrap Secret was there when somebody last looked, if that
    /// was within `age`.
    pub(crate) fn bootstrap_seen(&self, age: Duration) -> Option<bool> {
        let seen = *self.inner.bootstrap_seen.lock();
        seen.filter(|(when, _)| when.elapsed() < age)
            .map(|(_, open)| open)
    }

    pub(crate) fn note_bootstrap(&self, open: bool) {
        *self.inner.bootstrap_seen.lock() = Some((Instant::now(), open));
    }

    /// The platform's settings; the defaults while there is no `KitePlatform`.
    pub fn platform(&self) -> KitePlatformSpec {
        self.platform_object()
            .map(|platform| platform.spec.clone())
            .unwrap_or_default()
    }

    /// The same, and never as they were before the watch broke: for what is seldom
    /// asked for and lets people in.
    ///
    /// # Errors
    /// The problem of a refusal by the API server, which is asked only while the watch is
    /// broken.
    pub async fn platform_now(&self) -> Result<KitePlatformSpec, Problem> {
        if self.caches().platforms.is_live() {
            return Ok(self.platform());
        }
        let key = ObjectKey::cluster(names::PLATFORM);
        let platform = self.cluster().get_opt::<KitePlatform>(&key).await?;
        Ok(platform.map(|platform| platform.spec).unwrap_or_default())
    }

    /// What was seen of the platform.
    pub fn platform_status(&self) -> KitePlatformStatus {
        let platform = self.platform_object();
        platform
            .and_then(|platform| platform.status.clone())
            .unwrap_or_default()
    }

    /// The platform, if there is one.
    pub fn platform_object(&self) -> Option<Arc<KitePlatform>> {
        let key = ObjectKey::cluster(names::PLATFORM);
        self.caches().platforms.get(&key)
    }
}
