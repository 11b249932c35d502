// What an administrator sees of the cluster: how full it is, and images on their way.

import assert from "node:assert/strict";
import { PASSWORD, PATIENCE, accessible, api, button, heading, kubernetes, marked, says, scene, tokenOf } from "./world.mjs";

const GIB = 2 ** 30;
const MACHINE = ["Starting", "Running", "Migrating", "Paused", "Stopping"];

/** What charts show, by their names: rows of what is said and how long the bar is. */
const charts = (page) =>
  page.getByRole("figure").evaluateAll((figures) =>
    Object.fromEntries(
      figures.map((figure) => [
        figure.getAttribute("aria-label"),
        Object.fromEntries(
          [...figure.querySelectorAll("dl > div")].map((row) => [
            row.querySelector("dt").textContent,
            [row.querySelector("dd").textContent, Number.parseFloat(row.querySelector(".fill")?.style.width)],
          ]),
        ),
      ]),
    ),
  );

const size = (bytes) => {
  assert.ok(Number.isInteger(bytes / GIB), String(bytes));
  return bytes % (1024 * GIB) === 0 ? `${bytes / GIB / 1024} TiB` : `${bytes / GIB} GiB`;
};

/** What the overview has to say, by what the API tells. */
const told = async (token) => {
  const { nodes, cpu, memory } = await api("GET", "/admin/capacity", token);
  const { items, total } = await api("GET", "/vms?all=true&limit=1000", token);
  assert.equal(items.length, total);
  const all = Number.parseInt(memory, 10) * 2 ** 20;
  const used = (what, vms) => vms.reduce((sum, vm) => sum + vm.charge[what], 0);
  const on = items.filter((vm) => MACHINE.includes(vm.status.phase));
  const share = (part, whole) => Math.round((1000 * part) / whole) / 10;
  return {
    nodes,
    cluster: {
      CPUs: [`${used("cpu", on)} of ${cpu}`, share(used("cpu", on), cpu)],
      Memory: [`${size(used("memory", on))} of ${size(all)}`, share(used("memory", on), all)],
    },
    count: items.length,
    ofAnn: String(items.filter(({ owner }) => owner === "ann").length),
  };
};

const the_overview_shows_how_full_the_cluster_is = async () => {
  const token = await tokenOf("ann");
  await api("POST", "/vms", token, { name: "meter", cpu: 2, memory: "3Gi", disk: "10Gi", image: "debian-12", sshPassword: PASSWORD });
  const settled = async (phase) => {
    while ((await api("GET", "/vms/meter", token)).status.phase !== phase) await new Promise((done) => setTimeout(done, 200));
    return told(token);
  };
  const running = await settled("Running");
  await scene({ user: "ann" }, async (page) => {
    const shown = async () => {
      const { "Used of the cluster": rows } = await charts(page);
      return Object.fromEntries(Object.entries(rows).map(([name, [text, width]]) => [name, [text, Math.round(10 * width) / 10]]));
    };
    const comesTo = async (wanted) => {
      let is = await shown();
      for (const end = Date.now() + PATIENCE; Date.now() < end && JSON.stringify(is) !== JSON.stringify(wanted);) {
        await page.waitForTimeout(250);
        is = await shown();
      }
      assert.deepEqual(is, wanted);
    };
    await page.goto("/admin");
    const chart = page.getByRole("figure", { name: "Used of the cluster" });
    await chart.waitFor();
    assert.ok(running.nodes > 0);
    await page.getByText(`have of the cluster's nodes (${running.nodes}).`).waitFor();
    await comesTo(running.cluster);
    // Each is called what stands above it, and counts what the API has.
    const all = await charts(page);
    assert.deepEqual(Object.keys(all).sort(), (await page.locator(".section", { has: page.getByRole("figure") }).locator("h2").allInnerTexts()).sort());
    assert.equal(Object.values(all["VMs by state"]).reduce((sum, [text]) => sum + Number(text), 0), running.count);
    assert.equal(all["VMs by owner"].ann[0], running.ofAnn);
    // It follows what is stopped and started, without being loaded again.
    await api("POST", "/vms/meter/stop", token);
    const stopped = await settled("Stopped");
    assert.notDeepEqual(stopped.cluster, running.cluster);
    await comesTo(stopped.cluster);
    await api("POST", "/vms/meter/start", token);
    await comesTo((await settled("Running")).cluster);
  });
  await api("DELETE", "/vms/meter", token);
};

const card = (page, name) => page.getByRole("listitem").filter({ has: page.getByText(name, { exact: true }) });

const a_new_image_is_followed_until_it_is_ready = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/admin/images");
    await card(page, "debian-12").getByText("Ready").waitFor();
    // It passes fast: all that the card ever says is kept.
    await page.evaluate(() => {
      globalThis.said = [];
      const look = () => {
        const card = [...document.querySelectorAll(".vm-card")].find((it) => it.querySelector("code")?.textContent === "void-1");
        if (card === undefined) return;
        const is = JSON.stringify([card.querySelector(".badge").textContent, card.querySelector("[role=progressbar]") !== null]);
        if (globalThis.said.at(-1) !== is) globalThis.said.push(is);
      };
      new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true });
    });
    await kubernetes("POST", "/kiteimages", {
      apiVersion: "hy3ons.github.io/v1",
      kind: "KiteImage",
      metadata: { name: "void-1" },
      spec: { displayName: "Void", osFamily: "Debian", minDisk: "1Gi", source: { registry: { url: "docker://images.kite.test/void:1" } } },
    });
    try {
      await card(page, "void-1").getByText("Ready").waitFor();
      const said = (await page.evaluate(() => globalThis.said)).map((it) => JSON.parse(it));
      // On its way it has a bar, and none once it is there.
      assert.ok(said.length > 1, JSON.stringify(said));
      for (const [phase, hasBar] of said) assert.equal(hasBar, phase !== "Ready", JSON.stringify(said));
      assert.deepEqual(said.at(-1), ["Ready", false]);
    } finally {
      await kubernetes("DELETE", "/kiteimages/void-1");
    }
    await card(page, "void-1").waitFor({ state: "detached" });
  });

const an_administrator_adds_an_image = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/admin/images");
    await button(page, "New image").click();
    const dialog = page.getByRole("dialog", { name: "New image" });
    await accessible(page, "the dialog that adds an image");
    await dialog.getByLabel("Name", { exact: true }).fill("void-2");
    await dialog.getByLabel("Address", { exact: true }).fill("https://169.254.169.254/latest");
    await dialog.getByRole("button", { name: "Add image" }).click();
    await marked(dialog, "url");
    await dialog.getByText("spec.imageSources").waitFor();
    // No registry is reached from here.
    const told = { url: "docker://quay.io/containerdisks/void", tags: ["2", "1", "latest"], complete: true };
    await page.route("**/api/v1/admin/image-tags*", (route) => route.fulfill({ json: told }));
    await dialog.getByLabel("Address", { exact: true }).fill("docker://quay.io/containerdisks/void");
    await dialog.getByRole("button", { name: "Versions" }).click();
    await dialog.getByRole("button", { name: /Version(?!s)/ }).click();
    await page.getByRole("option", { name: "2", exact: true }).click();
    assert.equal(await dialog.getByLabel("Address", { exact: true }).inputValue(), `${told.url}:2`);
    await accessible(page, "the versions of an image");
    await dialog.getByLabel("Name for people").fill("Void Linux");
    await dialog.getByRole("button", { name: "Add image" }).click();
    await says(page, "void-2 is being imported.");
    const added = card(page, "void-2");
    await added.getByText("Ready").waitFor();
    await added.getByText("docker://quay.io/containerdisks/void:2").waitFor();
    await button(page, "Edit void-2").click();
    await page.getByRole("dialog").getByLabel("Smallest disk").fill("7Gi");
    await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    await added.getByText("disk from 7 GiB").waitFor();
    await accessible(page, "the catalogue of images");
    await button(page, "Delete void-2").click();
    await page.getByRole("dialog").getByRole("textbox").fill("void-2");
    await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
    await added.waitFor({ state: "detached" });
  });

const how_far_an_import_is_can_be_read_and_heard = () =>
  scene({ user: "ann" }, async (page) => {
    const image = { name: "void-1", displayName: "Void", osFamily: "Debian", minDisk: "1073741824", conditions: [] };
    let state = { phase: "Pending" };
    await page.route("**/api/v1/events*", (route) => route.abort());
    await page.route("**/api/v1/images*", (route) => route.fulfill({ json: { items: [{ ...image, ...state }], total: 1 } }));
    await page.goto("/admin/images");
    await heading(page, "Images");
    const bar = page.getByRole("progressbar", { name: "Import" });
    await card(page, "void-1").getByText("Not imported yet").waitFor();
    // Nobody knows yet how far it is.
    assert.equal(await bar.getAttribute("aria-valuenow"), null);
    await accessible(page, "an image that waits");
    for (const [progress, now, text] of [["42.0%", "42", "42 %"], ["97.5%", "97.5", "98 %"]]) {
      state = { phase: "Importing", progress };
      await bar.getByText(text, { exact: true }).waitFor();
      assert.equal(await bar.getAttribute("aria-valuenow"), now);
      assert.equal(await bar.locator(".fill").evaluate((it) => it.style.width), `${now}%`);
      await card(page, "void-1").getByText("Being imported").waitFor();
    }
    await accessible(page, "an image that is being imported");
    const says = (type, status, reason, message) => ({ conditions: [{ type, status, reason, message, lastTransitionTime: "2026-01-01T00:00:00Z" }] });
    state = { phase: "Failed", ...says("Ready", "False", "ImportFailed", "the import failed: no such host") };
    await card(page, "void-1").getByText("It cannot be imported.").waitFor();
    await card(page, "void-1").getByText("The import failed: no such host.").waitFor();
    assert.equal(await bar.count(), 0);
    await accessible(page, "an image that failed");
    state = { phase: "Ready", ...says("UpToDate", "False", "ImportFailed", "the newest image cannot be imported (timeout)") };
    await card(page, "void-1").getByText("A newer one cannot be imported").waitFor();
    await card(page, "void-1").getByText("The newest image cannot be imported (timeout).").waitFor();
    state = { phase: "Ready" };
    await card(page, "void-1").getByText("A newer one cannot be imported").waitFor({ state: "detached" });
    assert.equal(await card(page, "void-1").getByText("Details").count(), 0);
  });

export default {
  the_overview_shows_how_full_the_cluster_is,
  a_new_image_is_followed_until_it_is_ready,
  an_administrator_adds_an_image,
  how_far_an_import_is_can_be_read_and_heard,
};
