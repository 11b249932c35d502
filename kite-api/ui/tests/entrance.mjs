import assert from "node:assert/strict";
import { KITE_BOOTSTRAP_TOKEN, PASSWORD, accessible, button, fill, heading, says, scene } from "./world.mjs";

const the_first_visitor_becomes_the_administrator = () =>
  scene({}, async (page) => {
    await page.goto("/");
    await heading(page, "Set up Kite");
    await accessible(page, "bootstrap");
    // Each secret's button says which it shows.
    for (const name of ["Show: One-use token", "Show: Password"]) await button(page, name).waitFor();
    await fill(page, "One-use token", "wrong");
    await fill(page, "Username", "ann");
    await fill(page, "Password", PASSWORD);
    await button(page, "Create administrator").click();
    await says(page, "Is not the right one");
    await fill(page, "One-use token", KITE_BOOTSTRAP_TOKEN);
    await button(page, "Create administrator").click();
    await heading(page, "Virtual machines");
    await says(page, "No virtual machines yet");
  });

const a_user_signs_up_signs_out_and_in_again = () =>
  scene({}, async (page) => {
    await page.goto("/sign-in");
    await page.getByRole("link", { name: "Create an account" }).click();
    await heading(page, "Create an account");
    await says(page, "It begins with a letter and does not end with a hyphen.");
    await fill(page, "Username", "Bob!");
    await fill(page, "Password", "short");
    await button(page, "Create account").click();
    // What the API says stands at the field, and the field has the focus.
    const name = page.getByLabel("Username", { exact: true });
    await page.locator("input[name=username][aria-invalid=true], input[name=password][aria-invalid=true]").first().waitFor();
    await name.fill("bob");
    await fill(page, "Password", PASSWORD);
    await button(page, "Create account").click();
    await heading(page, "Virtual machines");
    await button(page, "Sign out").click();
    await says(page, "You are signed out.");
    await fill(page, "Username", "bob");
    // Spaces are a password, too, seen or not.
    for (const look of [() => undefined, () => button(page, "Show: Password").click()]) {
      const refusal = { type: "urn:kite:problem:wrong-credentials", title: "Wrong", status: 401 };
      await page.route("**/auth/sign-in", (route) => route.fulfill({ status: 401, json: refusal }), { times: 1 });
      await fill(page, "Password", " ".repeat(12));
      await look();
      const sent = page.waitForRequest("**/auth/sign-in");
      await button(page, "Sign in").click();
      assert.equal((await sent).postDataJSON().password, " ".repeat(12));
      await page.getByRole("alert").waitFor();
    }
    await fill(page, "Password", "not the password");
    await button(page, "Sign in").click();
    await page.getByRole("alert").waitFor();
    await fill(page, "Password", PASSWORD);
    await button(page, "Sign in").click();
    await heading(page, "Virtual machines");
    await page.reload();
    await heading(page, "Virtual machines");
  });

const who_is_signed_out_finds_no_errors = () =>
  scene({}, async (page) => {
    const errors = [];
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    const refused = [];
    page.on("response", (answer) => answer.status() >= 400 && refused.push(`${answer.status()} ${answer.url()}`));
    for (const path of ["/sign-in", "/", "/vms/web"]) {
      await page.goto(path);
      await heading(page, "Sign in");
      await page.waitForLoadState("networkidle");
    }
    assert.deepEqual([errors, refused], [[], []]);
  });

const language_and_theme_are_chosen_and_remembered = () =>
  scene({ locale: "ko-KR" }, async (page) => {
    await page.goto("/sign-in");
    await heading(page, "로그인");
    assert.equal(await page.locator("html").getAttribute("lang"), "ko");
    await page.getByRole("button", { name: /언어/ }).click();
    await page.getByRole("option", { name: "English" }).click();
    await heading(page, "Sign in");
    await page.getByRole("button", { name: /Appearance/ }).click();
    await page.getByRole("option", { name: "Dark" }).click();
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await ground();
    await page.reload();
    await heading(page, "Sign in");
    assert.equal(await ground(), dark);
    assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
  });

const a_refusal_is_told_in_the_language_of_the_reader = () =>
  scene({ locale: "ko-KR" }, async (page) => {
    const tables = [];
    page.on("request", (request) => request.url().includes("refusals") && tables.push(request.url()));
    await page.goto("/sign-in");
    await heading(page, "로그인");
    await page.waitForLoadState("networkidle");
    // Who is refused nothing does not wait for the words.
    assert.deepEqual(tables, []);
    await fill(page, "사용자 이름", "nobody");
    await fill(page, "비밀번호", PASSWORD);
    await button(page, "로그인").click();
    const alert = page.getByRole("alert");
    await alert.waitFor();
    assert.match(await alert.innerText(), /^[^a-z]*$/);
    assert.equal(tables.length, 1);
  });

export default {
  the_first_visitor_becomes_the_administrator,
  a_user_signs_up_signs_out_and_in_again,
  who_is_signed_out_finds_no_errors,
  language_and_theme_are_chosen_and_remembered,
  a_refusal_is_told_in_the_language_of_the_reader,
};
