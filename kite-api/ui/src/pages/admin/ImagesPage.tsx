import { useImages } from "../../api/queries";
import { sentence } from "../../api/problem";
import type { Condition, Image } from "../../api/types";
import { Badge } from "../../components/Badge";
import { percentOf, Progress } from "../../components/Bars";
import { Empty } from "../../components/Empty";
import { Loaded } from "../../components/Loaded";
import type { Tone } from "../../components/Notice";
import { Page } from "../../components/Page";
import { useI18n, useT } from "../../i18n";
import { sizeText } from "../../lib/sizes";
import { withLocalTimes } from "../../lib/time";
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

/** An older API tells of none. */
const conditionOf = (image: Image, type: string) => image.conditions?.find((condition) => condition.type === type);

/** Whether it is in use, and a newer one cannot be imported. */
const isBehind = (image: Image) => image.phase === "Ready" && conditionOf(image, "UpToDate")?.reason === "ImportFailed";

/** What went wrong, and below how the controller says it, which is English. */
function Failure({ says, condition }: { says: string; condition: Condition | undefined }) {
  const { t, tag } = useI18n();
  return (
    <div className="why">
      <p className="remedy">{says}</p>
      {condition !== undefined && (
        <details open>
          <summary>{t("reason.details")}</summary>
          <p lang="en">{sentence(withLocalTimes(condition.message, tag))}</p>
        </details>
      )}
    </div>
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
      {phase === "Failed" && <Failure says={t("images.failed")} condition={conditionOf(image, "Ready")} />}
      {isBehind(image) && <Failure says={t("images.behind")} condition={conditionOf(image, "UpToDate")} />}
      <p className="quiet-text">
        <code>{image.name}</code> · {t("image.from", { size: sizeText(image.minDisk) })}
      </p>
    </li>
  );
}
