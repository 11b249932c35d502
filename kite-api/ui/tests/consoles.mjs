// Consoles in the page, and what is asked before it is left.

import assert from "node:assert/strict";
import { accessible, api, button, confirm, fitsWidth, heading, says, scene, tokenOf } from "./world.mjs";

const a_console_says_when_there_is_none = () =>
  scene({ user: "ann" }, async (page) => {
    const ticket = { status: 404, json: { type: "urn:kite:problem:not-found", title: "Not found", status: 404 } };
    await page.route("**/api/v1/vms/web/console", (route) => route.fulfill(ticket));
    await page.goto("/vms/web?tab=terminal");
    await button(page, "Connect").click();
    await says(page, "This server has no consoles");
  });

/** Opens a console of the VM web. */
const connect = async (page, tab) => {
  await page.goto(`/vms/web?tab=${tab}`);
  await button(page, "Connect").click();
};

/** Waits until a terminal shows a text. */
const shows = (page, text) =>
  page.waitForFunction(
    (text) => document.querySelector(".text-console .xterm-accessibility")?.textContent?.includes(text),
    text,
  );

const a_terminal_is_typed_into = () =>
  scene({ user: "ann" }, async (page) => {
    await connect(page, "terminal");
    await shows(page, "$");
    // The quotes are not in what the shell answers.
    await page.keyboard.type("echo was''-typed\n");
    await shows(page, "was-typed");
    await page.keyboard.type("echo last''-words; exit 3\n");
    // What it showed last can still be read.
    await says(page, "The shell ended (exit status 3).");
    assert.equal(await page.getByRole("alert").count(), 0, "nothing is broken");
    await shows(page, "last-words");
    await accessible(page, "a terminal that has ended");
    await button(page, "Connect again").click();
    await button(page, "Disconnect").waitFor();
    await page.waitForFunction(() => !document.querySelector(".text-console .xterm-accessibility")?.textContent?.includes("last-words"));
  });

const programs_have_all_colours_and_styles = () =>
  scene({ user: "ann" }, async (page) => {
    await page.routeWebSocket("**/api/v1/console", (socket) => {
      socket.onMessage((message) => {
        if (typeof message !== "string" || !("ticket" in JSON.parse(message))) return;
        socket.send(JSON.stringify({ ready: true }));
        // Of 24 bits, of the table of 256, and of a line below.
        socket.send(Buffer.from("\x1b[38;2;255;100;0;48;2;0;20;60;1mvivid\x1b[0m \x1b[38;5;208mtabled\x1b[0m "));
        socket.send(Buffer.from("\x1b[4;58;2;1;2;3mlined\x1b[0m plain"));
      });
    });
    await connect(page, "terminal");
    await shows(page, "plain");
    const letters = (text) => page.locator(".text-console .xterm-rows span", { hasText: text }).first();
    const styleOf = (text) =>
      letters(text).evaluate((element) => {
        const { color, backgroundColor, fontWeight, textDecorationColor } = getComputedStyle(element);
        return { color, backgroundColor, fontWeight, textDecorationColor };
      });
    const vivid = await styleOf("vivid");
    assert.deepEqual([vivid.color, vivid.backgroundColor, vivid.fontWeight], ["rgb(255, 100, 0)", "rgb(0, 20, 60)", "700"]);
    assert.equal((await styleOf("tabled")).color, "rgb(255, 135, 0)");
    assert.equal((await styleOf("lined")).textDecorationColor, "rgb(1, 2, 3)");
    // What is selected is drawn anew, and `scene` looks whether the browser has complained.
    const { x, y } = await letters("vivid").boundingBox();
    await page.mouse.dblclick(x + 4, y + 4);
    await page.locator(".text-console .xterm-selection div").first().waitFor({ state: "attached" });
  });

const a_console_that_does_not_open_can_be_given_up = () =>
  scene({ user: "ann", width: 390, waits: false }, async (page) => {
    let [dialled, closed] = [0, 0];
    const tickets = [];
    await page.routeWebSocket("**/api/v1/console", (socket) => {
      dialled += 1;
      socket.onMessage((message) => typeof message === "string" && tickets.push(JSON.parse(message).ticket));
      socket.onClose(() => (closed += 1));
    });
    for (const [count, tab] of ["terminal", "screen", "serial"].entries()) {
      await connect(page, tab);
      while (dialled <= count) await page.waitForTimeout(20);
      await page.getByRole("status").filter({ hasText: "Loading" }).waitFor();
      await accessible(page, `a ${tab} that is being opened`);
      await fitsWidth(page, `a ${tab} that is being opened`);
      // Who opened it is beside the button that gives it up, and not on it.
      await page.waitForFunction(() => document.activeElement?.matches(".console-bar"));
      await page.keyboard.press("Enter");
      await page.keyboard.press("Tab");
      await page.waitForFunction(() => document.activeElement?.textContent?.includes("Stop connecting"));
      await page.keyboard.press("Enter");
      await says(page, "You have stopped connecting.");
      await page.waitForFunction(() => document.activeElement?.textContent?.includes("You have stopped connecting."));
      assert.equal(await page.getByRole("alert").count(), 0, "nothing is broken");
      await button(page, "Connect again").waitFor();
      assert.equal(await button(page, "Stop connecting").count(), 0);
      while (closed <= count) await page.waitForTimeout(20);
    }
    // The ticket has not come yet: nothing is dialled with it afterwards.
    let answer;
    await page.route("**/api/v1/vms/web/console", (route) => (answer = () => route.fulfill({ status: 200, json: { ticket: "late" } })));
    await button(page, "Connect again").click();
    while (answer === undefined) await page.waitForTimeout(20);
    await button(page, "Stop connecting").click();
    const answered = page.waitForResponse("**/api/v1/vms/web/console");
    await answer();
    await answered;
    await says(page, "You have stopped connecting.");
    // Had it been dialled, that would have been before the next.
    await page.unroute("**/api/v1/vms/web/console");
    await page.route("**/api/v1/vms/web/console", (route) => route.fulfill({ status: 200, json: { ticket: "next" } }));
    await button(page, "Connect again").click();
    while (!tickets.includes("next")) await page.waitForTimeout(20);
    assert.ok(!tickets.includes("late"), "what was given up is dialled");
    assert.equal(dialled, 4);
    await button(page, "Stop connecting").click();
    await says(page, "You have stopped connecting.");
  });

const who_is_recorded_is_told_so_for_as_long = async () => {
  const mark = "This session is recorded.";
  for (const recorded of [true, false]) {
    await scene({ user: "ann" }, async (page) => {
      await page.routeWebSocket("**/api/v1/console", (socket) => {
        socket.onMessage((message) => {
          if (typeof message !== "string" || !("ticket" in JSON.parse(message))) return;
          socket.send(JSON.stringify(recorded ? { ready: true, recorded } : { ready: true }));
          socket.send(Buffer.from("welcome$ "));
        });
      });
      await connect(page, "terminal");
      await shows(page, "welcome$");
      const told = page.getByRole("status").filter({ hasText: mark });
      assert.equal(await told.count(), recorded ? 1 : 0);
      await accessible(page, `a terminal, ${recorded ? "" : "not "}recorded`);
    });
  }
};

const that_terminals_are_recorded_is_told_before = () =>
  scene({ user: "ann" }, async (page) => {
    const told = page.getByText("Terminals are recorded here", { exact: false });
    await page.goto("/vms/web?tab=terminal");
    await told.waitFor();
    await accessible(page, "before a recorded terminal");
    await page.goto("/vms/web?tab=serial");
    await button(page, "Connect").waitFor();
    assert.equal(await told.count(), 0, "serial lines are not");
    await page.route("**/api/v1/config", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), terminalsRecorded: false } });
    });
    await page.goto("/vms/web?tab=terminal");
    await button(page, "Connect").waitFor();
    assert.equal(await told.count(), 0);
  });

const tab = (page, name) => page.getByRole("tab", { name, exact: true });

const consoles_stay_while_another_tab_is_looked_at = () =>
  scene({ user: "ann" }, async (page) => {
    const sizes = [];
    page.on("websocket", (socket) =>
      socket.on("framesent", ({ payload }) => typeof payload === "string" && sizes.push(JSON.parse(payload))),
    );
    await connect(page, "terminal");
    await shows(page, "$");
    await page.keyboard.type("echo first''-words\n");
    await shows(page, "first-words");
    await tab(page, "Serial console").click();
    await button(page, "Connect").click();
    await button(page, "Disconnect").waitFor();
    await tab(page, "Overview").click();
    await tab(page, "Terminal connected").waitFor();
    await tab(page, "Serial console connected").waitFor();
    await accessible(page, "tabs that are connected");
    await tab(page, "Terminal connected").click();
    await page.locator(".text-console:visible").click();
    await page.keyboard.type("echo again''-words\n");
    await shows(page, "again-words");
    await shows(page, "first-words");
    // While nobody saw it, it was as large as before.
    const isTiny = ({ cols, resize = { cols } }) => resize.cols < 40;
    assert.deepEqual(sizes.filter(isTiny), []);
    await button(page, "Disconnect").click();
    await says(page, "You have disconnected.");
    await tab(page, "Terminal").waitFor();
    await shows(page, "again-words");
  });

const who_is_connected_is_asked_before_the_page_is_left = () =>
  scene({ user: "ann" }, async (page) => {
    await connect(page, "terminal");
    await shows(page, "$");
    const offers = page.getByRole("link", { name: "Offers", exact: true });
    await offers.click();
    const dialog = page.getByRole("dialog", { name: "Leave this page?" });
    await dialog.getByText("You are connected: Terminal.", { exact: false }).waitFor();
    await accessible(page, "the question whether to leave");
    await dialog.getByRole("button", { name: "Stay" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.locator(".text-console").click();
    await page.keyboard.type("echo still''-there\n");
    await shows(page, "still-there");
    // The browser asks itself, of a page that is loaded anew.
    const asked = page.waitForEvent("dialog");
    const reloaded = page.reload();
    const question = await asked;
    assert.equal(question.type(), "beforeunload");
    await question.accept();
    await reloaded;
    await button(page, "Connect").click();
    await shows(page, "$");
    await offers.click();
    await dialog.getByRole("button", { name: "Leave" }).click();
    await heading(page, "Offers");
  });

const edits_survive_other_tabs_and_are_asked_about = () =>
  scene({ user: "ann" }, async (page) => {
    const vms = page.getByRole("link", { name: "Virtual machines", exact: true });
    const dialog = page.getByRole("dialog", { name: "Leave this page?" });
    const idle = page.getByLabel("Switch off when unused for");
    const settings = async () => {
      await vms.click();
      await heading(page, "Virtual machines");
      await page.getByRole("link", { name: "web", exact: true }).click();
      await tab(page, "Settings").click();
      await idle.waitFor();
    };
    await page.goto("/vms/web?tab=settings");
    await idle.focus();
    // Nothing was changed.
    await settings();
    await idle.fill("300h");
    await tab(page, "Overview").click();
    await tab(page, "Settings").click();
    assert.equal(await idle.inputValue(), "300h");
    await vms.click();
    await dialog.getByText("is not saved", { exact: false }).waitFor();
    await dialog.getByRole("button", { name: "Stay" }).click();
    await dialog.waitFor({ state: "detached" });
    await button(page, "Save").first().click();
    await says(page, "Saved.");
    // What is saved is nobody's edit.
    await settings();
    await idle.fill("");
    await vms.click();
    await dialog.getByRole("button", { name: "Leave" }).click();
    await heading(page, "Virtual machines");
    const vm = await api("GET", "/vms/web", await tokenOf("ann"));
    assert.equal(vm.idleTimeout, "300h");
    await api("PATCH", "/vms/web", await tokenOf("ann"), { idleTimeout: null });
  });

const that_the_vm_was_restarted_is_told = () =>
  scene({ user: "ann" }, async (page) => {
    await connect(page, "terminal");
    await shows(page, "$");
    await button(page, "Restart web").click();
    await confirm(page, "Restart web?", "Restart");
    await says(page, "The VM was restarted.");
    assert.equal(await page.getByRole("alert").count(), 0, "nothing is broken");
    await page.getByText("Running", { exact: true }).first().waitFor();
  });

const keys_lead_out_of_a_console = () =>
  scene({ user: "ann" }, async (page) => {
    for (const [tab, inside] of [["screen", ".screen"], ["serial", ".text-console"]]) {
      await connect(page, tab);
      await page.waitForFunction((inside) => document.activeElement?.closest(inside), inside);
      await page.keyboard.press("Tab");
      assert.ok(await page.evaluate((inside) => document.activeElement?.closest(inside) !== null, inside), "Tab is the VM's");
      await page.keyboard.press("Control+Shift+F6");
      await page.waitForFunction(() => document.activeElement?.closest(".console-bar"));
      await button(page, "Disconnect").click();
      await says(page, "You have disconnected.");
    }
  });

const the_end_of_a_full_screen_is_seen = () =>
  scene({ user: "ann" }, async (page) => {
    await connect(page, "terminal");
    await shows(page, "$");
    await button(page, "Full screen").click();
    await button(page, "Leave full screen").waitFor();
    await page.keyboard.type("exit\n");
    await says(page, "The shell ended (exit status 0).");
    await page.waitForFunction(() => document.fullscreenElement === null);
    await page.waitForFunction(() => document.activeElement?.closest(".console-end"));
  });

const who_signs_out_is_asked_what_becomes_of_a_shell = () =>
  scene({ user: "ann" }, async (page) => {
    await connect(page, "terminal");
    await shows(page, "$");
    await button(page, "Sign out").click();
    const dialog = page.getByRole("dialog", { name: "Sign out?" });
    await dialog.getByText("ends what runs in the foreground of the terminal").waitFor();
    await dialog.getByRole("button", { name: "Stay" }).click();
    await dialog.waitFor({ state: "detached" });
    await button(page, "Sign out").click();
    await dialog.getByRole("button", { name: "Sign out" }).click();
    await heading(page, "Sign in");
  });

const a_serial_line_asks_who_one_is = () =>
  scene({ user: "ann" }, async (page) => {
    await connect(page, "serial");
    await page.locator(".text-console .xterm").waitFor();
    await page.keyboard.press("Enter");
    await shows(page, "login:");
  });

const a_screen_changes = () =>
  scene({ user: "ann" }, async (page) => {
    await connect(page, "screen");
    // A number that is another when the picture is; 0 for one that is black.
    await page.evaluate(() => {
      globalThis.picture = () => {
        const canvas = document.querySelector(".screen canvas");
        if (!canvas || canvas.width < 300) return 0;
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return data.reduce((sum, value, at) => (at % 4 < 3 ? (sum * 31 + value) >>> 0 : sum), 0);
      };
    });
    const before = await (await page.waitForFunction(() => globalThis.picture())).jsonValue();
    await page.locator(".screen canvas").click();
    await page.keyboard.type("hello");
    await page.waitForFunction((before) => ![0, before].includes(globalThis.picture()), before);
  });

const a_screen_has_what_a_browser_keeps_from_it = () =>
  scene({ user: "ann" }, async (page) => {
    const keys = [];
    page.on("websocket", (socket) =>
      socket.on("framesent", ({ payload }) => {
        // RFB's KeyEvent (RFC 6143, 7.5.4): 4, down or up, two of padding, the key.
        for (let at = 0; typeof payload !== "string" && payload[at] === 4; at += 8) {
          if (payload[at + 1] === 1) keys.push(payload.readUInt32BE(at + 4));
        }
      }),
    );
    await page.clock.install();
    await connect(page, "screen");
    await button(page, "Send Ctrl+Alt+Del").click();
    while (!keys.includes(0xffff)) await new Promise((resolve) => setTimeout(resolve, 50));
    assert.deepEqual(keys.slice(0, 3), [0xffe3, 0xffe9, 0xffff]);
    await accessible(page, "a screen");
    // The frame is around what has the focus.
    const framed = await page.evaluate(() =>
      [".tabs", ".screen"].map((name) => getComputedStyle(document.querySelector(name)).outlineStyle),
    );
    assert.deepEqual(framed, ["none", "solid"]);
    await button(page, "Full screen").click();
    await button(page, "Leave full screen").waitFor();
    const [filled, whole] = await page.evaluate(() => [
      document.querySelector(".screen").getBoundingClientRect().height,
      window.innerHeight,
    ]);
    assert.ok(filled > whole * 0.8, `${filled} of ${whole}`);
    await button(page, "Leave full screen").click();
    await button(page, "Full screen").waitFor();
    await button(page, "Disconnect").click();
    await says(page, "You have disconnected.");
    // What noVNC complains about only after a while.
    await page.clock.fastForward(10_000);
    await button(page, "Connect again").click();
    await button(page, "Disconnect").waitFor();
    await page.getByRole("link", { name: "Offers", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Leave" }).click();
    await heading(page, "Offers");
    await page.clock.fastForward(10_000);
  });

export default {
  a_console_says_when_there_is_none,
  a_terminal_is_typed_into,
  programs_have_all_colours_and_styles,
  a_console_that_does_not_open_can_be_given_up,
  who_is_recorded_is_told_so_for_as_long,
  that_terminals_are_recorded_is_told_before,
  consoles_stay_while_another_tab_is_looked_at,
  who_is_connected_is_asked_before_the_page_is_left,
  edits_survive_other_tabs_and_are_asked_about,
  that_the_vm_was_restarted_is_told,
  keys_lead_out_of_a_console,
  the_end_of_a_full_screen_is_seen,
  who_signs_out_is_asked_what_becomes_of_a_shell,
  a_serial_line_asks_who_one_is,
  a_screen_changes,
  a_screen_has_what_a_browser_keeps_from_it,
};
