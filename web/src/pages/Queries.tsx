import { CardLink } from "../components/CardLink";
import { useCallback, useMemo } from "preact/hooks";
import { Calculator } from "../components/Calculator";
import { Drag, stops } from "../components/Drag";
import { Export } from "../components/Export";
import { Fields } from "../components/Field";
import { FieldFold, Fold } from "../components/Fold";
import { Formulas } from "../components/Formulas";
import { LearnLink } from "../components/LearnLink";
import { Notice } from "../components/Notice";
import { GetCertificate, Interpretation, Plot, Scenarios, Sensitivity } from "../components/on-demand";
import { Outcome } from "../components/Outcome";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { sentence, typeset } from "../lib/messages";
import { useQuery, useRefinedQuery } from "../lib/use-query";
import { useFoundCount } from "../lib/use-risk";
import { post } from "../lib/api";
import { download, toCsv } from "../lib/download";
import type { Engine } from "../lib/engine";
import { makeFields, PINS } from "../lib/parameter-spec";
import type { FieldSpec, Store, Values } from "../lib/form";
import { useForm } from "../lib/form";
import { roundTo, show, showPercent, showInteger } from "../lib/numbers";
import { bound, countPicked, exact, left, near } from "../lib/quantities";
import { type QueryNoiseComparison, PARAMETERS, readQueriesRequest } from "../lib/openapi";
import { numberOrNull } from "../lib/parse-values";
import { browserEngine } from "../lib/browser-accountant/engine";
import type { QueriesResponse, QueriesRequest } from "../lib/types";

const ASK = PARAMETERS.QueriesRequest;

export const QUERIES: readonly FieldSpec[] = [
  ...makeFields(ASK, {
    epsilon: { label: "Total budget", hint: "for all answers", helpPage: "learn/epsilon-and-delta.html" },
    queries: { label: "Queries in all", hint: "", helpPage: "glossary.html#term-composition" },
    sensitivity: { label: "One person adds at most", hint: "to any one answer", helpPage: "glossary.html#term-sensitivity" },
    mechanism: { label: "Noise", hint: "", initial: "gaussian", omitted: ASK.mechanism.initial, helpPage: "learn/laplace-and-gaussian.html" },
    delta: { label: "Failure probability", initial: "1e-6", omitted: ASK.delta.initial, hint: "Laplace noise works without", helpPage: "glossary.html#term-delta" },
    delta_cap: null,
    population: { label: "People in the data", hint: "for the default δ, and to check δ", helpPage: "glossary.html#term-delta" },
    queries_used: { label: "Answered so far", initial: "40", helpPage: "pitfalls.html#a-repetition-that-is-not-counted" },
    magnitude: { label: "Typical true answer", initial: "1000" },
    weights: { hint: "one per query, such as 2 1 1; blank: even", helpPage: "how-to/answer-queries.html" },
  }),
  { name: "cap", label: "Policy’s cap on ε", kind: "real", initial: "", optional: true, exclusiveMin: 0, hint: "for one person, at the same δ", helpPage: "glossary.html#term-cap" },
  PINS,
];

const FIRST = ["queries", "epsilon", "sensitivity", "delta"];
const EXPERT = ["mechanism", "queries_used", "magnitude", "population", "weights"];
const EPSILONS = stops(0.01, 20).reverse(); // more noise is less epsilon

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
  const here = !ELEMENT && !compact; // a page of the server
  const settled = main.settled ? ask : null;
  const { count: found } = useFoundCount(main);
  const cap = form.values === null ? null : numberOrNull(form.values, "cap");
  const error = answer && answer.shares[0]!.optimal.error_95;
  const inputs = (
    <>
      <Drag form={form} name="epsilon" at={EPSILONS} label="Noise" ends={["less noise", "more noise"]} says={answer ? `error ${bound(error)}, ${countPicked(found)} picked out` : "no result"} />
      <div class="pair">
        <Fields form={form} names={FIRST} />
      </div>
      <FieldFold title="Kind of noise, answered so far" form={form} names={here ? [...EXPERT, "cap"] : EXPERT}>
        {here && <Sensitivity use={(value) => form.set("sensitivity", String(value))} />}
      </FieldFold>
    </>
  );
  const outcome = answer && (
    <Outcome
      sign="±"
      value={bound(error)}
      refining={main.refining}
      beside={answer.shares.length === 1 ? "19 of 20 answers are this close to the truth." : "The first answer is this close to the truth, 19 times of 20."}
      found={found}
      units="people"
      utility={
        answer.relative_error_95 !== null && (
          <>
            <b>{showPercent(answer.relative_error_95, 3, "up")}</b> {sentence(["calculator/relative-error", { magnitude: Math.abs(answer.magnitude!) }])}
          </>
        )
      }
    />
  );
  return (
    <Calculator label="Query budget" form={form} main={main} inputs={inputs} outcome={outcome} spoken={answer ? describeResult(answer, found) : undefined}>
      {answer ? <Bell answer={answer} /> : <div class="reserved" />}
      {answer && <Warnings answer={answer} try_={() => (form.set("delta", "1e-6"), form.commit())} />}
      {answer && answer.compatible && answer.queries_used > 0 && <Budget answer={answer} />}
      {here && answer && (
        <p class="method onward">
          <CardLink release={answer.release} delta={answer.delta?.value ?? 0} />
        </p>
      )}
      <Fold title="Other ways to pay for these answers">{answer && (() => <Ways answer={answer} />)}</Fold>
      <Fold title="Formulas and every digit">
        {answer &&
          (() => (
            <>
              <Formulas quoted={<ClassicFormula answer={answer} />} proven={<ExactFormula answer={answer} />} />
              <Digits answer={answer} />
              {here && <GetCertificate release={answer.release} delta={answer.delta?.value ?? null} />}
            </>
          ))}
      </Fold>
      {here && (
        <>
          <Fold title="Laplace or Gaussian noise">{answer && ask && (() => <CrossOver ask={ask} answer={answer} />)}</Fold>
          <Fold title="What it means for one person">{answer && (() => <Interpretation name="queries" ask={settled} cap={cap} unit="person" />)}</Fold>
        </>
      )}
      {here && <Fold title="Compare scenarios">{() => <Scenarios form={form} examples={EXAMPLES} read={readQueriesRequest} ask={engine.queries} name={nameOf} rows={COMPARED} />}</Fold>}
      {here && <Export name="queries" ask={answer && ask} cap={cap} specs={QUERIES} raw={form.raw} table="shares" csv={() => answer && split(answer)} />}
    </Calculator>
  );
}

const describeResult = (answer: QueriesResponse, found: number): string =>
  `19 of 20 answers are within ${bound(answer.shares[0]!.optimal.error_95)} of the truth. ${sentence(["calculator/spoken", { count: countPicked(found), units: "people" }])}`;

function split(answer: QueriesResponse): void {
  const rows = answer.shares.map((s) => [s.count, s.weight, s.epsilon, s.classic.scale, s.exact.scale, s.optimal.scale, s.optimal.error_95]);
  download("epsilog-queries.csv", "text/csv", toCsv([["count", "weight", "epsilon", "classic", "exact", "optimal", "optimal_error_95"], ...rows]));
}

/** What the reader should know before using the number. */
function Warnings({ answer, try_ }: { answer: QueriesResponse; try_: () => void }) {
  return (
    <>
      {answer.delta === null && answer.queries > 1 && (
        <p>
          A small δ makes many answers cheaper.{" "}
          <button type="button" class="quiet" onClick={try_}>
            Try δ = 10⁻⁶
          </button>
        </p>
      )}
      {!answer.compatible && <Notice grade="void">More queries were answered than planned: {showInteger(answer.queries_used)} of {showInteger(answer.queries)}. Make a new plan with a larger budget that covers all of them.</Notice>}
      {answer.delta_sentence && answer.delta_grade !== "good" && <Notice grade={answer.delta_grade ?? "info"}>{typeset(answer.delta_sentence)}</Notice>}
      {answer.findings
        .filter((found) => found.code !== "queries/too-many" && found.code !== "classic-formula/delta-for-each")
        .map((found) => (
          <Notice key={found.code} grade={found.status === "failed" ? "void" : "weak"}>
            {typeset(found.message)}
          </Notice>
        ))}
    </>
  );
}

/** The true answer with its noise. */
function Bell({ answer }: { answer: QueriesResponse }) {
  const { scale, error_95: error } = answer.shares[0]!.optimal;
  if (!Number.isFinite(error) || !(error > 0)) return null;
  const truth = answer.magnitude ?? 0;
  const height = answer.mechanism === "laplace" ? (x: number) => Math.exp(-Math.abs(x) / scale) : (x: number) => Math.exp(-0.5 * (x / scale) ** 2);
  const at = (share: number): string => `${(200 + 180 * share).toFixed(1)} ${(70 - 56 * height(1.8 * error * share)).toFixed(1)}`;
  const curve = Array.from({ length: 61 }, (_, i) => at((i - 30) / 30)).join("L");
  const rounded = roundTo(error, 3, "up"); // the ends follow from the error as it is shown
  const [low, high] = [show(truth - rounded, 12), show(truth + rounded, 12)];
  return (
    <svg class="bell" viewBox="0 0 400 88" role="img" aria-label={`A true answer of ${near(truth)} with noise: 19 of 20 answers are between ${low} and ${high}`}>
      <path d={`M${curve}`} />
      {[-1, 0, 1].map((side) => (
        <line key={side} x1={200 + side * 100} x2={200 + side * 100} y1={side === 0 ? 14 : 62} y2="72" />
      ))}
      <text x="100" y="86">{low}</text>
      <text x="200" y="86">{answer.magnitude === null ? "the truth" : `${near(truth)}, the truth`}</text>
      <text x="300" y="86">{high}</text>
    </svg>
  );
}

/** The budget after the answers so far, and why their share of it is larger than their number. */
function Budget({ answer }: { answer: QueriesResponse }) {
  const { queries, queries_used: used, queries_left, consumed, epsilon, remaining } = answer;
  const [answered, spent] = [used / queries, Math.min(1, consumed.optimal.upper / epsilon)];
  const even = answer.shares.length === 1;
  return (
    <section class="spending" aria-label="Budget">
      <p>
        {sentence([spent > 1.02 * answered && even ? "calculator/spent-by-squares" : "calculator/spent", { answered, spent, root: Math.sqrt(answered) }])}
      </p>
      <svg class="budget" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={`${showPercent(spent, 3, "up")} of the budget used`}>
        <rect class="rail" width="100" height="6" />
        <rect class="spent" width={100 * spent} height="6" />
      </svg>
      <p class="method">
        Left: ε {left(remaining)}, for {showInteger(queries_left)} more queries.
      </p>
    </section>
  );
}

/** The error of one answer with each calibration, as bars. */
function Ways({ answer }: { answer: QueriesResponse }) {
  const share = answer.shares[0]!;
  const ways = [
    ["composed", share.optimal.error_95, "me"],
    ["exact, ε split", share.exact.error_95, ""],
    ["classic formula, ε split", share.classic.error_95, ""],
  ] as const;
  const most = Math.max(...ways.map(([, error]) => error));
  return (
    <>
      <div class="ways">
        {ways.map(([name, error, look]) => (
          <div key={name} class={look}>
            <span>{name}</span>
            <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
              <rect width={Math.max(1, (100 * error) / most)} height="10" />
            </svg>
            <b>± {bound(error)}</b>
          </div>
        ))}
      </div>
      <p>{answer.saving > 1.001 ? `The classic formula needs ${near(answer.saving)} times the noise for the same ε.` : "For pure ε the even split is optimal."}</p>
      {answer.shares.length > 1 && (
        <Table
          caption="Noise by query"
          columns={[{ title: "query" }, { title: "share of ε", number: true }, { title: "noise scale", number: true }, { title: "95% error", number: true }]}
          rows={answer.shares.slice(0, 50).map((each, i) => [String(i + 1), near(each.epsilon), bound(each.optimal.scale), bound(each.optimal.error_95)])}
        />
      )}
    </>
  );
}

function Digits({ answer }: { answer: QueriesResponse }) {
  const share = answer.shares[0]!;
  return (
    <Table
      caption="Every digit"
      columns={[{ title: "quantity" }, { title: "value" }]}
      rows={[
        [answer.mechanism === "laplace" ? "noise scale b" : "noise standard deviation σ", exact(share.optimal.scale)],
        ["95% error", exact(share.optimal.error_95)],
        ["ε used so far, at most", exact(answer.consumed.optimal.upper)],
        ["ε left", exact(answer.remaining)],
      ]}
    />
  );
}

/** The textbook's method: an even split of the budget. */
function ClassicFormula({ answer }: { answer: QueriesResponse }) {
  const noise = <b>{near(answer.shares[0]!.classic.scale)}</b>;
  return answer.mechanism === "laplace" ? (
    <p class="formula">
      b = Δ/ε₁ = {noise} <em>ε₁ is a query’s share of ε</em>
    </p>
  ) : (
    <>
      <p class="formula">
        σ = Δ√(2 ln(1.25/δ))/ε₁ = {noise} <em>ε₁ is a query’s share of ε</em>
      </p>
      <p>Each query uses the full δ, so the total δ is {near(answer.classic_total_delta)}. The formula is proven only for ε₁ &lt; 1.</p>
    </>
  );
}

/** The proven method, as a formula. */
function ExactFormula({ answer }: { answer: QueriesResponse }) {
  const number = <b>{bound(answer.shares[0]!.optimal.scale)}</b>;
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
      <p>All answers form one release: only the total loss counts, and δ is spent once.</p>
    </>
  );
}

/** Where Gaussian noise becomes the smaller. */
function CrossOver({ ask, answer }: { ask: QueriesRequest; answer: QueriesResponse }) {
  const delta = answer.delta?.value ?? 1e-6;
  const found = useQuery({ epsilon: ask.epsilon, delta, queries: null }, (body, signal) => post<QueryNoiseComparison>("queries/crossover", body, signal), { delay: 250 });
  if (found.problem) return <ErrorNotice problem={found.problem} retry={found.retry} />;
  if (!found.answer) return <p class="empty">Computing…</p>;
  return (
    <>
      <p>
        At δ = {near(found.of!.delta)}, Gaussian noise errs less than Laplace noise from <b>{showInteger(found.answer.against_pure)} queries</b>
        {found.answer.against_optimal !== null && <>; from {showInteger(found.answer.against_optimal)} if Laplace noise is composed with δ</>}. If δ must be 0, use Laplace noise.{" "}
        <LearnLink page="laplace-and-gaussian">More</LearnLink>
      </p>
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
  );
}

const nameOf = (ask: QueriesRequest): string => `${ask.mechanism === "laplace" ? "Laplace" : "Gaussian"}, ε ${near(ask.epsilon)}, Q ${showInteger(ask.queries)}, Δ ${near(ask.sensitivity)}`;

const COMPARED: readonly (readonly [string, (answer: QueriesResponse) => string])[] = [
  ["noise, composed", (answer) => bound(answer.shares[0]!.optimal.scale)],
  ["noise, classic", (answer) => near(answer.shares[0]!.classic.scale)],
  ["times less noise", (answer) => near(answer.saving)],
  ["95% error", (answer) => `± ${bound(answer.shares[0]!.optimal.error_95)}`],
  ["remaining", (answer) => left(answer.remaining)],
];
