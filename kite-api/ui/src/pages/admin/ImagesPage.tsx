import Pencil from "lucide-react/icons/pencil";
import Plus from "lucide-react/icons/plus";
import Trash2 from "lucide-react/icons/trash-2";
import { useState } from "react";
import * as calls from "../../api/calls";
import { useAllImages, useImages } from "../../api/queries";
import { sentence } from "../../api/problem";
import type { Condition, Image } from "../../api/types";
import { Badge } from "../../components/Badge";
import { percentOf, Progress } from "../../components/Bars";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { Empty } from "../../components/Empty";
import { Loaded } from "../../components/Loaded";
import type { Tone } from "../../components/Notice";
import { Page } from "../../components/Page";
import { Unreadable } from "../../components/Unreadable";
import { useI18n, useT } from "../../i18n";
import { leastDisk, sizeText } from "../../lib/sizes";
import { withLocalTimes } from "../../lib/time";
import { FamilyMark } from "../vms/FamilyMark";
import { EditImage, NewImage, refetchImages } from "./ImageDialogs";

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
  const urls = new Map(useAllImages().data?.map(({ uid, url }) => [uid, url]));
  const [adding, setAdding] = useState(false);
  /** What is asked of the image with this uid. */
  const [asked, setAsked] = useState<{ what: "edit" | "delete"; uid: string } | null>(null);
  const close = () => setAsked(null);
  const image = images.data?.find(({ uid }) => uid === asked?.uid);
  return (
    <Page
      title={t("nav.images")}
      lead={t("images.lead")}
      actions={
        <Button look="primary" icon={<Plus aria-hidden />} onPress={() => setAdding(true)}>
          {t("images.new")}
        </Button>
      }
    >
      <Loaded query={images}>
        {(images) =>
          images.length === 0 ? (
            <Empty title={t("images.empty")}>{t("images.emptyHint")}</Empty>
          ) : (
            <ul className="cards" aria-label={t("nav.images")}>
              {images.map((image) => (
                <ImageCard key={image.name} image={image} url={urls.get(image.uid)} ask={(what) => setAsked({ what, uid: image.uid })} />
              ))}
            </ul>
          )
        }
      </Loaded>
      {adding && <NewImage onClose={() => setAdding(false)} />}
      {asked?.what === "edit" && image !== undefined && <EditImage image={image} onClose={close} />}
      <Confirm
        name={image?.name ?? ""}
        title={t("delete.ask", { name: image?.name ?? "" })}
        submit={t("delete")}
        consequence={t("images.deleteConsequence")}
        done={t("delete.done", { name: image?.name ?? "" })}
        isOpen={asked?.what === "delete" && image !== undefined}
        onClose={close}
        send={async () => {
          await calls.deleteImage(image?.name ?? "", image?.etag);
          await refetchImages();
        }}
      />
    </Page>
  );
}

/** An older API tells of none. */
const conditionOf = (image: Image, type: string) => image.conditions?.find((condition) => condition.type === type);

/** Whether it is in use, and a newer one cannot be imported. */
const isBehind = (image: Image) => image.phase === "Ready" && conditionOf(image, "UpToDate")?.reason === "ImportFailed";

/** Reasons of an import that is on its way. */
const ON_ITS_WAY = new Set(["Importing", "Pending"]);

/** What is said in the page's words, if anything, and below how the controller says it,
 * which is English: folded away where nothing is wrong. */
function Words({ says, condition }: { says?: string; condition: Condition | undefined }) {
  const { t, tag } = useI18n();
  return (
    <div className="why">
      {says !== undefined && <p className="remedy">{says}</p>}
      {condition !== undefined && (
        <details open={says !== undefined}>
          <summary>{t("reason.details")}</summary>
          <p lang="en">{sentence(withLocalTimes(condition.message, tag))}</p>
        </details>
      )}
    </div>
  );
}

interface Card {
  image: Image;
  url: string | undefined;
  ask: (what: "edit" | "delete") => void;
}

function ImageCard({ image, url, ask }: Card) {
  const t = useT();
  const phase = image.phase ?? "Pending";
  const importing = phase === "Importing" || phase === "Pending";
  const ready = conditionOf(image, "Ready");
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
      <Unreadable why={image.unreadable} />
      {phase === "Failed" && image.unreadable === undefined && <Words says={t("images.failed")} condition={ready} />}
      {importing && ready !== undefined && (
        <Words {...(ON_ITS_WAY.has(ready.reason) ? {} : { says: t("images.heldUp") })} condition={ready} />
      )}
      {isBehind(image) && <Words says={t("images.behind")} condition={conditionOf(image, "UpToDate")} />}
      <p className="quiet-text">
        <code>{image.name}</code> · {t("image.from", { size: sizeText(leastDisk(image)) })}
        
      </p>
      {url !== undefined && (
        <p className="quiet-text">
          <code>{url}</code>
        </p>
      )}
      {phase !== "Deleting" && (
        <div className="actions">
          <Button small icon={<Pencil aria-hidden />} aria-label={t("edit.of", { name: image.name })} onPress={() => ask("edit")}>
            {t("edit")}
          </Button>
          <Button small icon={<Trash2 aria-hidden />} aria-label={t("delete.of", { name: image.name })} onPress={() => ask("delete")}>
            {t("delete")}
          </Button>
        </div>
      )}
    </li>
  );
}
