import UserPlus from "lucide-react/icons/user-plus";
import { useState } from "react";
import { useUsers } from "../../api/queries";
import type { User } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Loaded } from "../../components/Loaded";
import type { Tone } from "../../components/Notice";
import { Page } from "../../components/Page";
import { Search } from "../../components/Search";
import { Table, type Column } from "../../components/Table";
import { Unreadable } from "../../components/Unreadable";
import { useT, type Key } from "../../i18n";
import { sizeText } from "../../lib/sizes";
import { NewUser } from "./NewUser";
import { UserDialog } from "./UserDialog";

/** Everybody's accounts. */
export default function UsersPage() {
  const t = useT();
  const users = useUsers();
  const [text, setText] = useState("");
  const [creating, setCreating] = useState(false);
  const [editing, setEditing] = useState<string | null>(null);
  const columns: readonly Column<User>[] = [
    {
      title: t("username"),
      head: true,
      cell: (user) => (
        <>
          {user.username}
          {user.email !== undefined && <small className="under">{user.email}</small>}
        </>
      ),
    },
    { title: t("user.level"), cell: (user) => t(`level.${user.accessLevel}`) },
    {
      title: t("vm.state"),
      cell: (user) => {
        const [tone, label] = userState(user);
        return (
          <>
            <Badge tone={tone}>{t(label)}</Badge>
            <Unreadable why={user.unreadable} />
          </>
        );
      },
    },
    { title: t("quota.vms"), cell: ({ usage, quota }) => t("quota.of", { used: usage.vms, most: quota.vms }) },
    { title: t("quota.cpu"), cell: ({ usage, quota }) => t("quota.of", { used: usage.cpu, most: quota.cpu }) },
    {
      title: t("quota.memory"),
      cell: ({ usage, quota }) => t("quota.of", { used: sizeText(usage.memory), most: sizeText(quota.memory) }),
    },
    {
      title: t("actions"),
      actions: true,
      cell: (user) => (
        <Button small aria-label={t("user.editOf", { name: user.name })} onPress={() => setEditing(user.name)}>
          {t("edit")}
        </Button>
      ),
    },
  ];
  const wanted = (user: User) =>
    [user.username, user.email ?? ""].some((word) => word.toLowerCase().includes(text.trim().toLowerCase()));
  const edited = users.data?.find((user) => user.name === editing);
  return (
    <Page
      title={t("nav.users")}
      lead={t("users.lead")}
      actions={
        <>
          <Search label={t("search.users")} value={text} onChange={setText} />
          <Button look="primary" icon={<UserPlus aria-hidden />} onPress={() => setCreating(true)}>
            {t("users.new")}
          </Button>
        </>
      }
    >
      <section className="card">
        <Loaded query={users}>
          {(users) => (
            <Table
              label={t("nav.users")}
              columns={columns}
              rows={users.filter(wanted)}
              rowKey={(user) => user.name}
              empty={t("search.nothing", { text })}
            />
          )}
        </Loaded>
      </section>
      {creating && <NewUser onClose={() => setCreating(false)} />}
      {edited && <UserDialog user={edited} onClose={() => setEditing(null)} />}
    </Page>
  );
}

function userState(user: User): [Tone, Key] {
  if (user.deleting) return ["busy", "state.deleting"];
  if (user.suspended) return ["warn", "user.suspended"];
  if (user.phase === "Failed" || user.unreadable !== undefined) return ["bad", "state.failed"];
  return user.phase === "Ready" ? ["good", "user.ready"] : ["busy", "user.preparing"];
}
