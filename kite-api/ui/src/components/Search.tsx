import Icon from "lucide-react/icons/search";
import { Input } from "react-aria-components/Input";
import { SearchField } from "react-aria-components/SearchField";

interface Props {
  label: string;
  value: string;
  onChange: (text: string) => void;
}

/** Looks through a list. */
export function Search({ label, value, onChange }: Props) {
  return (
    <SearchField className="search" aria-label={label} value={value} onChange={onChange}>
      <Icon aria-hidden />
      <Input placeholder={label} />
    </SearchField>
  );
}
