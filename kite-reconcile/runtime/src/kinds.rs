//! How kinds are watched and kept.

use kite_cluster::Object;
use kube::runtime::watcher;

/// Objects in one page of a first list. All kinds are listed at once, and a page
/// is in memory three times while it is read: with kube's 500 that would be most
/// of what a controller ever needs.
const PAGE: u32 = 100;

/// How each kind is watched and kept that controllers read or hear of. To be a type of
/// its user's.
///
/// ```
/// use k8s_openapi::api::core::v1::Secret;
/// use kite_cluster::Object;
/// use kite_runtime::kinds::{KindOptions, Kinds};
///
/// struct Mine;
///
/// impl Kinds for Mine {
///     fn options<K: Object>() -> KindOptions<K> {
///         let mut options = KindOptions::default();
///         if K::kind(&()) == "Secret" {
///             // Charts are large, and nobody looks at them.
///             options.config = options.config.fields("type!=helm.sh/release.v1");
///             options.is_packed = true;
///         }
///         options
///     }
/// }
/// ```
pub trait Kinds: Send + Sync + 'static {
    /// How this kind is.
    fn options<K: Object>() -> KindOptions<K>;
}

/// Every kind is watched in the whole cluster and kept as it is, but for its
/// `managedFields`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Whole;

impl Kinds for Whole {
    fn options<K: Object>() -> KindOptions<K> {
        KindOptions::default()
    }
}

/// How a kind is watched and kept.
#[non_exhaustive]
pub struct KindOptions<K> {
    /// Which objects are watched. The less, the less is known: an object that is not
    /// selected is not there.
    pub config: watcher::Config,
    /// What lists are answered by without looking at all objects.
    pub indexers: Option<Indexers<K>>,
    /// Takes away what nobody looks at before an object is kept; by default
    /// `managedFields`, which are often most of it.
    pub transform: fn(&mut K),
    /// Whether objects are kept packed, in a tenth of the memory. Not possible for those
    /// that a controller works on.
    pub is_packed: bool,
    /// Whether all goes on in a cluster that does not have the kind.
    pub is_optional: bool,
    /// What to do where the kind is not there, for people.
    pub remedy: Option<&'static str>,
    /// The phase of an object, of few values, by which metrics count it.
    pub phase: fn(&K) -> String,
}

/// The indexes of a kind, by which its objects are found.
pub struct Indexers<K> {
    /// Lists of one namespace are answered without looking at all others.
    pub namespace: bool,
    /// Labels that narrow a list down to few objects.
    pub labels: &'static [&'static str],
    /// Other values by which objects are found, each with its name.
    pub functions: fn(&K) -> Vec<(&'static str, String)>,
}

impl<K> Indexers<K> {
    /// By their namespaces.
    pub const NAMESPACE: Self = Self {
        namespace: true,
        labels: &[],
        functions: |_| Vec::new(),
    };
}

impl<K> Clone for Indexers<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Indexers<K> {}

impl<K> std::fmt::Debug for Indexers<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Indexers")
            .field("namespace", &self.namespace)
            .field("labels", &self.labels)
            .finish_non_exhaustive()
    }
}

impl<K: Object> Default for KindOptions<K> {
    fn default() -> Self {
        Self {
            config: watcher::Config::default().page_size(PAGE),
            indexers: None,
            transform: |object| object.meta_mut().managed_fields = None,
            is_packed: false,
            is_optional: false,
            remedy: None,
            phase: |_| "Known".to_owned(),
        }
    }
}

impl<K> std::fmt::Debug for KindOptions<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KindOptions")
            .field("config", &self.config)
            .field("indexers", &self.indexers)
            .field("is_packed", &self.is_packed)
            .field("is_optional", &self.is_optional)
            .field("remedy", &self.remedy)
            .finish_non_exhaustive()
    }
}
