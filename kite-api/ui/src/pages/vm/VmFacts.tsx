import Cpu from "lucide-react/icons/cpu";
import Disc3 from "lucide-react/icons/disc-3";
import HardDrive from "lucide-react/icons/hard-drive";
import MemoryStick from "lucide-react/icons/memory-stick";
import { useImages } from "../../api/queries";
import { useT } from "../../i18n";
import { sizeText } from "../../lib/sizes";

interface Props {
  vm: { image: string; cpu: number; memory: string; disk: string };
}

/** Image and size in a line. */
export function VmFacts({ vm }: Props) {
  const t = useT();
  const images = useImages().data;
  const image = images?.find((image) => image.name === vm.image)?.displayName ?? vm.image;
  return (
    <ul className="facts">
      <li>
        <Disc3 aria-hidden /> {image}
      </li>
      <li>
        <Cpu aria-hidden /> {t("vm.cpus", { count: vm.cpu })}
      </li>
      <li>
        <MemoryStick aria-hidden /> {t("vm.memory", { size: sizeText(vm.memory) })}
      </li>
      <li>
        <HardDrive aria-hidden /> {t("vm.disk", { size: sizeText(vm.disk) })}
      </li>
    </ul>
  );
}
