import Plus from "lucide-react/icons/plus";
import X from "lucide-react/icons/x";
import { useRef, useState } from "react";
import type { GroupLevel } from "../../api/types";
import { Button } from "../../components/Button";
import { NameField } from "../../components/Field";
import { chosen, given } from "../../components/Form";
import { Select } from "../../components/Select";
import { useT } from "../../i18n";
import { LEVELS } from "./UserFields";

/** The name of a field of a row, as the API speaks of it. */
const field = (row: number, name: keyof GroupLevel) => `accessLevels[${row}].${name}`;

/** What groups make of their members: as many rows as there are groups. */
export function GroupLevels({ levels }: { levels: readonly GroupLevel[] }) {
  const t = useT();
  const next = useRef(levels.length);
  const [rows, setRows] = useState(() => levels.map((level, id) => ({ id, ...level })));
  const add = () => setRows([...rows, { id: next.current++, group: "", accessLevel: "User" }]);
  return (
    <fieldset className="group-levels">
      <legend>{t("providers.levels")}</legend>
      <p className="hint">{t("providers.levelsHint")}</p>
      {rows.map((row, n) => (
        <div key={row.id} className="group-level">
          <NameField
            name={field(n, "group")}
            label={t("providers.group")}
            defaultValue={row.group}
            // One that was just added is to be typed.
            autoFocus={row.id >= levels.length}
          />
          <Select
            name={field(n, "accessLevel")}
            label={t("user.level")}
            defaultValue={row.accessLevel}
            options={LEVELS.map((value) => ({ value, text: t(`level.${value}`) }))}
          />
          <Button
            icon={<X aria-hidden />}
            aria-label={t("providers.dropGroup", { number: n + 1 })}
            onPress={() => setRows(rows.filter(({ id }) => id !== row.id))}
          />
        </div>
      ))}
      <div>
        <Button small icon={<Plus aria-hidden />} onPress={add}>
          {t("providers.addGroup")}
        </Button>
      </div>
    </fieldset>
  );
}

export function readGroupLevels(data: FormData): GroupLevel[] {
  const levels: GroupLevel[] = [];
  for (let row = 0; data.has(field(row, "group")); row++) {
    levels.push({
      group: given(data, field(row, "group")) ?? "",
      accessLevel: chosen(data, field(row, "accessLevel"), LEVELS) ?? "User",
    });
  }
  return levels;
}
