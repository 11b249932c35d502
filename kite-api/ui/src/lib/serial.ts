/** Runs `task` when asked to, one at a time and with a pause behind each: whoever asks
 * meanwhile is served by one more run. */
export function serial(task: () => Promise<unknown>, pauseMs: number): () => void {
  let isBusy = false;
  let isAsked = false;
  const run = async () => {
    isBusy = true;
    while (isAsked) {
      isAsked = false;
      await task().catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    isBusy = false;
  };
  return () => {
    isAsked = true;
    if (!isBusy) void run();
  };
}
