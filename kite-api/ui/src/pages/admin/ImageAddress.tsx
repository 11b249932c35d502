import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import * as calls from "../../api/calls";
import { Button } from "../../components/Button";
import { NameField } from "../../components/Field";
import { Notice } from "../../components/Notice";
import { Select } from "../../components/Select";
import { useErrorText } from "../../components/errors";
import { useT } from "../../i18n";

const REGISTRY = "docker://";

/** Where an image comes from; the versions that a registry has can be chosen. */
export function ImageAddress() {
  const t = useT();
  const errorText = useErrorText();
  const [url, setUrl] = useState("");
  const asked = useMutation({ mutationFn: calls.listImageTags });
  const found = asked.data;
  const [tag, setTag] = useState<string | null>(null);
  const choose = (tag: string) => {
    setTag(tag);
    if (found !== undefined) setUrl(`${found.url}:${tag}`);
  };
  return (
    <>
      <NameField
        name="url"
        label={t("images.url")}
        hint={t("images.urlHint")}
        maxLength={2048}
        value={url}
        onChange={(text) => {
          setUrl(text);
          setTag(null);
        }}
        isRequired
        after={
          url.startsWith(REGISTRY) && (
            <Button isDisabled={asked.isPending} onPress={() => asked.mutate(url)}>
              {t("images.versions")}
            </Button>
          )
        }
      />
      {asked.isError && <Notice tone="bad">{errorText(asked.error)}</Notice>}
      {found?.tags.length === 0 && <Notice tone="warn">{t("images.noVersions")}</Notice>}
      {found?.tags[0] !== undefined && (
        <Select
          label={t("images.version")}
          hint={found.complete ? t("images.versionHint") : t("images.versionsIncomplete")}
          options={found.tags.map((tag) => ({ value: tag, text: tag }))}
          value={tag ?? ""}
          onChange={choose}
        />
      )}
    </>
  );
}
