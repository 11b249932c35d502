// The shapes of the API under the names that the pages use, out of the document
// by which it describes itself (`npm run generate` makes schema.d.ts of it).

import type { components } from "./schema";

type Schemas = components["schemas"];

/** Answers leave out what is not there; the document allows null, too. */
export type Present<T> = T extends readonly (infer Item)[]
  ? Present<Item>[]
  : T extends ReadableStream
    ? T
    : T extends object
      ? { [Key in keyof T]: Present<Exclude<T[Key], null>> }
      : T;

export type AccessLevel = Schemas["AccessLevel"];
export type ConsoleKind = Schemas["ConsoleKind"];
export type SignUp = Schemas["SignUp"];
export type SecondFactorOf = Schemas["SecondFactorOf"];
export type SshKey = Present<Schemas["SshKey"]>;
export type VmAccess = Present<Schemas["VmAccess"]>;
export type NoticeItem = Present<Schemas["Notice"]>;
export type Condition = Present<Schemas["io.k8s.apimachinery.pkg.apis.meta.v1.Condition"]>;
export type Quota = Present<Schemas["Quota"]>;
export type User = Present<Schemas["User"]>;
export type Vm = Present<Schemas["Vm"]>;
export type Snapshot = Present<Schemas["Snapshot"]>;
export type Volume = Present<Schemas["Volume"]>;
export type Image = Present<Schemas["Image"]>;
export type Offer = Present<Schemas["Offer"]>;
export type Certificate = Present<Schemas["Certificate"]>;
export type Invite = Present<Schemas["Invite"]>;
export type InviteMade = Present<Schemas["InviteMade"]>;
export type Me = Present<Schemas["Me"]>;
export type Totp = Present<Schemas["NewSecondFactor"]>;
export type Capacity = Present<Schemas["Capacity"]>;
export type Identity = Present<Schemas["Identity"]>;
export type Platform = Present<Schemas["Platform"]>;
export type VmSession = Present<Schemas["VmSession"]>;
export type Config = Present<Schemas["Config"]>;
export type Provider = Config["signInProviders"][number];
export type SignInProvider = NonNullable<Platform["signInProviders"]>[number];
export type GroupLevel = NonNullable<SignInProvider["accessLevels"]>[number];
export type Session = Present<Schemas["SessionList"]>["items"][number];

/** What a form sends: fields of the document, with their types. Which of them are missing
 * or empty and must not be, the API says. */
export type Sent<Name extends keyof Schemas> = Open<Schemas[Name]>;
type Open<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { [Key in keyof T]?: Open<T[Key]> | null | undefined }
    : T;
