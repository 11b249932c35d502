"""What the tests of all clients share: a namespace of their own, and a definition."""

import json
import os
import subprocess
import uuid

import pytest


def kubectl(*arguments, given=None):
    """What `kubectl` prints; an error if it fails."""
    command = ["kubectl", *arguments]
    return subprocess.run(
        command, input=given, check=True, text=True, capture_output=True, env=os.environ
    ).stdout


@pytest.fixture
def namespace():
    """A namespace that goes after the test."""
    name = f"foreign-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def widgets():
    """The group of a kind `Widget`, with a status and a scale."""
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}, "size": {"type": "string"}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    }}
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "versions": [version],
                 "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"}},
    }
    kubectl("create", "-f", "-", given=json.dumps(definition))
    kubectl("wait", "--for=condition=Established", f"crd/widgets.{group}", "--timeout=30s")
    yield group
    kubectl("delete", "crd", f"widgets.{group}", "--wait=false")


def config_map(name, **data):
    """A ConfigMap as plain data."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(name, replicas=1):
    """A Deployment as plain data."""
    labels = {"app": name}
    container = {"name": "main", "image": "example.com/main"}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
    }
