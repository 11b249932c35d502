// Part of the page over the whole screen.

import { useCallback, useEffect, useState, type RefObject } from "react";

/** In a browser that can, keys that would end the full screen go to the page instead:
 * editors and menus in a VM live by Escape. It is then held down to leave. */
interface Keyboards {
  keyboard?: { lock?: (keys: string[]) => Promise<void>; unlock?: () => void };
}

interface FullScreen {
  isFull: boolean;
  /** Absent where the browser has no full screen, as on some phones. */
  toggle: (() => void) | undefined;
}

/** Whether the element fills the screen, and the way there and back. With `keepsKeys`
 * Escape is its own as long. */
export function useFullScreen(element: RefObject<HTMLElement | null>, keepsKeys = false): FullScreen {
  const [isFull, setFull] = useState(false);
  useEffect(() => {
    const follow = () => {
      const isNow = document.fullscreenElement !== null && document.fullscreenElement === element.current;
      setFull(isNow);
      if (document.fullscreenElement === null) (navigator as Keyboards).keyboard?.unlock?.();
    };
    document.addEventListener("fullscreenchange", follow);
    return () => document.removeEventListener("fullscreenchange", follow);
  }, [element]);
  const toggle = useCallback(async () => {
    if (document.fullscreenElement) return document.exitFullscreen();
    await element.current?.requestFullscreen();
    if (keepsKeys) await (navigator as Keyboards).keyboard?.lock?.(["Escape"]);
  }, [element, keepsKeys]);
  return {
    isFull,
    // A browser that does not want to leaves everything as it is.
    toggle: document.fullscreenEnabled ? () => void toggle().catch(() => undefined) : undefined,
  };
}
