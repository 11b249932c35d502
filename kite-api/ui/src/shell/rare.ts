// What few see who open the page, in one file of its own: each by itself is so small that
// it would be put to what everybody loads.

export { Bootstrap } from "../pages/entrance/Bootstrap";
export { SignUp } from "../pages/entrance/SignUp";
export { default as Proved } from "../pages/entrance/Proved";
export { default as ProofDialog } from "./ProofDialog";
export { SignInAgain } from "./SignInAgain";
