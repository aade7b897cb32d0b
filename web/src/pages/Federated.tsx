import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import { Assumptions } from "../components/Assumptions";
import { Calculator } from "../components/Calculator";
import { Card } from "../components/Card";
import { Export } from "../components/Export";
import { Fields } from "../components/Field";
import { Formulas } from "../components/Formulas";
import { GetCertificate } from "../components/GetCertificate";
import { IntervalBar } from "../components/IntervalBar";
import { Notice } from "../components/Notice";
import { LearnLink } from "../components/LearnLink";
import { Plot } from "../components/Plot";
import { ProvisionalNote } from "../components/ProvisionalNote";
import { PINS, Scenarios } from "../components/Scenarios";
import { Stat } from "../components/Stat";
import { ErrorNotice } from "../components/ErrorNotice";
import { sentence, typeset } from "../lib/messages";
import { Interpretation } from "../components/Interpretation";
import { useQuery, useRefinedQuery } from "../lib/use-query";
import { post } from "../lib/api";
import { download, toCsv } from "../lib/download";
import type { Engine } from "../lib/engine";
import { makeField, makeFields } from "../lib/parameter-spec";
import type { FieldSpec, Store, Values } from "../lib/form";
import { useForm } from "../lib/form";
import { show, showPercent, showInteger } from "../lib/numbers";
import { type EpsilonCurveResponse, PARAMETERS, readFederatedRequest, readFederatedSchedule } from "../lib/openapi";
import { numberOrNull } from "../lib/parse-values";
import { browserEngine } from "../lib/browser-accountant/engine";
import type { CurvePoint, FederatedResponse, FederatedRequest, Interval } from "../lib/types";

const { FederatedRequest: ASK, FederatedGoal: GOAL } = PARAMETERS;

export const FEDERATED: readonly FieldSpec[] = [
  ...makeFields(ASK, {
    population: { helpPage: "learn/who-takes-part.html" },
    cohort_size: { helpPage: "glossary.html#term-cohort-size" },
    rounds: { helpPage: "glossary.html#term-rounds" },
    noise_multiplier: { helpPage: "glossary.html#term-noise-multiplier" },
    clip_norm: { helpPage: "learn/clipping.html" },
    delta: { label: "Failure probability", hint: `blank: ${ASK.delta.noneMeans}`, helpPage: "learn/epsilon-and-delta.html" },
    delta_cap: { label: "Cap on δ", hint: `blank: ${ASK.delta_cap.noneMeans}`, helpPage: "glossary.html#term-delta" },
    privacy_unit: { helpPage: "glossary.html#term-privacy-unit" },
    relation: { label: "Neighboring relation", helpPage: "glossary.html#term-neighboring-relation" },
    sampling: { label: "Sampling scheme", helpPage: "glossary.html#term-poisson-sampling" },
    releases_per_period: { label: "Releases in a period", helpPage: "glossary.html#term-composition" },
    without_replacement: { helpPage: "learn/clipping.html" },
    rounds_per_release: { helpPage: "glossary.html#term-release" },
    adaptive_clip: { helpPage: "learn/clipping.html" },
    late_replies: { label: "Late or missing replies", helpPage: "learn/who-takes-part.html" },
    group_size: { label: "Records per person", helpPage: "how-to/protect-a-person.html" },
    trials: { label: "Best of several runs", suggestions: ["binomial:8,0.5", "fixed:8", "geometric:0.1", "logarithmic:0.1", "poisson:8"], helpPage: "how-to/tune.html" },
  }),
  makeField(GOAL.epsilon, { label: "Target, or the policy’s cap", optional: true, helpPage: "learn/epsilon-and-delta.html" }),
  PINS,
];

const SCHEDULE = ["population", "cohort_size", "rounds", "noise_multiplier"];
const CLAIM = ["delta", "delta_cap", "epsilon"];
const PLACED = [...SCHEDULE, "clip_norm", "releases_per_period", ...CLAIM, "sampling", "relation", "privacy_unit", "group_size", "trials", PINS.name];
const CONDITIONS = FEDERATED.map((spec) => spec.name).filter((name) => !PLACED.includes(name));

const EXAMPLES = ["1.2", "0.7"].map((noise) => ({ ...Object.fromEntries(FEDERATED.map((spec) => [spec.name, spec.initial])), noise_multiplier: noise }));

function rule(values: Values): Record<string, string> {
  const errors: Record<string, string> = {};
  if (values.sampling === "fixed-size" && values.relation !== "replace-one")
    errors.relation = "fixed-size sampling needs “replace one”";
  return errors;
}

export function FederatedCalculator({ engine, store, compact }: { engine: Engine; store: Store; compact?: boolean }) {
  const form = useForm(FEDERATED, store, rule);
  const ask = useMemo(() => (form.values === null ? null : readFederatedRequest(form.values)), [form.values]);
  const target = form.values === null ? null : numberOrNull(form.values, "epsilon");
  const onProblem = useCallback((problem: { errors: { field: string | null; message: string }[] }) => form.refuse(problem.errors), [form.refuse]);
  const main = useRefinedQuery(ask, engine.federated, browserEngine.federated, { onProblem, delay: engine.name === "server" ? 200 : 0 });
  const { answer, of } = main;
  const settled = main.settled ? ask : null;
  const answered = useRef(false); // parts below the first result appear with it, and stay
  if (answer || form.waiting) answered.current = true;

  const inputs = (
    <>
      <fieldset>
        <legend>Schedule</legend>
        <div class="pair">
          <Fields form={form} names={SCHEDULE} />
          <Fields form={form} names={["clip_norm", "releases_per_period"]} when={!compact} />
        </div>
      </fieldset>
      <fieldset>
        <legend>Claim</legend>
        <div class="pair">
          <Fields form={form} names={CLAIM} />
        </div>
        <Fields form={form} names={["sampling", "relation", "privacy_unit"]} when={!compact} />
      </fieldset>
      <fieldset>
        <legend>Group privacy and tuning</legend>
        <Fields form={form} names={["group_size", "trials"]} when={!compact && engine.name === "server"} />
      </fieldset>
      <fieldset>
        <legend>Conditions</legend>
        <Fields form={form} names={CONDITIONS} when={!compact} />
      </fieldset>
    </>
  );
  return (
    <Calculator label="Federated schedule" form={form} main={main} inputs={inputs} compact={compact} peek={answer && <>ε ≤ {show(answer.epsilon.upper, 4, "up")}</>} spoken={answer ? describeResult(answer) : undefined}>
      {answer && of && <Answer ask={of} answer={answer} target={target} refining={main.refining} certify={engine.name === "server" && !compact} />}
      {answer && ask && engine.name === "server" && !compact && <Interpretation name="federated" ask={settled} cap={target} unit={ask.privacy_unit} />}
      {answer && ask && <Rounds ask={settled} engine={engine} />}
      {answer && ask && (
        <Card title="Calibration">
          <div class="goal">
            <Inverse ask={settled} target={target} engine={engine} />
          </div>
        </Card>
      )}
      {answer && !compact && engine.name === "server" && <Scenarios form={form} examples={EXAMPLES} read={readFederatedRequest} ask={engine.federated} name={nameOf} rows={COMPARED} />}
      {answer && compact && (
        <Card title="Limits of this bound">
          <ul class="limits">
            {answer.limits.map((limit) => (
              <li key={limit.code}>{typeset(limit.message)}</li>
            ))}
          </ul>
        </Card>
      )}
      {!compact && answered.current && <Export name="federated" ask={answer && ask} cap={target} specs={FEDERATED} raw={form.raw} table="rounds" csv={() => ask && void rounds(ask)} />}
    </Calculator>
  );
}

const nameOf = (ask: FederatedRequest): string => `${ask.sampling.replaceAll("-", " ")}, σ ${show(ask.noise_multiplier)}, T ${showInteger(ask.rounds)}`;

const COMPARED: readonly (readonly [string, (answer: FederatedResponse) => string])[] = [
  ["ε, proven", (answer) => `≤ ${show(answer.epsilon.upper, 4, "up")}`],
  ["closed form (estimate)", (answer) => show(answer.closed_form.total)],
  ["unamplified", (answer) => `≤ ${show(answer.unamplified.upper, 4, "up")}`],
  ["noise on the sum", (answer) => show(answer.noise_stddev)],
];

async function rounds(ask: FederatedRequest): Promise<void> {
  const { points } = await post<EpsilonCurveResponse>("federated/curve", readFederatedSchedule(ask));
  const rows = points.map((p) => [p.rounds, p.lower, p.upper, p.closed_form]);
  download("epsilog-rounds.csv", "text/csv", toCsv([["rounds", "epsilon_lower", "epsilon_upper", "closed_form_estimate"], ...rows]));
}

function describeResult(answer: FederatedResponse): string {
  return `Epsilon is at most ${show(answer.epsilon.upper, 4, "up")} at delta ${show(answer.delta.value)}. ${sentence(answer.closed_form_note)}`;
}

function Answer({ ask, answer, target, refining, certify }: { ask: FederatedRequest; answer: FederatedResponse; target: number | null; refining: boolean; certify: boolean }) {
  const { epsilon, closed_form: formula } = answer;
  const under = formula.total < epsilon.upper;
  return (
    <>
      <Card>
        <div class="headline">
          <p class="claim">
            <span>ε ≤ </span>
            <b>{show(epsilon.upper, 4, "up")}</b>
          </p>
          <p class="beside">
            {epsilon.lower !== null && epsilon.lower > 0 ? (
              <>
                proven: the true value is between {show(epsilon.lower, 4, "down")} and {show(epsilon.upper, 4, "up")}
              </>
            ) : (
              <>a proven upper bound</>
            )}{" "}
            at δ = {show(answer.delta.value)}, per {ask.privacy_unit}, {ask.relation.replaceAll("-", " ")}
            <ProvisionalNote when={refining} />
          </p>
        </div>
        <IntervalBar lower={epsilon.lower} upper={epsilon.upper} estimate={formula.total} target={target} />
        <p class="key">
          <span class="swatch claim" /> proven bound <span class="swatch estimate" /> closed form
          {target !== null && (
            <>
              <span class="swatch target" /> target {show(target)}
            </>
          )}
        </p>
        <Notice grade={under ? "weak" : "info"}>{typeset(answer.closed_form_note)}</Notice>
        <p class="method">{sentence(epsilon.method)}</p>
        <Assumptions lines={epsilon.assumptions} />
        {certify && <GetCertificate release={answer.release} delta={answer.delta.value} relation={ask.relation} />}
      </Card>
      <TuningAndGroups answer={answer} unit={ask.privacy_unit} />
      <Card title="Closed form and proven bound">
        <Formulas
          quoted={
            <>
              <p class="formula">
                q√(2T ln(1/δ))/σ + Tq²/σ² = <b>{show(formula.total)}</b> <em>an estimate, not a bound</em>
              </p>
              <Terms root={formula.root_term} linear={formula.linear_term} dominates={formula.dominant_term} />
            </>
          }
          proven={
            <>
              <p class="formula">
                the ε with E[max(0, 1 − e<sup>ε − L</sup>)] = δ: <b>≤ {show(epsilon.upper, 4, "up")}</b>
              </p>
              <p>
                L, the privacy loss, is {LOSSES[ask.sampling]}; the larger of both adjacency types counts. The expectation is bounded from above
                {epsilon.lower !== null && epsilon.lower > 0 && " and below"}, with directed rounding. <LearnLink page="estimates-and-bounds">Why they differ</LearnLink>
              </p>
            </>
          }
        />
        <dl class="stats">
          <Stat label="Sampling probability q" note={showPercent(answer.sampling_probability)}>
            {show(answer.sampling_probability)}
          </Stat>
          {ask.sampling === "balls-in-bins" && (
            <Stat label="Rounds in an epoch" note={`N/m, rounded down; ${showInteger(Math.ceil(ask.rounds / Math.floor(ask.population / ask.cohort_size)))} epochs started`}>
              {showInteger(Math.floor(ask.population / ask.cohort_size))}
            </Stat>
          )}
          <Stat label="Noise on the sum σC" note="standard deviation">
            {show(answer.noise_stddev)}
          </Stat>
          <Stat label="If participation is visible" note="no amplification by sampling">
            ε ≤ {show(answer.unamplified.upper, 4, "up")}
          </Stat>
          <Stat label={`${showInteger(answer.releases_per_period)} ${answer.releases_per_period === 1 ? "release" : "releases"} composed`} note="in a period, on one population">
            ε ≤ {show(answer.cumulative.upper, 4, "up")}
          </Stat>
        </dl>
        <Notice grade={answer.delta_grade}>
          {typeset(answer.delta_sentence)} <small>({typeset(answer.delta.rationale)})</small>
        </Notice>
      </Card>
    </>
  );
}

/** The costs of group privacy and of tuning, if requested; only the server computes them. */
function TuningAndGroups({ answer, unit }: { answer: FederatedResponse; unit: string }) {
  const { group_interval: person, tuning_cost: sweep } = answer;
  if (!person && !sweep) return null;
  const sides = (found: Interval): string => (found.lower ? `at least ${show(found.lower, 4, "down")}` : "upper bound only");
  const assumptions = [...new Set([...(person?.assumptions ?? []), ...(sweep?.best.assumptions ?? [])].map(sentence))].filter((line) => !answer.epsilon.assumptions.map(sentence).includes(line));
  return (
    <Card title="Group privacy and tuning">
      <dl class="stats">
        {person && (
          <Stat label={`A person with up to ${showInteger(answer.group_size ?? 1)} records (${unit})`} note={`${sides(person)}; one record: ε ≤ ${show(answer.epsilon.upper, 4, "up")}`}>
            ε ≤ {show(person.upper, 4, "up")}
          </Stat>
        )}
        {sweep && (
          <Stat label="Cost of tuning" note={`${sides(sweep.best)}; best of ${sweep.trial_distribution}, ${show(sweep.expected)} expected runs`}>
            ε ≤ {show(sweep.best.upper, 4, "up")}
          </Stat>
        )}
        {sweep && (
          <Stat label={`${showInteger(sweep.count)} runs, all published`} note={`one run: ε ≤ ${show(sweep.single_run.upper, 4, "up")}`}>
            {sweep.all_released ? <>ε ≤ {show(sweep.all_released.upper, 4, "up")}</> : "not computed"}
          </Stat>
        )}
      </dl>
      <Assumptions lines={assumptions} />
    </Card>
  );
}

/** The privacy loss by sampling scheme. */
const LOSSES: Record<FederatedRequest["sampling"], string> = {
  poisson: "the sum over T rounds of the loss of a Gaussian mechanism with sampling probability q",
  "fixed-size": "the sum over T rounds of the loss of a Gaussian mechanism on m of N units, sampled without replacement",
  "balls-in-bins": "the loss of one hidden round per epoch, the same in each epoch, with Gaussian noise in every round",
};

function Terms({ root, linear, dominates }: { root: number; linear: number; dominates: string }) {
  const total = root + linear;
  const share = Number.isFinite(total) && total > 0 ? root / total : 0.5;
  return (
    <>
      <svg class="terms" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
        <rect class="root" width={100 * share} height="6" />
        <rect class="linear" x={100 * share} width={100 * (1 - share)} height="6" />
      </svg>
      <p class="key">
        <span class="swatch root" /> root term {show(root)} <span class="swatch linear" /> linear term {show(linear)}; the{" "}
        <b>{dominates} term</b> dominates
      </p>
    </>
  );
}

function Rounds({ ask, engine }: { ask: FederatedRequest | null; engine: Engine }) {
  const curve = useQuery<FederatedRequest, CurvePoint[]>(ask, engine.curve, { delay: 150 });
  const series = useMemo(() => {
    if (!curve.answer) return null;
    const of = (f: (p: CurvePoint) => number | null) =>
      curve.answer!.flatMap((p) => (f(p) === null ? [] : [[p.rounds, f(p)!] as const]));
    const lower = of((p) => p.lower);
    const known = lower.some(([, y]) => y > 0);
    const stairs = ask?.sampling === "balls-in-bins"; // cost rises only when an epoch starts
    return [
      { name: "proven upper bound", look: "claim" as const, points: of((p) => p.upper), stairs },
      ...(known ? [{ name: "proven lower bound", look: "lower" as const, points: lower }] : []),
      { name: "closed form (estimate)", look: "estimate" as const, points: of((p) => p.closed_form) },
    ];
  }, [curve.answer]);
  const [latest, setLatest] = useState<typeof series>(null);
  if (series && series !== latest) setLatest(series);
  const visible = series ?? latest;
  return (
    <Card title="Epsilon by round">
      {curve.problem && <ErrorNotice problem={curve.problem} retry={curve.retry} />}
      {visible ? (
        <Plot title="Epsilon by number of rounds, computed at the dots" x={{ title: "rounds", whole: true }} y={{ title: "ε" }} series={visible} band={visible.length === 3 && !("stairs" in visible[0]! && visible[0].stairs) ? [0, 1] : null} />
      ) : (
        <p class="empty">{curve.busy || !ask ? "Computing…" : ""}</p>
      )}
    </Card>
  );
}

function Inverse({ ask, target, engine }: { ask: FederatedRequest | null; target: number | null; engine: Engine }) {
  const goal = ask && target !== null ? { ask, target } : null;
  const noise = useQuery(goal, (g, signal) => engine.noiseFor(g.ask, g.target, signal), { delay: 200 });
  const epochsOnly = ask?.sampling === "balls-in-bins";
  const rounds = useQuery(goal, (g, signal) => engine.roundsFor(g.ask, g.target, signal), { delay: 200 });
  const fresh = (found: { of: typeof goal }): boolean => found.of !== null && found.of.ask === ask && found.of.target === target;
  if (target === null) return <p class="empty">Enter a target to calibrate noise and rounds.</p>;
  return (
    <dl class="stats">
      <Stat label={`Smallest noise for ε ≤ ${show(target)}`} note={ask ? `with ${showInteger(ask.rounds)} rounds` : ""}>
        {noise.problem ? <small>{noise.problem.message}</small> : noise.answer === null || !fresh(noise) ? "…" : <>σ = {show(noise.answer, 4, "up")}</>}
      </Stat>
      <Stat label="Rounds that fit" note={ask ? `with σ = ${show(ask.noise_multiplier)}${epochsOnly ? ", in full epochs" : ""}` : ""}>
        {rounds.problem ? <small>{rounds.problem.message}</small> : rounds.answer === null || !fresh(rounds) ? "…" : showInteger(rounds.answer)}
      </Stat>
    </dl>
  );
}
