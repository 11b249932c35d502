//! What the admission policies refuse, and whom they leave alone.

use k8s_openapi::api::{
    core::v1::{Namespace, Pod, Secret, Service},
    networking::v1::NetworkPolicy,
    rbac::v1::RoleBinding,
};
use kite_core::{
    crd::{
        KiteImage, KitePlatform, KitePlatformSpec, KiteUser, KiteUserSpec, KiteVirtualMachine,
        KiteVirtualMachineSpec, KiteVolume, KiteVolumeSpec, OnAccountDeletion,
    },
    labels,
};
use kite_fake::FakeCluster;
use kite_fake_kubevirt::kubevirt_definitions;
use kite_render::{
    User,
    install::{Process, Profile},
    isolation::{self, Isolation},
    namespace,
};
use kube::{
    Api,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::stage::{apply_all, builder};

pub const ADMIN: &str = "boss";
pub const HOME: &str = "kite-user-ann";

pub struct Stage {
    pub cluster: FakeCluster,
}

impl Stage {
    /// An installation with a user, and a VM of hers.
    pub async fn new() -> Self {
        let cluster = builder().crds(kubevirt_definitions()).build().unwrap();
        apply_all(&cluster.client(), &Profile::Plain.installation()).await;
        let stage = Self { cluster };
        let controller = Process::Controller.username("kite");
        let users: Api<KiteUser> = Api::all(stage.cluster.client());
        let mut ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
        ann.metadata.finalizers = Some(vec![labels::USER_FINALIZER.to_owned()]);
        let ann = users.create(&PostParams::default(), &ann).await.unwrap();
        let user = User::of(&ann).unwrap();
        let home: Api<Namespace> = Api::all(stage.cluster.client_as(&controller));
        let params = PostParams::default();
        home.create(
            &params,
            &namespace::namespace(&user, namespace::PodSecurity::default()),
        )
        .await
        .unwrap();
        let policies: Api<NetworkPolicy> = stage.of(&controller);
        for policy in isolation::policies(
            &user,
            &Isolation::default(),
            &["kite-images".to_owned()].into(),
        ) {
            policies.create(&params, &policy).await.unwrap();
        }
        let vms: Api<KiteVirtualMachine> = stage.of(ADMIN);
        vms.create(&params, &vm()).await.unwrap();
        stage
    }

    /// Objects in the user's namespace, as somebody sees them.
    pub fn of<K>(&self, who: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client_as(who), HOME)
    }

    /// What is said to a merge patch of the VM.
    async fn edit_vm(&self, who: &str, patch: Value) -> Result<(), String> {
        let vms: Api<KiteVirtualMachine> = self.of(who);
        merge(&vms, "web", &patch).await
    }
}

pub async fn merge<K>(objects: &Api<K>, name: &str, patch: &Value) -> Result<(), String>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let params = PatchParams::default();
    let patched = objects.patch(name, &params, &Patch::Merge(patch)).await;
    text(patched.map(drop))
}

pub fn vm() -> KiteVirtualMachine {
    let (memory, disk) = ("1Gi".parse().unwrap(), "10Gi".parse().unwrap());
    let mut vm = KiteVirtualMachine::new(
        "web",
        KiteVirtualMachineSpec::new(1, memory, disk, "debian-12", "ann-web"),
    );
    vm.metadata.finalizers = Some(vec![
        labels::VM_FINALIZER.to_owned(),
        "example.org/own".to_owned(),
    ]);
    vm
}

#[track_caller]
pub fn refused<T>(done: Result<T, String>, by: &str) {
    let error = done.err().unwrap_or_default();
    assert!(
        error.contains(&format!("ValidatingAdmissionPolicy '{by}'")),
        "{error:?}"
    );
}

pub fn text<T>(done: Result<T, kube::Error>) -> Result<T, String> {
    done.map_err(|error| error.to_string())
}

#[tokio::test]
async fn kites_finalizers_are_taken_off_by_the_controller_only() {
    let stage = Stage::new().await;
    let less = |finalizers: &[&str]| json!({"metadata": {"finalizers": finalizers}});
    refused(stage.edit_vm(ADMIN, less(&[])).await, "kite-finalizers");
    refused(
        stage.edit_vm(ADMIN, less(&["example.org/own"])).await,
        "kite-finalizers",
    );
    // Those of others are no business of Kite's.
    stage
        .edit_vm(ADMIN, less(&[labels::VM_FINALIZER]))
        .await
        .unwrap();
    // Nor is any other edit.
    stage
        .edit_vm(ADMIN, json!({"spec": {"cpu": 2}}))
        .await
        .unwrap();
    let controller = Process::Controller.username("kite");
    stage.edit_vm(&controller, less(&[])).await.unwrap();

    let users: Api<KiteUser> = Api::all(stage.cluster.client_as(ADMIN));
    refused(merge(&users, "ann", &less(&[])).await, "kite-finalizers");
    let policies: Api<NetworkPolicy> = stage.of(ADMIN);
    let patched = merge(&policies, isolation::EGRESS_POLICY, &less(&[])).await;
    refused(patched, "kite-finalizers");
}

#[tokio::test]
async fn network_policies_are_written_by_the_controller_only() {
    let stage = Stage::new().await;
    let open = json!({"spec": {"egress": [{}]}});
    let write = async |who: &str, name: &str| {
        let policies: Api<NetworkPolicy> = stage.of(who);
        merge(&policies, name, &open).await
    };
    let delete = async |who: &str, name: &str| {
        let policies: Api<NetworkPolicy> = stage.of(who);
        text(policies.delete(name, &DeleteParams::default()).await).map(drop)
    };
    let controller = Process::Controller.username("kite");
    for name in isolation::POLICIES {
        refused(write(ADMIN, name).await, "kite-walls");
        refused(delete(ADMIN, name).await, "kite-walls");
        write(&controller, name).await.unwrap();
    }
    // Policies add up: one beside them would open them.
    let policies: Api<NetworkPolicy> = stage.of(ADMIN);
    let own: NetworkPolicy = serde_json::from_value(json!({
        "metadata": {"name": "own"}, "spec": {"podSelector": {}, "ingress": [{}], "egress": [{}]},
    }))
    .unwrap();
    let made = policies.create(&PostParams::default(), &own).await;
    refused(text(made), "kite-walls");
    // One from before there was this rule stays as it is, or goes.
    let policies: Api<NetworkPolicy> = stage.of(&controller);
    policies.create(&PostParams::default(), &own).await.unwrap();
    refused(write(ADMIN, "own").await, "kite-walls");
    delete(ADMIN, "own").await.unwrap();
    // Who clears away a namespace that ends.
    for name in isolation::POLICIES {
        let cluster = "system:serviceaccount:kube-system:namespace-controller";
        refused(write(cluster, name).await, "kite-walls");
        delete(cluster, name).await.unwrap();
    }
    // Elsewhere the names are anybody's.
    let elsewhere: Api<NetworkPolicy> = Api::namespaced(stage.cluster.client_as(ADMIN), "default");
    let mut policy = own;
    policy.metadata.name = Some(isolation::INGRESS_POLICY.to_owned());
    elsewhere
        .create(&PostParams::default(), &policy)
        .await
        .unwrap();
}

pub const KUBEVIRT: &str = "system:serviceaccount:kubevirt:kubevirt-controller";

pub fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "compute", "image": "registry.test/launcher:1"}]},
    }))
    .unwrap()
}

#[tokio::test]
async fn nothing_runs_in_users_namespaces_but_what_kubevirt_and_cdi_make() {
    let stage = Stage::new().await;
    let params = PostParams::default();
    for (who, may) in [
        (KUBEVIRT, true),
        ("system:serviceaccount:cdi:cdi-sa", true),
        ("system:serviceaccount:kube-system:job-controller", true),
        ("system:kube-controller-manager", true),
        (ADMIN, false),
        ("ann", false),
        // Whoever makes accounts of the same name elsewhere.
        (
            "system:serviceaccount:kite-user-ann:kubevirt-controller",
            false,
        ),
        ("system:serviceaccount:shop:cdi-sa", false),
        (&Process::Controller.username("kite"), false),
        (&Process::Api.username("kite"), false),
    ] {
        let pods: Api<Pod> = stage.of(who);
        let name = format!("pod-of-{}", who.rsplit(':').next().unwrap());
        let made = text(pods.create(&params, &pod(&name)).await);
        if may {
            made.unwrap();
            text(pods.delete(&name, &DeleteParams::default()).await).unwrap();
        } else {
            refused(made, "kite-pods");
        }
    }
    // What pods are made from, which those of the cluster would carry out.
    let template = json!({
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]},
    });
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = json!("Never");
    let chosen = json!({"matchLabels": {"a": "b"}});
    for (group, kind, spec) in [
        (
            "apps",
            "Deployment",
            json!({"selector": chosen, "template": template}),
        ),
        (
            "apps",
            "ReplicaSet",
            json!({"selector": chosen, "template": template}),
        ),
        (
            "apps",
            "DaemonSet",
            json!({"selector": chosen, "template": template}),
        ),
        (
            "apps",
            "StatefulSet",
            json!({"selector": chosen, "template": template, "serviceName": "a"}),
        ),
        ("batch", "Job", json!({"template": once})),
        (
            "batch",
            "CronJob",
            json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}),
        ),
        (
            "",
            "ReplicationController",
            json!({"selector": {"a": "b"}, "template": template}),
        ),
    ] {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        let of = |who: &str| -> Api<DynamicObject> {
            Api::namespaced_with(stage.cluster.client_as(who), HOME, &kind)
        };
        let object = DynamicObject::new("own", &kind).data(json!({ "spec": spec }));
        refused(text(of("ann").create(&params, &object).await), "kite-pods");
        of(KUBEVIRT).create(&params, &object).await.unwrap();
    }
}

#[tokio::test]
async fn what_runs_in_a_launcher_is_changed_by_kubevirt_only() {
    let stage = Stage::new().await;
    let pods: Api<Pod> = stage.of(KUBEVIRT);
    let made = pods.create(&PostParams::default(), &pod("launcher")).await;
    made.unwrap();
    let other = json!({"spec": {"containers": [{"name": "compute", "image": "evil.test/own"}]}});
    let write = async |who: &str, patch: &Value| {
        let pods: Api<Pod> = stage.of(who);
        let params = PatchParams::default();
        let patch = Patch::Strategic(patch);
        let patched = pods.patch("launcher", &params, &patch).await;
        text(patched.map(drop))
    };
    refused(write("ann", &other).await, "kite-pods");
    refused(write(ADMIN, &other).await, "kite-pods");
    write(KUBEVIRT, &other).await.unwrap();
    // Network plugins, and whoever looks for something, write into its metadata.
    write(ADMIN, &json!({"metadata": {"annotations": {"a": "b"}}}))
        .await
        .unwrap();
    // Elsewhere pods are no business of Kite's.
    let elsewhere: Api<Pod> = Api::namespaced(stage.cluster.client_as("ann"), "default");
    elsewhere
        .create(&PostParams::default(), &pod("own"))
        .await
        .unwrap();
}

#[tokio::test]
async fn users_namespaces_admit_launchers_and_nothing_that_reaches_the_node() {
    let stage = Stage::new().await;
    let pods: Api<Pod> = stage.of(KUBEVIRT);
    let params = PostParams::default();
    let mut strong = pod("strong");
    strong.spec.as_mut().unwrap().host_network = Some(true);
    let made = text(pods.create(&params, &strong).await).unwrap_err();
    assert!(
        made.contains("violates PodSecurity \"baseline:latest\""),
        "{made}"
    );
    pods.create(&params, &pod("launcher")).await.unwrap();
}

#[tokio::test]
async fn the_api_changes_no_setting_that_is_for_administrators_of_the_cluster() {
    let stage = Stage::new().await;
    let api = Process::Api.username("kite");
    let write = async |who: &str, spec: Value| {
        let platforms: Api<KitePlatform> = Api::all(stage.cluster.client_as(who));
        merge(&platforms, "default", &json!({ "spec": spec })).await
    };
    let set = json!({
        "baseDomain": "vm.test", "storageClass": "fast", "imageNamespace": "golden",
        "blockedNetworks": ["203.0.113.0/24"],
        "web": {"annotations": {"a": "b"}},
        "gateway": {
            "annotations": {"a": "b"}, "loadBalancerClass": "example.com/a", "nodePort": 30_022,
        },
        "exposure": {
            "ingressClassName": "front", "controllerNamespaces": ["front"],
            "certificate": {"clusterIssuer": "own"},
        },
    });
    // Each leaf by itself, where nothing is set, and where something is.
    for before in [json!({}), set] {
        write(ADMIN, before.clone()).await.unwrap();
        for edit in [
            json!({"web": {"annotations": {"evil": "yes"}}}),
            json!({"gateway": {"annotations": {"evil": "yes"}}}),
            json!({"gateway": {"loadBalancerClass": "example.com/evil"}}),
            json!({"gateway": {"nodePort": 30_443}}),
            json!({"gateway": {"servicePort": 443}}),
            json!({"gateway": {"serviceType": "NodePort", "loadBalancerClass": null}}),
            json!({"exposure": {"ingressClassName": "evil"}}),
            json!({"exposure": {"ingressClassName": null, "gateway": {"namespace": "a", "name": "b"},
                                "certificate": {"clusterIssuer": null}}}),
            json!({"exposure": {"controllerNamespaces": ["evil"]}}),
            json!({"exposure": {"certificate": {"clusterIssuer": "evil"}}}),
            json!({"exposure": {"certificate": {"clusterIssuer": null, "secretName": "evil"}}}),
            json!({"imageNamespace": "evil"}),
            json!({"storageClass": "evil"}),
        ] {
            refused(write(&api, edit.clone()).await, "kite-platform");
        }
        // What it is there for.
        for edit in [
            json!({"signUp": "Invite"}),
            json!({"gateway": {"publicHost": "ssh.test", "trafficPolicy": "Local"}}),
            json!({"web": {"enabled": false}}),
            json!({"sessionEpoch": 7}),
            json!({"exposure": {"certificate": {"clusterIssuer": null, "secretName": "kite-certificate"}}}),
            json!({"exposure": {"certificate": {"secretName": null}}}),
        ] {
            let written = write(&api, edit.clone()).await;
            written.unwrap_or_else(|error| panic!("{edit}: {error}"));
        }
    }
    for edit in [
        json!({"baseDomain": "corp.example"}),
        json!({"baseDomain": null}),
        json!({"blockedNetworks": []}),
        json!({"blockedNetworks": ["198.51.100.0/24"]}),
        json!({"web": null}),
    ] {
        refused(write(&api, edit).await, "kite-platform");
    }
    write(
        &api,
        json!({"blockedNetworks": ["203.0.113.0/24", "198.51.100.0/24"]}),
    )
    .await
    .unwrap();
    // The first domain, where nobody has chosen one.
    write(ADMIN, json!({"baseDomain": null})).await.unwrap();
    write(&api, json!({"baseDomain": "vm.test"})).await.unwrap();
    // Nor by making the settings anew.
    let platforms: Api<KitePlatform> = Api::all(stage.cluster.client());
    let gone = platforms.delete("default", &DeleteParams::default()).await;
    gone.unwrap();
    let platforms: Api<KitePlatform> = Api::all(stage.cluster.client_as(&api));
    let spec = KitePlatformSpec {
        storage_class: Some("evil".to_owned()),
        ..KitePlatformSpec::default()
    };
    let evil = KitePlatform::new("default", spec);
    let made = platforms.create(&PostParams::default(), &evil).await;
    refused(text(made), "kite-platform");
    let plain = KitePlatform::new("default", KitePlatformSpec::default());
    platforms
        .create(&PostParams::default(), &plain)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_the_controller_writes_is_kites() {
    let stage = Stage::new().await;
    let controller = Process::Controller.username("kite");
    let params = PostParams::default();
    let admin = stage.cluster.client();
    let as_controller = || stage.cluster.client_as(&controller);
    let secret = |name: &str| -> Secret {
        serde_json::from_value(json!({"metadata": {"name": name}, "stringData": {"a": "b"}}))
            .unwrap()
    };
    let touch = json!({"metadata": {"annotations": {"touched": "yes"}}});
    for (namespace, name) in [("default", "credentials"), ("kite", "kite-seal")] {
        let theirs: Api<Secret> = Api::namespaced(admin.clone(), namespace);
        theirs.create(&params, &secret(name)).await.unwrap();
        let secrets: Api<Secret> = Api::namespaced(as_controller(), namespace);
        refused(merge(&secrets, name, &touch).await, "kite-writes");
        let gone = secrets.delete(name, &DeleteParams::default()).await;
        refused(text(gone), "kite-writes");
        let made = secrets.create(&params, &secret("new")).await;
        refused(text(made), "kite-writes");
    }
    let own: Api<Secret> = stage.of(&controller);
    own.create(&params, &secret("web-ssh-key")).await.unwrap();
    // Namespaces.
    let namespaces: Api<Namespace> = Api::all(as_controller());
    let named = |name: &str| -> Namespace {
        serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
    };
    let theirs: Api<Namespace> = Api::all(admin.clone());
    theirs.create(&params, &named("theirs")).await.unwrap();
    let touched = merge(&namespaces, "theirs", &touch).await;
    refused(touched, "kite-writes");
    let gone = namespaces.delete("theirs", &DeleteParams::default()).await;
    refused(text(gone), "kite-writes");
    let evil = named("evil");
    refused(text(namespaces.create(&params, &evil).await), "kite-writes");
    merge(&namespaces, HOME, &touch).await.unwrap();
    // Services: of users, and the gateway's own.
    let service = |name: &str| -> Service {
        serde_json::from_value(
            json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 22}]}}),
        )
        .unwrap()
    };
    for (namespace, name, may) in [
        (HOME, "vps-access-web", true),
        ("kite", "kite-gateway-external", true),
        ("kite", "kite-api-2", false),
        ("default", "kubernetes-2", false),
    ] {
        let services: Api<Service> = Api::namespaced(as_controller(), namespace);
        let made = text(services.create(&params, &service(name)).await);
        if may {
            made.unwrap();
        } else {
            refused(made, "kite-writes");
        }
    }
    // Rights: of Kite's own processes, in users' namespaces.
    let binding = |role: &str, account: &str, namespace: &str| -> RoleBinding {
        serde_json::from_value(json!({
            "metadata": {"name": format!("{role}-{account}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }))
        .unwrap()
    };
    for (place, binding, may) in [
        (HOME, binding("kite-api-users", "kite-api", "kite"), true),
        (
            HOME,
            binding("kite-controller-users", "kite-controller", "kite"),
            true,
        ),
        (
            "default",
            binding("kite-controller-users", "kite-controller", "kite"),
            false,
        ),
        ("kite", binding("kite-api-users", "kite-api", "kite"), false),
        (HOME, binding("kite-api-users", "default", HOME), false),
        // Nor does one of them get another's.
        (
            HOME,
            binding("kite-controller-users", "kite-api", "kite"),
            false,
        ),
        (
            HOME,
            binding("kite-gateway-users", "kite-controller", "kite"),
            false,
        ),
        (HOME, binding("cluster-admin", "kite-api", "kite"), false),
    ] {
        let bindings: Api<RoleBinding> = Api::namespaced(as_controller(), place);
        let made = text(bindings.create(&params, &binding).await);
        if may {
            made.unwrap();
        } else {
            refused(made, "kite-writes");
        }
    }
}

#[tokio::test]
async fn vms_are_in_users_namespaces_only() {
    let stage = Stage::new().await;
    let namespaces: Api<Namespace> = Api::all(stage.cluster.client());
    // It is called like a user's, and is none.
    let fake: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "kite-user-bob"}})).unwrap();
    namespaces
        .create(&PostParams::default(), &fake)
        .await
        .unwrap();
    for namespace in ["default", "kite", "kite-user-bob"] {
        let vms: Api<KiteVirtualMachine> =
            Api::namespaced(stage.cluster.client_as(ADMIN), namespace);
        let created = vms.create(&PostParams::default(), &vm()).await;
        refused(text(created), "kite-vm-namespaces");
    }
}

/// A deletion in the foreground begins with all that an account owns.
#[tokio::test]
async fn the_garbage_collector_leaves_users_namespaces_to_the_controller() {
    let stage = Stage::new().await;
    let other: Namespace = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    let namespaces = |who: &str| Api::<Namespace>::all(stage.cluster.client_as(who));
    let params = PostParams::default();
    namespaces(ADMIN).create(&params, &other).await.unwrap();
    let params = DeleteParams::default();
    for who in [
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:kube-controller-manager",
    ] {
        let deleted = namespaces(who).delete(HOME, &params).await;
        refused(text(deleted.map(drop)), "kite-user-namespaces");
    }
    // Who asks for it by a service account in kube-system is no collector.
    let params = DeleteParams::default().dry_run();
    let by_hand = namespaces("system:serviceaccount:kube-system:cleaner");
    by_hand.delete(HOME, &params).await.unwrap();
    let params = DeleteParams::default();
    let collector = namespaces("system:serviceaccount:kube-system:generic-garbage-collector");
    collector.delete("other", &params).await.unwrap();
    // The controller deletes it once it has noted that nothing is to be kept.
    let controller = namespaces(&Process::Controller.username("kite"));
    let deleted = controller.delete(HOME, &params).await;
    refused(text(deleted.map(drop)), "kite-writes");
    let emptied = json!({"metadata": {"annotations": {labels::EMPTIED: "true"}}});
    merge(&controller, HOME, &emptied).await.unwrap();
    controller.delete(HOME, &params).await.unwrap();
}

#[tokio::test]
async fn the_api_makes_no_image_of_what_is_in_the_cluster() {
    let stage = Stage::new().await;
    let api = Process::Api.username("kite");
    let images = |who: &str| Api::<KiteImage>::all(stage.cluster.client_as(who));
    let image = |name: &str, source: Value| -> KiteImage {
        let spec = json!({"source": source, "minDisk": "1Gi"});
        let image = json!({"metadata": {"name": name}, "spec": spec});
        serde_json::from_value(image).unwrap()
    };
    let params = PostParams::default();
    for (name, source) in [
        ("claim", json!({"pvc": {"name": "theirs"}})),
        ("shot", json!({"snapshot": {"name": "theirs"}})),
    ] {
        let image = image(name, source);
        let made = images(&api).create(&params, &image).await;
        refused(text(made), "kite-images");
        images(ADMIN).create(&params, &image).await.unwrap();
        // What is said of it may be changed.
        let said = json!({"spec": {"displayName": "Theirs"}});
        merge(&images(&api), name, &said).await.unwrap();
    }
    let fetched = image("fetched", json!({"registry": {"url": "docker://a.test/b"}}));
    images(&api).create(&params, &fetched).await.unwrap();
}

#[tokio::test]
async fn the_controller_deletes_no_volume_that_outlives_its_account() {
    let stage = Stage::new().await;
    let volumes = |who: &str| stage.of::<KiteVolume>(who);
    let controller = Process::Controller.username("kite");
    let size = "1Gi".parse().unwrap();
    let mut volume = KiteVolume::new("data", KiteVolumeSpec::new(size));
    let params = PostParams::default();
    volumes(ADMIN).create(&params, &volume).await.unwrap();
    let deletion = DeleteParams::default();
    volumes(&controller)
        .delete("data", &deletion)
        .await
        .unwrap();
    volume.spec.on_account_deletion = OnAccountDeletion::Keep;
    volumes(ADMIN).create(&params, &volume).await.unwrap();
    let deleted = volumes(&controller).delete("data", &deletion).await;
    refused(text(deleted.map(drop)), "kite-writes");
    volumes(ADMIN).delete("data", &deletion).await.unwrap();
}

#[tokio::test]
async fn the_gateway_switches_vms_on_and_does_nothing_else_to_them() {
    let stage = Stage::new().await;
    let gateway = Process::Gateway.username("kite");
    let on = json!({"spec": {"powerState": "On"}});
    stage
        .edit_vm(ADMIN, json!({"spec": {"powerState": "Off"}}))
        .await
        .unwrap();
    stage.edit_vm(&gateway, on.clone()).await.unwrap();
    for patch in [
        json!({"spec": {"powerState": "Off"}}),
        json!({"spec": {"sshPublicKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti mallory"]}}),
        json!({"spec": {"cpu": 3}}),
        json!({"spec": {"domainPrefix": "www"}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
    ] {
        refused(stage.edit_vm(&gateway, patch).await, "kite-gateway");
    }
    // Others may.
    stage
        .edit_vm(ADMIN, json!({"spec": {"cpu": 3, "domainPrefix": "www"}}))
        .await
        .unwrap();
    refused(
        stage
            .edit_vm(&gateway, json!({"spec": {"domainPrefix": null}}))
            .await,
        "kite-gateway",
    );
    stage.edit_vm(&gateway, on).await.unwrap();
}
