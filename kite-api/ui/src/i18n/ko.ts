import type { Words } from ".";
import { en } from "./en";
export const ko: Words = { ...en };
