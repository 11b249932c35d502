import { Dialog } from "react-aria-components/Dialog";
import { Heading } from "react-aria-components/Heading";
import { Modal, ModalOverlay } from "react-aria-components/Modal";
import * as calls from "../api/calls";
import { keys, queries, useConfig } from "../api/queries";
import type { Me } from "../api/types";
import { Button } from "../components/Button";
import { Notice } from "../components/Notice";
import { useT } from "../i18n";
import { entered } from "../pages/entrance/Entrance";
import { signInAt } from "../pages/entrance/SignIn";
import { SignInForm } from "../pages/entrance/SignInForm";

interface Props {
  /** Whose session has ended. */
  me: Me;
  /** What was typed may be lost. */
  onDiscard: () => void;
}

/** The way in again, over a page in which something is typed. */
export function SignInAgain({ me, onDiscard }: Props) {
  const t = useT();
  const providers = useConfig().data?.signInProviders ?? [];
  return (
    // It does not leave by Escape: what is typed behind it would be lost.
    <ModalOverlay className="overlay" isOpen isKeyboardDismissDisabled>
      <Modal className="modal">
        <Dialog className="dialog">
          <header>
            <Heading slot="title">{t("signIn.again")}</Heading>
          </header>
          <Notice tone="warn">{t("signIn.kept")}</Notice>
          <SignInForm username={me.username} onSignedIn={() => goOn(me)} />
          {providers.map(({ name, displayName }) => (
            // In another tab: this one goes on once it is looked at again.
            <a key={name} className="button plain wide" href={signInAt(name, undefined)} target="_blank" rel="noreferrer">
              {t("signIn.with", { provider: displayName })}
            </a>
          ))}
          <div className="form-actions">
            <Button onPress={onDiscard}>{t("signIn.discard")}</Button>
          </div>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

/** Whoever it was goes on where they were; somebody else begins anew. */
async function goOn(before: Me): Promise<void> {
  const me = await calls.getMe();
  if (me.name !== before.name) return entered();
  queries.setQueryData(keys.me, me);
  void queries.invalidateQueries();
}
