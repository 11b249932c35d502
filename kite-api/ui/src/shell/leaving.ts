// Whether somebody is signing out right now: the end of the session is no
// surprise then.

let leaving = false;

export const isLeaving = (): boolean => leaving;

export function setLeaving(now: boolean): void {
  leaving = now;
}

/** Does what ends this session, too: news of its end may come before the answer, and
 * nothing that is on the page then is kept for later. */
export async function leave<T>(end: () => Promise<T>): Promise<T> {
  setLeaving(true);
  try {
    return await end();
  } catch (error) {
    setLeaving(false);
    throw error;
  }
}
