// Whether somebody is signing out right now: the end of the session is no
// surprise then.

let leaving = false;

export const isLeaving = (): boolean => leaving;

export function setLeaving(now: boolean): void {
  leaving = now;
}
