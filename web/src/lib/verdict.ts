// The question of a verdict card: what the form and the address hold, and what a dropped report says.

import { sha256Of } from "./hash";
import { makeFields } from "./parameter-spec";
import { PARAMETERS, type ReportVerificationModel, type VerdictRequest } from "./openapi";
import type { FieldSpec, Raw, Values } from "./form";
import { Problem } from "./types";

/** The name of each field that the form does not show: it comes from a report or from another page. */
export const HIDDEN = ["release", "relation", "simulation", "name", "report", "verdict", "date"] as const;

const HELP = "learn/epsilon-and-delta.html";
export const SPECS: readonly FieldSpec[] = makeFields(PARAMETERS.VerdictRequest, {
  epsilon: { label: "Epsilon", hint: "as it was published", initial: "4", omitted: "", optional: false, disabled: (raw) => raw.release !== "", helpPage: HELP },
  delta: { label: "Delta", hint: "0 if there is none", initial: "1e-5", omitted: "0", helpPage: HELP },
  privacy_unit: { label: "One unit is a", hint: "", helpPage: "glossary.html#term-privacy-unit" },
  prior: {
    label: "Suspicion beforehand",
    symbol: undefined,
    hint: "",
    kind: "choice",
    choices: [["0.5", "1 in 2, a coin toss"], ["0.1", "1 in 10"], ["0.01", "1 in 100"], ["0.001", "1 in 1,000"]],
  },
  release: { kind: "text", max: 7000, optional: true, initial: "" },
  relation: {},
  simulation: {},
  name: { max: 80 },
  report: { max: 64 },
  verdict: { max: 60 },
  date: { max: 10 },
});

/** The day in UTC, as a card states it. */
export const today = (): string => new Date().toISOString().slice(0, 10);

/** Read a form's values; null where its release is not JSON. */
export function readVerdictRequest(values: Values): VerdictRequest | null {
  const { epsilon = null, release, prior, date, ...rest } = values;
  try {
    return { ...rest, epsilon, release: typeof release === "string" ? JSON.parse(release) : null, prior: Number(prior), date: date ?? today() } as VerdictRequest;
  } catch {
    return null;
  }
}

interface Report {
  kind: string;
  simulation: boolean;
  identity?: { name?: string };
  claim: { supported: number | "inf"; epsilon: { upper: number | "inf" }; guarantee: { delta: number; relation: string; privacy_unit: string } };
  mechanism: { release: object };
}

/** Read a report as it was dropped, HTML or JSON. */
export function parseReport(text: string): Report {
  try {
    const inside = /^\s*</.test(text) ? new DOMParser().parseFromString(text, "text/html").getElementById("document")?.textContent : text;
    const report = JSON.parse(inside ?? "") as Report;
    if (!["report", "log-report"].includes(report.kind) || !report.claim.guarantee.privacy_unit || !report.mechanism.release) throw 0;
    return report;
  } catch {
    throw new Problem("This is no report", "Choose the report.json or report.html of a run.");
  }
}

/**
 * The fields of a card about a report, as `epsilog plan verdict --from-report` has them: its full curve where the
 * report supports its whole claim, else the supported epsilon alone.
 */
export async function rawOfReport(file: Blob, report: Report, checked: ReportVerificationModel | null): Promise<Raw> {
  const { claim, mechanism } = report;
  const supported = Number(claim.supported);
  if (checked?.status === "failed" || !Number.isFinite(supported)) throw new Problem("This report does not hold", "Its records support no epsilon, so it has no card. The page Verify says why.");
  const holds = report.kind === "report" && supported <= Number(claim.epsilon.upper);
  return {
    epsilon: holds ? "" : String(supported),
    delta: String(claim.guarantee.delta),
    release: holds ? JSON.stringify({ v: 1, term: mechanism.release }) : "",
    relation: claim.guarantee.relation,
    privacy_unit: claim.guarantee.privacy_unit,
    simulation: report.simulation ? "yes" : "no",
    name: (report.identity?.name ?? "report").slice(0, 80),
    report: await sha256Of(file),
    verdict: checked === null ? "" : checked.status === "not checked" ? "Cannot tell" : checked.answer,
  };
}
