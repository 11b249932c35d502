#!/usr/bin/env python3
"""Runs suites of others, from PyPI and npm, against `kite apiserver`.

    cargo build -p kite
    checks/foreign/run.py --kite target/debug/kite [suite ...]

Each suite has a server of its own. A test that fails and is not in known.toml is an error,
and so is one that is there and passes, or a row that docs/fake.md does not have.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parents[1] / "docs" / "fake.md"
PYTEST = ["pytest==9.0.*", "pytest-asyncio==1.*", "pytest-timeout==2.*"]


class Place:
    """Where a suite runs: its directory, its Python, and the server's kubeconfig."""

    def __init__(self, directory, kubeconfig):
        self.directory = directory
        self.kubeconfig = kubeconfig
        self.python = None

    def environment(self, **more):
        """The environment of a suite's processes."""
        path = os.environ["PATH"]
        if self.python:
            path = f"{self.python.parent}{os.pathsep}{path}"
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": path, **more}

    def run(self, command, cwd=None, **options):
        """Runs a command to its end, whatever that is."""
        environment = self.environment(**options.pop("more", {}))
        return subprocess.run(command, cwd=cwd or self.directory, env=environment, **options)

    def install(self, *packages):
        """Makes a Python of the suite's own with these packages."""
        venv.create(self.directory / "python", with_pip=True)
        self.python = self.directory / "python" / "bin" / "python"
        self.run([self.python, "-m", "pip", "install", "--quiet", *packages], check=True)

    def source(self, name, version, wanted=lambda path: True):
        """The source of a package, as its author has published it."""
        self.run([self.python, "-m", "pip", "download", "--quiet", "--no-deps",
                  "--no-binary", ":all:", f"{name}=={version}"], check=True)
        (archive,) = self.directory.glob(f"{name}-{version}.tar.gz")
        with tarfile.open(archive) as packed:
            members = [it for it in packed.getmembers() if wanted(it.name)]
            packed.extractall(self.directory, members=members, filter="data")
        return self.directory / f"{name}-{version}"

    def pytest(self, cwd, *arguments, more=None):
        """The outcome of each test that pytest runs."""
        report = self.directory / "report.xml"
        self.run([self.python, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=short",
                  f"--junitxml={report}", *arguments], cwd=cwd, more=more or {})
        outcomes = {}
        for case in xml.parse(report).iter("testcase"):
            module = case.get("classname").rsplit(".", 1)[-1]
            name = f"{module}::{case.get('name')}"
            failed = case.find("failure") is not None or case.find("error") is not None
            skipped = case.find("skipped") is not None
            outcomes[name] = "failed" if failed else "skipped" if skipped else "passed"
        return outcomes


def kr8s(place, version):
    """kr8s' own tests; what starts a cluster for them is taken away."""
    place.install(*PYTEST, f"kr8s=={version}", "trio", "lightkube", "kubernetes",
                  "kubernetes-asyncio", "pykube-ng")
    source = place.source("kr8s", version)
    return place.pytest(source, "-p", "kite_cluster", "-o", "addopts=", "-o", "asyncio_mode=auto",
                        "--timeout=60", "kr8s/tests", more={"PYTHONPATH": str(HERE)})


def kopf(place, version):
    """kopf's end-to-end tests: all of its examples."""
    place.install(*PYTEST, f"kopf=={version}", "pykube-ng", "aresponses", "certbuilder",
                  "certvalidator", "oscrypto", "pyngrok", "looptime", "freezegun", "pytest-mock")
    source = place.source("kopf", version)
    # Connections that are left open at the end are none of the server's.
    ignored = "ignore::pytest.PytestUnraisableExceptionWarning"
    return place.pytest(source, "--only-e2e", "--timeout=120", "-W", ignored, "tests/e2e")


def ansible(place, version):
    """The integration targets of kubernetes.core, without those that need a kubelet."""
    core, client = version.split("/")
    place.install(f"ansible-core=={core}.*", "kubernetes==37.*", "jsonpatch", "virtualenv",
                  "kubernetes-validate")
    parts = ("kubernetes/core", "community/general/plugins", "community/general/meta")
    within = [f"/ansible_collections/{part}/" for part in parts]
    source = place.source("ansible", client, lambda path: any(it in path for it in within))
    integration = source / "ansible_collections/kubernetes/core/tests/integration"
    # k8s_info takes the configuration from where clients look first.
    home = place.directory / ".kube"
    home.mkdir()
    shutil.copy(place.kubeconfig, home / "config")
    outcomes = {}
    for target in ANSIBLE_TARGETS:
        play = [{"hosts": "localhost", "connection": "local", "roles": [target],
                 "vars": {"ansible_python_interpreter": str(place.python),
                          "remote_tmp_dir": str(place.directory),
                          "output_dir": str(place.directory)}}]
        # Plays within a collection find its modules by their short names.
        playbook = integration / f"{target}.yml"
        playbook.write_text(json.dumps(play))
        more = {"ANSIBLE_COLLECTIONS_PATH": str(source), "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_ROLES_PATH": str(integration / "targets"), "HOME": str(place.directory)}
        command = [place.python.parent / "ansible-playbook", "-i", "localhost,", playbook]
        try:
            ended = place.run(command, cwd=integration, more=more, timeout=900).returncode
        except subprocess.TimeoutExpired:
            ended = None
        outcomes[target] = "passed" if ended == 0 else "failed"
        print(target, outcomes[target], flush=True)
    return outcomes


def client(package, test, *more):
    """Tests of our own, by a Python client that publishes none."""

    def run(place, version):
        place.install(*PYTEST, "pyyaml", f"{package}=={version}", *more)
        return place.pytest(HERE / "clients", "--timeout=120", test)

    return run


def client_node(place, version):
    """Tests of our own by @kubernetes/client-node."""
    place.run(["npm", "install", "--prefix", place.directory, "--ignore-scripts", "--no-save",
               "--no-audit", "--no-fund", "--silent", f"@kubernetes/client-node@{version}"],
              check=True)
    more = {"FOREIGN_NODE_MODULES": str(place.directory / "node_modules")}
    said = place.run(["node", "--test", "--test-reporter=tap", HERE / "clients/client-node.test.mjs"],
                     more=more, text=True, stdout=subprocess.PIPE).stdout
    print(said)
    found = re.findall(r"^(not ok|ok) \d+ - (.*)$", said, re.MULTILINE)
    return {name: "passed" if word == "ok" else "failed" for word, name in found}


# Left out: k8s_exec, k8s_copy and k8s_log need a kubelet, k8s_gc waits for Pods of Jobs to
# run, which end at once here, k8s_rollback for an image that cannot run, k8s_manifest_url
# needs Docker, and lookup_k8s a client certificate in the kubeconfig.
ANSIBLE_TARGETS = [
    "k8s_access_review", "k8s_append_hash", "k8s_apply", "k8s_check_mode", "k8s_cluster_info",
    "k8s_crd", "k8s_delete", "k8s_diff", "k8s_drain", "k8s_full", "k8s_generate_name",
    "k8s_hide_fields", "k8s_info", "k8s_json_patch", "k8s_json_patch_hide_fields",
    "k8s_label_selectors", "k8s_lists", "k8s_merge_type", "k8s_patched", "k8s_scale",
    "k8s_taint", "k8s_template", "k8s_user_impersonation", "k8s_validate", "k8s_waiter",
]


# Name, version and what runs it.
SUITES = {
    "kr8s": ("0.20.15", kr8s),
    "kopf": ("1.45.2", kopf),
    "kubernetes.core": ("2.19/12.3.0", ansible),
    "kubernetes": ("37.0.2", client("kubernetes", "test_kubernetes.py")),
    "kubernetes_asyncio": ("36.1.0", client("kubernetes_asyncio", "test_asyncio.py", "kubernetes==37.*")),
    "lightkube": ("1.0.1", client("lightkube", "test_lightkube.py")),
    "@kubernetes/client-node": ("1.4.0", client_node),
}


def start(kite, directory):
    """Starts a server; its process and its kubeconfig."""
    state = directory / "server"
    log = open(directory / "server.log", "w")
    server = subprocess.Popen(
        [kite, "apiserver", "--actors", "--rbac", "--service-accounts",
         "--apiserver-listen", "127.0.0.1:0", "--state-dir", state], stdout=log, stderr=log)
    for _ in range(600):
        if (state / "ready.json").exists():
            break
        if server.poll() is not None:
            sys.exit(f"the server ended: {(directory / 'server.log').read_text()}")
        time.sleep(0.1)
    kubeconfig = state / "kubeconfig"
    # As in every cluster, something runs in kube-system.
    subprocess.run(["kubectl", "--kubeconfig", kubeconfig, "--namespace", "kube-system", "create",
                    "deployment", "coredns", "--image=coredns"], check=True)
    return server, kubeconfig


def is_known(name, known):
    """Whether known.toml has a test; a star at the end stands for the rest of a name."""
    return any(name == it or it.endswith("*") and name.startswith(it[:-1]) for it in known)


def judge(outcomes, known):
    """What is wrong with the outcome of a suite."""
    if not outcomes:
        return ["no test ran"]
    wrong = []
    for name, outcome in outcomes.items():
        expected = is_known(name, known)
        if outcome == "failed" and not expected:
            wrong.append(f"{name} fails")
        if outcome == "passed" and expected:
            wrong.append(f"{name} passes: take it out of known.toml")
    return wrong


def main():
    """Runs the suites that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kite", required=True, type=pathlib.Path, help="the binary")
    parser.add_argument("suites", nargs="*", help="all if none is named")
    asked = parser.parse_args()
    for name in asked.suites:
        if name not in SUITES:
            parser.error(f"no suite {name!r}: name some of {', '.join(SUITES)}")
    known = tomllib.loads((HERE / "known.toml").read_text())
    document = DOCUMENT.read_text()
    wrong = []
    for name in asked.suites or SUITES:
        version, suite = SUITES[name]
        directory = pathlib.Path(tempfile.mkdtemp(prefix="foreign-"))
        server, kubeconfig = start(asked.kite.resolve(), directory)
        try:
            outcomes = suite(Place(directory, kubeconfig), version)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
        counts = [list(outcomes.values()).count(it) for it in ("passed", "failed", "skipped")]
        row = f"| {name} | {version} | {' / '.join(map(str, counts))} |"
        print(row, flush=True)
        found = judge(outcomes, known.get(name, {}))
        if row not in document:
            found.append(f"docs/fake.md does not have the row: {row}")
        wrong += [f"{name}: {it}" for it in found]
        if not found:
            shutil.rmtree(directory)
        else:
            print(f"left in {directory}", *found, sep="\n", flush=True)
    sys.exit("\n".join(["", *wrong]) if wrong else 0)


if __name__ == "__main__":
    main()
