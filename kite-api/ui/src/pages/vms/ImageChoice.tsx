import type { Image } from "../../api/types";
import { Choice } from "../../components/Choice";
import { useT } from "../../i18n";
import { leastDisk, sizeText } from "../../lib/sizes";
import { FamilyMark } from "./FamilyMark";

interface Props {
  images: readonly Image[];
  value: string;
  onChange: (name: string) => void;
}

/** Images as cards. */
export function ImageChoice({ images, value, onChange }: Props) {
  const t = useT();
  return (
    <Choice
      name="image"
      label={t("vm.image")}
      value={value}
      onChange={onChange}
      options={images.map((image) => ({
        value: image.name,
        title: image.displayName,
        icon: <FamilyMark family={image.osFamily} name={image.displayName} />,
        detail:
          image.phase === "Ready" || image.phase === undefined
            ? t("image.from", { size: sizeText(leastDisk(image)) })
            : t(`image.phase.${image.phase}`),
        disabled: image.phase === "Deleting",
      }))}
    />
  );
}
