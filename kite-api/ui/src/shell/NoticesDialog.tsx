import { useState } from "react";
import { Link } from "react-router";
import * as calls from "../api/calls";
import { keys, queries, useNotices } from "../api/queries";
import type { NoticeItem } from "../api/types";
import { ActionButton } from "../components/ActionButton";
import { Button } from "../components/Button";
import { Dialog } from "../components/Dialog";
import { When } from "../components/When";
import { useI18n, type Key } from "../i18n";
import { clientName } from "../lib/client-name";
import { keyName } from "../lib/ssh-key";
import { dateTime } from "../lib/time";

/** What the account's owner has not seen. It goes once they say that they have. */
export default function NoticesDialog({ onClose }: { onClose: () => void }) {
  const { t } = useI18n();
  const notices = useNotices().data;
  const now: NoticeItem[] = notices?.items ?? [];
  // What comes meanwhile is shown beside what was there, and nothing goes while it is read.
  const [shown, setShown] = useState(now);
  const news = now.filter(({ id }) => !shown.some((it) => it.id === id));
  if (news.length > 0) setShown([...news, ...shown]);
  const more = notices?.more ?? 0;
  const see = async () => {
    const ids = shown.map(({ id }) => id);
    await calls.seeNotices(ids, more);
    await queries.invalidateQueries({ queryKey: keys.notices });
    onClose();
  };
  return (
    <Dialog title={t("notices.title")} isOpen onClose={onClose}>
      {shown.length + more === 0 ? (
        <p className="quiet-text">{t("notices.empty")}</p>
      ) : (
        <ul className="rows" aria-label={t("notices.title")}>
          {shown.map((notice) => (
            <li key={notice.id}>
              <Line notice={notice} onLeave={onClose} />
            </li>
          ))}
        </ul>
      )}
      {more > 0 && <p className="quiet-text">{t("notices.more", { count: more })}</p>}
      <div className="form-actions">
        {shown.length + more > 0 && (
          <ActionButton look="primary" act={see}>
            {t("notices.seen")}
          </ActionButton>
        )}
        <Button onPress={onClose}>{t("close")}</Button>
      </div>
    </Dialog>
  );
}

/** Of a kind that the API has and this page does not know only the name is told. */
const TITLES: Record<NoticeItem["kind"], Key> = {
  SignIn: "notice.SignIn",
  Token: "notice.Token",
  Key: "notice.Key",
  Identity: "notice.Identity",
  VmAccess: "notice.VmAccess",
  Password: "notice.Password",
  SecondFactor: "notice.SecondFactor",
  Quota: "notice.Quota",
  VmExpires: "notice.VmExpires",
  VmDeleted: "notice.VmDeleted",
};

function nameOf({ kind, name = "" }: NoticeItem): string {
  if (kind === "SignIn") return clientName(name) || name;
  return kind === "Key" ? keyName(name) : name;
}

function Line({ notice, onLeave }: { notice: NoticeItem; onLeave: () => void }) {
  const { t, tag } = useI18n();
  const { kind, at, name, network, until } = notice;
  const isOfVm = kind === "VmExpires" || kind === "VmDeleted" || kind === "VmAccess";
  const to = isOfVm ? `/vms/${name ?? ""}` : kind === "Quota" ? "/" : "/account";
  const when = until === undefined ? "" : dateTime(until, tag);
  return (
    <div>
      <strong>{t(TITLES[kind] ?? "notice.other", { name: nameOf(notice) || t("notice.unnamed"), when, kind })}</strong>
      <small>
        <When time={at} is="past" />
        {network !== undefined && ` · ${network}`}
        {" · "}
        <Link to={to} onClick={onLeave}>
          {t(isOfVm ? "notice.toVm" : kind === "Quota" ? "notice.toVms" : "notice.toAccount")}
        </Link>
      </small>
    </div>
  );
}
