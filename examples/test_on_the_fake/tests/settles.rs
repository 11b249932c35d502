//! A reconciler, the in-memory API server, and the actors that play the rest of
//! a cluster. Time is virtual: the test takes as long as its work does.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{core::v1::Namespace, networking::v1::NetworkPolicy};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, KubeCluster, ObjectKey},
    crd::{KiteUser, KiteUserSpec, UserPhase},
};
use kite_fake::{
    FakeCluster,
    actors::{Actors, Rules, control_plane},
};
use kite_reconcile::{Context, user};
use kube::api::{ListParams, PropagationPolicy};
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn a_user_settles_stays_settled_and_goes() {
    // The cluster: an API server, and what else runs in a cluster.
    let fake = FakeCluster::builder()
        .crds(kite_core::crd::all())
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let rules = Arc::new(Rules::instant());
    let actors = Actors::spawn(&fake.client(), fake.clock(), &rules, control_plane(), &stop);

    // The reconciler, with the very client type that production uses.
    let cluster = KubeCluster::new(fake.client());
    let context = Context::new(cluster.clone());
    let key = ObjectKey::cluster("ann");
    cluster
        .create(&KiteUser::new("ann", KiteUserSpec::new("ann")))
        .await
        .unwrap();

    // One call does all that can be done now.
    let ann = cluster.get::<KiteUser>(&key).await.unwrap();
    user::reconcile(&ann, &context).await.unwrap();
    let ann = cluster.get::<KiteUser>(&key).await.unwrap();
    assert_eq!(ann.status.as_ref().unwrap().phase, Some(UserPhase::Ready));
    let walls = cluster
        .list::<NetworkPolicy>(Some("kite-user-ann".to_owned()), &ListParams::default())
        .await
        .unwrap();
    assert_eq!(walls.items.len(), 3);

    // Settled: another call changes nothing at all.
    assert!(actors.settled(Duration::from_secs(60)).await);
    user::reconcile(&ann, &context).await.unwrap();
    let again = cluster.get::<KiteUser>(&key).await.unwrap();
    assert_eq!(
        again.metadata.resource_version,
        ann.metadata.resource_version
    );

    // Deletion takes a few calls, since the namespace takes its time to go.
    cluster
        .remove(&ann, PropagationPolicy::Background)
        .await
        .unwrap();
    for _ in 0..10 {
        let Some(ann) = cluster.find::<KiteUser>(&key).await.unwrap() else {
            let namespace = ObjectKey::cluster("kite-user-ann");
            assert!(
                cluster
                    .find::<Namespace>(&namespace)
                    .await
                    .unwrap()
                    .is_none()
            );
            stop.cancel();
            return;
        };
        user::reconcile(&ann, &context).await.unwrap();
        assert!(actors.settled(Duration::from_secs(60)).await);
    }
    panic!("the user does not go");
}
