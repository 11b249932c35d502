//! Settings that cannot be read: nobody acts on what stands for them.

use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, ObjectKey},
    conditions::NewCondition,
    crd::{
        KitePlatform, KitePlatformStatus,
        platform_condition::{
            CLIENT_ADDRESSES_SEEN, GATEWAY_EXPOSED, GATEWAY_HOST_KEY_KEPT, READY, RESOLVED_REFS,
            USER_AUTHORITIES_USABLE, WEB_EXPOSED,
        },
    },
    names,
};

use crate::{plan::Plan, stage::RESYNC, unreadable::as_before};

/// What it says beside [`READY`].
const OTHERS: [&str; 6] = [
    GATEWAY_EXPOSED,
    WEB_EXPOSED,
    RESOLVED_REFS,
    CLIENT_ADDRESSES_SEEN,
    USER_AUTHORITIES_USABLE,
    GATEWAY_HOST_KEY_KEPT,
];

/// The platform, if there is one. [`ClusterError::Unreadable`] while not all of its
/// settings can be read: what rests on them stays as it is then.
pub(crate) async fn find<C: Cluster>(cluster: &C) -> Result<Option<KitePlatform>, ClusterError> {
    let found = find_as_it_is(cluster).await?;
    match found.as_ref().and_then(|it| it.spec.unreadable.clone()) {
        None => Ok(found),
        Some(why) => Err(ClusterError::Unreadable {
            operation: format!("get KitePlatform {}", names::PLATFORM),
            message: format!("it cannot be read: {why}; mend the field that is named"),
        }),
    }
}

/// The platform with stand-ins for what cannot be read of it: for who makes nothing from
/// these, and has other things to do meanwhile.
pub(crate) async fn find_as_it_is<C: Cluster>(
    cluster: &C,
) -> Result<Option<KitePlatform>, ClusterError> {
    let key = ObjectKey::cluster(names::PLATFORM);
    cluster.get_opt::<KitePlatform>(&key).await
}

/// The condition `type_` of something that waits for settings of which `why` says what
/// cannot be read.
pub(crate) fn waits(type_: &'static str, why: &str) -> NewCondition {
    let message = format!(
        "the platform's settings cannot be read: {why}; mend the field that is named (kubectl \
         edit kiteplatform {}); until then nothing is made or changed by them",
        names::PLATFORM
    );
    NewCondition::new(type_, false, "Unreadable", message)
}

/// What to do about a platform of which `why` says what cannot be read: what stands is
/// left alone, and told of as it was.
pub(super) fn plan(object: &KitePlatform, why: &str) -> Plan<KitePlatformStatus> {
    let message = format!(
        "the settings cannot be read: {why}; mend the field that is named (kubectl edit \
         kiteplatform {}); until then nothing is made or changed for anybody, and what the field \
         may have closed is closed",
        names::PLATFORM
    );
    let told = object.status.as_ref();
    let told = told.map_or(&[][..], |it| it.conditions.as_slice());
    let mut conditions = as_before(told, OTHERS);
    conditions.insert(0, NewCondition::new(READY, false, "Unreadable", message));
    Plan {
        steps: Vec::new(),
        status: KitePlatformStatus {
            conditions: Vec::new(),
            ..object.status.clone().unwrap_or_default()
        },
        conditions,
        requeue_after: RESYNC,
    }
}
