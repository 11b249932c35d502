"""The official Python client: typed, dynamic, watches, informers, elections, YAML."""

import threading
import time

import pytest
import yaml
from conftest import config_map, deployment

from kubernetes import client, config, dynamic, utils, watch


@pytest.fixture(scope="module")
def api():
    config.load_kube_config()
    return client.ApiClient()


def until(holds, seconds=30):
    """Asks until something holds; what it came to."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come to be in time")


def test_an_object_lives(api, namespace):
    core = client.CoreV1Api(api)
    made = core.create_namespaced_config_map(namespace, config_map("a", x="1"))
    assert made.data == {"x": "1"} and made.metadata.uid
    made.data["y"] = "2"
    put = core.replace_namespaced_config_map("a", namespace, made)
    assert put.metadata.resource_version != made.metadata.resource_version
    with pytest.raises(client.ApiException) as stale:
        core.replace_namespaced_config_map("a", namespace, made)
    assert stale.value.status == 409
    core.delete_namespaced_config_map("a", namespace)
    with pytest.raises(client.ApiException) as gone:
        core.read_namespaced_config_map("a", namespace)
    assert gone.value.status == 404


def test_each_patch_changes_what_it_says(api, namespace):
    core = client.CoreV1Api(api)
    core.create_namespaced_config_map(namespace, config_map("a", x="1"))
    one = core.patch_namespaced_config_map("a", namespace, {"data": {"y": "2"}})
    assert one.data == {"x": "1", "y": "2"}
    two = core.patch_namespaced_config_map(
        "a", namespace, [{"op": "remove", "path": "/data/x"}])
    assert two.data == {"y": "2"}
    three = core.patch_namespaced_config_map(
        "a", namespace, config_map("a", z="3"), field_manager="me", force=True,
        _content_type="application/apply-patch+yaml")
    assert three.data == {"y": "2", "z": "3"}


def test_a_list_comes_in_pages(api, namespace):
    core = client.CoreV1Api(api)
    for number in range(5):
        core.create_namespaced_config_map(namespace, config_map(f"m{number}", n=str(number)))
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map(namespace, limit=2, _continue=token)
        names += [it.metadata.name for it in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert [name for name in names if name.startswith("m")] == [f"m{n}" for n in range(5)]


def test_a_watch_goes_on_where_it_was(api, namespace):
    core = client.CoreV1Api(api)
    since = core.list_namespaced_config_map(namespace).metadata.resource_version
    for name in ["a", "b"]:
        core.create_namespaced_config_map(namespace, config_map(name))
    core.delete_namespaced_config_map("a", namespace)
    seen = []
    events = watch.Watch()
    for event in events.stream(core.list_namespaced_config_map, namespace,
                               resource_version=since, timeout_seconds=20):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 3:
            events.stop()
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_an_expired_version_is_told(api, namespace):
    core = client.CoreV1Api(api)
    with pytest.raises(client.ApiException) as wrong:
        core.list_namespaced_config_map(namespace, resource_version="x")
    assert wrong.value.status == 400


def test_a_deployment_rolls_out(api, namespace):
    apps = client.AppsV1Api(api)
    apps.create_namespaced_deployment(namespace, deployment("web", 2))
    until(lambda: apps.read_namespaced_deployment_status("web", namespace).status.ready_replicas == 2)
    apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 1}})
    until(lambda: apps.read_namespaced_deployment_status("web", namespace).status.replicas == 1)
    pods = client.CoreV1Api(api).list_namespaced_pod(namespace, label_selector="app=web")
    assert pods.items


def test_a_pod_is_evicted(api, namespace):
    core = client.CoreV1Api(api)
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    core.create_namespaced_pod(namespace, pod)
    core.create_namespaced_pod_eviction(
        "p", namespace, client.V1Eviction(metadata=client.V1ObjectMeta(name="p")))
    until(lambda: not core.list_namespaced_pod(namespace).items)


def test_custom_objects_have_a_status_and_a_scale(api, namespace, widgets):
    custom = client.CustomObjectsApi(api)
    place = (widgets, "v1", namespace, "widgets")
    widget = {"apiVersion": f"{widgets}/v1", "kind": "Widget", "metadata": {"name": "w"},
              "spec": {"replicas": 1, "size": "s"}}
    custom.create_namespaced_custom_object(*place, widget)
    custom.patch_namespaced_custom_object_status(*place, "w", {"status": {"replicas": 1}})
    custom.patch_namespaced_custom_object_scale(*place, "w", {"spec": {"replicas": 4}})
    found = custom.get_namespaced_custom_object(*place, "w")
    assert found["spec"] == {"replicas": 4, "size": "s"} and found["status"] == {"replicas": 1}


def test_the_dynamic_client_finds_kinds(api, namespace, widgets):
    kinds = dynamic.DynamicClient(api).resources
    maps = kinds.get(api_version="v1", kind="ConfigMap")
    maps.server_side_apply(body=config_map("a", x="1"), namespace=namespace, field_manager="me")
    assert maps.get(name="a", namespace=namespace).data.x == "1"
    found = kinds.get(api_version=f"{widgets}/v1", kind="Widget")
    assert found.name == "widgets" and "status" in found.subresources


def test_documents_are_created(api, namespace):
    documents = [config_map("a", x="1"), deployment("web", 0)]
    utils.create_from_yaml(api, yaml_objects=yaml.safe_load_all(yaml.dump_all(documents)),
                           namespace=namespace)
    assert client.AppsV1Api(api).read_namespaced_deployment("web", namespace).spec.replicas == 0


def test_rights_and_tokens(api, namespace):
    review = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(
        resource_attributes=client.V1ResourceAttributes(verb="create", resource="pods")))
    reviews = client.AuthorizationV1Api(api)
    assert reviews.create_self_subject_access_review(review).status.allowed
    core = client.CoreV1Api(api)
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "robot"}})
    token = core.create_namespaced_service_account_token(
        "robot", namespace, client.AuthenticationV1TokenRequest(
            spec=client.V1TokenRequestSpec(audiences=[])))
    said = client.AuthenticationV1Api(api).create_token_review(
        client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token.status.token)))
    assert said.status.user.username == f"system:serviceaccount:{namespace}:robot"


def test_an_informer_keeps_a_copy(api, namespace):
    from kubernetes.informer import SharedInformer

    core = client.CoreV1Api(api)
    core.create_namespaced_config_map(namespace, config_map("a", x="1"))
    informer = SharedInformer(core.list_namespaced_config_map, namespace=namespace)
    informer.start()
    try:
        names = lambda: {it.metadata.name for it in informer.cache.list()}
        until(lambda: "a" in names())
        core.create_namespaced_config_map(namespace, config_map("b"))
        until(lambda: "b" in names())
        core.delete_namespaced_config_map("a", namespace)
        until(lambda: "a" not in names())
    finally:
        informer.stop()


def test_one_of_two_leads(api, namespace):
    from kubernetes.leaderelection import electionconfig, leaderelection
    from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

    led = threading.Event()
    election = electionconfig.Config(
        LeaseLock("lock", namespace, "me"), lease_duration=5, renew_deadline=4, retry_period=1,
        onstarted_leading=led.set, onstopped_leading=None)
    threading.Thread(target=leaderelection.LeaderElection(election).run, daemon=True).start()
    assert led.wait(30)
    lease = client.CoordinationV1Api(api).read_namespaced_lease("lock", namespace)
    assert lease.spec.holder_identity == "me"
