import * as calls from "../../api/calls";
import { keys, queries, useAccount } from "../../api/queries";
import type { SshKey } from "../../api/types";
import { ActionButton } from "../../components/ActionButton";
import { Notice } from "../../components/Notice";
import { When } from "../../components/When";
import { useT } from "../../i18n";
import { keyName } from "../../lib/ssh-key";

/** After a new password: keys that whoever had the one before may have put there. */
export function KeysSincePassword({ of, onClose }: { of: readonly SshKey[]; onClose: () => void }) {
  const t = useT();
  const { sshPublicKeys } = useAccount();
  // What is taken off goes from the list, too.
  const left = of.filter(({ publicKey }) => sshPublicKeys.includes(publicKey));
  if (left.length === 0) return null;
  const remove = async (publicKey: string) => {
    await calls.editMe({ sshPublicKeys: sshPublicKeys.filter((key) => key !== publicKey) });
    await queries.refetchQueries({ queryKey: keys.me });
  };
  return (
    <Notice tone="warn" onClose={onClose}>
      <p>{t("account.keysSince")}</p>
      <ul className="rows" aria-label={t("account.keysSinceLabel")}>
        {left.map((key) => (
          <li key={key.publicKey}>
            <div>
              <strong>{keyName(key.publicKey)}</strong>
              <small>
                <KeySince of={key} />
              </small>
            </div>
            <ActionButton
              small
              aria-label={t("account.removeKeyOf", { name: keyName(key.publicKey) })}
              act={() => remove(key.publicKey)}
              done={t("account.keyRemoved")}
            >
              {t("account.removeKey")}
            </ActionButton>
          </li>
        ))}
      </ul>
    </Notice>
  );
}

/** When a key came. */
export function KeySince({ of: { addedAt } }: { of: SshKey }) {
  const t = useT();
  if (addedAt === undefined) return t("account.keyUndated");
  return (
    <>
      {t("account.keyAdded")} <When time={addedAt} />
    </>
  );
}
