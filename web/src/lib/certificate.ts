// What a certificate says, in words; whether it holds is for its checker alone (lib/certificate-worker.ts).

import { show, showInteger } from "./numbers";
import { maxTpr } from "./tradeoff";

export const FORMAT = "dp-certificate/1";
export const CHECKERS = ["/checker/dp_certificate.mjs", "/checker/dp_certificate.py"] as const;
export const MAX_BYTES = 1 << 16;

export interface ClaimedRelease {
  mechanisms: readonly ({ type: string } & Readonly<Record<string, string | number>>)[];
  poisson: string;
  count: number;
}

export interface Claim {
  epsilon: string;
  delta: string;
  relation: "add-or-remove-one" | "replace-one" | "zero-out";
  group: number;
  releases: readonly ClaimedRelease[];
}

/** What the checker says of a file: its line, and the claim where the checker has read one. */
export interface Examination {
  outcome: "proven" | "not-proven" | "no-certificate";
  message: string;
  text: string; // without its line end; empty if the file is no certificate
  claim: Claim | null;
}

/** An examination, with the SHA-256 of the checker that made it (null without HTTPS). */
export type Check = Examination & { checker: string | null };

export type Judge = (bytes: Uint8Array) => [proven: boolean, message: string];

/** The bytes of a file that its checker needs: a longer one is refused without reading all of it. */
export const readStart = async (file: Blob): Promise<Uint8Array> => new Uint8Array(await file.slice(0, MAX_BYTES + 1).arrayBuffer());

/** Check a file, and read the claim out of what the checker has accepted as text. */
export function examine(bytes: Uint8Array, judge: Judge): Examination {
  const [proven, message] = judge(bytes);
  const text = new TextDecoder().decode(bytes.subarray(0, MAX_BYTES)).replace(/\n$/, "");
  if (proven || message.startsWith("REFUSED: at epsilon")) return { outcome: proven ? "proven" : "not-proven", message, text, claim: JSON.parse(text).claim };
  const begun = bytes.length <= MAX_BYTES && isCertificate(text);
  return { outcome: begun ? "not-proven" : "no-certificate", message, text: begun ? text : "", claim: null };
}

/** Whether a text begins as a certificate does. */
export const isCertificate = (text: string): boolean => text.startsWith(`{"format":"${FORMAT}"`);

/** The number of releases of a claim. */
export const countReleases = ({ releases }: Claim): number => releases.reduce((sum, { count }) => sum + count, 0);

/** The bound of a claim, in one sentence. */
export function describeBound(claim: Claim): string {
  const count = countReleases(claim);
  return `ε is at most ${claim.epsilon} at δ = ${claim.delta}, for ${count === 1 ? "one release" : `${showInteger(count)} releases together`}.`;
}

const DIFFERENCES: Record<Claim["relation"], string> = {
  "add-or-remove-one": "added or removed",
  "replace-one": "replaced",
  "zero-out": "set to zero",
};

/** The pairs of data sets that a claim is about, in one sentence. */
export function describeNeighbors({ relation, group }: Claim): string {
  const units = group === 1 ? "one unit" : `up to ${showInteger(group)} units of one person`;
  return `It holds for any two data sets that differ by ${units}, ${DIFFERENCES[relation]}.`;
}

/** A claim as names and values, as `describe_claim` writes it in Python. */
export function describeClaim({ epsilon, delta, relation, group, releases }: Claim): [name: string, value: string][] {
  const rows: [string, string][] = [["epsilon", epsilon], ["delta", delta], ["neighboring relation", relation], ["units of one person", String(group)]];
  for (const { mechanisms, poisson, count } of releases) {
    const named = mechanisms.map(({ type, ...fields }) => `${type} (${Object.entries(fields).map((field) => field.join(" ")).join(", ")})`);
    rows.push([`${count} ${count === 1 ? "release" : "releases"}`, named.join(" and ") + (poisson === "1" ? "" : `, in samples of ${poisson}`)]);
  }
  return rows;
}

const STATED = new Set(["gdp", "zcdp", "approximate", "bounded-range"]);

/** The mechanisms whose own guarantee the claim takes as given. */
export const listStatements = ({ releases }: Claim): string[] => [...new Set(releases.flatMap(({ mechanisms }) => mechanisms.map(({ type }) => type)))].filter((type) => STATED.has(type));

export const WRONGLY_ACCUSED = 10; // of 1,000 outsiders, as in reports

/** How many of 1,000 an attacker can pick out, rounded up. */
export function describePickedOut({ epsilon, delta, group }: Claim): string {
  const share = maxTpr([{ epsilon: Number(epsilon), delta: Number(delta) }], WRONGLY_ACCUSED / 1000);
  const most = Math.ceil(1000 * share * (1 + 1e-12)); // beyond the rounding of doubles
  return `${most >= 990 ? "Nearly everybody" : `At most ${most} of 1,000 ${group === 1 ? "units" : "people"}`} could be picked out.`;
}

/** By how much a refused certificate misses its claim, in one sentence, from the checker's line. */
export function describeExcess(message: string, { epsilon, delta }: Claim): string {
  const times = Number(/at most (\d+) millionths/.exec(message)?.[1]) / 1e6;
  return `At ε = ${epsilon}, it shows only that δ is at most ${show(times, 3, "up")} times the claimed ${delta}.`;
}

/** An address that carries a certificate behind its "#", which browsers do not send. */
export function linkTo(text: string): string {
  const bytes = Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
  return `/certificate#${btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** The certificate that an address carries; null without one. */
export function readLink(hash: string): string | null {
  try {
    const bytes = Uint8Array.from(atob(hash.slice(1).replaceAll("-", "+").replaceAll("_", "/")), (byte) => byte.charCodeAt(0));
    return bytes.length > 0 ? new TextDecoder().decode(bytes) : null;
  } catch {
    return null;
  }
}
