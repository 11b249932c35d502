//! Single error paths, against a scripted cluster.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use kite_core::{
    cluster::{ClusterError, Listed, MockCluster},
    crd::{KiteUser, KiteUserSpec, KiteVirtualMachine, KiteVolume},
    labels,
};
use kite_reconcile::Failure as _;
use kite_reconcile::{Context, error_policy, user};
use kube::core::Status;

fn status(code: u16, reason: &str, message: &str) -> Box<Status> {
    Box::new(Status {
        code,
        reason: reason.to_owned(),
        ..Status::failure(message, reason)
    })
}

fn not_found<K>() -> Result<K, ClusterError> {
    Err(ClusterError::NotFound {
        operation: "get".to_owned(),
        status: status(404, "NotFound", "not there"),
    })
}

fn ann() -> KiteUser {
    let mut ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    ann.metadata.uid = Some("uid-ann".to_owned());
    ann.metadata.generation = Some(1);
    ann.metadata.finalizers = Some(vec![labels::USER_FINALIZER.to_owned()]);
    ann
}

fn nothing_there(cluster: &mut MockCluster) {
    use k8s_openapi::api::{
        core::v1::{Namespace, Node, ResourceQuota},
        discovery::v1::EndpointSlice,
        networking::v1::NetworkPolicy,
    };
    use kite_core::crd::{KitePlatform, KiteReservation};
    fn none<K: kite_core::cluster::Object>(cluster: &mut MockCluster) {
        cluster.expect_get::<K>().returning(|_| not_found());
    }
    fn empty<K: kite_core::cluster::Object>(cluster: &mut MockCluster) {
        cluster
            .expect_list::<K>()
            .returning(|_, _| Ok(Listed::of(Vec::new())));
    }
    cluster.expect_get::<KiteUser>().returning(|_| Ok(ann()));
    none::<KitePlatform>(cluster);
    none::<KiteReservation>(cluster);
    none::<Namespace>(cluster);
    none::<ResourceQuota>(cluster);
    empty::<KiteReservation>(cluster);
    empty::<kite_core::crd::KiteImage>(cluster);
    empty::<NetworkPolicy>(cluster);
    empty::<Node>(cluster);
    empty::<EndpointSlice>(cluster);
    empty::<KiteVirtualMachine>(cluster);
    empty::<KiteVolume>(cluster);
    empty::<kite_core::kubevirt::KubeVirt>(cluster);
}

#[tokio::test]
async fn what_the_api_server_refuses_is_shown_and_is_an_error() {
    let mut cluster = MockCluster::new();
    nothing_there(&mut cluster);
    cluster
        .expect_create::<kite_core::crd::KiteReservation>()
        .returning(|claim| Ok(claim.clone()));
    cluster
        .expect_apply::<k8s_openapi::api::core::v1::Namespace>()
        .returning(|_, _| {
            Err(ClusterError::Forbidden {
                operation: "apply Namespace kite-user-ann".to_owned(),
                status: status(403, "Forbidden", "a policy says no"),
            })
        });
    cluster
        .expect_apply_status::<KiteUser>()
        .times(1)
        .withf(|_, user| {
            let status = user.status.as_ref().unwrap();
            let ready = &status.conditions[0];
            ready.type_ == "Ready"
                && ready.reason == "Refused"
                && ready.message.contains("a policy says no")
                && status.namespace.is_none()
                // Of this generation nothing can be said yet.
                && status.observed_generation.is_none()
        })
        .returning(|_, user| Ok(user.clone()));
    let context = Context::new(cluster);
    let error = user::reconcile(&ann(), &context).await.unwrap_err();
    assert_eq!(error.category(), "forbidden");
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_leaves_the_status_alone() {
    let mut cluster = MockCluster::new();
    nothing_there(&mut cluster);
    cluster
        .expect_create::<kite_core::crd::KiteReservation>()
        .returning(|_| {
            Err(ClusterError::Unavailable {
                operation: "create".to_owned(),
                message: "connection refused".to_owned(),
                retry_after: None,
            })
        });
    cluster.expect_apply_status::<KiteUser>().never();
    let error = user::reconcile(&ann(), &Context::new(cluster))
        .await
        .unwrap_err();
    assert_eq!(error.category(), "unavailable");
    assert!(!error.is_permanent());
}

/// A webhook that is down, or a kind that is not installed, is told of when it
/// does not pass by itself.
#[tokio::test]
async fn what_fails_again_and_again_is_shown() {
    let mut cluster = MockCluster::new();
    nothing_there(&mut cluster);
    cluster
        .expect_create::<kite_core::crd::KiteReservation>()
        .returning(|_| {
            Err(ClusterError::Unavailable {
                operation: "create".to_owned(),
                message: "failed calling webhook: connection refused (500)".to_owned(),
                retry_after: None,
            })
        });
    let told = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&told);
    cluster
        .expect_apply_status::<KiteUser>()
        .withf(|_, user| {
            let ready = &user.status.as_ref().unwrap().conditions[0];
            ready.type_ == "Ready"
                && ready.reason == "Failing"
                && ready.message.contains("failed calling webhook")
        })
        .returning(move |_, user| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(user.clone())
        });
    let context = Arc::new(Context::new(cluster));
    for attempt in 1..=6 {
        let ann = Arc::new(ann());
        let error = user::reconcile(&ann, &context).await.unwrap_err();
        error_policy(ann, &error, Arc::clone(&context));
        let expected = usize::from(attempt == 6);
        assert_eq!(told.load(Ordering::SeqCst), expected, "attempt {attempt}");
    }
}

/// A port or an id in the words of an error is another each time: a write for each
/// would lead to the next attempt at once.
#[tokio::test]
async fn a_failure_in_other_words_is_not_told_each_time() {
    let mut cluster = MockCluster::new();
    nothing_there(&mut cluster);
    let attempts = Arc::new(AtomicUsize::new(0));
    let port = Arc::clone(&attempts);
    cluster
        .expect_create::<kite_core::crd::KiteReservation>()
        .returning(move |_| {
            Err(ClusterError::Forbidden {
                operation: "create".to_owned(),
                status: status(
                    403,
                    "Forbidden",
                    &format!("port {}", port.load(Ordering::SeqCst)),
                ),
            })
        });
    let known = Arc::new(std::sync::Mutex::new(ann()));
    let told = Arc::new(AtomicUsize::new(0));
    let (kept, counted) = (Arc::clone(&known), Arc::clone(&told));
    cluster
        .expect_apply_status::<KiteUser>()
        .returning(move |_, user| {
            counted.fetch_add(1, Ordering::SeqCst);
            kept.lock().unwrap().status.clone_from(&user.status);
            Ok(user.clone())
        });
    let second = Arc::clone(&attempts);
    let context = Context::new(cluster).with_clock(move || {
        let second = i64::try_from(second.load(Ordering::SeqCst)).unwrap();
        jiff::Timestamp::from_second(1_700_000_000 + second).unwrap()
    });
    for second in 0..130 {
        attempts.store(second, Ordering::SeqCst);
        let ann = known.lock().unwrap().clone();
        user::reconcile(&ann, &context).await.unwrap_err();
    }
    assert_eq!(told.load(Ordering::SeqCst), 3, "at 0, 60 and 120 seconds");
    let status = known.lock().unwrap().status.clone().unwrap();
    assert!(status.conditions[0].message.contains("port 120"));
}

/// What cannot even be looked at: nothing is known by which to judge, and what
/// was told before stays.
#[tokio::test]
async fn what_may_not_be_read_is_shown_beside_what_was_told_before() {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    let mut cluster = MockCluster::new();
    cluster
        .expect_get::<kite_core::crd::KitePlatform>()
        .returning(|_| {
            Err(ClusterError::Forbidden {
                operation: "get KitePlatform default".to_owned(),
                status: status(403, "Forbidden", "kiteplatforms is forbidden"),
            })
        });
    nothing_there(&mut cluster);
    let mut ann = ann();
    ann.status = Some(kite_core::crd::KiteUserStatus {
        namespace: Some("kite-user-ann".to_owned()),
        conditions: vec![Condition {
            type_: "NamespaceReady".to_owned(),
            status: "True".to_owned(),
            reason: "Ready".to_owned(),
            message: "it stands".to_owned(),
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            observed_generation: Some(1),
        }],
        ..kite_core::crd::KiteUserStatus::default()
    });
    cluster
        .expect_apply_status::<KiteUser>()
        .times(1)
        .withf(|_, user| {
            let status = user.status.as_ref().unwrap();
            let types: Vec<_> = status
                .conditions
                .iter()
                .map(|it| it.type_.as_str())
                .collect();
            types == ["Ready", "NamespaceReady"]
                && status.conditions[0].reason == "Refused"
                && status.conditions[0]
                    .message
                    .contains("get KitePlatform default")
                && status.namespace.is_some()
        })
        .returning(|_, user| Ok(user.clone()));
    let error = user::reconcile(&ann, &Context::new(cluster))
        .await
        .unwrap_err();
    assert_eq!(error.category(), "forbidden");
}

/// Two that fight over a field must not burn the API server.
#[tokio::test]
async fn a_field_that_another_writer_takes_back_ends_in_an_error() {
    use k8s_openapi::api::core::v1::Namespace;
    let mut cluster = MockCluster::new();
    nothing_there(&mut cluster);
    cluster
        .expect_create::<kite_core::crd::KiteReservation>()
        .returning(|claim| Ok(claim.clone()));
    let applies = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&applies);
    cluster
        .expect_apply::<Namespace>()
        .returning(move |_, wanted| {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut stored = wanted.clone();
            let labels = stored.metadata.labels.as_mut().unwrap();
            labels.insert(
                "pod-security.kubernetes.io/enforce".to_owned(),
                "restricted".to_owned(),
            );
            Ok(stored)
        });
    cluster
        .expect_apply::<k8s_openapi::api::networking::v1::NetworkPolicy>()
        .returning(|_, policy| Ok(policy.clone()));
    cluster
        .expect_apply::<k8s_openapi::api::core::v1::ResourceQuota>()
        .returning(|_, quota| Ok(quota.clone()));
    cluster
        .expect_apply_status::<KiteUser>()
        .times(1)
        .withf(|_, user| {
            let ready = &user.status.as_ref().unwrap().conditions[0];
            ready.reason == "Contested" && ready.message.contains("managedFields")
        })
        .returning(|_, user| Ok(user.clone()));
    let error = user::reconcile(&ann(), &Context::new(cluster))
        .await
        .unwrap_err();
    assert_eq!(error.category(), "endless");
    assert!(
        error.to_string().contains("Namespace kite-user-ann"),
        "{error}"
    );
    assert!(applies.load(Ordering::SeqCst) < 20);
}
