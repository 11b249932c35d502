import { Checkbox } from "react-aria-components/Checkbox";
import { CheckboxGroup } from "react-aria-components/CheckboxGroup";
import { FieldError } from "react-aria-components/FieldError";
import { Label } from "react-aria-components/Label";
import Check from "lucide-react/icons/check";
import Plus from "lucide-react/icons/plus";
import { useState } from "react";
import * as calls from "../../api/calls";
import { isMissing } from "../../api/problem";
import { keys, queries, useAccount, useTokens } from "../../api/queries";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { CopyText } from "../../components/CopyText";
import { Dialog } from "../../components/Dialog";
import { useFieldError } from "../../components/field-errors";
import { EndField, NameField } from "../../components/Field";
import { Form, given } from "../../components/Form";
import { Loaded } from "../../components/Loaded";
import { Notice } from "../../components/Notice";
import { Section } from "../../components/Page";
import { useI18n, useT } from "../../i18n";
import { useNow } from "../../lib/now";
import { fromLocalInput, relative } from "../../lib/time";

const SCOPES = [
  "vms:read",
  "vms:power",
  "vms:write",
  "vms:access",
  "account:read",
  "account:write",
  "account:keys",
] as const;
/** Worth nothing in the hands of others. */
const ADMIN_SCOPES = ["admin:read", "admin"] as const;

const refetch = () => queries.invalidateQueries({ queryKey: keys.tokens });

/** Tokens for scripts. Not there where the API has none. */
export function TokensSection() {
  const { t, tag } = useI18n();
  const tokens = useTokens();
  useNow();
  const [creating, setCreating] = useState(false);
  const [deleting, setDeleting] = useState<string | null>(null);
  if (isMissing(tokens.error)) return null;
  return (
    <Section
      title={t("tokens.title")}
      lead={t("tokens.lead")}
      actions={
        <Button small icon={<Plus aria-hidden />} onPress={() => setCreating(true)}>
          {t("tokens.new")}
        </Button>
      }
    >
      <Loaded query={tokens}>
        {(tokens) =>
          tokens.length === 0 ? (
            <p className="quiet-text">{t("tokens.empty")}</p>
          ) : (
            <ul className="rows" aria-label={t("tokens.title")}>
              {tokens.map((token) => (
                <li key={token.name}>
                  <div>
                    <strong>{token.name}</strong>
                    <small>
                      {token.scopes.join(", ")}
                      {token.expiresAt !== undefined && ` · ${t("sessions.until", { when: relative(token.expiresAt, tag) })}`}
                    </small>
                  </div>
                  <Button small aria-label={t("tokens.deleteOf", { name: token.name })} onPress={() => setDeleting(token.name)}>
                    {t("tokens.delete")}
                  </Button>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
      {deleting !== null && (
        <Confirm
          name={deleting}
          title={t("tokens.deleteAsk", { name: deleting })}
          submit={t("tokens.deleteSubmit")}
          consequence={t("tokens.deleteConsequence")}
          done={t("tokens.deleted", { name: deleting })}
          isOpen
          onClose={() => setDeleting(null)}
          send={() => calls.deleteToken(deleting).then(refetch)}
        />
      )}
      {creating && <NewToken onClose={() => setCreating(false)} />}
    </Section>
  );
}

function NewToken({ onClose }: { onClose: () => void }) {
  const t = useT();
  const [token, setToken] = useState<string | null>(null);
  const send = async (data: FormData) => {
    const answer = await calls.createToken({
      name: given(data, "name") ?? "",
      scopes: [...SCOPES, ...ADMIN_SCOPES].filter((scope) => data.getAll("scopes").includes(scope)),
      expiresAt: fromLocalInput(String(data.get("expiresAt") ?? "")) ?? undefined,
    });
    setToken(answer.token);
    await refetch();
  };
  return (
    <Dialog title={t("tokens.newTitle")} isOpen onClose={onClose}>
      {token === null ? (
        <Form submit={t("tokens.create")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
          <NameField name="name" label={t("tokens.name")} hint={t("tokens.nameHint")} autoFocus isRequired />
          <Scopes />
          <EndField name="expiresAt" label={t("tokens.expiresAt")} hint={t("tokens.expiresAtHint")} />
        </Form>
      ) : (
        <div className="form">
          <Notice tone="warn">{t("tokens.once")}</Notice>
          <CopyText text={token} label={t("tokens.token")} />
          <div className="form-actions">
            <Button look="primary" onPress={onClose}>
              {t("done")}
            </Button>
          </div>
        </div>
      )}
    </Dialog>
  );
}

/** What a token may do. It is a component to be inside of the form's errors. */
function Scopes() {
  const t = useT();
  const { message, isInvalid } = useFieldError("scopes");
  const scopes = ["Manager", "Admin"].includes(useAccount().accessLevel) ? [...SCOPES, ...ADMIN_SCOPES] : SCOPES;
  return (
    <CheckboxGroup name="scopes" className="field" isInvalid={isInvalid} defaultValue={["vms:read"]}>
      <Label>{t("tokens.scopes")}</Label>
      {scopes.map((scope) => (
        <Checkbox key={scope} value={scope} className="checkbox">
          <span className="checkbox-box" aria-hidden>
            <Check />
          </span>
          <span>
            {t(`scope.${scope}`)} <small className="hint">{scope}</small>
          </span>
        </Checkbox>
      ))}
      <FieldError className="error">{message}</FieldError>
    </CheckboxGroup>
  );
}
