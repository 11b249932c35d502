import { useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries, usePlatform } from "../../api/queries";
import type { User } from "../../api/types";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { IdentityText } from "../../components/IdentityText";
import { useT } from "../../i18n";
import { providersOf, titleOf } from "./providers";

/** Who an account is at sign-in providers; nothing where it is nobody. One's own is
 * unlinked on the account page. */
export function UserIdentities({ user, self }: { user: User; self: boolean }) {
  const t = useT();
  const platform = usePlatform().data;
  const [asked, setAsked] = useState<User["identities"][number] | null>(null);
  if (user.identities.length === 0) return null;
  const titleAt = (issuer: string) => {
    const provider = platform && providersOf(platform).find((it) => it.issuer === issuer);
    return provider && titleOf(provider);
  };
  const provider = asked === null ? "" : (titleAt(asked.issuer) ?? asked.issuer);
  return (
    <section>
      <h3>{t("user.identities")}</h3>
      <ul className="rows" aria-label={t("user.identities")}>
        {user.identities.map((identity) => {
          const { id, issuer, subject } = identity;
          return (
            <li key={id}>
              <IdentityText issuer={issuer} subject={subject} provider={titleAt(issuer)} />
              {!self && (
                <Button
                  small
                  aria-label={t("identities.unlinkOf", { provider: titleAt(issuer) ?? issuer })}
                  onPress={() => setAsked(identity)}
                >
                  {t("identities.unlink")}
                </Button>
              )}
            </li>
          );
        })}
      </ul>
      <Confirm
        title={t("identities.unlinkOf", { provider })}
        submit={t("identities.unlink")}
        consequence={t("user.unlinkConsequence", { name: user.name, provider, subject: asked?.subject ?? "" })}
        done={t("identities.unlinked")}
        isOpen={asked !== null}
        onClose={() => setAsked(null)}
        send={async () => {
          await calls.unlinkUser(user.name, asked?.id ?? "");
          await queries.invalidateQueries({ queryKey: keys.users });
        }}
      />
    </section>
  );
}
