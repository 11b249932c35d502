import { useT } from "../i18n";

interface Props {
  issuer: string;
  subject: string;
  /** What people call the provider; absent where the platform has it no more. */
  provider: string | undefined;
}

/** Who somebody is at a sign-in provider. */
export function IdentityText({ issuer, subject, provider }: Props) {
  const t = useT();
  return (
    <div>
      <strong>{provider ?? issuer}</strong>
      <small>
        {provider === undefined && `${t("identities.gone")} · `}
        {subject}
      </small>
    </div>
  );
}
