// What the account may do, to leave out what the API would refuse.

import type { Me, Vm } from "../api/types";

export const mayCreate = (me: Me): boolean => me.accessLevel !== "ReadOnly";

/** Start, stop, change and delete what others have. */
export const mayManageOthers = (me: Me): boolean => me.accessLevel === "Manager" || me.accessLevel === "Admin";

/** Start, stop, change, delete. */
export function mayManage(me: Me, vm: Vm): boolean {
  return vm.owner === me.name ? me.accessLevel !== "ReadOnly" : mayManageOthers(me);
}

/** Keys, password, consoles. */
export function mayEnter(me: Me, vm: Vm): boolean {
  return vm.owner === me.name ? me.accessLevel !== "ReadOnly" : me.accessLevel === "Admin";
}
