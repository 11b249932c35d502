import { useI18n } from "../i18n";
import { useNow } from "../lib/now";
import { ago, dateTime, relative } from "../lib/time";

/** A moment, by how far away it is; exactly for who points at it. What `is` past is so by
 * every clock. */
export function When({ time, is }: { time: string; is?: "past" }) {
  const { tag } = useI18n();
  useNow();
  return (
    <time dateTime={time} title={dateTime(time, tag)}>
      {is === "past" ? ago(time, tag) : relative(time, tag)}
    </time>
  );
}
