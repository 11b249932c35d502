"""The clients for asyncio: `kubernetes_asyncio`, and `kubernetes.aio` of the official one."""

import asyncio

import pytest
from conftest import config_map, deployment

FLAVOURS = ["kubernetes_asyncio", "kubernetes.aio"]


async def connected(flavour):
    """The modules of a client, and a connection by the kubeconfig."""
    module = __import__(flavour, fromlist=["client", "config", "watch"])
    await module.config.load_kube_config()
    return module, module.client.ApiClient()


@pytest.fixture(params=FLAVOURS)
def flavour(request):
    return request.param


def test_an_object_lives(flavour, namespace):
    async def run():
        module, api = await connected(flavour)
        async with api:
            core = module.client.CoreV1Api(api)
            made = await core.create_namespaced_config_map(namespace, config_map("a", x="1"))
            assert made.metadata.uid
            changed = await core.patch_namespaced_config_map(
                "a", namespace, {"data": {"y": "2"}},
                _content_type="application/merge-patch+json")
            assert changed.data == {"x": "1", "y": "2"}
            await core.delete_namespaced_config_map("a", namespace)
            with pytest.raises(module.client.ApiException) as gone:
                await core.read_namespaced_config_map("a", namespace)
            assert gone.value.status == 404

    asyncio.run(run())


def test_a_watch_sees_what_comes(flavour, namespace):
    async def run():
        module, api = await connected(flavour)
        async with api:
            core = module.client.CoreV1Api(api)
            since = (await core.list_namespaced_config_map(namespace)).metadata.resource_version
            await core.create_namespaced_config_map(namespace, config_map("a"))
            await core.delete_namespaced_config_map("a", namespace)
            seen = []
            async with module.watch.Watch() as events:
                async for event in events.stream(
                        core.list_namespaced_config_map, namespace, resource_version=since,
                        timeout_seconds=20):
                    seen.append((event["type"], event["object"].metadata.name))
                    if len(seen) == 2:
                        break
            assert seen == [("ADDED", "a"), ("DELETED", "a")]

    asyncio.run(run())


def test_a_deployment_rolls_out(flavour, namespace):
    async def run():
        module, api = await connected(flavour)
        async with api:
            apps = module.client.AppsV1Api(api)
            await apps.create_namespaced_deployment(namespace, deployment("web", 2))
            for _ in range(300):
                found = await apps.read_namespaced_deployment_status("web", namespace)
                if found.status.ready_replicas == 2:
                    return
                await asyncio.sleep(0.1)
            raise AssertionError("it did not roll out")

    asyncio.run(run())


def test_custom_objects(flavour, namespace, widgets):
    async def run():
        module, api = await connected(flavour)
        async with api:
            custom = module.client.CustomObjectsApi(api)
            place = (widgets, "v1", namespace, "widgets")
            widget = {"apiVersion": f"{widgets}/v1", "kind": "Widget",
                      "metadata": {"name": "w"}, "spec": {"size": "s"}}
            await custom.create_namespaced_custom_object(*place, widget)
            found = await custom.list_namespaced_custom_object(*place)
            assert [it["spec"]["size"] for it in found["items"]] == ["s"]

    asyncio.run(run())
