// The chart of the home page: how noise, rounds and cohort bound what an attacker can learn.

import { useMemo } from "preact/hooks";
import { urlStore, toQuery } from "../../lib/url-state";
import { useQuery } from "../../lib/use-query";
import { post, server } from "../../lib/api";
import { gaussianDistance, maxTpr, quantile, RATES } from "../../lib/tradeoff";
import { type FieldSpec, useForm } from "../../lib/form";
import { typeset } from "../../lib/messages";
import { power10, show, showInteger } from "../../lib/numbers";
import { type ProfileResponse, readFederatedRequest, type InterpretationResponse } from "../../lib/openapi";
import { federatedClosedForm } from "../../lib/browser-accountant/closed";
import { deltasOf, epsilonOf, type Schedule } from "../../lib/browser-accountant/sampled";
import { IntervalBar } from "../IntervalBar";
import { Results } from "../Results";
import { Slider, stops } from "../Slider";
import { LiveRegion } from "../LiveRegion";
import { Bells } from "./Bells";
import { Tradeoff } from "./Tradeoff";

const POPULATION = 50_000;
const DELTA = 1e-6;
const FPR = 0.01;
const THRESHOLD = quantile(1 - FPR);
const SHARES = [0, 0.05, 0.1, 0.17, 0.25, 0.33, 0.42, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.15]; // of the epsilon at delta 1e-3

const SPECS: readonly FieldSpec[] = [
  { name: "noise_multiplier", label: "Noise", symbol: "σ", kind: "real", initial: "1", min: 0.03, max: 1e6, hint: "times one person’s largest contribution" },
  { name: "rounds", label: "Rounds", symbol: "T", kind: "integer", initial: "1000", min: 1, max: 1e7, hint: "each publishes a model" },
  { name: "cohort_size", label: "Cohort", symbol: "m", kind: "integer", initial: "500", min: 1, max: POPULATION, hint: `expected per round, of ${showInteger(POPULATION)} people` },
];
const NOISE = stops(0.3, 30, false);
const ROUNDS = stops(1, 100_000, true);
const COHORT = stops(5, POPULATION, true);

/** Return the browser's own bounds, shown while a slider moves. */
function computeQuickResult(sigma: number, rounds: number, cohort: number) {
  const schedule = { sigma, rounds, q: cohort / POPULATION };
  const [epsilon, epsilonAtThousandth] = [epsilonOf(schedule, DELTA), epsilonOf(schedule, 1e-3)];
  const reach = Math.max(1e-3, Math.min(600, epsilonAtThousandth));
  const epsilons = SHARES.map((share) => share * reach);
  const deltas = deltasOf(schedule, epsilons, 1e-6);
  const profile = epsilons.map((epsilon, i) => ({ epsilon, delta: deltas[i]! }));
  return {
    epsilon,
    log_odds_factor: boundLogOddsFactor(schedule, epsilon, Math.max(0, epsilon - epsilonAtThousandth) / Math.log(1e-3 / DELTA)),
    closed_form: federatedClosedForm(schedule.q, sigma, rounds, DELTA).total,
    curve: RATES.map((fpr) => [fpr, maxTpr(profile, fpr)] as const),
    tpr: maxTpr(profile, FPR),
  };
}

const MAX_ODDS = Math.log(1e6); // odds of a million to one: no protection in practice

/** Bound the log-odds factor with probability 1 - DELTA: docs/accounting/interpretation.md. */
function boundLogOddsFactor(schedule: Schedule, epsilon: number, slope: number): number {
  if (!Number.isFinite(epsilon)) return Infinity;
  const step = Math.min(3, Math.max(0.02, Math.log1p(slope)));
  const oneWay = (-DELTA * Math.expm1(-step)) / (1 + Math.exp(-step)); // both directions together are DELTA
  return (epsilonOf(schedule, oneWay * (1 - 1e-12)) + step) * (1 + 1e-12);
}

export function Hero() {
  const store = useMemo(urlStore, []);
  const form = useForm(SPECS, store);
  const values = form.values as { noise_multiplier: number; rounds: number; cohort_size: number } | null;
  const quick = useMemo(() => values && computeQuickResult(values.noise_multiplier, values.rounds, values.cohort_size), [values]);
  const ask = useMemo(() => values && readFederatedRequest({ ...values, population: POPULATION, delta: DELTA, delta_cap: null }), [values]);
  const answer = useQuery(ask, server.federated, { delay: 200 });
  const settled = answer.answer && !answer.busy && answer.of === ask ? answer.answer : null;
  const mix = settled && {
    parts: [{ mechanism: "gaussian", parameter: settled.noise_multiplier, sampling_probability: settled.sampling_probability, count: settled.rounds }],
    delta: DELTA,
    fpr: FPR,
  };
  const statement = useQuery(settled && { ...ask, cap: null }, (body, signal) => post<InterpretationResponse>("federated/interpretation", body, signal), { delay: 0 });
  const reading = useQuery(mix, (body, signal) => post<ProfileResponse>("account/profile", body, signal), { delay: 0 });
  if (!quick || !values) return <Frame form={form} />;

  const upper = settled?.epsilon.upper ?? quick.epsilon;
  const lower = settled?.epsilon.lower ?? null;
  const tpr = Math.min(quick.tpr, settled && reading.answer ? reading.answer.tpr : 1);
  const mu = gaussianDistance(FPR, tpr);
  const share = `${show(100 * tpr, 3, "up")}%`;
  const under = quick.closed_form < (lower ?? 0);
  const source = settled
    ? `proven: the true ε at δ = 10⁻⁶ is between ${show(lower, 4, "down")} and ${show(upper, 4, "up")}`
    : answer.problem
      ? `an upper bound at δ = ${power10(-6)}, from this browser (${answer.problem.title.toLowerCase()})`
      : `an upper bound at δ = ${power10(-6)}, from this browser; loading the proven interval`;
  const interpretation = settled ? statement.answer : null;
  const moved = Math.min(quick.log_odds_factor, interpretation?.log_odds_factor ?? Infinity);
  return (
    <Frame form={form}>
      <div class="reads">
        <p class="claim">
          <span>ε ≤ </span>
          <b>{show(upper, 4, "up")}</b>
        </p>
        <p class="beside">{source}</p>
        <IntervalBar lower={lower} upper={upper} estimate={quick.closed_form} />
        <p class="key">
          <span class="swatch claim" /> proven bound <span class="swatch estimate" /> closed form: {show(quick.closed_form)}
          {under && ", below the true value"}
        </p>
      </div>
      <div class="seen">
        <Bells mu={mu} threshold={THRESHOLD} fpr="1%" tpr={share} />
        <Tradeoff points={quick.curve} at={[FPR, tpr]} says={`at 1%: ${share}`} />
      </div>
      <div class="means">
        <p>
          <b>What it means for one person.</b> For an attacker who sees every model, the odds that you took part are <b>1 : 1</b> before and{" "}
          {moved > MAX_ODDS ? <b>more than a million : 1</b> : <b>at most {show(Math.exp(moved), 3, "up")} : 1</b>} after
          {moved > MAX_ODDS ? ". So large an ε gives almost no protection." : <>, except with probability δ = {power10(-6)}. Most attackers learn less.</>}
        </p>
        <p class="method told">{interpretation ? typeset(interpretation.odds) : answer.problem || statement.problem ? "" : "Loading the exact statement…"}</p>
        <p class="method">
          Left: two normal densities {show(mu, 3, "up")} standard deviations apart, as easy to distinguish at an FPR of 1% as this run with and without you in
          the worst case. Right: the bound for any attack.
        </p>
      </div>
      <LiveRegion text={`Epsilon is at most ${show(upper, 4, "up")}. At an FPR of 1%, an attack identifies at most ${share} of participants.`} />
    </Frame>
  );
}

function Frame({ form, children }: { form: ReturnType<typeof useForm>; children?: preact.ComponentChildren }) {
  return (
    <section class="live card" aria-label="Privacy loss of a run">
      <form class="dials" aria-label="The run" onSubmit={(e) => e.preventDefault()}>
        <Slider form={form} name="noise_multiplier" at={NOISE} />
        <Slider form={form} name="rounds" at={ROUNDS} />
        <Slider form={form} name="cohort_size" at={COHORT} />
      </form>
      <Results name="live-results" waiting={form.waiting} busy={false}>
        {children}
      </Results>
      <p class="more">
        <a href={`/federated?${toQuery({ population: String(POPULATION), ...form.raw, delta: String(DELTA), delta_cap: "" })}`}>Open this run in the calculator</a>
      </p>
    </section>
  );
}
