declare module "@novnc/novnc" {
  /** As much of noVNC as the page uses. */
  export default class RFB extends EventTarget {
    constructor(target: Element, channel: EventTarget, options?: { shared?: boolean });
    scaleViewport: boolean;
    background: string;
    focus(): void;
    disconnect(): void;
    sendCtrlAltDel(): void;
  }
}
