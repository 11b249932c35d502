//! A reconcile that panics fails alone: the process, the queue and the other
//! objects go on.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt as _;
use kite_cluster::{Object, ObjectKey};
use kube::runtime::controller::Action;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::{Context, Failure, metrics::Waiting};

/// `reconcile`, with each call in a task of its own, so that several processors
/// work on them, within a span that says which object it is about, and with a
/// panic turned into [`Failure::panicked`]. A call that is dropped is broken off.
pub(crate) fn isolated<K, X, E, F, Fut>(
    mut reconcile: F,
    waiting: Waiting,
) -> impl FnMut(Arc<K>, Arc<X>) -> futures::future::BoxFuture<'static, Result<Action, E>>
where
    K: Object,
    X: Context,
    E: Failure,
    F: FnMut(Arc<K>, Arc<X>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Action, E>> + Send + 'static,
{
    move |object, context| {
        let kind = K::kind(&());
        let key = ObjectKey::of(&*object);
        waiting.remove(key.namespace.as_deref(), &key.name);
        let span = tracing::info_span!("reconcile", %kind, object = %key);
        let metrics = context.metrics().clone();
        let reconcile = AssertUnwindSafe(reconcile(object, context)).catch_unwind();
        let task = AbortOnDropHandle::new(tokio::spawn(reconcile.instrument(span)));
        async move {
            let panic = match task.await {
                Ok(Ok(done)) => return done,
                Ok(Err(panic)) => text(&*panic),
                // The runtime ends.
                Err(ended) => ended.to_string(),
            };
            tracing::error!(%kind, object = %key, panic, "a reconcile panicked");
            let error = E::panicked(panic);
            metrics.panicked(&kind, error.category());
            Err(error)
        }
        .boxed()
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it does not say why").to_owned()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::{Error, context::Shared};

    fn map(name: &str) -> Arc<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        Arc::new(map)
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_that_object_alone() {
        let context = Arc::new(Shared::new(()));
        let mut reconcile = isolated(
            |map: Arc<ConfigMap>, _: Arc<Shared<()>>| async move {
                assert!(map.metadata.name.as_deref() != Some("bad"), "no {}", "luck");
                Ok(Action::await_change())
            },
            Waiting::default(),
        );
        let bad = reconcile(map("bad"), Arc::clone(&context));
        let good = reconcile(map("good"), Arc::clone(&context));
        let error = bad.await.unwrap_err();
        assert!(
            matches!(&error, Error::Panicked { message } if message == "no luck"),
            "{error}"
        );
        assert_eq!(error.category(), "panic");
        assert!(
            !error.is_permanent(),
            "it is tried again, more and more rarely"
        );
        good.await.unwrap();
    }
}
