//! Which resources are served: the built-in ones, and those of stored CRDs.

mod builtins;
pub(crate) mod selectable;

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::builtin::BuiltIn;
use crate::fields::Versions;
pub use crate::names::join_version;
use crate::schema::Schema;
use crate::store::GroupResource;

/// The schema of a resource. Those of built-in kinds are made when they are
/// first looked at, since most tests need few of them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ResourceSchema {
    /// That of a built-in kind.
    BuiltIn(&'static BuiltIn),
    /// One of its own.
    Own(Arc<Schema>),
}

impl From<Schema> for ResourceSchema {
    fn from(schema: Schema) -> Self {
        Self::Own(Arc::new(schema))
    }
}

impl std::ops::Deref for ResourceSchema {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        match self {
            Self::BuiltIn(kind) => kind.schema(),
            Self::Own(schema) => schema,
        }
    }
}

/// Paths of a scale subresource (`subresources.scale` of a CRD).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// Dotted path of the wanted replicas, such as `.spec.replicas`.
    pub spec_replicas: String,
    /// Dotted path of the observed replicas.
    pub status_replicas: String,
    /// Dotted path of the label selector in text form, if there is one.
    pub label_selector: Option<String>,
}

/// A path below an object that is served on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subresource {
    /// `/status`: the rest of the object is left alone.
    Status,
    /// `/scale`: the object seen as `autoscaling/v1` Scale.
    Scale(ScalePaths),
    /// `namespaces/<name>/finalize`.
    Finalize,
    /// `serviceaccounts/<name>/token`.
    Token,
    /// `pods/<name>/eviction`.
    Eviction,
    /// `pods/<name>/binding`.
    Binding,
    /// `pods/<name>/ephemeralcontainers`.
    EphemeralContainers,
    /// `pods/<name>/resize`.
    Resize,
    /// `certificatesigningrequests/<name>/approval`.
    Approval,
    /// Named in discovery, answered 501: needs a kubelet or a signer.
    Unsupported {
        /// Last segment of the path.
        name: &'static str,
        /// Kind that discovery gives.
        kind: &'static str,
        /// Verbs that discovery gives.
        verbs: &'static [&'static str],
    },
}

impl Subresource {
    /// Last segment of the path.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale(_) => "scale",
            Self::Finalize => "finalize",
            Self::Token => "token",
            Self::Eviction => "eviction",
            Self::Binding => "binding",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Approval => "approval",
            Self::Unsupported { name, .. } => name,
        }
    }
}

/// One column of a Table, as a CRD's `additionalPrinterColumns` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// `OpenAPI` type: `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// `OpenAPI` format, often empty.
    pub format: String,
    /// Help text.
    pub description: String,
    /// 0 is always shown, more only when wide.
    pub priority: i64,
    /// Where the value is, such as `.spec.replicas`.
    pub json_path: String,
}

/// Where a resource comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Compiled in.
    BuiltIn,
    /// A built-in type that is answered, never stored (reviews).
    Virtual,
    /// A stored CRD.
    Custom,
}

/// One served resource in one version.
#[derive(Debug, Clone)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Kind of lists.
    pub list_kind: String,
    /// Plural name, as in paths.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Abbreviations that kubectl takes.
    pub short_names: Vec<String>,
    /// Groups that kubectl takes, such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Verbs, in the order of discovery.
    pub verbs: Vec<&'static str>,
    /// What is served below an object.
    pub subresources: Vec<Subresource>,
    /// The shape of objects; the root has `properties` for the kind's own
    /// members, `metadata` included for built-in types.
    pub schema: ResourceSchema,
    /// The schemas of all versions of a custom resource, by `apiVersion`, served
    /// or not; `None` for built-in types.
    pub versions: Option<Arc<Versions>>,
    /// Columns of a CRD (empty: Name and Age) — built-in types have their own.
    pub columns: Vec<Column>,
    /// Dotted paths that field selectors may use, beside name and namespace.
    pub selectable_fields: Vec<String>,
    /// The version that objects are stored in.
    pub storage_version: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Edition of the schema: objects written under another are pruned and
    /// defaulted again when they are read.
    pub epoch: u64,
    /// A CRD's version marked deprecated: the warning to send.
    pub deprecation: Option<String>,
    /// `spec` of the CRD's version that published it (documents need it).
    pub definition: Option<Arc<Value>>,
    /// The CRD is being deleted: no new objects.
    pub terminating: bool,
    /// `spec.conversion.webhook` of the CRD, where its versions are converted by one.
    pub conversion: Option<Arc<Value>>,
}

impl Resource {
    /// `group/version`, or just the version in the core group.
    pub fn api_version(&self) -> String {
        join_version(&self.group, &self.version)
    }

    /// `apiVersion` of the version that objects are stored in.
    pub fn storage_api_version(&self) -> String {
        join_version(&self.group, &self.storage_version)
    }

    /// The collection that holds the objects.
    pub fn collection(&self) -> GroupResource {
        // Events are the same objects in both of their groups.
        let group = match (self.origin, self.group.as_str()) {
            (Origin::BuiltIn, "events.k8s.io") => "",
            (_, group) => group,
        };
        GroupResource::new(group, &self.plural)
    }

    /// Whether the type comes from a CRD.
    pub fn is_custom(&self) -> bool {
        self.origin == Origin::Custom
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name() == name)
    }

    /// Whether `/status` is served.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }
}

/// The resources that are served now.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// In the order of group, version and plural.
    resources: Vec<Arc<Resource>>,
    /// Served versions of custom groups, in order of preference.
    generation: u64,
    /// Whether a webhook converts any of them.
    converts: bool,
}

impl Registry {
    /// The built-in resources.
    pub fn built_in() -> Self {
        static BUILT_IN: LazyLock<Registry> = LazyLock::new(|| {
            let mut registry = Registry::default();
            for resource in builtins::resources() {
                registry.insert(resource);
            }
            registry
        });
        BUILT_IN.clone()
    }

    /// Adds or replaces one resource.
    pub fn insert(&mut self, resource: Resource) {
        self.generation += 1;
        let place = self.place(&resource.group, &resource.version, &resource.plural);
        let resource = Arc::new(resource);
        match place {
            Ok(at) => {
                if let Some(known) = self.resources.get_mut(at) {
                    *known = resource;
                }
            }
            Err(at) => {
                self.converts |= resource.conversion.is_some();
                self.resources.insert(at, resource);
                return;
            }
        }
        self.look_for_conversions();
    }

    fn look_for_conversions(&mut self) {
        self.converts = self.resources.iter().any(|r| r.conversion.is_some());
    }

    /// Whether a webhook converts objects of any resource.
    pub(crate) fn converts(&self) -> bool {
        self.converts
    }

    /// Where a resource is, or where it would be.
    fn place(&self, group: &str, version: &str, plural: &str) -> Result<usize, usize> {
        self.resources.binary_search_by(|r| {
            (r.group.as_str(), r.version.as_str(), r.plural.as_str()).cmp(&(group, version, plural))
        })
    }

    /// Removes every version of a resource.
    pub fn remove(&mut self, of: &GroupResource) {
        self.generation += 1;
        self.resources
            .retain(|r| r.group != of.group || r.plural != of.plural);
        self.look_for_conversions();
    }

    /// Goes back to what was served, as `saved` says; the generation goes on, so
    /// that neither a cache of documents nor an edition of a schema is mistaken
    /// for another.
    pub fn restore(&mut self, saved: &Self) {
        let generation = self.generation.max(saved.generation) + 1;
        self.clone_from(saved);
        self.generation = generation;
    }

    /// Changes whenever something is added or removed (for caches of documents).
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The resource at a path.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(self.place(group, version, plural).ok()?)
    }

    /// All resources, by group, version and plural.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter()
    }

    /// The resources of one group.
    pub fn group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.iter().filter(move |r| r.group == group)
    }

    /// The resource of a collection in the version that it is stored in, or in
    /// any that is served.
    pub fn storage(&self, of: &GroupResource) -> Option<&Arc<Resource>> {
        let served = || {
            self.iter()
                .filter(|r| r.group == of.group && r.plural == of.plural)
        };
        served()
            .find(|r| r.version == r.storage_version)
            .or_else(|| served().next())
    }

    /// The resource of a kind.
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.iter()
            .find(|r| r.group == group && r.version == version && r.kind == kind)
    }

    /// Whether a group has built-in resources (its unknown paths answer a
    /// `Status`, those of other groups plain text).
    pub fn is_built_in_group(&self, group: &str) -> bool {
        self.group(group).any(|r| r.origin != Origin::Custom)
    }
}
