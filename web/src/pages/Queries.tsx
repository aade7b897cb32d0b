import { useCallback, useMemo, useRef } from "preact/hooks";
import { Calculator } from "../components/Calculator";
import { Card } from "../components/Card";
import { Export } from "../components/Export";
import { Field, Fields } from "../components/Field";
import { Formulas } from "../components/Formulas";
import { GetCertificate } from "../components/GetCertificate";
import { LearnLink } from "../components/LearnLink";
import { Notice } from "../components/Notice";
import { Plot } from "../components/Plot";
import { ProvisionalNote } from "../components/ProvisionalNote";
import { PINS, Scenarios } from "../components/Scenarios";
import { Stat } from "../components/Stat";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { typeset } from "../lib/messages";
import { Interpretation } from "../components/Interpretation";
import { useQuery, useRefinedQuery } from "../lib/use-query";
import { post } from "../lib/api";
import { download, toCsv } from "../lib/download";
import type { Engine } from "../lib/engine";
import { makeFields } from "../lib/parameter-spec";
import type { FieldSpec, Store, Values } from "../lib/form";
import { useForm } from "../lib/form";
import { show, showPercent, showInteger } from "../lib/numbers";
import { type QueryNoiseComparison, type CrossoverRow, PARAMETERS, readQueriesRequest } from "../lib/openapi";
import { numberOrNull } from "../lib/parse-values";
import { browserEngine } from "../lib/browser-accountant/engine";
import type { Interval, Noise, QueriesResponse, QueriesRequest } from "../lib/types";
import { Sensitivity } from "./Sensitivity";

const ASK = PARAMETERS.QueriesRequest;

export const QUERIES: readonly FieldSpec[] = [
  ...makeFields(ASK, {
    epsilon: { label: "Total budget", helpPage: "learn/epsilon-and-delta.html" },
    queries: { label: "Queries planned", hint: "", helpPage: "glossary.html#term-composition" },
    sensitivity: { helpPage: "glossary.html#term-sensitivity" },
    mechanism: { label: "Noise", hint: "", initial: "gaussian", omitted: ASK.mechanism.initial, helpPage: "learn/laplace-and-gaussian.html" },
    delta: { label: "Failure probability", initial: "1e-6", omitted: ASK.delta.initial, hint: "required for Gaussian; reduces Laplace noise", helpPage: "glossary.html#term-delta" },
    delta_cap: null,
    population: { hint: "used for the default δ, and to check δ", helpPage: "glossary.html#term-delta" },
    queries_used: { label: "Answered so far", initial: "40", helpPage: "pitfalls.html#a-repetition-that-is-not-counted" },
    magnitude: { label: "Typical true answer", initial: "1000" },
    weights: { hint: "one per query, such as 2 1 1; blank: even", helpPage: "how-to/answer-queries.html" },
  }),
  { name: "cap", label: "Policy’s cap on ε", kind: "real", initial: "", optional: true, exclusiveMin: 0, hint: "for one person, at the same δ", helpPage: "glossary.html#term-cap" },
  PINS,
];

const BUDGET = ["epsilon", "queries", "queries_used", "sensitivity"];
const NOISE = QUERIES.map((spec) => spec.name).filter((name) => ![...BUDGET, "mechanism", "cap", PINS.name].includes(name));

const EXAMPLES = [
  { mechanism: "gaussian", delta: "1e-6" },
  { mechanism: "laplace", delta: "" },
].map((own) => ({ ...Object.fromEntries(QUERIES.map((spec) => [spec.name, spec.initial])), ...own }));

function rule(values: Values): Record<string, string> {
  const errors: Record<string, string> = {};
  if (values.mechanism === "gaussian" && values.delta === null && values.population === null)
    errors.delta = "Gaussian noise needs δ or a population";
  const weights = values.weights as number[] | null;
  if (weights && weights.length !== values.queries) errors.weights = `must be ${values.queries} numbers, not ${weights.length}`;
  if (values.magnitude === 0) errors.magnitude = "must not be 0";
  return errors;
}

export function QueriesCalculator({ engine, store, compact }: { engine: Engine; store: Store; compact?: boolean }) {
  const form = useForm(QUERIES, store, rule);
  const ask = useMemo(() => (form.values === null ? null : readQueriesRequest(form.values)), [form.values]);
  const onProblem = useCallback((problem: { errors: { field: string | null; message: string }[] }) => form.refuse(problem.errors), [form.refuse]);
  const main = useRefinedQuery(ask, engine.queries, browserEngine.queries, { onProblem });
  const { answer } = main;
  const answered = useRef(false); // parts below the first result appear with it, and stay
  if (answer || form.waiting) answered.current = true;
  const cap = form.values === null ? null : numberOrNull(form.values, "cap");
  const inputs = (
    <>
      <fieldset>
        <legend>Budget</legend>
        <div class="pair">
          <Fields form={form} names={BUDGET} />
        </div>
        {!compact && <Sensitivity use={(value) => form.set("sensitivity", String(value))} />}
      </fieldset>
      <fieldset>
        <legend>Noise</legend>
        <Field form={form} name="mechanism" />
        <div class="pair">
          <Fields form={form} names={NOISE} />
          <Field form={form} name="cap" when={!compact && engine.name === "server"} />
        </div>
      </fieldset>
    </>
  );
  const peek = answer && (
    <>
      {answer.mechanism === "laplace" ? "b" : "σ"} = {show(answer.shares[0]!.optimal.scale, 4, "up")}
    </>
  );
  return (
    <Calculator label="Query budget" form={form} main={main} inputs={inputs} compact={compact} peek={peek} spoken={answer ? describeResult(answer) : undefined}>
      {answer && <Answer answer={answer} refining={main.refining} certify={engine.name === "server" && !compact} try_={() => (form.set("delta", "1e-6"), form.commit())} />}
      {answer && ask && engine.name === "server" && !compact && <Interpretation name="queries" ask={main.settled ? ask : null} cap={cap} unit="person" />}
      {answer && <Shape answer={answer} />}
      {answer && ask && engine.name === "server" && !compact && <CrossOver ask={ask} answer={answer} />}
      {answer && !compact && <Scenarios form={form} examples={EXAMPLES} read={readQueriesRequest} ask={engine.queries} name={nameOf} rows={COMPARED} />}
      {(answer || form.values === null) && !compact && <Guidance />}
      {!compact && answered.current && <Export name="queries" ask={answer && ask} cap={cap} specs={QUERIES} raw={form.raw} table="shares" csv={() => answer && split(answer)} />}
    </Calculator>
  );
}

const describeResult = (answer: QueriesResponse): string =>
  `Each query gets epsilon ${show(answer.shares[0]!.epsilon)}; noise scale ${show(answer.shares[0]!.optimal.scale)}. Consumed at most ${show(answer.consumed.optimal.upper, 4, "up")}; ${showInteger(answer.queries_left)} more queries fit.`;

function split(answer: QueriesResponse): void {
  const rows = answer.shares.map((s) => [s.count, s.weight, s.epsilon, s.classic.scale, s.exact.scale, s.optimal.scale, s.optimal.error_95]);
  download("epsilog-queries.csv", "text/csv", toCsv([["count", "weight", "epsilon", "classic", "exact", "optimal", "optimal_error_95"], ...rows]));
}

function Answer({ answer, refining, certify, try_ }: { answer: QueriesResponse; refining: boolean; certify: boolean; try_: () => void }) {
  const first = answer.shares[0]!;
  const even = answer.shares.length === 1;
  const letter = answer.mechanism === "laplace" ? "b" : "σ";
  const consumed = answer.consumed.optimal.upper;
  const part = Math.min(1, consumed / answer.epsilon);
  return (
    <>
      <Card>
        <div class="headline">
          <p class="claim">
            <span>{letter} = </span>
            <b>{show(first.optimal.scale, 4, "up")}</b>
          </p>
          <p class="beside">
            noise {answer.mechanism === "laplace" ? "scale" : "standard deviation"} on {even ? "each answer" : "the first answer"},{" "}
            {answer.saving > 1.001 ? (
              <>
                <b>{show(answer.saving, 3)} times less</b> than the classic formula's {show(first.classic.scale)}
              </>
            ) : (
              <>equal to the classic closed_form: for pure ε the even split is optimal</>
            )}
            <ProvisionalNote when={refining} />
          </p>
        </div>
        {answer.delta === null && answer.queries > 1 && (
          <p>
            With a small δ, many answers cost less in total than the sum of their epsilons.{" "}
            <button type="button" class="quiet" onClick={try_}>
              Try δ = 10⁻⁶
            </button>
          </p>
        )}
        <svg class="budget" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={`${showPercent(part)} of the budget consumed`}>
          <rect class="rail" width="100" height="6" />
          <rect class={answer.compatible ? "spent" : "spent over"} width={100 * part} height="6" />
        </svg>
        <dl class="stats">
          <Stat label="Each query's share" note={even ? "even split of ε" : "first of a weighted split of ε"}>
            {show(first.epsilon)}
          </Stat>
          <Stat label="Consumed" note={`${showInteger(answer.queries_used)} of ${showInteger(answer.queries)} queries, with this noise`}>
            {consumed > 0 && "≤ "}
            {show(consumed, 4, "up")}
          </Stat>
          <Stat label="Remaining" note={answer.compatible ? `${showInteger(answer.queries_left)} more of these queries fit` : "incompatible plan"}>
            {show(answer.remaining, 4, "down")}
          </Stat>
          <Stat label="95% error" note={answer.relative_error_95 === null ? "enter a typical true answer to compare" : `${showPercent(answer.relative_error_95)} of the typical true answer`}>
            ±{show(first.optimal.error_95, 4, "up")}
          </Stat>
        </dl>
        {!answer.compatible && <Notice grade="void">More queries were answered than planned: {showInteger(answer.queries_used)} of {showInteger(answer.queries)}. Make a new plan with a larger budget that covers all of them.</Notice>}
        {answer.delta_sentence && <Notice grade={answer.delta_grade ?? "info"}>{typeset(answer.delta_sentence)}</Notice>}
        {answer.findings.filter((found) => found.code !== "queries/too-many").map((found) => (
          <Notice key={found.code} grade={found.status === "failed" ? "void" : "weak"}>
            {typeset(found.message)}
          </Notice>
        ))}
        {certify && <GetCertificate release={answer.release} delta={answer.delta?.value ?? null} />}
      </Card>
      <Card title="Closed form and proven noise">
        <Formulas quoted={<ClassicFormula answer={answer} />} proven={<ExactFormula answer={answer} />} />
      </Card>
      <Card title="Noise by calibration method">
        <Table
          caption={even ? "Noise per query" : "Noise per query"}
          columns={[{ title: even ? "method" : "query" }, { title: `scale ${letter}`, number: true }, { title: "mean error", number: true }, { title: "95% error", number: true }, ...(even ? [{ title: "consumed", number: true }] : [])]}
          rows={even ? ways(answer).map(([name, noise, spent]) => [name, ...cells(noise), `≤ ${show(spent.upper, 4, "up")}`]) : answer.shares.slice(0, 50).map((s, i) => [`${i + 1} (ε ${show(s.epsilon, 3)})`, ...cells(s.optimal)])}
        />
      </Card>
    </>
  );
}

/** The textbook's method: an even split of the budget. */
function ClassicFormula({ answer }: { answer: QueriesResponse }) {
  const { classic } = answer.shares[0]!;
  return answer.mechanism === "laplace" ? (
    <p class="formula">
      b = Δ/ε₁ = <b>{show(classic.scale)}</b> <em>ε₁ is a query’s share of ε</em>
    </p>
  ) : (
    <>
      <p class="formula">
        σ = Δ√(2 ln(1.25/δ))/ε₁ = <b>{show(classic.scale)}</b> <em>ε₁ is a query’s share of ε</em>
      </p>
      <p>Each query uses the full δ, so the total δ is {show(answer.classic_total_delta)}. The formula is proven only for ε₁ &lt; 1.</p>
    </>
  );
}

/** The certified method, as a formula. */
function ExactFormula({ answer }: { answer: QueriesResponse }) {
  const { optimal } = answer.shares[0]!;
  const number = <b>{show(optimal.scale, 4, "up")}</b>;
  return (
    <>
      {answer.mechanism === "gaussian" ? (
        <p class="formula">
          the smallest σ = {number} with Φ(μ/2 − ε/μ) − e<sup>ε</sup>Φ(−μ/2 − ε/μ) ≤ δ, μ² = ΣΔ²/σ²
        </p>
      ) : answer.delta === null ? (
        <p class="formula">b = {number}: without δ the even split is optimal</p>
      ) : (
        <p class="formula">
          the smallest b = {number} with E[max(0, 1 − e<sup>ε − L</sup>)] ≤ δ, where L is the total privacy loss
        </p>
      )}
      <p>
        All answers form one release: only the total loss counts, and δ is spent once. <LearnLink page="laplace-and-gaussian">Laplace or Gaussian noise</LearnLink>
      </p>
    </>
  );
}

const cells = (noise: Noise): string[] => [show(noise.scale, 4, "up"), show(noise.expected_error), show(noise.error_95, 4, "up")];

const ways = (answer: QueriesResponse): (readonly [string, Noise, Interval])[] => {
  const [share, spent] = [answer.shares[0]!, answer.consumed];
  return [
    ["classic formula, even split", share.classic, spent.classic],
    ["exact calibration, even split", share.exact, spent.exact],
    ["optimal, over the total loss", share.optimal, spent.optimal],
  ];
};

function Shape({ answer }: { answer: QueriesResponse }) {
  const noise = answer.shares[0]!.optimal;
  const center = answer.magnitude ?? 0;
  const density = answer.mechanism === "laplace"
    ? (x: number) => Math.exp(-Math.abs(x) / noise.scale) / (2 * noise.scale)
    : (x: number) => Math.exp(-0.5 * (x / noise.scale) ** 2) / (noise.scale * Math.sqrt(2 * Math.PI));
  const reach = 1.6 * noise.error_95;
  const points = Array.from({ length: 81 }, (_, i) => ((i - 40) / 40) * reach).map((x) => [center + x, density(x)] as const);
  const inside = points.filter(([x]) => Math.abs(x - center) <= noise.error_95);
  if (!Number.isFinite(noise.scale)) return null;
  return (
    <Card title="Distribution of one noisy answer">
      <Plot
        title={`Noisy answer for a true value of ${show(center)}: 95% within ±${show(noise.error_95, 4, "up")}`}
        x={{ title: "noisy answer", tight: true }}
        y={{ title: "density" }}
        series={[
          { name: "all answers", look: "lower", points },
          { name: "the central 95%", look: "claim", points: inside },
        ]}
        height={220}
      />
    </Card>
  );
}

const MAX_COMPARED = 1_000_000;

/** Compare Laplace and Gaussian noise: guarantee, sensitivity, quantiles of the error, and when to use which. */
function compareMechanisms(here: CrossoverRow, found: QueryNoiseComparison, { sensitivity }: QueriesRequest, delta: number): string[][] {
  const error = (unit: number): string => `±${show(unit * sensitivity, 4, "up")}`;
  const [laplace, gaussian] = [Math.log(1000) / Math.log(20), 3.290527 / 1.959964]; // 99.9% quantile over 95% quantile
  const at = `δ = ${show(delta)}`;
  return [
    ["guarantee", `pure ε (δ = 0), or ε at ${at} under tight composition`, `ε at ${at}; never pure`],
    ["sensitivity norm", "L1: grows with the number of answers", "L2: grows with its square root"],
    ["95% of answers within", `${error(here.laplace_pure)} pure, ${error(here.laplace_optimal)} composed`, error(here.gaussian_optimal)],
    ["99.9% within (the tail)", `${error(laplace * here.laplace_pure)} pure, ${error(laplace * here.laplace_optimal)} composed`, error(gaussian * here.gaussian_optimal)],
    ["use it", `for fewer than ${showInteger(found.against_pure)} queries, or if δ must be 0`, `for at least ${showInteger(found.against_pure)} queries`],
  ];
}

function CrossOver({ ask, answer }: { ask: QueriesRequest; answer: QueriesResponse }) {
  const delta = answer.delta?.value ?? 1e-6;
  const queries = Math.min(ask.queries, MAX_COMPARED);
  const found = useQuery({ epsilon: ask.epsilon, delta, queries }, (body, signal) => post<QueryNoiseComparison>("queries/crossover", body, signal), { delay: 250 });
  const here = found.answer?.rows.find((row) => row.queries === found.of!.queries);
  return (
    <Card title="Laplace or Gaussian?">
      {found.problem && <ErrorNotice problem={found.problem} retry={found.retry} />}
      {!found.answer && !found.problem && <p class="empty">Computing…</p>}
      {found.answer && (
        <>
          <p>
            At δ = {show(found.of!.delta)}, Gaussian noise has a smaller 95% error than Laplace noise with basic composition from{" "}
            <b>{showInteger(found.answer.against_pure)} queries</b>
            {found.answer.against_optimal !== null && <>, and with tight composition from {showInteger(found.answer.against_optimal)}</>}.
          </p>
          {here && (
            <Table
              caption={`One of ${showInteger(here.queries)} answers at ε = ${show(ask.epsilon)}, sensitivity Δ = ${show(ask.sensitivity)}`}
              columns={[{ title: "property" }, { title: "Laplace" }, { title: "Gaussian" }]}
              rows={compareMechanisms(here, found.answer, ask, found.of!.delta)}
            />
          )}
          <Plot
            title="95% error at sensitivity 1 by number of queries, with the same budget"
            x={{ title: "queries", log: true }}
            y={{ title: "95% error", log: true }}
            series={[
              { name: "Laplace, basic composition (δ = 0)", look: "estimate", points: found.answer.rows.map((r) => [r.queries, r.laplace_pure] as const) },
              { name: "Laplace, tight composition", look: "other", points: found.answer.rows.map((r) => [r.queries, r.laplace_optimal] as const) },
              { name: "Gaussian, exact", look: "claim", points: found.answer.rows.map((r) => [r.queries, r.gaussian_optimal] as const) },
            ]}
          />
        </>
      )}
    </Card>
  );
}

const nameOf = (ask: QueriesRequest): string => `${ask.mechanism === "laplace" ? "Laplace" : "Gaussian"}, ε ${show(ask.epsilon)}, Q ${showInteger(ask.queries)}, Δ ${show(ask.sensitivity)}`;

const COMPARED: readonly (readonly [string, (answer: QueriesResponse) => string])[] = [
  ["noise, composed", (answer) => show(answer.shares[0]!.optimal.scale, 4, "up")],
  ["noise, classic", (answer) => show(answer.shares[0]!.classic.scale)],
  ["times less noise", (answer) => show(answer.saving, 3)],
  ["95% error", (answer) => `±${show(answer.shares[0]!.optimal.error_95, 4, "up")}`],
  ["remaining", (answer) => show(answer.remaining, 4, "down")],
];

function Guidance() {
  return (
    <Card screen title="Guidance">
      <ul class="limits">
        <li>
          Published statistics often use a total ε between 0.1 and 10. These are conventions, not thresholds: at ε = 1 an attacker's odds can grow by a factor
          of {show(Math.E, 3)}, at ε = 5 by {show(Math.exp(5), 3)}.
        </li>
        <li>Choose δ far below 1/N: at δ = 1/N, publishing one randomly chosen person’s record would satisfy the guarantee.</li>
        <li>List the queries before looking at the data, and spend most of the budget on the answers that matter.</li>
        <li>First bound contributions (rows per person, clipped values), then determine the sensitivity, then choose the noise.</li>
        <li>Count failed, repeated and exploratory queries too. Each dashboard refresh is a new query.</li>
      </ul>
    </Card>
  );
}
