//! What the admission policies refuse, and whom they leave alone.

use k8s_openapi::api::{core::v1::Namespace, networking::v1::NetworkPolicy};
use kite_core::{
    crd::{KiteUser, KiteUserSpec, KiteVirtualMachine, KiteVirtualMachineSpec},
    labels,
};
use kite_fake::FakeCluster;
use kite_render::{
    User,
    install::{Process, Profile},
    namespace,
    walls::{self, Walls},
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::stage::{apply_all, builder};

const ADMIN: &str = "boss";
const HOME: &str = "kite-user-ann";

struct Stage {
    cluster: FakeCluster,
}

impl Stage {
    /// An installation with a user, and a VM of hers.
    async fn new() -> Self {
        let cluster = builder().build().unwrap();
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
        home.create(&params, &namespace::namespace(&user))
            .await
            .unwrap();
        let policies: Api<NetworkPolicy> = stage.of(&controller);
        for policy in walls::policies(&user, &Walls::default(), &["kite-images".to_owned()].into())
        {
            policies.create(&params, &policy).await.unwrap();
        }
        let vms: Api<KiteVirtualMachine> = stage.of(ADMIN);
        vms.create(&params, &vm()).await.unwrap();
        stage
    }

    /// Objects in the user's namespace, as somebody sees them.
    fn of<K>(&self, who: &str) -> Api<K>
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

async fn merge<K>(objects: &Api<K>, name: &str, patch: &Value) -> Result<(), String>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let params = PatchParams::default();
    let patched = objects.patch(name, &params, &Patch::Merge(patch)).await;
    text(patched.map(drop))
}

fn vm() -> KiteVirtualMachine {
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
fn refused<T>(done: Result<T, String>, by: &str) {
    let error = done.err().unwrap_or_default();
    assert!(
        error.contains(&format!("ValidatingAdmissionPolicy '{by}'")),
        "{error:?}"
    );
}

fn text<T>(done: Result<T, kube::Error>) -> Result<T, String> {
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
    let patched = merge(&policies, walls::EGRESS_POLICY, &less(&[])).await;
    refused(patched, "kite-finalizers");
}

#[tokio::test]
async fn walls_are_written_by_the_controller_only() {
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
    for name in walls::POLICIES {
        refused(write(ADMIN, name).await, "kite-walls");
        refused(delete(ADMIN, name).await, "kite-walls");
        write(&controller, name).await.unwrap();
    }
    // A policy of one's own beside them.
    let policies: Api<NetworkPolicy> = stage.of(ADMIN);
    let own: NetworkPolicy = serde_json::from_value(json!({
        "metadata": {"name": "own"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    }))
    .unwrap();
    policies.create(&PostParams::default(), &own).await.unwrap();
    delete(ADMIN, "own").await.unwrap();
    // Who clears away a namespace that ends.
    for name in walls::POLICIES {
        let cluster = "system:serviceaccount:kube-system:namespace-controller";
        refused(write(cluster, name).await, "kite-walls");
        delete(cluster, name).await.unwrap();
    }
    // Elsewhere the names are anybody's.
    let elsewhere: Api<NetworkPolicy> = Api::namespaced(stage.cluster.client_as(ADMIN), "default");
    let mut wall = own;
    wall.metadata.name = Some(walls::INGRESS_POLICY.to_owned());
    elsewhere
        .create(&PostParams::default(), &wall)
        .await
        .unwrap();
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
