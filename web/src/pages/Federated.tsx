import { CardLink } from "../components/CardLink";
import { useCallback, useMemo, useState } from "preact/hooks";
import { Assumptions } from "../components/Assumptions";
import { Calculator } from "../components/Calculator";
import { Drag, stops } from "../components/Drag";
import { Export } from "../components/Export";
import { Fields } from "../components/Field";
import { FieldFold, Fold } from "../components/Fold";
import { Formulas } from "../components/Formulas";
import { IntervalBar } from "../components/IntervalBar";
import { Notice } from "../components/Notice";
import { GetCertificate, Interpretation, Plot, Scenarios } from "../components/on-demand";
import { LearnLink } from "../components/LearnLink";
import { Outcome } from "../components/Outcome";
import { Stat } from "../components/Stat";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { sentence, typeset } from "../lib/messages";
import { useQuery, useRefinedQuery } from "../lib/use-query";
import { useFoundCount } from "../lib/use-risk";
import { post } from "../lib/api";
import { download, toCsv } from "../lib/download";
import type { Engine } from "../lib/engine";
import { makeField, makeFields, PINS } from "../lib/parameter-spec";
import type { FieldSpec, Store, Values } from "../lib/form";
import { useForm } from "../lib/form";
import { showInteger } from "../lib/numbers";
import { bound, countPicked, exact, left, near, pluralize } from "../lib/quantities";
import { type EpsilonCurveResponse, PARAMETERS, readFederatedRequest, readFederatedSchedule } from "../lib/openapi";
import { numberOrNull } from "../lib/parse-values";
import { NORMAL_95, sizeOfEqualNoise } from "../lib/browser-accountant/closed";
import { browserEngine } from "../lib/browser-accountant/engine";
import type { CurvePoint, FederatedResponse, FederatedRequest, Interval } from "../lib/types";

const { FederatedRequest: ASK, FederatedGoal: GOAL } = PARAMETERS;

export const FEDERATED: readonly FieldSpec[] = [
  ...makeFields(ASK, {
    population: { label: "Clients in all", hint: "", helpPage: "learn/who-takes-part.html" },
    cohort_size: { label: "Clients per round", hint: "on average", helpPage: "glossary.html#term-cohort-size" },
    rounds: { label: "Rounds", hint: "", disabled: (raw) => raw.goal === "rounds", helpPage: "glossary.html#term-rounds" },
    noise_multiplier: { label: "Noise multiplier", hint: "noise ÷ clipping norm", disabled: (raw) => raw.goal === "noise", helpPage: "glossary.html#term-noise-multiplier" },
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
  { name: "goal", label: "Find", kind: "choice", initial: "cost", choices: [["cost", "ε of this schedule"], ["noise", "noise for a target ε"], ["rounds", "rounds for a target ε"]] },
  makeField(GOAL.epsilon, { label: "Target", hint: "", optional: true, disabled: (raw) => (raw.goal ?? "cost") === "cost", helpPage: "learn/epsilon-and-delta.html" }),
  { name: "cap", label: "Policy’s cap on ε", kind: "real", initial: "", optional: true, exclusiveMin: 0, hint: "for one run, at the same δ", helpPage: "glossary.html#term-cap" },
  PINS,
];

const FIRST = ["population", "cohort_size", "rounds", "noise_multiplier", "goal", "epsilon"];
const CLAIM = ["delta", "delta_cap"]; // also in an embedded calculator
const EXPERT = FEDERATED.map((spec) => spec.name).filter((name) => ![...FIRST, ...CLAIM, "group_size", "trials", "cap", PINS.name].includes(name));
const NOISE = stops(0.3, 30);

const EXAMPLES = ["1.2", "0.7"].map((noise) => ({ ...Object.fromEntries(FEDERATED.map((spec) => [spec.name, spec.initial])), noise_multiplier: noise }));

function rule(values: Values): Record<string, string> {
  const errors: Record<string, string> = {};
  if (values.sampling === "fixed-size" && values.relation !== "replace-one")
    errors.relation = "fixed-size sampling needs “replace one”";
  if (values.goal !== "cost" && values.epsilon === null) errors.epsilon = "enter a target";
  return errors;
}

type Goal = "cost" | "noise" | "rounds";
const SOUGHT = { cost: null, noise: "noise_multiplier", rounds: "rounds" } as const;

/** Return the schedule that the form asks about; with a target, the one that meets it, once it is found. */
function useSchedule(values: Values | null, engine: Engine) {
  const goal = (values?.goal ?? "cost") as Goal;
  const given = useMemo(() => (values === null ? null : readFederatedRequest({ ...values, ...(SOUGHT[goal] && { [SOUGHT[goal]]: 1 }) })), [values]);
  const target = values === null ? null : numberOrNull(values, "epsilon");
  const asked = useMemo(() => (given === null || goal === "cost" ? null : { given, goal, target: target! }), [given]);
  const found = useQuery(asked, (one, signal) => (one.goal === "noise" ? engine.noiseFor : engine.roundsFor)(one.given, one.target, signal), { delay: 200 });
  const solution = found.of === asked ? found.answer : null;
  const ask = useMemo(() => (asked === null ? given : solution ? { ...given!, [SOUGHT[goal]!]: solution } : null), [asked, given, solution]);
  return { ask, goal, target, found, none: solution === 0 };
}

export function FederatedCalculator({ engine, store, compact }: { engine: Engine; store: Store; compact?: boolean }) {
  const form = useForm(FEDERATED, store, rule);
  const { ask, goal, target, found, none } = useSchedule(form.values, engine);
  const here = !ELEMENT && !compact; // a page of the server
  const onProblem = useCallback((problem: { errors: { field: string | null; message: string }[] }) => form.refuse(problem.errors), [form.refuse]);
  const main = useRefinedQuery(ask, engine.federated, browserEngine.federated, { onProblem, delay: engine.name === "server" ? 200 : 0 });
  const { answer, of } = main;
  const settled = main.settled ? ask : null;
  const { count: picked } = useFoundCount(main);
  const cap = form.values === null ? null : numberOrNull(form.values, "cap");

  const inputs = (
    <>
      {goal !== "noise" && <Drag form={form} name="noise_multiplier" at={NOISE} label="Noise" ends={["less noise", "more noise"]} says={answer ? `epsilon ${bound(answer.epsilon.upper)}, ${countPicked(picked)} picked out` : "no result"} />}
      <div class="pair">
        <Fields form={form} names={FIRST} />
      </div>
      <FieldFold title="δ and its cap" form={form} names={CLAIM} />
      {!compact && <FieldFold title="Sampling, clipping, records per person" form={form} names={here ? [...EXPERT, "group_size", "trials", "cap"] : EXPERT} />}
    </>
  );
  const busy = { busy: main.busy || found.busy, problem: found.problem ?? main.problem, retry: found.problem ? found.retry : main.retry };
  const outcome = none ? (
    <Notice grade="void">No round fits ε ≤ {near(target)}: one round alone costs more.</Notice>
  ) : (
    answer && of && (
      <Outcome
        {...HEADLINES[goal](answer)}
        refining={main.refining}
        beside={
          <>
            {goal !== "cost" && <>{GOAL_LABELS[goal]} ε ≤ {near(target)}, </>}at δ = {near(answer.delta.value)}, per {of.privacy_unit}, {of.relation.replaceAll("-", " ")}
          </>
        }
        found={picked}
        units={pluralize(of.privacy_unit)}
        utility={
          <>
            <b>{left(sizeOfEqualNoise(answer.cohort_size, answer.noise_multiplier))}</b> {sentence("calculator/noise-length")}
          </>
        }
      />
    )
  );
  return (
    <Calculator label="Federated schedule" form={form} main={busy} inputs={inputs} outcome={outcome} spoken={answer ? describeResult(answer, picked) : undefined}>
      {answer && of && <Secrecy ask={of} answer={answer} here={here} />}
      <Fold title="Interval, formulas, every digit">{answer && of && (() => <Interior ask={of} answer={answer} target={cap} certify={here} />)}</Fold>
      <Fold title="ε by round">{ask && (() => <Rounds ask={settled} engine={engine} />)}</Fold>
      {here && <Fold title="What it means for one person">{answer && ask && (() => <Interpretation name="federated" ask={settled} cap={cap} unit={ask.privacy_unit} />)}</Fold>}
      {here && <Fold title="Compare scenarios">{() => <Scenarios form={form} examples={EXAMPLES} read={readFederatedRequest} ask={engine.federated} name={nameOf} rows={COMPARED} />}</Fold>}
      {compact && (
        <Fold title="Limits of this bound">
          {answer &&
            (() => (
              <ul class="limits">
                {answer.limits.map((limit) => (
                  <li key={limit.code}>{typeset(limit.message)}</li>
                ))}
              </ul>
            ))}
        </Fold>
      )}
      {here && <Export name="federated" ask={answer && ask} cap={cap} specs={FEDERATED} raw={form.raw} table="rounds" csv={() => ask && void rounds(ask)} />}
    </Calculator>
  );
}

const HEADLINES: Record<Goal, (answer: FederatedResponse) => { sign: string; value: string }> = {
  cost: (answer) => ({ sign: "ε ≤", value: bound(answer.epsilon.upper) }),
  noise: (answer) => ({ sign: "σ =", value: bound(answer.noise_multiplier) }),
  rounds: (answer) => ({ sign: "T =", value: showInteger(answer.rounds) }),
};
const GOAL_LABELS: Record<Goal, string> = { cost: "", noise: "the least noise for", rounds: "the most rounds for" };

const nameOf = (ask: FederatedRequest): string => `${ask.sampling.replaceAll("-", " ")}, σ ${near(ask.noise_multiplier)}, T ${showInteger(ask.rounds)}`;

const COMPARED: readonly (readonly [string, (answer: FederatedResponse) => string])[] = [
  ["ε, proven", (answer) => `≤ ${bound(answer.epsilon.upper)}`],
  ["closed form (estimate)", (answer) => near(answer.closed_form.total)],
  ["unamplified", (answer) => `≤ ${bound(answer.unamplified.upper)}`],
  ["noise on the sum", (answer) => near(answer.noise_stddev)],
];

async function rounds(ask: FederatedRequest): Promise<void> {
  const { points } = await post<EpsilonCurveResponse>("federated/curve", readFederatedSchedule(ask));
  const rows = points.map((p) => [p.rounds, p.lower, p.upper, p.closed_form]);
  download("epsilog-rounds.csv", "text/csv", toCsv([["rounds", "epsilon_lower", "epsilon_upper", "closed_form_estimate"], ...rows]));
}

const describeResult = (answer: FederatedResponse, picked: number): string =>
  `Epsilon is at most ${bound(answer.epsilon.upper)} at delta ${near(answer.delta.value)}. ${sentence(["calculator/spoken", { count: countPicked(picked), units: pluralize(answer.privacy_unit) }])}`;

/** What the bound rests on, and what it is without; then what was asked for besides. */
function Secrecy({ ask, answer, here }: { ask: FederatedRequest; answer: FederatedResponse; here: boolean }) {
  return (
    <>
      <div class="duo secrecy">
        <p class="kept">
          <b>{bound(answer.epsilon.upper)}</b> while it stays secret who joined which round
        </p>
        <p class="known">
          <b>{bound(answer.unamplified.upper)}</b> against those who know it: nothing is hidden
        </p>
      </div>
      {answer.delta_grade !== "good" && <Notice grade={answer.delta_grade}>{typeset(answer.delta_sentence)}</Notice>}
      {answer.releases_per_period > 1 && (
        <p>
          All {showInteger(answer.releases_per_period)} releases of a period together: ε ≤ {bound(answer.cumulative.upper)}.
        </p>
      )}
      <TuningAndGroups answer={answer} unit={ask.privacy_unit} />
      <p class="method">
        {here && <CardLink release={answer.release} delta={answer.delta.value} relation={ask.relation} unit={ask.privacy_unit} />} <a class="onward" href="/docs/studies.html">Measure accuracy in a study</a>
      </p>
    </>
  );
}

function Interior({ ask, answer, target, certify }: { ask: FederatedRequest; answer: FederatedResponse; target: number | null; certify: boolean }) {
  const { epsilon, closed_form: formula } = answer;
  const known = epsilon.lower !== null && epsilon.lower > 0;
  return (
    <>
      <IntervalBar lower={epsilon.lower} upper={epsilon.upper} estimate={formula.total} target={target} />
      <p class="key">
        <span class="swatch claim" /> proven bound <span class="swatch estimate" /> closed form
        {target !== null && (
          <>
            <span class="swatch target" /> cap {near(target)}
          </>
        )}
      </p>
      <Notice grade={formula.total < epsilon.upper ? "weak" : "info"}>{typeset(answer.closed_form_note)}</Notice>
      <Formulas
        quoted={
          <>
            <p class="formula">
              q√(2T ln(1/δ))/σ + Tq²/σ² = <b>{near(formula.total)}</b> <em>an estimate, not a bound</em>
            </p>
            <Terms root={formula.root_term} linear={formula.linear_term} dominates={formula.dominant_term} />
          </>
        }
        proven={
          <>
            <p class="formula">
              the ε with E[max(0, 1 − e<sup>ε − L</sup>)] = δ: <b>≤ {bound(epsilon.upper)}</b>
            </p>
            <p>
              L, the privacy loss, is {LOSSES[ask.sampling]}; the larger of both adjacency types counts. The expectation is bounded from above
              {known && " and below"}, with directed rounding. <LearnLink page="estimates-and-bounds">Why they differ</LearnLink>
            </p>
          </>
        }
      />
      <Table
        caption="Every digit"
        columns={[{ title: "quantity" }, { title: "value" }]}
        rows={[
          ["ε, at most", exact(epsilon.upper)],
          ["ε, at least", known ? exact(epsilon.lower) : "no proven lower bound"],
          ["closed form (an estimate)", exact(formula.total)],
          ["ε if participation is known, at most", exact(answer.unamplified.upper)],
          ["δ", exact(answer.delta.value)],
          ["sampling probability q", exact(answer.sampling_probability)],
          ["noise on the sum σC", exact(answer.noise_stddev)],
          ["error of a round’s average update", sentence(["calculator/update-error", { error: (NORMAL_95 * answer.noise_multiplier) / answer.cohort_size }])],
          ...(ask.sampling === "balls-in-bins" ? [["rounds in an epoch (N/m, rounded down)", `${showInteger(roundsInEpoch(ask))}; ${showInteger(Math.ceil(ask.rounds / roundsInEpoch(ask)))} epochs started`]] : []),
        ]}
      />
      <p class="method">
        {sentence(epsilon.method)}. δ: {typeset(answer.delta.rationale)}.
      </p>
      <Assumptions lines={epsilon.assumptions} />
      {certify && <GetCertificate release={answer.release} delta={answer.delta.value} relation={ask.relation} />}
    </>
  );
}

const roundsInEpoch = (ask: FederatedRequest): number => Math.floor(ask.population / ask.cohort_size);

/** The costs of group privacy and of tuning, if requested; only the server computes them. */
function TuningAndGroups({ answer, unit }: { answer: FederatedResponse; unit: string }) {
  const { group_interval: person, tuning_cost: sweep } = answer;
  if (!person && !sweep) return null;
  const sides = (found: Interval): string => (found.lower ? `at least ${left(found.lower)}` : "upper bound only");
  const assumptions = [...new Set([...(person?.assumptions ?? []), ...(sweep?.best.assumptions ?? [])].map(sentence))].filter((line) => !answer.epsilon.assumptions.map(sentence).includes(line));
  return (
    <>
      <dl class="stats">
        {person && (
          <Stat label={`A person with up to ${showInteger(answer.group_size ?? 1)} records (${unit})`} note={`${sides(person)}; one record: ε ≤ ${bound(answer.epsilon.upper)}`}>
            ε ≤ {bound(person.upper)}
          </Stat>
        )}
        {sweep && (
          <Stat label="Cost of tuning" note={`${sides(sweep.best)}; best of ${sweep.trial_distribution}, ${near(sweep.expected)} expected runs`}>
            ε ≤ {bound(sweep.best.upper)}
          </Stat>
        )}
        {sweep && (
          <Stat label={`${showInteger(sweep.count)} runs, all published`} note={`one run: ε ≤ ${bound(sweep.single_run.upper)}`}>
            {sweep.all_released ? <>ε ≤ {bound(sweep.all_released.upper)}</> : "not computed"}
          </Stat>
        )}
      </dl>
      <Assumptions lines={assumptions} />
    </>
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
        <span class="swatch root" /> root term {near(root)} <span class="swatch linear" /> linear term {near(linear)}; the{" "}
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
    <>
      {curve.problem && <ErrorNotice problem={curve.problem} retry={curve.retry} />}
      {visible ? (
        <Plot title="Epsilon by number of rounds, computed at the dots" x={{ title: "rounds", whole: true }} y={{ title: "ε" }} series={visible} band={visible.length === 3 && !("stairs" in visible[0]! && visible[0].stairs) ? [0, 1] : null} />
      ) : (
        <p class="empty">{curve.busy || !ask ? "Computing…" : ""}</p>
      )}
    </>
  );
}
