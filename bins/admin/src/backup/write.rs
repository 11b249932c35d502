//! Writing single objects.

use kube::{
    ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};

use super::{
    kinds::{FORMER_UID, Kind, SEEN_AT},
    restore::Restoring,
};

impl Restoring<'_> {
    pub(super) async fn overwrite(
        &self,
        kind: Kind,
        wanted: &DynamicObject,
        there: &DynamicObject,
    ) -> Result<(), kube::Error> {
        let mut object = there.clone();
        object.types.clone_from(&wanted.types);
        object.metadata.labels.clone_from(&wanted.metadata.labels);
        let mut annotations = wanted.annotations().clone();
        let former = there.annotations().get_key_value(FORMER_UID);
        annotations.extend(former.map(|(name, uid)| (name.clone(), uid.clone())));
        object.metadata.annotations = Some(annotations);
        object.data.clone_from(&wanted.data);
        take_status(&mut object);
        let params = PostParams {
            dry_run: self.options.dry_run,
            ..PostParams::default()
        };
        let api = self.api(kind, wanted);
        api.replace(&wanted.name_any(), &params, &object).await?;
        Ok(())
    }

    pub(super) async fn write_status(
        &self,
        kind: Kind,
        object: &DynamicObject,
        status: Value,
    ) -> Result<(), kube::Error> {
        let patch = Patch::Merge(json!({
            "metadata": {"uid": object.metadata.uid},
            "status": status,
        }));
        let params = PatchParams::default();
        let api = self.api(kind, object);
        api.patch_status(&object.name_any(), &params, &patch)
            .await?;
        Ok(())
    }

    /// Changes fields of the spec of an object that is as it was seen.
    pub(super) async fn patch_spec(
        &self,
        kind: Kind,
        seen: &DynamicObject,
        spec: &Value,
    ) -> Result<(), kube::Error> {
        let patch = Patch::Merge(json!({
            "metadata": {"uid": seen.uid(), "resourceVersion": seen.resource_version()},
            "spec": spec,
        }));
        let params = PatchParams {
            dry_run: self.options.dry_run,
            ..PatchParams::default()
        };
        let api = self.api(kind, seen);
        api.patch(&seen.name_any(), &params, &patch).await?;
        Ok(())
    }

    /// Notes on a password that is there that it is needed: the API may be about to clear
    /// it away, which it does of what nobody has written since it looked.
    pub(super) async fn keep(&self, seen: &DynamicObject) -> Result<(), kube::Error> {
        let now = jiff::Timestamp::now().to_string();
        let patch = Patch::Merge(json!({
            "metadata": {
                "uid": seen.uid(),
                "resourceVersion": seen.resource_version(),
                "annotations": { SEEN_AT: now },
            },
        }));
        let api = self.api(Kind::Password, seen);
        let params = PatchParams::default();
        api.patch(&seen.name_any(), &params, &patch).await?;
        Ok(())
    }

    pub(super) async fn delete(
        &self,
        kind: Kind,
        object: &DynamicObject,
    ) -> Result<(), kube::Error> {
        let params = DeleteParams {
            dry_run: self.options.dry_run,
            ..DeleteParams::default()
        };
        let params = params.preconditions(Preconditions {
            uid: object.uid(),
            resource_version: None,
        });
        let api = self.api(kind, object);
        match api.delete(&object.name_any(), &params).await {
            Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
            deleted => deleted.map(|_| ()),
        }
    }
}

pub(super) fn take_status(object: &mut DynamicObject) -> Option<Value> {
    let status = object.data.as_object_mut()?.remove("status")?;
    status
        .as_object()
        .is_some_and(|it| !it.is_empty())
        .then_some(status)
}

/// What was kept of the status and is not there: what is there counts.
pub(super) fn missing_truths(wanted: &DynamicObject, there: &DynamicObject) -> Option<Value> {
    let kept = wanted.data.get("status")?.as_object()?;
    let now = &there.data["status"];
    let missing = kept
        .iter()
        .filter(|(field, _)| now[field.as_str()].is_null());
    let missing: serde_json::Map<_, _> = missing.map(|(k, v)| (k.clone(), v.clone())).collect();
    (!missing.is_empty()).then(|| missing.into())
}
