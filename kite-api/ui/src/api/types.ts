// The shapes of the API under the names that the pages use.

export type AccessLevel = "ReadOnly" | "User" | "Manager" | "Admin";
export type PowerState = "On" | "Off";
export type SshLogin = "KeyOrPassword" | "KeyAndPassword";
export type SignUp = "Open" | "Invite" | "Closed";
export type VmPhase =
  | "Pending"
  | "Provisioning"
  | "Starting"
  | "Running"
  | "Migrating"
  | "Paused"
  | "Stopping"
  | "Stopped"
  | "Deleting"
  | "Failed";

export interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
  lastTransitionTime: string;
}

export interface Config {
  signUp: SignUp;
  bootstrapOpen: boolean;
  baseDomain?: string;
  gateway?: { host?: string; port: number };
  version: string;
  oidc?: string[];
  features?: string[];
}

export interface Quota {
  vms: number;
  cpu: number;
  memory: string;
  disk: string;
}

export interface Usage {
  vms: number;
  cpu: number;
  memory: number;
  disk: number;
}

export interface User {
  name: string;
  username: string;
  email?: string;
  accessLevel: AccessLevel;
  suspended: boolean;
  sshPublicKeys: string[];
  quota: Quota;
  usage: Usage;
  phase?: "Pending" | "Ready" | "Suspended" | "Deleting" | "Failed";
  namespace?: string;
  conditions: Condition[];
  createdAt?: string;
  deleting: boolean;
}

export interface Me extends User {
  sessionExpiresAt?: string;
  totp?: boolean;
}

export interface VmStatus {
  phase?: VmPhase;
  powerState?: PowerState;
  upToDate: boolean;
  nodeName?: string;
  ipAddress?: string;
  diskPhase?: string;
  diskProgress?: string;
  sshCommand?: string;
  domain?: string;
  deleteAt?: string;
  idle: boolean;
  conditions: Condition[];
}

export interface Vm {
  name: string;
  owner: string;
  namespace: string;
  uid: string;
  cpu: number;
  memory: string;
  disk: string;
  image: string;
  powerState: PowerState;
  sshId: string;
  hasSshPassword: boolean;
  sshPublicKeys: string[];
  domainPrefix?: string;
  expiresAt?: string;
  expiryGracePeriod?: string;
  idleTimeout?: string;
  startOnConnect: boolean;
  sshLogin: SshLogin;
  offer?: string;
  createdAt?: string;
  deleting: boolean;
  status: VmStatus;
}

export interface Image {
  name: string;
  displayName: string;
  description?: string;
  osFamily: string;
  minDisk: string;
  phase?: "Pending" | "Importing" | "Ready" | "Deleting" | "Failed";
  progress?: string;
}

export interface Offer {
  name: string;
  cpu: number;
  memory: string;
  disk: string;
  image: string;
  expiresAt?: string;
  lifetime?: string;
  phase?: "Available" | "Claimed" | "Expired" | "Deleting";
  user?: string;
  claimedBy?: { namespace: string; name: string };
  conditions?: Condition[];
}

export interface Session {
  name: string;
  createdAt?: string;
  expiresAt: string;
  client?: string;
  current: boolean;
}

export interface Token {
  name: string;
  scopes: string[];
  createdAt?: string;
  expiresAt?: string;
  lastUsedAt?: string;
}

export interface Invite {
  name: string;
  code?: string;
  createdAt?: string;
  expiresAt?: string;
  usedBy?: string;
}

export interface Totp {
  secret: string;
  otpauthUrl: string;
}

/** What a body may hold: the API says which fields are wrong. */
export type Body = Record<string, unknown>;

export interface Platform {
  baseDomain?: string;
  signUp?: SignUp;
  storageClass?: string;
  imageNamespace?: string;
  blockedNetworks?: string[];
  gateway?: { publicHost?: string; publicPort?: number };
}
