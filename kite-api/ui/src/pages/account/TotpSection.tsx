import { useState } from "react";
import * as calls from "../../api/calls";
import { isMissing } from "../../api/problem";
import { keys, queries, useAccount, useConfig } from "../../api/queries";
import type { Totp } from "../../api/types";
import { Button } from "../../components/Button";
import { CopyText } from "../../components/CopyText";
import { Dialog } from "../../components/Dialog";
import { NameField } from "../../components/Field";
import { Form, given } from "../../components/Form";
import { Notice } from "../../components/Notice";
import { Section } from "../../components/Page";
import { PasswordField } from "../../components/PasswordField";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";

type Step = { at: "closed" } | { at: "begin" } | { at: "confirm"; totp: Totp } | { at: "codes"; codes: string[] } | { at: "end" };

/** A second factor. Not there where the API has none. */
export function TotpSection() {
  const t = useT();
  const toast = useToast();
  const features = useConfig().data?.features ?? [];
  const on = useAccount().totp ?? false;
  const [step, setStep] = useState<Step>({ at: "closed" });
  if (!features.includes("totp")) return null;
  const close = () => setStep({ at: "closed" });
  const cancel = <Button onPress={close}>{t("cancel")}</Button>;
  const refetch = () => queries.invalidateQueries({ queryKey: keys.me });

  const begin = async (data: FormData) => {
    try {
      setStep({ at: "confirm", totp: await calls.beginTotp({ password: String(data.get("password")) }) });
    } catch (error) {
      if (isMissing(error)) toast(t("missing.feature"), true);
      throw error;
    }
  };
  const confirm = async (data: FormData) => {
    const { recoveryCodes } = await calls.confirmTotp({ code: given(data, "code") ?? "" });
    setStep({ at: "codes", codes: recoveryCodes });
    await refetch();
  };
  const end = async (data: FormData) => {
    await calls.endTotp({ password: String(data.get("password")) });
    close();
    toast(t("totp.ended"));
    await refetch();
  };

  return (
    <Section title={t("totp.title")} lead={t("totp.lead")}>
      <Notice tone={on ? "good" : "off"}>{t(on ? "totp.on" : "totp.off")}</Notice>
      <div>
        <Button look={on ? "plain" : "primary"} onPress={() => setStep({ at: on ? "end" : "begin" })}>
          {t(on ? "totp.end" : "totp.begin")}
        </Button>
      </div>
      <Dialog title={t("totp.title")} isOpen={step.at !== "closed"} onClose={close}>
        {(step.at === "begin" || step.at === "end") && (
          <Form
            key={step.at}
            submit={t(step.at === "begin" ? "next" : "totp.end")}
            look={step.at === "begin" ? "primary" : "danger"}
            extra={cancel}
            send={step.at === "begin" ? begin : end}
          >
            <PasswordField name="password" label={t("password")} autoComplete="current-password" autoFocus isRequired />
          </Form>
        )}
        {step.at === "confirm" && (
          <Form submit={t("totp.confirm")} extra={cancel} send={confirm}>
            <p>{t("totp.scan")}</p>
            <CopyText text={step.totp.secret} label={t("totp.secret")} />
            <p>
              <a href={step.totp.otpauthUrl}>{t("totp.openApp")}</a>
            </p>
            <NameField name="code" label={t("signIn.code")} autoComplete="one-time-code" inputMode="numeric" isRequired />
          </Form>
        )}
        {step.at === "codes" && (
          <div className="form">
            <Notice tone="warn">{t("totp.codes")}</Notice>
            <CopyText text={step.codes.join(" ")} label={t("totp.codesLabel")} />
            <div className="form-actions">
              <Button look="primary" onPress={close}>
                {t("done")}
              </Button>
            </div>
          </div>
        )}
      </Dialog>
    </Section>
  );
}
