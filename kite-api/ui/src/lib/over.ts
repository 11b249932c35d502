// Whether the session of whoever sees the page has ended while something is typed in it:
// the page stays as it is until they have signed in again.

import { createContext, useContext } from "react";

export const Over = createContext(false);

export const useIsOver = (): boolean => useContext(Over);
