import assert from "node:assert/strict";
import { accessible, fitsWidth, heading, scene } from "./world.mjs";

const PAGES = [
  ["/", "Virtual machines", "가상 머신"],
  ["/vms/web", "web", "web"],
  ["/vms/web?tab=terminal", "web", "web"],
  ["/vms/web?tab=sessions", "web", "web"],
  ["/vms/web?tab=snapshots", "web", "web"],
  ["/vms/web?tab=settings", "web", "web"],
  ["/disks", "Disks", "디스크"],
  ["/offers", "Offers", "제공 VM"],
  ["/account", "Account", "계정"],
  ["/admin", "Overview", "현황"],
  ["/admin/users", "Users", "사용자"],
  ["/admin/vms", "All VMs", "모든 VM"],
  ["/admin/volumes", "All volumes", "모든 볼륨"],
  ["/admin/sessions", "Sessions in VMs", "VM 접속 세션"],
  ["/admin/images", "Images", "이미지"],
  ["/admin/offers", "Offers to users", "VM 제공"],
  ["/admin/invites", "Invites", "초대"],
  ["/admin/platform", "Platform", "플랫폼"],
];

const LOCALES = ["en-US", "ko-KR"];

/** Each page in both languages and both themes, on a phone and on a wide screen. */
const look = (locale, theme, width) => async () => {
  const how = `${locale}, ${theme}, ${width} px`;
  for (const path of ["/sign-in", "/sign-up"]) {
    await scene({ locale, theme, width }, async (page) => {
      await page.goto(path);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await accessible(page, `${path} (${how})`);
      await fitsWidth(page, `${path} (${how})`);
    });
  }
  await scene({ user: "ann", locale, theme, width }, async (page) => {
    for (const [path, ...titles] of PAGES) {
      await page.goto(path);
      await heading(page, titles[LOCALES.indexOf(locale)]);
      await page.locator(".loading").first().waitFor({ state: "detached" });
      await accessible(page, `${path} (${how})`);
      await fitsWidth(page, `${path} (${how})`);
    }
  });
};

const every_page_is_for_everybody_in_the_light = look("en-US", "light", 1440);
const every_page_is_for_everybody_in_the_dark_on_a_phone = look("en-US", "dark", 390);
const every_page_is_for_everybody_in_korean_on_a_phone = look("ko-KR", "light", 390);
const every_page_is_for_everybody_in_korean_in_the_dark = look("ko-KR", "dark", 1440);

/** What a page takes at most of the network until all of it is there, in whichever language. */
const MOST_BYTES = 235_000;

const firstLoad = (path, user, locale) =>
  scene({ user, locale }, async (page, context) => {
    const client = await context.newCDPSession(page);
    await client.send("Network.enable");
    const files = new Map();
    client.on("Network.responseReceived", ({ requestId, response }) => files.set(requestId, response.url));
    let total = 0;
    client.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
      if (!files.get(requestId)?.includes("/api/")) total += encodedDataLength;
    });
    await page.goto(path);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.locator(".loading").first().waitFor({ state: "detached" });
    // News come for as long as the page is open: the network is never idle.
    let before;
    do {
      before = total;
      await page.waitForTimeout(500);
    } while (total !== before);
    assert.ok(total > 50_000 && total < MOST_BYTES, `${path} in ${locale}: ${total} bytes`);
  });

const the_first_load_is_small = async () => {
  for (const locale of LOCALES) {
    await firstLoad("/sign-in", undefined, locale);
    for (const path of ["/", "/vms/web", "/vms/web?tab=settings", "/account", "/admin"]) await firstLoad(path, "ann", locale);
  }
};

export default {
  every_page_is_for_everybody_in_the_light,
  every_page_is_for_everybody_in_the_dark_on_a_phone,
  every_page_is_for_everybody_in_korean_on_a_phone,
  every_page_is_for_everybody_in_korean_in_the_dark,
  the_first_load_is_small,
};
