import { accessible, fitsWidth, heading, scene } from "./world.mjs";

const PAGES = [
  ["/", "Virtual machines"],
  ["/vms/web", "web"],
  ["/vms/web?tab=terminal", "web"],
  ["/vms/web?tab=sessions", "web"],
  ["/vms/web?tab=settings", "web"],
  ["/offers", "Offers"],
  ["/account", "Account"],
  ["/admin", "Overview"],
  ["/admin/users", "Users"],
  ["/admin/vms", "All VMs"],
  ["/admin/sessions", "Sessions in VMs"],
  ["/admin/images", "Images"],
  ["/admin/offers", "Offers to users"],
  ["/admin/invites", "Invites"],
  ["/admin/platform", "Platform"],
];

/** Each page in both themes, on a phone and on a wide screen. */
const look = (theme, width) => async () => {
  for (const path of ["/sign-in", "/sign-up"]) {
    await scene({ theme, width }, async (page) => {
      await page.goto(path);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await accessible(page, `${path} (${theme})`);
      await fitsWidth(page, path);
    });
  }
  await scene({ user: "ann", theme, width }, async (page) => {
    for (const [path, title] of PAGES) {
      await page.goto(path);
      await heading(page, title);
      await page.getByText("Loading…").first().waitFor({ state: "detached" });
      await accessible(page, `${path} (${theme}, ${width} px)`);
      await fitsWidth(page, path);
    }
  });
};

const every_page_is_for_everybody_in_the_light = look("light", 1440);
const every_page_is_for_everybody_in_the_dark_on_a_phone = look("dark", 390);

export default {
  every_page_is_for_everybody_in_the_light,
  every_page_is_for_everybody_in_the_dark_on_a_phone,
};
