// @kubernetes/client-node, by node's own test runner: objects, patches, watches, informers,
// custom objects, whole documents.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

// From where the runner has installed it.
const require = createRequire(`${process.env.FOREIGN_NODE_MODULES}/`);
const k8s = require("@kubernetes/client-node");

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const custom = config.makeApiClient(k8s.CustomObjectsApi);
const namespace = `foreign-${randomUUID().slice(0, 8)}`;

const configMap = (name, data = {}) => ({ metadata: { name }, data });
const deployment = (name, replicas) => ({
  metadata: { name },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: { containers: [{ name: "main", image: "example.com/main" }] },
    },
  },
});

async function until(holds) {
  for (let round = 0; round < 300; round += 1) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail("it did not come to be in time");
}

const patched = (type) => k8s.setHeaderOptions("Content-Type", type);

before(() => core.createNamespace({ body: { metadata: { name: namespace } } }));
after(() => core.deleteNamespace({ name: namespace }));

test("an object lives", async () => {
  const name = "lives";
  const made = await core.createNamespacedConfigMap({ namespace, body: configMap(name, { x: "1" }) });
  assert.deepEqual(made.data, { x: "1" });
  made.data.y = "2";
  await core.replaceNamespacedConfigMap({ name, namespace, body: made });
  await assert.rejects(core.replaceNamespacedConfigMap({ name, namespace, body: made }), { code: 409 });
  await core.deleteNamespacedConfigMap({ name, namespace });
  await assert.rejects(core.readNamespacedConfigMap({ name, namespace }), { code: 404 });
});

test("each patch changes what it says", async () => {
  const name = "patched";
  await core.createNamespacedConfigMap({ namespace, body: configMap(name, { x: "1" }) });
  const patch = (body, type) => core.patchNamespacedConfigMap({ name, namespace, body }, patched(type));
  const strategic = await patch({ data: { y: "2" } }, k8s.PatchStrategy.StrategicMergePatch);
  assert.deepEqual(strategic.data, { x: "1", y: "2" });
  const merged = await patch({ data: { x: null } }, k8s.PatchStrategy.MergePatch);
  assert.deepEqual(merged.data, { y: "2" });
  const add = [{ op: "add", path: "/data/z", value: "3" }];
  assert.deepEqual((await patch(add, k8s.PatchStrategy.JsonPatch)).data, { y: "2", z: "3" });
});

test("apply keeps what others have", async () => {
  const name = "applied";
  await core.createNamespacedConfigMap({ namespace, body: configMap(name, { x: "1" }) });
  const body = { apiVersion: "v1", kind: "ConfigMap", ...configMap(name, { y: "2" }) };
  const found = await core.patchNamespacedConfigMap(
    { name, namespace, body, fieldManager: "me", force: true },
    patched(k8s.PatchStrategy.ServerSideApply),
  );
  assert.deepEqual(found.data, { x: "1", y: "2" });
});

test("a list comes in pages", async () => {
  for (let number = 0; number < 5; number += 1) {
    const body = { metadata: { name: `page-${number}`, labels: { of: "pages" } } };
    await core.createNamespacedConfigMap({ namespace, body });
  }
  const names = [];
  let _continue;
  do {
    const page = await core.listNamespacedConfigMap({ namespace, labelSelector: "of=pages", limit: 2, _continue });
    names.push(...page.items.map((it) => it.metadata.name));
    _continue = page.metadata._continue;
  } while (_continue);
  assert.deepEqual(names, [0, 1, 2, 3, 4].map((number) => `page-${number}`));
});

test("a watch sees what comes", async () => {
  const since = (await core.listNamespacedConfigMap({ namespace })).metadata.resourceVersion;
  await core.createNamespacedConfigMap({ namespace, body: configMap("watched") });
  await core.deleteNamespacedConfigMap({ name: "watched", namespace });
  const seen = [];
  await new Promise((resolve, reject) => {
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    let request;
    const happened = (type, object) => {
      seen.push([type, object.metadata.name]);
      if (seen.length === 2) request.then((it) => it.abort());
    };
    const ended = (error) => (error && error.name !== "AbortError" ? reject(error) : resolve());
    request = new k8s.Watch(config).watch(path, { resourceVersion: since }, happened, ended);
  });
  assert.deepEqual(seen, [["ADDED", "watched"], ["DELETED", "watched"]]);
});

test("an informer keeps a copy", async () => {
  const path = `/api/v1/namespaces/${namespace}/secrets`;
  const informer = k8s.makeInformer(config, path, () => core.listNamespacedSecret({ namespace }));
  const names = new Set();
  informer.on("add", (it) => names.add(it.metadata.name));
  informer.on("delete", (it) => names.delete(it.metadata.name));
  await informer.start();
  await core.createNamespacedSecret({ namespace, body: { metadata: { name: "informed" }, stringData: { a: "b" } } });
  await until(() => names.has("informed"));
  await core.deleteNamespacedSecret({ name: "informed", namespace });
  await until(() => !names.has("informed"));
  await informer.stop();
});

test("a deployment rolls out and is scaled", async () => {
  const name = "web";
  await apps.createNamespacedDeployment({ namespace, body: deployment(name, 2) });
  const status = async () => (await apps.readNamespacedDeploymentStatus({ name, namespace })).status;
  await until(async () => (await status()).readyReplicas === 2);
  const body = { spec: { replicas: 1 } };
  await apps.patchNamespacedDeploymentScale({ name, namespace, body }, patched(k8s.PatchStrategy.MergePatch));
  await until(async () => (await status()).replicas === 1);
});

test("custom objects have a status", async () => {
  const group = `g${randomUUID().slice(0, 8)}.example.com`;
  const definitions = config.makeApiClient(k8s.ApiextensionsV1Api);
  const schema = { openAPIV3Schema: { type: "object", x_kubernetes_preserve_unknown_fields: true } };
  const version = { name: "v1", served: true, storage: true, schema, subresources: { status: {} } };
  const names = { plural: "widgets", singular: "widget", kind: "Widget" };
  const name = `widgets.${group}`;
  const definition = { metadata: { name }, spec: { group, scope: "Namespaced", names, versions: [version] } };
  await definitions.createCustomResourceDefinition({ body: definition });
  const place = { group, version: "v1", namespace, plural: "widgets" };
  await until(() => custom.listNamespacedCustomObject(place).then(() => true, () => false));
  const widget = { apiVersion: `${group}/v1`, kind: "Widget", metadata: { name: "w" }, spec: { size: "s" } };
  await custom.createNamespacedCustomObject({ ...place, body: widget });
  await custom.patchNamespacedCustomObjectStatus(
    { ...place, name: "w", body: { status: { seen: true } } },
    patched(k8s.PatchStrategy.MergePatch),
  );
  const found = await custom.getNamespacedCustomObject({ ...place, name: "w" });
  assert.deepEqual([found.spec, found.status], [{ size: "s" }, { seen: true }]);
  await definitions.deleteCustomResourceDefinition({ name });
});

test("whole documents are created, read and deleted", async () => {
  const objects = k8s.KubernetesObjectApi.makeApiClient(config);
  const [document] = k8s.loadAllYaml(
    `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: document\n  namespace: ${namespace}\ndata:\n  a: b\n`,
  );
  const made = await objects.create(document);
  assert.deepEqual((await objects.read(made)).data, { a: "b" });
  await objects.delete(made);
});

test("rights and tokens", async () => {
  const reviews = config.makeApiClient(k8s.AuthorizationV1Api);
  const spec = { resourceAttributes: { verb: "create", resource: "pods" } };
  const review = await reviews.createSelfSubjectAccessReview({ body: { spec } });
  assert.equal(review.status.allowed, true);
  await core.createNamespacedServiceAccount({ namespace, body: { metadata: { name: "robot" } } });
  const token = await core.createNamespacedServiceAccountToken({ name: "robot", namespace, body: { spec: { audiences: [] } } });
  const authentication = config.makeApiClient(k8s.AuthenticationV1Api);
  const said = await authentication.createTokenReview({ body: { spec: { token: token.status.token } } });
  assert.equal(said.status.user.username, `system:serviceaccount:${namespace}:robot`);
});

test("the cluster says what it is", async () => {
  const version = await config.makeApiClient(k8s.VersionApi).getCode();
  assert.equal(version.major, "1");
  const groups = await config.makeApiClient(k8s.ApisApi).getAPIVersions();
  assert.ok(groups.groups.some((it) => it.name === "apps"));
});
