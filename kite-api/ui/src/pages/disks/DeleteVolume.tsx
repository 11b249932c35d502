import * as calls from "../../api/calls";
import { refetchDisks } from "../../api/queries";
import type { Volume } from "../../api/types";
import { Confirm } from "../../components/Confirm";
import { useT } from "../../i18n";

/** Asks whether a volume is to go; of another account's where its owner is to be named. Absent while it is not asked. */
export function DeleteVolume({ volume, owner, onClose }: { volume: Volume | undefined; owner?: string | undefined; onClose: () => void }) {
  const t = useT();
  const name = volume?.name ?? "";
  return (
    <Confirm
      name={name}
      title={t("delete.ask", { name })}
      submit={t("delete")}
      consequence={t("volume.deleteConsequence")}
      done={t("delete.done", { name })}
      isOpen={volume !== undefined}
      onClose={onClose}
      send={async () => {
        await calls.deleteVolume({ name, owner });
        await refetchDisks();
      }}
    />
  );
}
