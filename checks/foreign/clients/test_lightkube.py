"""lightkube: typed and generic resources, patches, apply, lists in pages, watches."""

import asyncio

import pytest
from conftest import config_map, deployment
from lightkube import ApiError, AsyncClient, Client, codecs
from lightkube.types import PatchType
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace


@pytest.fixture
def kube(namespace):
    return Client(namespace=namespace, field_manager="lightkube")


def test_an_object_lives(kube):
    made = kube.create(ConfigMap(metadata=ObjectMeta(name="a"), data={"x": "1"}))
    made.data["y"] = "2"
    assert kube.replace(made).data == {"x": "1", "y": "2"}
    with pytest.raises(ApiError) as stale:
        kube.replace(made)
    assert stale.value.status.reason == "Conflict"
    kube.delete(ConfigMap, "a")
    with pytest.raises(ApiError) as gone:
        kube.get(ConfigMap, "a")
    assert gone.value.status.code == 404


def test_each_patch_changes_what_it_says(kube):
    kube.create(codecs.from_dict(config_map("a", x="1")))
    assert kube.patch(ConfigMap, "a", {"data": {"y": "2"}}).data == {"x": "1", "y": "2"}
    merged = kube.patch(ConfigMap, "a", {"data": {"x": None}}, patch_type=PatchType.MERGE)
    assert merged.data == {"y": "2"}
    added = [{"op": "add", "path": "/data/z", "value": "3"}]
    assert kube.patch(ConfigMap, "a", added, patch_type=PatchType.JSON).data == {"y": "2", "z": "3"}
    assert kube.apply(codecs.from_dict(config_map("b", x="1"))).data == {"x": "1"}
    assert kube.apply(codecs.from_dict(config_map("b", y="2"))).data == {"y": "2"}


def test_lists_come_in_pages_and_by_labels(kube):
    for number in range(5):
        kube.create(ConfigMap(metadata=ObjectMeta(name=f"m{number}", labels={"odd": str(number % 2)})))
    names = [it.metadata.name for it in kube.list(ConfigMap, chunk_size=2)]
    assert [name for name in names if name.startswith("m")] == [f"m{n}" for n in range(5)]
    odd = kube.list(ConfigMap, labels={"odd": "1"})
    assert [it.metadata.name for it in odd] == ["m1", "m3"]
    assert any(it.metadata.name == "default" for it in kube.list(Namespace))


def test_a_watch_sees_what_comes(kube):
    there = kube.list(ConfigMap)
    list(there)
    since = there.resourceVersion
    kube.create(ConfigMap(metadata=ObjectMeta(name="a")))
    kube.delete(ConfigMap, "a")
    seen = []
    for happened, found in kube.watch(ConfigMap, resource_version=since, server_timeout=20):
        seen.append((happened, found.metadata.name))
        if len(seen) == 2:
            break
    assert seen == [("ADDED", "a"), ("DELETED", "a")]


def test_a_deployment_rolls_out(kube):
    kube.create(codecs.from_dict(deployment("web", 2)))
    kube.wait(Deployment, "web", for_conditions=["Available"])
    scale = kube.get(Deployment.Scale, "web")
    scale.spec.replicas = 1
    assert kube.replace(scale, "web").spec.replicas == 1


def test_generic_resources(kube, widgets):
    Widget = create_namespaced_resource(widgets, "v1", "Widget", "widgets")
    kube.create(Widget(metadata=ObjectMeta(name="w"), spec={"size": "s"}))
    kube.patch(Widget.Status, "w", {"status": {"replicas": 2}}, patch_type=PatchType.MERGE)
    found = kube.get(Widget, "w")
    assert (found.spec["size"], found.status["replicas"]) == ("s", 2)


def test_all_of_a_kind_are_deleted(kube):
    for name in ["a", "b"]:
        kube.create(ConfigMap(metadata=ObjectMeta(name=name)))
    kube.deletecollection(ConfigMap)
    left = {it.metadata.name for it in kube.list(ConfigMap)}
    assert not left & {"a", "b"}


def test_without_threads(namespace):
    async def run():
        kube = AsyncClient(namespace=namespace)
        await kube.create(codecs.from_dict(config_map("a", x="1")))
        found = [it.data async for it in kube.list(ConfigMap, fields={"metadata.name": "a"})]
        assert found == [{"x": "1"}]
        await kube.close()

    asyncio.run(run())
