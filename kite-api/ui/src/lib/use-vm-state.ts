import { useIsConnectionLost } from "../api/connection";
import type { Vm } from "../api/types";
import { useNow } from "./now";
import { reachOf, standings, vmState } from "./vm";

/** Until when the page has known how VMs do. */
let known = Date.now();

/** How VMs do, for a component: it is shown again as time passes, which makes warnings of
 * what hangs. While the page hears nothing, nothing is taken to hang on. */
export function useVmState() {
  const isLost = useIsConnectionLost();
  useNow();
  if (!document.hidden && !isLost) known = Date.now();
  const now = known;
  return {
    stateOf: (vm: Vm) => vmState(vm, now),
    reachOf: (vm: Vm) => reachOf(vm, now),
    standingsOf: (vm: Vm) => standings(vm, now),
  };
}
