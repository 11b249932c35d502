// Deletion, confirmed by name.

import { field, formOf, openDialog } from "./forms.js";
import { Refused, h, toast } from "./page.js";

/** Asks for `name` before `send` deletes it. */
export function openDelete({ name, what, consequence, send }) {
  const form = formOf({
    submit: `Delete ${what}`,
    busy: "Deleting…",
    fields: [
      h("p", {}, "This deletes ", h("strong", {}, name), ` ${consequence} It cannot be undone.`),
      field({
        name: "confirm",
        label: `Type ${name} to confirm`,
        required: true,
        autocomplete: "off",
        autocapitalize: "none",
        spellcheck: "false",
      }),
    ],
    send: async (data) => {
      if (data.get("confirm").trim() !== name) {
        throw new Refused({ errors: [{ field: "confirm", message: `That is not ${name}` }] });
      }
      await send();
      dialog.close();
      toast(`${name} is being deleted.`);
    },
    extra: h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
  });
  form.querySelector("[type=submit]").classList.add("danger");
  const dialog = openDialog(`Delete ${name}?`, form);
  form.querySelector("input").focus();
}
