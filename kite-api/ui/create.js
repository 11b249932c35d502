// The dialog that creates a VM.

import { field, formOf, generatedPassword, given, openDialog } from "./forms.js";
import { Refused, api, app, h, sentence, toast } from "./page.js";
import { SIZES, fits, sizeText } from "./sizes.js";
import { replaceVm } from "./vms.js";

export async function openCreate() {
  try {
    app.images = (await api("GET", "/images")).items;
  } catch (error) {
    return toast(sentence(error.message));
  }
  if (!app.images.length) return toast("There are no images yet: ask an administrator to add one.");

  const images = h(
    "select",
    { required: true },
    ...app.images.map((image) =>
      h(
        "option",
        { value: image.name },
        image.displayName + (image.phase && image.phase !== "Ready" ? ` (${image.phase.toLowerCase()})` : ""),
      ),
    ),
  );
  const chosen = SIZES.find((size) => size.id === "medium" && fits(size)) || SIZES.find(fits) || { id: "custom" };
  const custom = h(
    "div",
    { class: "custom", hidden: chosen.id !== "custom" },
    field({ name: "cpu", label: "CPUs", type: "number", min: "1", max: "256", value: "1" }),
    field({ name: "memory", label: "Memory", value: "1Gi", hint: "Such as 512Mi or 4Gi." }),
    field({ name: "disk", label: "Disk", value: "10Gi", hint: "It can grow later." }),
  );
  const sizes = h(
    "fieldset",
    { class: "sizes" },
    h("legend", {}, "Size"),
    ...[...SIZES, { id: "custom", label: "Custom" }].map((size) => {
      const within = size.id === "custom" || fits(size);
      const text =
        size.id === "custom"
          ? "You choose"
          : `${size.cpu} CPU, ${sizeText(size.memory)}, ${sizeText(size.disk)}`;
      return h(
        "label",
        { class: within ? "" : "off" },
        h("input", {
          type: "radio",
          name: "size",
          value: size.id,
          checked: size.id === chosen.id,
          disabled: !within,
          onchange: () => {
            custom.hidden = size.id !== "custom";
          },
        }),
        h("span", {}, h("strong", {}, size.label), h("small", {}, within ? text : `${text}: above your quota`)),
      );
    }),
  );
  const domain = app.config.baseDomain;
  const form = formOf({
    submit: "Create VM",
    busy: "Creating…",
    fields: [
      field({
        name: "name",
        label: "Name",
        hint: "Lowercase letters, digits and hyphens.",
        required: true,
        autocomplete: "off",
        autocapitalize: "none",
        spellcheck: "false",
        maxlength: "52",
      }),
      field({ name: "image", label: "Image", control: images }),
      sizes,
      custom,
      generatedPassword({
        name: "sshPassword",
        label: "SSH password",
        hint: "Kite keeps only a hash: note it down now. You can leave it empty if you give a key.",
      }),
      field({
        name: "sshPublicKeys",
        label: "SSH public keys (optional)",
        hint: "One per line, as in ~/.ssh/id_ed25519.pub.",
        control: h("textarea", { rows: "2", spellcheck: "false", autocapitalize: "none" }),
      }),
      h(
        "details",
        {},
        h("summary", {}, "More options"),
        field({
          name: "sshId",
          label: "Login name (optional)",
          hint: "For ssh <login name>@gateway. Leave it empty to get one. It cannot be changed later.",
          autocapitalize: "none",
          spellcheck: "false",
          maxlength: "32",
        }),
        domain
          ? field({
              name: "domainPrefix",
              label: "Web address (optional)",
              hint: `Port 80 of the VM at <web address>.${domain}.`,
              autocapitalize: "none",
              spellcheck: "false",
              maxlength: "63",
            })
          : null,
      ),
    ],
    send: async (data, form) => {
      const vm = readVm(data);
      if (!vm.sshPassword && !vm.sshPublicKeys && !app.me.sshPublicKeys.length) {
        throw new Refused({
          errors: [{ field: "sshPassword", message: "Give a password or a public key: without one nobody can log in" }],
        });
      }
      replaceVm(await createVm(vm, form));
      dialog.close();
      toast(`${vm.name} is being created.`);
    },
    extra: h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
  });
  const dialog = openDialog("New virtual machine", form);
  form.querySelector("#f-name").focus();
}

function readVm(data) {
  const values = given(data);
  const size = SIZES.find((size) => size.id === values.size);
  const vm = {
    name: values.name,
    image: values.image,
    cpu: size ? size.cpu : Number(values.cpu),
    memory: size ? size.memory : values.memory,
    disk: size ? size.disk : values.disk,
  };
  if (data.get("sshPassword")) vm.sshPassword = data.get("sshPassword");
  if (values.sshPublicKeys) {
    vm.sshPublicKeys = values.sshPublicKeys
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean);
  }
  for (const name of ["sshId", "domainPrefix"]) if (values[name]) vm[name] = values[name];
  return vm;
}

/** A new account's space may take some seconds to be made: wait for it. */
async function createVm(vm, form) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await api("POST", "/vms", vm);
    } catch (error) {
      if (error.problem?.type !== "urn:kite:problem:not-ready" || attempt === 5) throw error;
      form.querySelector(".summary").textContent = "Your space is still being prepared, one moment…";
      await new Promise((done) => setTimeout(done, 1000 * Math.max(1, error.retryAfter)));
    }
  }
}
