import assert from "node:assert/strict";
import { PASSWORD, accessible, api, button, fill, heading, says, scene, tokenOf } from "./world.mjs";

const an_ended_session_leads_to_the_sign_in_and_back = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/vms/web?tab=settings");
    await says(page, "Who can log in");
    await api("DELETE", "/me/sessions", await tokenOf("ann"));
    await says(page, "Your session has ended.");
    await fill(page, "Username", "ann");
    await fill(page, "Password", PASSWORD);
    await button(page, "Sign in").click();
    await heading(page, "web");
    assert.match(page.url(), /\/vms\/web\?tab=settings$/);
  });

const a_lost_connection_is_told_and_recovers = () =>
  scene({ user: "ann" }, async (page, context) => {
    await page.goto("/");
    await page.getByRole("link", { name: "web", exact: true }).waitFor();
    await context.setOffline(true);
    await button(page, "Stop web").click();
    const question = page.getByRole("dialog", { name: "Stop web?" });
    await question.getByRole("button", { name: "Stop", exact: true }).click();
    await question.getByText("The server cannot be reached.").waitFor();
    await question.getByRole("button", { name: "Cancel" }).click();
    await says(page, "No connection to the server.");
    await page.getByRole("link", { name: "web", exact: true }).waitFor();
    await context.setOffline(false);
    await page.getByText("No connection to the server.").waitFor({ state: "detached" });
  });

const news_come_again_after_they_were_refused = () =>
  scene({ user: "ann" }, async (page) => {
    // As when the access token has ended; the browser gives up on its own then.
    const problem = { type: "urn:kite:problem:unauthenticated", title: "Sign in", status: 401 };
    const refusal = { status: 401, contentType: "application/problem+json", body: JSON.stringify(problem) };
    await page.route("**/api/v1/events", (route) => route.fulfill(refusal), { times: 1 });
    const refused = page.waitForResponse((it) => it.url().endsWith("/events") && it.status() === 401);
    const streamed = page.waitForResponse((it) => it.url().endsWith("/events") && it.status() === 200);
    await page.goto("/");
    await refused;
    await streamed;
  });

const an_api_older_than_the_page_will_do = () =>
  scene({ user: "ann" }, async (page) => {
    const problem = { type: "urn:kite:problem:not-found", title: "Not found", status: 404 };
    await page.route("**/api/v1/auth/session", (route) => route.fulfill({ status: 404, json: problem }));
    await page.route("**/api/v1/events*", (route) => route.abort());
    await page.route("**/api/v1/vms?*", async (route) => {
      const answer = await (await route.fetch()).json();
      for (const vm of answer.items) delete vm.charge;
      await route.fulfill({ json: answer });
    });
    await page.goto("/");
    await page.getByRole("link", { name: "web", exact: true }).waitFor();
    await page.getByLabel("What you use of your quota").waitFor();
    await page.goto("/admin");
    await says(page, "VMs by state");
  });

const a_part_of_the_page_that_is_gone_is_loaded_again = () =>
  scene({ user: "ann" }, async (page, _context, faults) => {
    await page.goto("/");
    await page.getByRole("link", { name: "web", exact: true }).waitFor();
    // As after an upgrade: the page that is open knows the names of before.
    await page.route("**/assets/AccountPage-*.js", (route) => route.fulfill({ status: 404 }));
    await page.getByRole("link", { name: "Account", exact: true }).click();
    await page.getByRole("heading", { name: "This page cannot be shown" }).waitFor();
    await accessible(page, "a page that cannot be shown");
    assert.ok(faults.length > 0 && faults.every((it) => it.includes("AccountPage")), faults.join("; "));
    faults.length = 0;
    await page.unroute("**/assets/AccountPage-*.js");
    await button(page, "Load again").click();
    await heading(page, "Account");
  });

const what_is_not_there_says_so = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/no/such/page");
    await heading(page, "Nothing here");
    await page.getByRole("link", { name: "To your virtual machines" }).click();
    await heading(page, "Virtual machines");
  });

const the_keyboard_is_enough = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/");
    await button(page, "New VM").waitFor();
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
    await button(page, "New VM").focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    // The name has the focus, and Escape gives it back to the button.
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute("name")), "name");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.waitForFunction(() => document.activeElement?.textContent?.includes("New VM"));
  });

export default {
  an_ended_session_leads_to_the_sign_in_and_back,
  a_lost_connection_is_told_and_recovers,
  news_come_again_after_they_were_refused,
  an_api_older_than_the_page_will_do,
  a_part_of_the_page_that_is_gone_is_loaded_again,
  what_is_not_there_says_so,
  the_keyboard_is_enough,
};
