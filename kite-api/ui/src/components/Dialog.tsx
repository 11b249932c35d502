import { Dialog as AriaDialog } from "react-aria-components/Dialog";
import { Heading } from "react-aria-components/Heading";
import { Modal, ModalOverlay } from "react-aria-components/Modal";
import X from "lucide-react/icons/x";
import type { ReactNode } from "react";
import { useT } from "../i18n";
import { Button } from "./Button";

interface Props {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  children: ReactNode;
  /** Wider than a form, or as wide as there is room. */
  wide?: boolean | "full";
}

/** A dialog over the page; it leaves by Escape, too. */
export function Dialog({ title, isOpen, onClose, children, wide = false }: Props) {
  const t = useT();
  return (
    <ModalOverlay className="overlay" isOpen={isOpen} onOpenChange={(open) => !open && onClose()}>
      <Modal className={wide === false ? "modal" : wide === true ? "modal wide" : `modal ${wide}`}>
        <AriaDialog className="dialog">
          <header>
            <Heading slot="title">{title}</Heading>
            <Button look="quiet" icon={<X aria-hidden />} aria-label={t("close")} onPress={onClose} />
          </header>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}
