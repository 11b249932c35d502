import { useState } from "react";
import Cable from "lucide-react/icons/cable";
import ChartColumn from "lucide-react/icons/chart-column";
import Disc3 from "lucide-react/icons/disc-3";
import Gift from "lucide-react/icons/gift";
import HardDrive from "lucide-react/icons/hard-drive";
import LogOut from "lucide-react/icons/log-out";
import Mail from "lucide-react/icons/mail";
import Server from "lucide-react/icons/server";
import ServerCog from "lucide-react/icons/server-cog";
import Settings2 from "lucide-react/icons/settings-2";
import UserRound from "lucide-react/icons/user-round";
import Users from "lucide-react/icons/users";
import type { LucideIcon } from "lucide-react";
import { Link, NavLink } from "react-router";
import { useAccount, useOffers } from "../api/queries";
import { Button } from "../components/Button";
import { AskAboutLosses } from "../components/AskBeforeLeaving";
import { Logo } from "../components/Logo";
import { useT, type Key } from "../i18n";
import { lossesNow } from "../lib/losses";
import { Bell } from "./Bell";
import { useSignOut } from "./sign-out";
import { Preferences } from "./Preferences";

interface Place {
  to: string;
  label: Key;
  icon: LucideIcon;
}

const OWN: readonly Place[] = [
  { to: "/", label: "nav.vms", icon: Server },
  { to: "/disks", label: "nav.disks", icon: HardDrive },
  { to: "/offers", label: "nav.offers", icon: Gift },
  { to: "/account", label: "nav.account", icon: UserRound },
];
const ALL_VMS: Place = { to: "/admin/vms", label: "nav.allVms", icon: ServerCog };
const SESSIONS: Place = { to: "/admin/sessions", label: "nav.sessions", icon: Cable };
const ADMIN: readonly Place[] = [
  { to: "/admin", label: "nav.overview", icon: ChartColumn },
  { to: "/admin/users", label: "nav.users", icon: Users },
  ALL_VMS,
  { to: "/admin/volumes", label: "nav.allVolumes", icon: HardDrive },
  SESSIONS,
  { to: "/admin/images", label: "nav.images", icon: Disc3 },
  { to: "/admin/offers", label: "nav.adminOffers", icon: Gift },
  { to: "/admin/invites", label: "nav.invites", icon: Mail },
  { to: "/admin/platform", label: "nav.platform", icon: Settings2 },
];

/** Where one can go, and who one is. */
export function Sidebar({ onLeave }: { onLeave?: () => void }) {
  const t = useT();
  const me = useAccount();
  const offers = useOffers().data?.length ?? 0;
  const managed = me.accessLevel === "Admin" ? ADMIN : me.accessLevel === "Manager" ? [ALL_VMS, SESSIONS] : [];
  const places = (list: readonly Place[]) => (
    <ul>
      {list.map(({ to, label, icon: Icon }) => (
        <li key={to}>
          <NavLink to={to} end={to === "/" || to === "/admin"} {...(onLeave ? { onClick: onLeave } : {})}>
            <Icon aria-hidden />
            <span>{t(label)}</span>
            {to === "/offers" && offers > 0 && <span className="count">{offers}</span>}
          </NavLink>
        </li>
      ))}
    </ul>
  );
  return (
    <>
      <div className="brand-row">
        <Link to="/" className="brand" {...(onLeave ? { onClick: onLeave } : {})}>
          <Logo size={32} /> Kite
        </Link>
        {onLeave === undefined && <Bell />}
      </div>
      <nav aria-label={t("nav.label")}>
        {places(OWN)}
        {managed.length > 0 && (
          <>
            <h2>{t("nav.admin")}</h2>
            {places(managed)}
          </>
        )}
      </nav>
      <footer>
        <Preferences />
        <div className="who">
          <span className="avatar" aria-hidden>
            {me.username.charAt(0).toUpperCase()}
          </span>
          <span className="who-text">
            <strong>{me.username}</strong>
            <small>{t(`level.${me.accessLevel}`)}</small>
          </span>
          <SignOut />
        </div>
      </footer>
    </>
  );
}

function SignOut() {
  const t = useT();
  const mutation = useSignOut();
  const [losses, setLosses] = useState<readonly string[]>([]);
  const ask = () => {
    const now = lossesNow();
    if (now.length === 0) mutation.mutate();
    else setLosses(now);
  };
  return (
    <>
      <Button
        look="quiet"
        icon={<LogOut aria-hidden />}
        aria-label={t("signOut")}
        isPending={mutation.isPending}
        onPress={ask}
      />
      {losses.length > 0 && (
        <AskAboutLosses
          title={t("leave.signOut")}
          losses={losses}
          go={t("signOut")}
          onGo={() => {
            setLosses([]);
            mutation.mutate();
          }}
          onStay={() => setLosses([])}
        />
      )}
    </>
  );
}
