import { lazy, Suspense, useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries, useAccount, useTotp } from "../../api/queries";
import type { Totp } from "../../api/types";
import { Button } from "../../components/Button";
import { CodeField } from "../../components/CodeField";
import { CopyText } from "../../components/CopyText";
import { Dialog } from "../../components/Dialog";
import { NameField } from "../../components/Field";
import { Form, given } from "../../components/Form";
import { Loaded } from "../../components/Loaded";
import { Notice } from "../../components/Notice";
import { Section } from "../../components/Page";
import { PasswordField } from "../../components/PasswordField";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";

const QrCode = lazy(() => import("../../components/QrCode"));

type Step = { at: "closed" } | { at: "begin" } | { at: "confirm"; totp: Totp } | { at: "codes"; codes: string[] } | { at: "end" };

/** Codes of an authenticator app, asked for beside the password. */
export function TotpSection() {
  const t = useT();
  const toast = useToast();
  const { hasPassword } = useAccount();
  const totp = useTotp();
  const [step, setStep] = useState<Step>({ at: "closed" });
  const close = () => setStep({ at: "closed" });
  const cancel = <Button onPress={close}>{t("cancel")}</Button>;
  const refetch = () => queries.invalidateQueries({ queryKey: keys.totp });

  const passwordOf = (data: FormData) => ({ password: String(data.get("password")) });
  const begin = async (data: FormData) => setStep({ at: "confirm", totp: await calls.beginTotp(passwordOf(data)) });
  const confirm = async (data: FormData) => {
    const { recoveryCodes } = await calls.confirmTotp({ code: given(data, "code") ?? "" });
    setStep({ at: "codes", codes: recoveryCodes });
    await refetch();
  };
  const end = async (data: FormData) => {
    await calls.endTotp({ ...passwordOf(data), code: given(data, "code") ?? "" });
    close();
    toast(t("totp.ended"));
    await refetch();
  };

  return (
    <Section title={t("totp.title")} lead={t("totp.lead")}>
      <Loaded query={totp}>
        {({ enabled, recoveryCodesLeft }) => (
          <>
            <Notice tone={enabled ? "good" : "off"}>
              {enabled ? t("totp.on", { count: recoveryCodesLeft }) : t("totp.off")}
            </Notice>
            {!enabled && !hasPassword ? (
              <p>{t("totp.noPassword")}</p>
            ) : (
              <div>
                {enabled ? (
                  <Button onPress={() => setStep({ at: "end" })}>{t("totp.end")}</Button>
                ) : (
                  <Button look="primary" onPress={() => setStep({ at: "begin" })}>
                    {t("totp.begin")}
                  </Button>
                )}
              </div>
            )}
          </>
        )}
      </Loaded>
      <Dialog title={t("totp.title")} isOpen={step.at !== "closed"} onClose={close}>
        {step.at === "begin" && (
          <Form onlyComplete submit={t("totp.goOn")} extra={cancel} send={begin}>
            <p>{t("totp.proof")}</p>
            <PasswordField name="password" label={t("password")} autoComplete="current-password" autoFocus isRequired />
          </Form>
        )}
        {step.at === "end" && (
          <Form onlyComplete submit={t("totp.end")} look="danger" extra={cancel} send={end}>
            <PasswordField name="password" label={t("password")} autoComplete="current-password" autoFocus isRequired />
            <CodeField />
          </Form>
        )}
        {step.at === "confirm" && (
          <Form onlyComplete submit={t("totp.confirm")} extra={cancel} send={confirm}>
            <p>{t("totp.scan")}</p>
            <Suspense fallback={<div className="qr" />}>
              <QrCode text={step.totp.url} label={t("totp.qr")} />
            </Suspense>
            <CopyText text={step.totp.secret} label={t("totp.secret")} />
            <p>
              <a href={step.totp.url}>{t("totp.openApp")}</a>
            </p>
            <NameField
              name="code"
              label={t("signIn.code")}
              autoComplete="one-time-code"
              inputMode="numeric"
              autoFocus
              isRequired
            />
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
