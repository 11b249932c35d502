import { useState } from "react";
import { ProblemError } from "../../api/problem";
import type { Platform, SignInProvider } from "../../api/types";
import { Button } from "../../components/Button";
import { CopyText } from "../../components/CopyText";
import { Dialog } from "../../components/Dialog";
import { Field, lines, NameField } from "../../components/Field";
import { compact, Form, given, Refused } from "../../components/Form";
import { Outdated } from "../../components/Outdated";
import { Switch } from "../../components/Switch";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { useBasis } from "../../lib/basis";
import { GroupLevels, readGroupLevels } from "./GroupLevels";
import { providersOf, redirectUris, saveProviders } from "./providers";

interface Props {
  platform: Platform;
  /** The provider that is edited; absent for a new one. */
  name?: string;
  onClose: () => void;
}

/** Everything about a sign-in provider. */
export function ProviderDialog({ platform: current, name, onClose }: Props) {
  const t = useT();
  const toast = useToast();
  const basis = useBasis(current, providersOf);
  const { basis: platform } = basis;
  const providers = providersOf(platform);
  const before = providers.find((it) => it.name === name);
  const index = before === undefined ? providers.length : providers.indexOf(before);
  const send = async (data: FormData) => {
    const provider = readProvider(data, before);
    if (providers.some((it) => it !== before && it.name === provider.name)) {
      throw new Refused([{ field: "name", message: t("providers.taken") }]);
    }
    const next = [...providers];
    next[index] = provider;
    await saveProviders(platform, next).catch((error: unknown) => {
      throw error instanceof ProblemError ? error.within(`signInProviders[${index}]`) : error;
    });
    toast(t("settings.saved"));
    onClose();
  };
  const isGone = name !== undefined && !providersOf(current).some((it) => it.name === name);
  return (
    <Dialog title={name === undefined ? t("providers.new") : t("providers.of", { name })} isOpen onClose={onClose} wide>
      {/* What is gone is seen in the list. */}
      <Outdated of={isGone ? { ...basis, renew: onClose } : basis} />
      <Form key={basis.round} submit={t("save")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
        <ProviderFields platform={platform} provider={before} />
      </Form>
    </Dialog>
  );
}

/** What was typed, as the API has it. What is empty is left to its default. */
function readProvider(data: FormData, before: SignInProvider | undefined): SignInProvider {
  const scopes = (given(data, "scopes") ?? "").split(/\s+/).filter(Boolean);
  return compact<SignInProvider>({
    ...before,
    name: given(data, "name") ?? "",
    displayName: given(data, "displayName"),
    issuer: given(data, "issuer") ?? "",
    clientId: given(data, "clientId") ?? "",
    clientSecretKey: given(data, "clientSecretKey"),
    scopes: scopes.length > 0 ? scopes : undefined,
    usernameClaim: given(data, "usernameClaim"),
    groupsClaim: given(data, "groupsClaim"),
    allowedGroups: lines(data.get("allowedGroups")),
    accessLevels: readGroupLevels(data),
    signUp: data.get("signUp") === "on",
  });
}

/** The scopes as one types them. Where none is asked for, the one that always is. */
const scopesText = (scopes: string[] | undefined) => (scopes?.length === 0 ? "openid" : (scopes ?? []).join(" "));

function ProviderFields({ platform, provider }: { platform: Platform; provider: SignInProvider | undefined }) {
  const t = useT();
  const [name, setName] = useState(provider?.name ?? "");
  const [secretKey, setSecretKey] = useState(provider?.clientSecretKey ?? "");
  const [here, ...elsewhere] = redirectUris(platform, name.trim());
  return (
    <>
      <div className="field-row">
        <NameField
          name="name"
          label={t("providers.name")}
          hint={t("providers.nameHint")}
          maxLength={32}
          value={name}
          onChange={setName}
          autoFocus={provider === undefined}
          isRequired
        />
        <Field
          name="displayName"
          label={t("providers.displayName")}
          hint={t("providers.displayNameHint")}
          maxLength={64}
          autoComplete="off"
          defaultValue={provider?.displayName ?? ""}
        />
      </div>
      {name.trim() !== "" && here !== undefined && (
        <div className="field">
          <p>{t("providers.redirect")}</p>
          <CopyText text={here} label={t("providers.redirectUri")} />
          {elsewhere.map((uri) => (
            <div key={uri} className="field">
              <p className="hint">{t("providers.redirectHere")}</p>
              <CopyText text={uri} label={t("providers.redirectUriHere")} />
            </div>
          ))}
        </div>
      )}
      <NameField
        name="issuer"
        label={t("providers.issuer")}
        hint={t("providers.issuerHint")}
        placeholder="https://login.example.org/realms/staff"
        defaultValue={provider?.issuer ?? ""}
        isRequired
      />
      <div className="field-row">
        <NameField
          name="clientId"
          label={t("providers.clientId")}
          hint={t("providers.clientIdHint")}
          defaultValue={provider?.clientId ?? ""}
          isRequired
        />
        <NameField
          name="clientSecretKey"
          label={t("providers.secretKey")}
          hint={t("providers.secretKeyHint")}
          value={secretKey}
          onChange={setSecretKey}
        />
      </div>
      {secretKey.trim() !== "" && (
        <div className="field">
          <p className="hint">{t("providers.secret", { key: secretKey.trim() })}</p>
          <CopyText
            text={`kubectl create secret generic kite-oidc -n kite --from-literal=${secretKey.trim()}="$CLIENT_SECRET" --from-literal=${secretKey.trim()}.issuer="$ISSUER"`}
            label={t("providers.secretCommand")}
          />
        </div>
      )}
      <div className="field-row">
        <NameField
          name="scopes"
          label={t("providers.scopes")}
          hint={t("providers.scopesHint")}
          placeholder="profile email"
          defaultValue={scopesText(provider?.scopes)}
        />
        <NameField
          name="usernameClaim"
          label={t("providers.usernameClaim")}
          hint={t("providers.usernameClaimHint")}
          placeholder="preferred_username"
          defaultValue={provider?.usernameClaim ?? ""}
        />
        <NameField
          name="groupsClaim"
          label={t("providers.groupsClaim")}
          placeholder="groups"
          defaultValue={provider?.groupsClaim ?? ""}
        />
      </div>
      <Switch name="signUp" hint={t("providers.signUpHint")} defaultSelected={provider?.signUp ?? false}>
        {t("providers.signUp")}
      </Switch>
      <NameField
        name="allowedGroups"
        label={t("providers.allowedGroups")}
        hint={t("providers.allowedGroupsHint")}
        rows={2}
        defaultValue={(provider?.allowedGroups ?? []).join("\n")}
      />
      <GroupLevels levels={provider?.accessLevels ?? []} />
    </>
  );
}
