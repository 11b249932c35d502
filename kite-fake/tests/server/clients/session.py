"""The PyPI package `kubernetes`, unmodified, on the in-memory API server.

Usage: session.py KUBECONFIG. Exits with 1 at the first thing that a real API
server would have done otherwise.
"""

import base64
import json
import os
import sys
import threading
import time

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.python.example.com"},
    "spec": {
        "group": "python.example.com",
        "scope": "Namespaced",
        "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.crew"}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "length": {"type": "integer", "minimum": 1},
                    "crew": {"type": "integer"}}},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}},
        }],
    },
}


def refused(status, reason, call, *args, **kwargs):
    """The call fails with this code, and its body is a Status with this reason."""
    try:
        call(*args, **kwargs)
    except ApiException as error:
        body = json.loads(error.body)
        assert (error.status, body["kind"], body["reason"]) == (status, "Status", reason), error
        return body
    raise AssertionError(f"{call.__name__} should have failed with {reason}")


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


def objects_and_patches(core):
    made = core.create_namespaced_config_map("py", config_map("a", k="v"))
    assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo
    refused(409, "AlreadyExists", core.create_namespaced_config_map, "py", config_map("a"))
    refused(404, "NotFound", core.read_namespaced_config_map, "none", "py")
    made.data["k"] = "w"
    changed = core.replace_namespaced_config_map("a", "py", made)
    assert refused(409, "Conflict", core.replace_namespaced_config_map, "a", "py", made)["details"]["name"] == "a"
    assert int(changed.metadata.resource_version) > int(made.metadata.resource_version)
    body = refused(422, "Invalid", core.create_namespaced_config_map, "py", config_map("Not A Name"))
    assert body["details"]["causes"][0]["field"] == "metadata.name"
    # A dict is a strategic merge patch, a list a JSON patch.
    assert core.patch_namespaced_config_map("a", "py", {"data": {"x": "1"}}).data == {"k": "w", "x": "1"}
    patch = [{"op": "remove", "path": "/data/x"}]
    assert core.patch_namespaced_config_map("a", "py", patch).data == {"k": "w"}
    merge = core.patch_namespaced_config_map(
        "a", "py", {"data": {"k": None}}, _content_type="application/merge-patch+json")
    assert merge.data is None
    dry = core.create_namespaced_config_map("py", config_map("dry"), dry_run="All")
    assert dry.metadata.uid
    refused(404, "NotFound", core.read_namespaced_config_map, "dry", "py")
    secret = core.create_namespaced_secret("py", client.V1Secret(
        metadata=client.V1ObjectMeta(generate_name="s-"), string_data={"p": "q"}))
    assert base64.b64decode(secret.data["p"]) == b"q" and secret.metadata.name.startswith("s-")
    deleted = core.delete_namespaced_config_map("a", "py")
    # Newer releases leave this answer as it is.
    assert (deleted["status"] if isinstance(deleted, dict) else deleted.status) == "Success"


def pages(core):
    for i in range(5):
        core.create_namespaced_config_map("py", config_map(f"page-{i}"))
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map("py", limit=2, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
        assert page.metadata.remaining_item_count is not None
    # Actors may keep a map of their own in every namespace.
    names = [name for name in names if name.startswith("page-")]
    assert names == [f"page-{i}" for i in range(5)], names
    one = core.list_config_map_for_all_namespaces(field_selector="metadata.name=page-3")
    assert [item.metadata.namespace for item in one.items] == ["py"]
    refused(400, "BadRequest", core.list_namespaced_config_map, "py", field_selector="nonsense")
    core.delete_collection_namespaced_config_map("py")
    left = core.list_namespaced_config_map("py").items
    assert not any(item.metadata.name.startswith("page-") for item in left)


def watches(core):
    stream = watch.Watch()
    version = core.list_namespaced_config_map("py").metadata.resource_version

    def write():
        core.create_namespaced_config_map("py", config_map("w"))
        core.patch_namespaced_config_map("w", "py", {"data": {"a": "b"}})
        core.delete_namespaced_config_map("w", "py")

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    for event in stream.stream(core.list_namespaced_config_map, "py",
                               resource_version=version, timeout_seconds=10):
        if event["object"].metadata.name != "w":
            continue
        seen.append((event["type"], type(event["object"]).__name__))
        if len(seen) == 3:
            stream.stop()
    writer.join()
    assert seen == [(kind, "V1ConfigMap") for kind in ("ADDED", "MODIFIED", "DELETED")], seen
    # It goes on where it was.
    again = watch.Watch().stream(core.list_namespaced_config_map, "py",
                                 resource_version=version, timeout_seconds=1)
    kinds = [event["type"] for event in again if event["object"].metadata.name == "w"]
    assert kinds == ["ADDED", "MODIFIED", "DELETED"], kinds
    # What is forgotten is gone.
    try:
        for _ in watch.Watch().stream(core.list_namespaced_config_map, "py",
                                      resource_version="1", timeout_seconds=2):
            raise AssertionError("a watch from the beginning of time")
    except ApiException as error:
        assert error.status == 410 and "too old resource version" in error.reason, error


def custom_objects(extensions, custom):
    extensions.create_custom_resource_definition(CRD)
    place = ("python.example.com", "v1", "py", "boats")
    boat = {"apiVersion": "python.example.com/v1", "kind": "Boat",
            "metadata": {"name": "b"}, "spec": {"length": 3, "crew": 1}}
    for attempt in range(50):
        try:
            custom.create_namespaced_custom_object(*place, boat)
            break
        except ApiException as error:
            assert error.status == 404 and attempt < 49, error
            time.sleep(0.1)
    wrong = {**boat, "metadata": {"name": "c"}, "spec": {"length": 0}}
    body = refused(422, "Invalid", custom.create_namespaced_custom_object, *place, wrong)
    assert body["details"]["causes"][0]["field"] == "spec.length", body
    custom.patch_namespaced_custom_object_status(*place, "b", {"status": {"phase": "Afloat"}})
    found = custom.get_namespaced_custom_object(*place, "b")
    assert (found["status"], found["metadata"]["generation"]) == ({"phase": "Afloat"}, 1)
    scale = custom.patch_namespaced_custom_object_scale(*place, "b", {"spec": {"replicas": 4}})
    assert scale["kind"] == "Scale"
    found = custom.get_namespaced_custom_object(*place, "b")
    assert (found["spec"]["crew"], found["metadata"]["generation"]) == (4, 2)
    assert len(custom.list_namespaced_custom_object(*place)["items"]) == 1
    custom.delete_namespaced_custom_object(*place, "b")


def dynamic_client(api):
    dyn = dynamic.DynamicClient(api)
    maps = dyn.resources.get(api_version="v1", kind="ConfigMap")
    boats = dyn.resources.get(api_version="python.example.com/v1", kind="Boat")
    desired = {"apiVersion": "v1", "kind": "ConfigMap",
               "metadata": {"name": "ssa", "namespace": "py"}, "data": {"k": "v"}}
    applied = maps.server_side_apply(body=desired, name="ssa", namespace="py", field_manager="one")
    assert applied.metadata.managedFields[0].operation == "Apply"
    desired["data"] = {"k": "w"}
    try:
        maps.server_side_apply(body=desired, name="ssa", namespace="py", field_manager="two")
        raise AssertionError("a conflict was not seen")
    except dynamic.exceptions.ConflictError as error:
        assert 'conflict with "one"' in error.summary(), error.summary()
    maps.server_side_apply(body=desired, name="ssa", namespace="py", field_manager="two",
                           force_conflicts=True)
    boats.create(body={"apiVersion": "python.example.com/v1", "kind": "Boat",
                       "metadata": {"name": "d"}, "spec": {"length": 1}}, namespace="py")
    assert [boat.metadata.name for boat in boats.get(namespace="py").items] == ["d"]
    for event in boats.watch(namespace="py", timeout=2):
        assert event["object"].spec.length == 1
        break
    boats.delete(name="d", namespace="py")


def files(api, apps):
    utils.create_from_dict(api, {
        "apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "py"},
             "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}}},
            {"apiVersion": "apps/v1", "kind": "Deployment",
             "metadata": {"name": "web", "namespace": "py"},
             "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
                 "metadata": {"labels": {"app": "web"}},
                 "spec": {"containers": [{"name": "web", "image": "web"}]}}}}]})
    scaled = apps.patch_namespaced_deployment_scale("web", "py", {"spec": {"replicas": 3}})
    assert scaled.spec.replicas == 3
    assert apps.read_namespaced_deployment("web", "py").spec.replicas == 3


def election(api):
    led = threading.Event()
    lock = ConfigMapLock("leader", "py", "me")
    threading.Thread(target=leaderelection.LeaderElection(electionconfig.Config(
        lock, lease_duration=3, renew_deadline=2, retry_period=1,
        onstarted_leading=led.set, onstopped_leading=lambda: None)).run, daemon=True).start()
    assert led.wait(10), "nobody leads"


def main():
    config.load_kube_config(sys.argv[1])
    api = client.ApiClient()
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    assert client.VersionApi().get_code().git_version.startswith("v1.")
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="py")))
    objects_and_patches(core)
    pages(core)
    watches(core)
    custom_objects(client.ApiextensionsV1Api(), client.CustomObjectsApi())
    dynamic_client(api)
    files(api, apps)
    election(api)
    print("the Python client is content", flush=True)
    # The thread that leads goes on; it ends here.
    os._exit(0)


if __name__ == "__main__":
    main()
