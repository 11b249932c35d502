import Plus from "lucide-react/icons/plus";
import { useState } from "react";
import type { Platform } from "../../api/types";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { Section } from "../../components/Page";
import { useT } from "../../i18n";
import { ProviderDialog } from "./ProviderDialog";
import { providersOf, saveProviders, titleOf } from "./providers";

/** What is being done: to the provider of this name, or a new one made. */
type Doing = { what: "add" } | { what: "edit" | "remove"; name: string } | null;

/** At which OpenID Connect providers people sign in. */
export function ProvidersSection({ platform }: { platform: Platform }) {
  const t = useT();
  const [doing, setDoing] = useState<Doing>(null);
  const close = () => setDoing(null);
  const providers = providersOf(platform);
  const removed = doing?.what === "remove" ? doing.name : "";
  return (
    <Section
      title={t("providers.title")}
      lead={t("providers.lead")}
      actions={
        <Button small icon={<Plus aria-hidden />} onPress={() => setDoing({ what: "add" })}>
          {t("providers.add")}
        </Button>
      }
    >
      {providers.length === 0 ? (
        <p className="quiet-text">{t("providers.none")}</p>
      ) : (
        <ul className="rows" aria-label={t("providers.title")}>
          {providers.map((provider) => {
            const { name, issuer } = provider;
            const title = titleOf(provider);
            return (
              <li key={name}>
                <div>
                  <strong>{title}</strong>
                  <small>
                    {name} · {issuer}
                  </small>
                </div>
                <div className="actions">
                  <Button
                    small
                    aria-label={t("providers.editOf", { name: title })}
                    onPress={() => setDoing({ what: "edit", name })}
                  >
                    {t("edit")}
                  </Button>
                  <Button
                    small
                    aria-label={t("providers.removeOf", { name: title })}
                    onPress={() => setDoing({ what: "remove", name })}
                  >
                    {t("providers.remove")}
                  </Button>
                </div>
              </li>
            );
          })}
        </ul>
      )}
      {doing?.what === "add" && <ProviderDialog platform={platform} onClose={close} />}
      {doing?.what === "edit" && <ProviderDialog platform={platform} name={doing.name} onClose={close} />}
      <Confirm
        name={removed}
        title={t("providers.removeOf", { name: removed })}
        submit={t("providers.remove")}
        consequence={t("providers.removeConsequence", { name: removed })}
        done={t("providers.removed", { name: removed })}
        isOpen={doing?.what === "remove"}
        onClose={close}
        send={() =>
          saveProviders(
            platform,
            providers.filter(({ name }) => name !== removed),
          )
        }
      />
    </Section>
  );
}
