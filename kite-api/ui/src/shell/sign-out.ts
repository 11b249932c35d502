import { useMutation } from "@tanstack/react-query";
import { signOut } from "../api/calls";
import { keys, queries } from "../api/queries";
import { useToastError } from "../components/Toasts";
import { leave } from "./leaving";

/** Ends the session of this browser; what then is nobody is the page's to show. */
export function useSignOut() {
  const toastError = useToastError();
  return useMutation({
    mutationFn: () => leave(signOut),
    onSuccess: () => queries.setQueryData(keys.me, null),
    onError: toastError,
  });
}
