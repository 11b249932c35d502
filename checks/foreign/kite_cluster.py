"""Gives suites that start a `kind` cluster by pytest-kind the running API server instead.

A pytest plugin (`-p kite_cluster`): it stands for the module `pytest_kind.cluster`.
"""

import os
import pathlib
import subprocess
import sys
import types


class KindCluster:
    """The cluster of the environment's KUBECONFIG, which is there and stays."""

    def __init__(self, name, image=None):
        self.name = name
        self.kubeconfig_path = pathlib.Path(os.environ["KUBECONFIG"])
        self.kubectl_path = "kubectl"

    def create(self):
        """Nothing has to be made."""

    def delete(self):
        """Whoever started it stops it."""

    def kubectl(self, *arguments, **options):
        """What `kubectl` prints; an error if it fails."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig_path)}
        command = [self.kubectl_path, *arguments]
        return subprocess.check_output(command, env=environment, encoding="utf-8", **options)


def pytest_addoption(parser):
    """The option of pytest-kind that suites ask for."""
    parser.addoption("--keep-cluster", action="store_true", default=False)


cluster = types.ModuleType("pytest_kind.cluster")
cluster.KindCluster = KindCluster
package = types.ModuleType("pytest_kind")
package.cluster = cluster
sys.modules["pytest_kind"] = package
sys.modules["pytest_kind.cluster"] = cluster
