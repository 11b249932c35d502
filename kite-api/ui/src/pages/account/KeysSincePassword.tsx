import type { ReactNode } from "react";
import { Link } from "react-router";
import * as calls from "../../api/calls";
import { keys, queries, useAccount } from "../../api/queries";
import type { SshKey, VmAccess } from "../../api/types";
import { ActionButton } from "../../components/ActionButton";
import { Notice } from "../../components/Notice";
import { When } from "../../components/When";
import { useT } from "../../i18n";
import { keyName } from "../../lib/ssh-key";
import { settingPath } from "../../lib/vm";

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
          <KeyRow key={key.publicKey} of={key}>
            <ActionButton
              small
              aria-label={t("account.removeKeyOf", { name: keyName(key.publicKey) })}
              act={() => remove(key.publicKey)}
              done={t("account.keyRemoved")}
            >
              {t("account.removeKey")}
            </ActionButton>
          </KeyRow>
        ))}
      </ul>
    </Notice>
  );
}

/** After a new password: VMs that whoever had the one before may have opened. Each is looked
 * at in a tab of its own: nobody tells of the others again. */
export function VmsSincePassword({ of, onClose }: { of: readonly VmAccess[]; onClose: () => void }) {
  const t = useT();
  const { name: owner } = useAccount();
  if (of.length === 0) return null;
  return (
    <Notice tone="warn" onClose={onClose}>
      <p>{t("account.vmsSince")}</p>
      <ul className="rows" aria-label={t("account.vmsSinceLabel")}>
        {of.map(({ name, changedAt }) => (
          <li key={name}>
            <div>
              <Link to={settingPath({ name, owner }, owner, "sshPublicKeys")} target="_blank">
                {name}
              </Link>
              <small>{changedAt === undefined ? t("account.keyUndated") : <When time={changedAt} is="past" />}</small>
            </div>
          </li>
        ))}
      </ul>
    </Notice>
  );
}

/** A key with when it came, and what can be done with it. */
export function KeyRow({ of, children }: { of: SshKey; children?: ReactNode }) {
  return (
    <li>
      <div>
        <strong>{keyName(of.publicKey)}</strong>
        <small>
          <KeySince of={of} />
        </small>
      </div>
      {children}
    </li>
  );
}

/** When a key came. */
function KeySince({ of: { addedAt } }: { of: SshKey }) {
  const t = useT();
  if (addedAt === undefined) return t("account.keyUndated");
  return (
    <>
      {t("account.keyAdded")} <When time={addedAt} />
    </>
  );
}
