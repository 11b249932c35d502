import { QRCodeSVG } from "qrcode.react";

/** Text for a camera. Dark on light in both themes, as scanners want it. */
export default function QrCode({ text, label }: { text: string; label: string }) {
  return (
    <div className="qr">
      <QRCodeSVG value={text} size={192} marginSize={4} bgColor="#fff" fgColor="#000" title={label} role="img" />
    </div>
  );
}
