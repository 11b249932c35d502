import { useImages } from "../../api/queries";
import type { Image } from "../../api/types";
import { Badge } from "../../components/Badge";
import { percentOf, Progress } from "../../components/Bars";
import { Empty } from "../../components/Empty";
import { Loaded } from "../../components/Loaded";
import type { Tone } from "../../components/Notice";
import { Page } from "../../components/Page";
import { useT } from "../../i18n";
import { sizeText } from "../../lib/sizes";
import { FamilyMark } from "../vms/FamilyMark";

const TONES: Record<NonNullable<Image["phase"]>, Tone> = {
  Pending: "busy",
  Importing: "busy",
  Ready: "good",
  Deleting: "busy",
  Failed: "bad",
};

/** The catalogue, and how far imports are. */
export default function ImagesPage() {
  const t = useT();
  const images = useImages();
  return (
    <Page title={t("nav.images")} lead={t("images.lead")}>
      <Loaded query={images}>
        {(images) =>
          images.length === 0 ? (
            <Empty title={t("images.empty")}>{t("images.emptyHint")}</Empty>
          ) : (
            <ul className="cards" aria-label={t("nav.images")}>
              {images.map((image) => (
                <ImageCard key={image.name} image={image} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Page>
  );
}

function ImageCard({ image }: { image: Image }) {
  const t = useT();
  const phase = image.phase ?? "Pending";
  const importing = phase === "Importing" || phase === "Pending";
  return (
    <li className="card vm-card">
      <header>
        <FamilyMark family={image.osFamily} name={image.displayName} />
        <h2>{image.displayName}</h2>
        <Badge tone={TONES[phase]}>{t(`image.phase.${phase}`)}</Badge>
      </header>
      {image.description !== undefined && <p className="detail">{image.description}</p>}
      {importing && (
        <Progress label={t("images.import")} percent={phase === "Importing" ? percentOf(image.progress) : undefined} />
      )}
      {phase === "Failed" && <p className="remedy">{t("images.failed", { name: image.name })}</p>}
      <p className="quiet-text">
        <code>{image.name}</code> · {t("image.from", { size: sizeText(image.minDisk) })}
      </p>
    </li>
  );
}
