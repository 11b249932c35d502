//! [`Cluster`] over a `kube::Client`.

use async_trait::async_trait;
use kube::{
    Client, ResourceExt as _,
    api::{
        DeleteParams, GetParams, ListParams, ObjectList, Patch, PatchParams, PostParams,
        Preconditions, PropagationPolicy, ValidationDirective,
    },
    core::Request,
};
use serde::de::DeserializeOwned;

use super::{Cluster, ClusterError, FieldManager, Lenient, Listed, Object, ObjectKey};

/// A cluster behind a `kube::Client`: one request per method, nothing added.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Node;
/// use kite_cluster::{Cluster as _, FieldManager, KubeCluster};
/// use kube::api::ListParams;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = kube::Client::try_default().await?;
/// let cluster = KubeCluster::new(client).with_field_manager(FieldManager::new("my-operator"));
/// let nodes = cluster.list::<Node>(None, &ListParams::default()).await?;
/// println!("{} nodes", nodes.complete()?.len());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KubeCluster {
    client: Client,
    creator: Option<FieldManager>,
    knows_all_fields: bool,
}

impl KubeCluster {
    /// Uses `client` for every request.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            creator: None,
            knows_all_fields: false,
        }
    }

    /// The same cluster, with `manager` as the owner of what [`Cluster::create`] makes.
    /// Otherwise the API server names it by the client's `User-Agent`, or `unknown`.
    #[must_use]
    pub fn with_field_manager(mut self, manager: FieldManager) -> Self {
        self.creator = Some(manager);
        self
    }

    /// The same cluster, where [`Cluster::create`] and [`Cluster::merge_patch`], also as a dry
    /// run, are refused that name a field that the API server does not know
    /// ([`ClusterError::unknown_field`]). Otherwise it drops such a field, as where a CRD is of
    /// an earlier version, and answers as if all was done.
    #[must_use]
    pub fn refusing_unknown_fields(mut self) -> Self {
        self.knows_all_fields = true;
        self
    }

    /// The client, for what [`Cluster`] leaves to `kube_runtime`.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Asks what would come of [`Cluster::create`] for `object`: the API server
    /// judges it, and stores nothing (`dryRun`).
    ///
    /// # Errors
    /// What [`Cluster::create`] would fail with.
    pub async fn dry_run_create<K: Object>(&self, object: &K) -> Result<K, ClusterError> {
        self.post("dry-run create", object, true).await
    }

    /// Asks what would come of [`Cluster::merge_patch`] with `patch`: the API server judges
    /// it, and stores nothing (`dryRun`).
    ///
    /// # Errors
    /// What [`Cluster::merge_patch`] would fail with.
    pub async fn dry_run_merge_patch<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &serde_json::Value,
    ) -> Result<K, ClusterError> {
        self.merge("dry-run patch", manager, key, patch, true).await
    }

    async fn post<K: Object>(
        &self,
        verb: &'static str,
        object: &K,
        dry_run: bool,
    ) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        let request = encode(object).and_then(|body| {
            let params = PostParams {
                dry_run,
                field_manager: self.creator.map(|it| it.as_str().to_owned()),
            };
            let mut request = at::<K>(&key).create(&params, body)?;
            if self.knows_all_fields {
                // Of a creation kube has no parameter for it.
                *request.uri_mut() = with_query(request.uri(), "fieldValidation=Strict")
                    .map_err(kube::core::request::Error::BuildRequest)?;
            }
            Ok(request)
        });
        self.send::<K, _>(verb, &key, request).await
    }

    async fn merge<K: Object>(
        &self,
        verb: &'static str,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &serde_json::Value,
        dry_run: bool,
    ) -> Result<K, ClusterError> {
        let params = PatchParams {
            dry_run,
            field_manager: Some(manager.as_str().to_owned()),
            field_validation: self.knows_all_fields.then_some(ValidationDirective::Strict),
            ..PatchParams::default()
        };
        let request = at::<K>(key).patch(&key.name, &params, &Patch::Merge(patch));
        self.send::<K, _>(verb, key, request).await
    }

    async fn send<K: Object, T: DeserializeOwned>(
        &self,
        verb: &'static str,
        key: &ObjectKey,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, ClusterError> {
        let text = self.text::<K>(verb, key, request).await?;
        serde_json::from_str(&text).map_err(|error| unreadable::<K>(verb, key, error))
    }

    /// The answer as it came. Not kube's own way of reading it, which logs answers
    /// that it cannot read, Secrets among them.
    async fn text<K: Object>(
        &self,
        verb: &'static str,
        key: &ObjectKey,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<String, ClusterError> {
        let answer = match request {
            Ok(request) => self.client.request_text(request).await,
            Err(error) => Err(kube::Error::BuildRequest(error)),
        };
        answer.map_err(|error| ClusterError::from_kube(operation::<K>(verb, key), error))
    }
}

fn unreadable<K: Object>(verb: &str, key: &ObjectKey, error: serde_json::Error) -> ClusterError {
    ClusterError::from_kube(operation::<K>(verb, key), kube::Error::SerdeError(error))
}

fn operation<K: Object>(verb: &str, key: &ObjectKey) -> String {
    format!("{verb} {} {key}", K::kind(&()))
}

/// The same address, with one more parameter.
fn with_query(uri: &http::Uri, parameter: &str) -> Result<http::Uri, http::Error> {
    let (path, query) = (uri.path(), uri.query().unwrap_or_default());
    let and = if query.is_empty() || query.ends_with('&') {
        ""
    } else {
        "&"
    };
    Ok(format!("{path}?{query}{and}{parameter}").parse::<http::Uri>()?)
}

fn collection<K: Object>(namespace: Option<&str>) -> Request {
    Request::new(K::url_path(&(), namespace))
}

fn at<K: Object>(key: &ObjectKey) -> Request {
    collection::<K>(key.namespace.as_deref())
}

#[async_trait]
impl Cluster for KubeCluster {
    async fn get<K: Object>(&self, key: &ObjectKey) -> Result<K, ClusterError> {
        let request = at::<K>(key).get(&key.name, &GetParams::default());
        self.send::<K, _>("get", key, request).await
    }

    async fn list<K: Object>(
        &self,
        namespace: Option<String>,
        params: &ListParams,
    ) -> Result<Listed<K>, ClusterError> {
        let request = collection::<K>(namespace.as_deref()).list(params);
        let key = ObjectKey {
            namespace,
            name: String::new(),
        };
        let text = self.text::<K>("list", &key, request).await?;
        let rest = |token: Option<String>| token.filter(|token| !token.is_empty());
        if let Ok(list) = serde_json::from_str::<ObjectList<K>>(&text) {
            return Ok(Listed {
                items: list.items,
                unreadable: Vec::new(),
                continue_token: rest(list.metadata.continue_),
            });
        }
        // Each by itself, which takes longer.
        let list = serde_json::from_str::<ObjectList<Lenient<K>>>(&text);
        let list = list.map_err(|error| unreadable::<K>("list", &key, error))?;
        let (mut items, mut unreadable) = (Vec::new(), Vec::new());
        for object in list.items {
            match object {
                Lenient::Read(object) => items.push(*object),
                Lenient::Unreadable(unread) => unreadable.push(*unread),
            }
        }
        Ok(Listed {
            items,
            unreadable,
            continue_token: rest(list.metadata.continue_),
        })
    }

    async fn create<K: Object>(&self, object: &K) -> Result<K, ClusterError> {
        self.post("create", object, false).await
    }

    async fn apply<K: Object>(&self, manager: FieldManager, object: &K) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        let params = PatchParams::apply(manager.as_str()).force();
        let request = at::<K>(&key).patch(&key.name, &params, &Patch::Apply(object));
        self.send::<K, _>("apply", &key, request).await
    }

    async fn merge_patch<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &serde_json::Value,
    ) -> Result<K, ClusterError> {
        self.merge("patch", manager, key, patch, false).await
    }

    async fn apply_status<K: Object>(
        &self,
        manager: FieldManager,
        object: &K,
    ) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        let params = PatchParams::apply(manager.as_str()).force();
        let request =
            at::<K>(&key).patch_subresource("status", &key.name, &params, &Patch::Apply(object));
        self.send::<K, _>("apply status of", &key, request).await
    }

    async fn merge_patch_status<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &serde_json::Value,
    ) -> Result<K, ClusterError> {
        let params = PatchParams {
            field_manager: Some(manager.as_str().to_owned()),
            ..PatchParams::default()
        };
        let request =
            at::<K>(key).patch_subresource("status", &key.name, &params, &Patch::Merge(patch));
        self.send::<K, _>("patch status of", key, request).await
    }

    async fn delete<K: Object>(
        &self,
        key: &ObjectKey,
        uid: &str,
        propagation: PropagationPolicy,
    ) -> Result<Option<K>, ClusterError> {
        let params = DeleteParams {
            propagation_policy: Some(propagation),
            ..DeleteParams::default().preconditions(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            })
        };
        let request = at::<K>(key).delete(&key.name, &params);
        let answer = self
            .send::<K, serde_json::Value>("delete", key, request)
            .await?;
        // Of what is gone the answer is a Status, or for some kinds the object as it
        // was; of what is held, the object with the time of its deletion.
        if answer["metadata"]["deletionTimestamp"].is_null() {
            return Ok(None);
        }
        let held = serde_json::from_value(answer);
        held.map(Some)
            .map_err(|error| unreadable::<K>("delete", key, error))
    }

    async fn delete_unchanged<K: Object>(
        &self,
        object: &K,
        propagation: PropagationPolicy,
    ) -> Result<(), ClusterError> {
        let key = ObjectKey::of(object);
        let params = DeleteParams {
            propagation_policy: Some(propagation),
            // Without a value a precondition would not be looked at: an empty
            // one fits no object.
            ..DeleteParams::default().preconditions(Preconditions {
                uid: Some(object.uid().unwrap_or_default()),
                resource_version: Some(object.resource_version().unwrap_or_default()),
            })
        };
        let request = at::<K>(&key).delete(&key.name, &params);
        self.send::<K, serde_json::Value>("delete unchanged", &key, request)
            .await
            .map(|_| ())
    }

    async fn set_finalizers<K: Object>(
        &self,
        object: &K,
        finalizers: Vec<String>,
    ) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        let patch = serde_json::json!({
            "metadata": {
                "resourceVersion": object.resource_version(),
                "uid": object.uid(),
                "finalizers": finalizers,
            }
        });
        let request =
            at::<K>(&key).patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch));
        self.send::<K, _>("set finalizers of", &key, request).await
    }

    async fn put_subresource<K: Object>(
        &self,
        group_version: &str,
        key: &ObjectKey,
        action: &str,
        body: &serde_json::Value,
    ) -> Result<(), ClusterError> {
        let namespace = key.namespace.as_deref();
        let namespace = namespace.map(|namespace| format!("namespaces/{namespace}/"));
        let path = format!(
            "/apis/{group_version}/{}{}/{}/{action}",
            namespace.unwrap_or_default(),
            K::plural(&()),
            key.name
        );
        let request = http::Request::put(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes());
        let request = request.map_err(kube::core::request::Error::BuildRequest);
        let request = request.map_err(kube::Error::BuildRequest);
        let answer = match request {
            // The answer may be empty, and is no JSON then.
            Ok(request) => self.client.request_text(request).await,
            Err(error) => Err(error),
        };
        let failed = |error| ClusterError::from_kube(operation::<K>(action, key), error);
        answer.map(|_| ()).map_err(failed)
    }
}

fn encode<K: Object>(object: &K) -> Result<Vec<u8>, kube::core::request::Error> {
    serde_json::to_vec(object).map_err(kube::core::request::Error::SerializeBody)
}
