//! A reconciler, the in-memory API server, and the actors that play the rest of
//! a cluster. Time is virtual: the test takes as long as its work does.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use kite_core::{
    cluster::{ClusterExt as _, KubeCluster, ObjectKey},
    crd::{KiteUser, KiteUserSpec, UserPhase},
};
use kite_fake::{FakeCluster, actors::control_plane};
use kite_reconcile::{Context, user};
use kube::api::PropagationPolicy;

/// Longer than anything takes, in virtual time.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_user_settles_stays_settled_and_goes() {
    // An API server with what else runs in a cluster, and a user in it.
    let fake = FakeCluster::builder()
        .crds(kite_core::crd::all())
        .object(KiteUser::new("ann", KiteUserSpec::new("ann")))
        .actors(control_plane())
        .build()
        .unwrap();
    assert!(fake.settled(SOON).await);
    let empty = fake.snapshot();

    // The reconciler, with the very client type that production uses.
    let (cluster, ann) = (KubeCluster::new(fake.client()), ObjectKey::cluster("ann"));
    let context = Context::new(cluster.clone());
    let find = async || cluster.get_opt::<KiteUser>(&ann).await.unwrap();
    let reconcile = async |user: &KiteUser| {
        user::reconcile(user, &context).await.unwrap();
        assert!(fake.settled(SOON).await);
    };

    // One call does all that can be done now, and the next changes nothing.
    reconcile(&find().await.unwrap()).await;
    let user = find().await.unwrap();
    assert_eq!(user.status.as_ref().unwrap().phase, Some(UserPhase::Ready));
    let mark = fake.log().mark();
    reconcile(&user).await;
    assert_eq!(
        fake.log().since(&mark).writes(),
        0,
        "{}",
        fake.log().since(&mark)
    );

    // Deletion takes a few calls, since the namespace takes its time to go. What
    // is left is what there was before, without the user.
    cluster
        .delete_by_uid(&user, PropagationPolicy::Background)
        .await
        .unwrap();
    for _ in 0..10 {
        let Some(user) = find().await else { break };
        reconcile(&user).await;
    }
    let left = empty.diff(&fake.snapshot());
    assert_eq!(left.to_string(), "- KiteUser ann\n");
}
