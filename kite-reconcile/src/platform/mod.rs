//! `KitePlatform`: how the SSH gateway, the web page and the API are reached
//! from outside, and at which addresses.
//!
//! What it makes lies in Kite's own namespace and is owned by the platform, so
//! that garbage collection removes it afterwards; users, images and VMs are not
//! the platform's and stay. Without a platform nothing is exposed, and its
//! defaults hold for everybody else.

mod authorities;
mod clients;
mod draft;
mod gateway;
mod host_keys;
mod part;
mod plan;
mod references;
mod unread;
mod web;

use std::{collections::BTreeSet, ops::Deref};

use async_trait::async_trait;
use futures::try_join;
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Namespace, Node, Secret, Service},
    networking::v1::Ingress,
};
use kite_core::{
    cluster::{Cluster, ClusterExt as _, ObjectKey},
    crd::{KitePlatform, KitePlatformStatus},
    gateway_api::{Gateway, HttpRoute},
    names,
};
use kite_render::isolation;
use kube::{api::ListParams, runtime::controller::Action};

pub use self::{
    plan::plan,
    references::{Reference, Referent, Unseen},
};
pub(crate) use self::{
    references::names_it,
    unread::{find, find_as_it_is, waits},
};
use crate::{
    Error,
    context::{Context, Tools},
    plan::{Outcome, Plan},
    slots::slots,
};
use kite_runtime::plan::{Planner, reconcile as reconcile_by_plan};

/// Reconciles the platform.
///
/// # Errors
/// An [`Error`] if the API server refuses something, or the plan comes to no end. What people
/// have to mend is told in the status instead.
pub async fn reconcile<C: Cluster>(
    platform: &KitePlatform,
    context: &Context<C>,
) -> Result<Action, Error> {
    reconcile_by_plan(&Platforms(context.tools()), platform, &context.shared).await
}

fn fixed(name: &'static str) -> impl Fn(&str) -> String {
    move |_| name.to_owned()
}

slots! {
    /// What there is under the names of what is made for the platform.
    pub struct Made;

    /// The SSH gateway's Service.
    service: Service = fixed(names::GATEWAY_EXTERNAL_SERVICE);
    /// The way to the web page and the API.
    ingress: Ingress = fixed(names::PLATFORM_WEB);
    /// The same through a Gateway.
    route: HttpRoute = fixed(names::PLATFORM_WEB);
    /// From HTTP to HTTPS at a Gateway.
    redirect: HttpRoute = fixed(names::PLATFORM_REDIRECT);
}

/// What was seen of the platform's own objects.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Whether the namespace in which Kite runs is there.
    pub has_namespace: bool,
    /// What there is under the names of its own.
    pub made: Made,
    /// The Gateway that the spec names.
    pub gateway: Option<Gateway>,
    /// The Secret with the SSH gateway's host key. The gateway, or whoever installed
    /// it, puts it there.
    pub host_key: Option<Secret>,
    /// The objects that settings name and that are not there.
    pub missing: Vec<Reference>,
    /// Those of which it is not known whether they are there.
    pub unseen: Vec<Unseen>,
    /// Addresses of nodes and of their pods, in CIDR notation.
    pub nodes: BTreeSet<String>,
    /// When it is planned.
    pub now: Timestamp,
}

/// The Secrets of the platform whose names are fixed. That of a certificate is named by
/// the settings.
pub(crate) fn secrets(namespace: &str) -> [ObjectKey; 2] {
    [names::GATEWAY_HOST_KEY_SECRET, names::OIDC_SECRET]
        .map(|name| ObjectKey::namespaced(namespace, name))
}

/// The reconciler of the platform.
pub(crate) struct Platforms<'a>(Tools<'a>);

#[async_trait]
impl<'a> Planner for Platforms<'a> {
    type Object = KitePlatform;
    type Status = KitePlatformStatus;
    type Observed = Observed;
    type Executor = Tools<'a>;

    fn executor(&self) -> &Tools<'a> {
        &self.0
    }

    async fn observe<C: Cluster>(
        &self,
        object: &KitePlatform,
        cluster: &C,
    ) -> Result<Observed, Error> {
        let here = ObjectKey::cluster(&self.0.settings.namespace);
        let key = |name: &str| ObjectKey::namespaced(&self.0.settings.namespace, name);
        let (service, web) = (
            key(names::GATEWAY_EXTERNAL_SERVICE),
            key(names::PLATFORM_WEB),
        );
        let redirect = key(names::PLATFORM_REDIRECT);
        let gateway = object.spec.exposure.gateway.as_ref();
        let gateway = gateway.map(|it| ObjectKey::namespaced(&it.namespace, &it.name));
        let host_key = key(names::GATEWAY_HOST_KEY_SECRET);
        let all = ListParams::default();
        let (service, ingress, route, redirect, gateway, host_key, nodes, named) = try_join!(
            cluster.get_opt(&service),
            cluster.get_opt(&web),
            cluster.get_opt(&web),
            cluster.get_opt(&redirect),
            async {
                match &gateway {
                    Some(gateway) => cluster.get_opt(gateway).await,
                    None => Ok(None),
                }
            },
            cluster.get_opt(&host_key),
            cluster.list::<Node>(None, &all),
            async { Ok(references::look(cluster, &object.spec, &self.0.settings.namespace).await) },
        )?;
        let (missing, unseen) = named;
        // What lies in a namespace shows that it is there.
        let has_namespace = service.is_some()
            || ingress.is_some()
            || route.is_some()
            || redirect.is_some()
            || host_key.is_some()
            || cluster.get_opt::<Namespace>(&here).await?.is_some();
        Ok(Observed {
            has_namespace,
            made: Made {
                service,
                ingress,
                route,
                redirect,
            },
            gateway,
            host_key,
            missing,
            unseen,
            // One that cannot be read keeps the others from nothing.
            nodes: isolation::addresses(&nodes.items),
            now: Timestamp::default(),
        })
    }

    fn plan(
        &self,
        object: &KitePlatform,
        observed: &Observed,
    ) -> Result<Plan<KitePlatformStatus>, Error> {
        plan(object, observed, self.0.settings)
    }

    fn at(&self, observed: &mut Observed, now: Timestamp) {
        observed.now = now;
    }

    fn absorb(&self, _: &KitePlatform, observed: &mut Observed, outcome: Outcome) {
        observed.absorb(outcome);
    }
}

impl Observed {
    /// Takes in what came of a change.
    pub fn absorb(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Stored(object) => self.made.take(names::PLATFORM, object, false),
            Outcome::Gone(object) => self.made.take(names::PLATFORM, object, true),
            _ => {}
        }
    }
}

impl Deref for Observed {
    type Target = Made;

    fn deref(&self) -> &Made {
        &self.made
    }
}
