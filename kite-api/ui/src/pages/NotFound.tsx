import { Link } from "react-router";
import { Empty } from "../components/Empty";
import { Page } from "../components/Page";
import { useT } from "../i18n";

export default function NotFound() {
  const t = useT();
  return (
    <Page title={t("notFound.title")}>
      <Empty title={t("notFound.title")} action={<Link to="/">{t("notFound.back")}</Link>}>
        {t("notFound.lead")}
      </Empty>
    </Page>
  );
}
