import { useMutation } from "@tanstack/react-query";
import { Button, type ButtonProps } from "./Button";
import { useToast, useToastError } from "./Toasts";

interface Props extends Omit<ButtonProps, "onPress" | "isPending"> {
  act: () => Promise<unknown>;
  /** What to say once it is done, where that cannot be seen. */
  done?: string;
}

/** A button that does one thing and tells how that went. */
export function ActionButton({ act, done, ...rest }: Props) {
  const toast = useToast();
  const toastError = useToastError();
  // Told by the mutation itself: what is done may take the button away with it.
  const mutation = useMutation({ mutationFn: act, onSuccess: () => done !== undefined && toast(done), onError: toastError });
  return <Button {...rest} isPending={mutation.isPending} onPress={() => mutation.mutate()} />;
}
