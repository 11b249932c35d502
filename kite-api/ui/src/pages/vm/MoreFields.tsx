import { Disclosure, DisclosurePanel } from "react-aria-components/Disclosure";
import { Button as AriaButton } from "react-aria-components/Button";
import { Heading } from "react-aria-components/Heading";
import ChevronRight from "lucide-react/icons/chevron-right";
import { useContext, useState } from "react";
import { useSearchParams } from "react-router";
import { useConfig } from "../../api/queries";
import type { Sent, Vm } from "../../api/types";
import { EndField, LABEL, lines, NameField } from "../../components/Field";
import { FieldErrors } from "../../components/field-errors";
import { changed, given } from "../../components/Form";
import { Switch } from "../../components/Switch";
import { useI18n, useT } from "../../i18n";
import { duration } from "../../lib/span";
import { fromLocalInput, toLocalInput } from "../../lib/time";

/** How long an expired VM stays, unless it says so itself. */
const GRACE = "72h";

/** The fields below. */
const NAMES = ["sshId", "domainPrefix", "idleTimeout", "expiresAt", "startOnConnect"];

interface Props {
  /** The login name can be chosen, once. */
  create?: boolean;
  /** Its end is somebody else's to decide. */
  withoutEnd?: boolean;
  vm?: Vm;
}

/** What most VMs do well without, folded away. */
export function MoreFields({ create = false, withoutEnd = false, vm }: Props) {
  const { t, tag } = useI18n();
  const [open, setOpen] = useState(!create);
  const errors = useContext(FieldErrors);
  const [search] = useSearchParams();
  const at = search.get("at");
  const [asked, setAsked] = useState<string | null>(null);
  if (asked !== at) {
    setAsked(at);
    // Somebody was led here.
    if (at !== null && NAMES.includes(at)) setOpen(true);
  }
  const [shown, setShown] = useState(errors);
  if (shown !== errors) {
    setShown(errors);
    // What is wrong is seen; it may be folded away again.
    if (NAMES.some((name) => errors[name] !== undefined)) setOpen(true);
  }
  return (
    // Kept in the form while it is closed: what is typed there counts, and is shown where
    // it is wrong.
    <Disclosure className="disclosure" isExpanded={open} onExpandedChange={setOpen}>
      <Heading level={3}>
        <AriaButton slot="trigger" className="disclosure-button">
          <ChevronRight aria-hidden /> {t("more.title")}
        </AriaButton>
      </Heading>
      <DisclosurePanel className="disclosure-panel">
        {create && <NameField name="sshId" label={t("vm.sshId")} hint={t("vm.sshIdHint")} pattern={LABEL} maxLength={32} />}
        <DomainField vm={vm} />
        <NameField
          name="idleTimeout"
          label={t("vm.idleTimeout")}
          hint={t("vm.idleTimeoutHint")}
          defaultValue={vm?.idleTimeout ?? ""}
        />
        {!withoutEnd && (
          <EndField
            name="expiresAt"
            label={t("vm.expiresAt")}
            hint={t("vm.expiresAtHint", { grace: duration(vm?.expiryGracePeriod ?? GRACE, tag) })}
            defaultEnd={toLocalInput(vm?.expiresAt)}
          />
        )}
        <Switch name="startOnConnect" hint={t("vm.startOnConnectHint")} defaultSelected={vm?.startOnConnect ?? false}>
          {t("vm.startOnConnect")}
        </Switch>
      </DisclosurePanel>
    </Disclosure>
  );
}

function DomainField({ vm }: { vm: Vm | undefined }) {
  const t = useT();
  const domain = useConfig().data?.baseDomain;
  if (domain === undefined) return null;
  return (
    <NameField
      name="domainPrefix"
      label={t("vm.domain")}
      hint={t("vm.domainHint", { domain })}
      pattern={LABEL}
      maxLength={63}
      defaultValue={vm?.domainPrefix ?? ""}
    />
  );
}

/** The fields of a new VM; what is empty is left out. */
export function readMore(data: FormData): Omit<Sent<"Claim">, "name"> {
  const keys = lines(data.get("sshPublicKeys"));
  return {
    sshPublicKeys: keys.length > 0 ? keys : undefined,
    sshId: given(data, "sshId"),
    domainPrefix: given(data, "domainPrefix"),
    idleTimeout: given(data, "idleTimeout"),
    expiresAt: fromLocalInput(String(data.get("expiresAt") ?? "")) ?? undefined,
    startOnConnect: data.get("startOnConnect") === "on" ? true : undefined,
  };
}

/** The fields that an edit changes. */
export function readMoreChanges(data: FormData, vm: Vm): Sent<"VmEdit"> {
  const end = String(data.get("expiresAt") ?? "");
  const start = data.get("startOnConnect") === "on";
  return {
    domainPrefix: data.has("domainPrefix") ? changed(data, "domainPrefix", vm.domainPrefix) : undefined,
    idleTimeout: changed(data, "idleTimeout", vm.idleTimeout),
    expiresAt: end === toLocalInput(vm.expiresAt) ? undefined : fromLocalInput(end),
    startOnConnect: start === vm.startOnConnect ? undefined : start,
  };
}
