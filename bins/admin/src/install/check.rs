//! What is found out before the first write, since afterwards half of an installation
//! would be there: kinds that nobody serves, fields that cannot be changed, and settings
//! of others on which what is installed rests.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::storage::v1::StorageClass;
use kite_core::crd::KitePlatform;
use kite_render::install::Manifest;
use kube::{
    Client,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    Error, MANAGER,
    object::{ObjectName, is_absent},
    settings::apply_beside,
};
use crate::causes::said;

/// Longhorn's driver, for which there is an option of its own.
const LONGHORN: &str = "driver.longhorn.io";
/// Its parameter for the copies of each disk.
const COPIES: &str = "numberOfReplicas";

/// Kinds and namespaces that a run brings with it.
pub(super) struct Coming<'a> {
    kinds: BTreeSet<(&'a str, &'a str)>,
    namespaces: BTreeSet<&'a str>,
}

impl<'a> Coming<'a> {
    pub(super) fn of(manifests: &'a [Manifest]) -> Self {
        let kinds = manifests.iter().filter_map(|it| match it {
            Manifest::CustomResourceDefinition(it) => Some((&*it.spec.group, &*it.spec.names.kind)),
            _ => None,
        });
        let namespaces = manifests.iter().filter_map(|it| match it {
            Manifest::Namespace(_) => Some(it.name()),
            _ => None,
        });
        Self {
            kinds: kinds.collect(),
            namespaces: namespaces.collect(),
        }
    }

    fn has_kind(&self, manifest: &Manifest) -> bool {
        let kind = manifest.resource();
        self.kinds.contains(&(&*kind.group, &*kind.kind))
    }

    /// Whether an object can be missing only because the run was not made yet.
    pub(super) fn brings(&self, manifest: &Manifest) -> bool {
        let namespace = manifest.metadata().namespace.as_deref();
        self.has_kind(manifest) || namespace.is_some_and(|it| self.namespaces.contains(it))
    }
}

/// That nothing of `manifests` is refused half-way, as far as that can be known before.
pub(super) async fn check(
    client: &Client,
    manifests: &[Manifest],
    coming: &Coming<'_>,
) -> Result<(), Error> {
    served(client, manifests, coming).await?;
    for manifest in manifests {
        match manifest {
            Manifest::StorageClass(_) | Manifest::StatefulSet(_) | Manifest::Deployment(_) => {
                changeable(client, manifest).await?;
            }
            Manifest::KitePlatform(platform) => agrees(client, manifests, platform).await?,
            _ => {}
        }
    }
    Ok(())
}

/// That the API server knows all kinds.
async fn served(client: &Client, manifests: &[Manifest], coming: &Coming<'_>) -> Result<(), Error> {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for manifest in manifests.iter().filter(|it| !coming.has_kind(it)) {
        let kinds = versions.entry(manifest.api_version()).or_default();
        kinds.insert(manifest.kind());
    }
    for (version, kinds) in versions {
        let known = if version.contains('/') {
            client.list_api_group_resources(&version).await
        } else {
            client.list_core_api_resources(&version).await
        };
        let known = match known {
            Ok(known) => known.resources.into_iter().map(|it| it.kind).collect(),
            Err(error) if is_absent(&error) => BTreeSet::new(),
            // Who may not ask for kinds may apply them all the same.
            Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => continue,
            Err(error) => {
                return Err(Error::Unchecked {
                    what: format!("the kinds of {version}"),
                    answer: Box::new(error),
                });
            }
        };
        let missing: Vec<_> = kinds.difference(&known).map(String::as_str).collect();
        if !missing.is_empty() {
            return Err(Error::Refused {
                what: format!(
                    "the API server does not serve {} ({version})",
                    missing.join(", ")
                ),
                remedy: provider(&version).to_owned(),
            });
        }
    }
    Ok(())
}

/// Who brings the kinds of a version, and what asked for them.
fn provider(version: &str) -> &'static str {
    match version.split_once('/').map_or("", |(group, _)| group) {
        "monitoring.coreos.com" => {
            "The Prometheus operator brings these, and --monitoring asks for them: install the operator \
             first, or leave that option out (--forget monitoring, if the last install was given it)"
        }
        "hy3ons.github.io" => {
            "Kite's CRDs bring these, which --without-crds leaves out: apply what kite crds prints \
             first, or leave that option out (--forget without-crds)"
        }
        "admissionregistration.k8s.io" => {
            "Kubernetes 1.30 and newer serve these: upgrade the cluster, or leave these out by \
             --without-admission-policies"
        }
        _ => "Kubernetes 1.31 and newer serve these: upgrade the cluster",
    }
}

/// That an object that is there can become what is wanted: some fields stay for ever.
async fn changeable(client: &Client, manifest: &Manifest) -> Result<(), Error> {
    let object = ObjectName::of(manifest);
    let api = object.api(client, &manifest.resource());
    let there = match api.get_opt(&object.name).await {
        Ok(there) => there,
        // Applying it says so in its turn.
        Err(kube::Error::Api(_)) => None,
        Err(error) => return Err(Error::of(&object, error)),
    };
    let Some(there) = there else {
        return Ok(());
    };
    let params = PatchParams::apply(MANAGER).force().dry_run();
    match api
        .patch(&object.name, &params, &Patch::Apply(manifest))
        .await
    {
        Err(error) if matches!(&error, kube::Error::Api(status) if status.code == 422) => {
            let (what, remedy) = match manifest {
                Manifest::StorageClass(wanted) => class(wanted, &there),
                Manifest::StatefulSet(_) => (
                    None,
                    "Keep --record and --record-storage-class as they were, or delete it without \
                     its pods (kubectl delete statefulset --cascade=orphan) and repeat this"
                        .to_owned(),
                ),
                _ => (None, "Look at the options that were named".to_owned()),
            };
            Err(Error::Refused {
                what: what.unwrap_or_else(|| format!("{object}: {}", said(&error))),
                remedy,
            })
        }
        Ok(_) | Err(kube::Error::Api(_)) => Ok(()),
        Err(error) => Err(Error::of(&object, error)),
    }
}

/// What a class is and cannot become, and what to do instead.
fn class(wanted: &StorageClass, there: &DynamicObject) -> (Option<String>, String) {
    let wanted_value = serde_json::to_value(wanted).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut differing: Vec<_> = ["provisioner", "reclaimPolicy", "volumeBindingMode"]
        .map(|field| {
            (
                field.to_owned(),
                text(&there.data[field]),
                text(&wanted_value[field]),
            )
        })
        .into();
    let (is, asked) = (&there.data["parameters"], &wanted_value["parameters"]);
    let names = |value: &Value| -> BTreeSet<String> {
        let fields = value.as_object().into_iter().flatten();
        fields.map(|(name, _)| name.clone()).collect()
    };
    for name in names(is).union(&names(asked)) {
        let field = format!("parameters.{name}");
        differing.push((field, text(&is[name]), text(&asked[name])));
    }
    differing.retain(|(_, is, asked)| is != asked);
    let differing: Vec<_> = differing
        .iter()
        .map(|(field, is, asked)| format!("{field} {is:?} and not {asked:?}"))
        .collect();
    let name = wanted.metadata.name.as_deref().unwrap_or_default();
    let what = (!differing.is_empty()).then(|| {
        format!(
            "StorageClass {name} has {}, which Kubernetes lets nobody change",
            differing.join(", ")
        )
    });
    let (new, old) = (made_by(&wanted_value), made_by(&there.data));
    let remedy = format!(
        "Have a class of another name made for new disks, such as --storage-class {name}-2 {new} \
         (disks that are there stay as they are), or keep this one as it is: {old}"
    );
    (what, remedy)
}

/// The options that make a class like this.
fn made_by(class: &Value) -> String {
    let provisioner = class["provisioner"].as_str().unwrap_or_default();
    let parameters = &class["parameters"];
    if provisioner == LONGHORN
        && let Some(copies) = parameters[COPIES].as_str()
    {
        return format!("--longhorn {copies}");
    }
    let mut options = vec![format!("--provisioner {provisioner}")];
    for (name, value) in parameters.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        options.push(format!("--parameter {name}={value}"));
    }
    if class["volumeBindingMode"] == "Immediate" {
        options.push("--immediate".to_owned());
    }
    options.join(" ")
}

/// That the settings on which other objects rest become what those are made for: the role
/// by which disks are cloned is in the namespace of images, and the class has a name.
async fn agrees(
    client: &Client,
    manifests: &[Manifest],
    wanted: &KitePlatform,
) -> Result<(), Error> {
    let manifest = Manifest::from(wanted.clone());
    let object = ObjectName::of(&manifest);
    let api = object.api(client, &manifest.resource());
    let there = match api.get_opt(&object.name).await {
        Ok(Some(there)) => there,
        Ok(None) | Err(kube::Error::Api(_)) => return Ok(()),
        Err(error) => return Err(Error::of(&object, error)),
    };
    let mut both = serde_json::to_value(&manifest)?;
    // What else is asked for, the definition that is there need not know.
    if let Some(spec) = both["spec"].as_object_mut() {
        spec.retain(|field, _| matches!(&**field, "imageNamespace" | "storageClass" | "exposure"));
    }
    let params = PatchParams::apply(MANAGER).dry_run();
    let (after, kept) = match apply_beside(&api, &object.name, &params, both, Some(&there)).await {
        Ok(after) => after,
        Err(error) if matches!(&error, kube::Error::Api(status) if status.code == 422) => {
            return Err(Error::Refused {
                what: format!("{object}: {}", said(&error)),
                remedy: "What somebody else has set there does not go with what was asked for: \
                         name the same (--ingress-class, --gateway-api, --cluster-issuer), or \
                         change it first: kubectl edit kiteplatform default"
                    .to_owned(),
            });
        }
        // Applying it says so in its turn.
        Err(kube::Error::Api(_)) => return Ok(()),
        Err(error) => return Err(Error::of(&object, error)),
    };
    let spec = |field: &str| after.data["spec"][field].as_str();
    let images = spec("imageNamespace").unwrap_or(kite_core::names::IMAGE_NAMESPACE);
    if images != wanted.spec.image_namespace() {
        let asked = wanted.spec.image_namespace();
        return Err(of_others(
            "imageNamespace",
            images,
            asked,
            "--image-namespace",
        ));
    }
    let class = spec("storageClass").unwrap_or(kite_core::names::STORAGE_CLASS);
    let asked = wanted.spec.storage_class();
    if class == asked {
        return Ok(());
    }
    let is_kept = kept.iter().any(|it| it.field == "spec.storageClass");
    if is_kept || makes_a_class(client, manifests).await? {
        return Err(of_others("storageClass", class, asked, "--storage-class"));
    }
    Ok(())
}

fn of_others(field: &str, is: &str, asked: &str, option: &str) -> Error {
    let patch = json!({ "spec": { field: asked } });
    Error::Refused {
        what: format!(
            "the KitePlatform's {field} was set to {is:?} by somebody else, and what is to be \
             installed is for {asked:?}"
        ),
        remedy: format!(
            "Write {option} {is}, or change the setting first: kubectl patch kiteplatform \
             default --type=merge -p '{patch}'"
        ),
    }
}

/// Whether a class would be made that is not there, and that no disk is for.
async fn makes_a_class(client: &Client, manifests: &[Manifest]) -> Result<bool, Error> {
    for manifest in manifests {
        if matches!(manifest, Manifest::StorageClass(_)) {
            let object = ObjectName::of(manifest);
            let found = object.api(client, &manifest.resource());
            let found = found.get_opt(&object.name).await;
            return Ok(found.map_err(|error| Error::of(&object, error))?.is_none());
        }
    }
    Ok(false)
}
