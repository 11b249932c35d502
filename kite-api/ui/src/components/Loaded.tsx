import type { UseQueryResult } from "@tanstack/react-query";
import LoaderCircle from "lucide-react/icons/loader-circle";
import type { ReactNode } from "react";
import { isMissing, isPassing } from "../api/problem";
import { useT } from "../i18n";
import { Button } from "./Button";
import { useErrorText } from "./errors";
import { Notice } from "./Notice";

interface Props<T> {
  query: UseQueryResult<T>;
  children: (data: T) => ReactNode;
}

/** What a query gave; until then that it is on its way, or why it is not. */
export function Loaded<T>({ query, children }: Props<T>) {
  const t = useT();
  const errorText = useErrorText();
  if (query.data !== undefined) return children(query.data);
  if (query.isError) {
    return isMissing(query.error) ? (
      <Notice tone="off">{t("missing.feature")}</Notice>
    ) : (
      <Notice tone="bad">
        {errorText(query.error)}{" "}
        {isPassing(query.error) && (
          <Button small onPress={() => void query.refetch()}>
            {t("again")}
          </Button>
        )}
      </Notice>
    );
  }
  return <Loading />;
}

/** That something is on its way; in other words, if there are better ones. */
export function Loading({ children }: { children?: string }) {
  const t = useT();
  return (
    <p className="loading" role="status">
      <LoaderCircle className="spin" aria-hidden /> {children ?? t("loading")}
    </p>
  );
}
