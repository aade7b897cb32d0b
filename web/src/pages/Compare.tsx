// Compare two releases: the one with the smaller epsilon can protect less, and their curves show where.

import type { Ref } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Assumptions } from "../components/Assumptions";
import { Card } from "../components/Card";
import { Copy } from "../components/Copy";
import { Field } from "../components/Field";
import { Plot } from "../components/Plot";
import { Results } from "../components/Results";
import { LiveRegion } from "../components/LiveRegion";
import { Stat } from "../components/Stat";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { sentence, typeset } from "../lib/messages";
import { urlStore, toQuery } from "../lib/url-state";
import { useQuery } from "../lib/use-query";
import { post } from "../lib/api";
import { maxTpr } from "../lib/tradeoff";
import { type FieldSpec, type Form, useForm, type Values } from "../lib/form";
import { show, showPercent } from "../lib/numbers";
import { type ComparisonResponse, type CompareRequest, type GaussianDPFitModel, PARAMETERS, type Part, type PointComparisonModel } from "../lib/openapi";
import { makeFields } from "../lib/parameter-spec";
import { fieldOf, PART_FIELDS } from "../lib/part";
import type { FieldError } from "../lib/types";
import { type Release as Bounded, releaseOf } from "../lib/browser-accountant/releases";

const SIDES = ["first", "second"] as const;
type Side = (typeof SIDES)[number];

const side = (name: Side, initial: Record<string, string>): FieldSpec[] =>
  PART_FIELDS.map((spec) => ({ ...spec, name: `${name}_${spec.name}`, initial: initial[spec.name] ?? spec.initial }));

const SPECS: readonly FieldSpec[] = [
  ...side("first", { parameter: "0.85" }),
  ...side("second", { parameter: "0.3", sampling_probability: "0.001" }),
  ...makeFields(PARAMETERS.CompareRequest, {
    delta: { label: "Failure probability", hint: "at which ε is compared" },
    relation: { label: "Neighboring relation", hint: "" },
    fpr: { label: "False-positive rate", hint: "allowed to the attacker, in (0, 1)" },
  }),
];

function partOf(values: Values, side: Side): Part {
  const mechanism = values[`${side}_mechanism`] as Part["mechanism"];
  const kept = PART_FIELDS.map((spec) => [spec.name, fieldOf(spec, spec.name, mechanism) && values[`${side}_${spec.name}`]]);
  const part = Object.fromEntries(kept) as Part;
  return { ...part, sampling_probability: part.sampling_probability ?? 1 };
}

function readCompareRequest(values: Values): CompareRequest {
  return {
    first: partOf(values, "first"),
    second: partOf(values, "second"),
    delta: values.delta as number,
    fpr: values.fpr as number,
    relation: values.relation as CompareRequest["relation"],
  };
}

/** Map an error of the server to the field of the form. */
const here = ({ field, message }: FieldError): FieldError => ({
  field: field?.replace(/^(first|second)\.(\w+)/, "$1_$2") ?? null,
  message,
});

function Release({ form, name }: { form: Form; name: Side }) {
  const mechanism = form.raw[`${name}_mechanism`] ?? "";
  const specs = form.specs.map((spec) => fieldOf(spec, spec.name.replace(`${name}_`, ""), mechanism));
  const sideForm = { ...form, specs: specs.filter((spec) => spec !== null) };
  const has = (field: string) => sideForm.specs.some((spec) => spec.name === `${name}_${field}`);
  return (
    <fieldset>
      <legend>{name === "first" ? "First" : "Second"} release</legend>
      <Field form={form} name={`${name}_mechanism`} />
      <div class="pair">
        {["parameter", "second", "sampling_probability", "count"].map((field) => has(field) && <Field key={field} form={sideForm} name={`${name}_${field}`} />)}
      </div>
    </fieldset>
  );
}

export function Compare() {
  const store = useMemo(urlStore, []);
  const form = useForm(SPECS, store);
  const ask = useMemo(() => form.values && readCompareRequest(form.values), [form.values]);
  const answered = useQuery(ask, (body, signal) => post<ComparisonResponse>("account/compare", body, signal), { delay: 200, onProblem: (problem) => form.refuse(problem.errors.map(here)) });
  const waits = answered.busy || (answered.answer !== null && answered.of !== ask);
  const rough = useMemo(() => ask && computeBounds(ask), [ask]);
  const text = useRef<HTMLDivElement>(null);
  const height = useRef(0); // of the longest result so far: kept for the next one
  useLayoutEffect(() => {
    if (text.current) height.current = Math.max(height.current, text.current.offsetHeight);
  });
  return (
    <div class="stack">
      <form aria-label="Two releases" class="stack" onSubmit={(e) => e.preventDefault()}>
        <div class="two">
          {SIDES.map((name) => (
            <Release key={name} form={form} name={name} />
          ))}
        </div>
        <fieldset>
          <legend>Comparison</legend>
          <div class="pair">
            <Field form={form} name="delta" />
            <Field form={form} name="fpr" />
            <Field form={form} name="relation" />
          </div>
        </fieldset>
      </form>
      <Results name="compared" waiting={form.waiting} busy={answered.busy}>
        {answered.problem && <ErrorNotice problem={answered.problem} retry={answered.retry} />}
        {waits && rough && ask ? (
          <BrowserBounds curves={rough} of={ask} height={height.current} />
        ) : answered.answer && answered.of ? (
          <ComparisonResult answer={answered.answer} of={answered.of} text={text} height={height.current} />
        ) : (
          answered.busy && <p class="empty">Computing both curves; this can take several seconds…</p>
        )}
      </Results>
      <div class="buttons">
        <Copy label="Copy link" text={() => `${location.origin}/compare?${toQuery(form.raw)}`} />
      </div>
    </div>
  );
}

const DELTAS = [0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10]; // as on the server
const FPRS = [1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3];
const SHARES = [...Array.from({ length: 20 }, (_, i) => i / 16), 1.4, 1.7]; // of the epsilon at delta 1e-3

type Line = readonly (readonly [at: number, most: number])[];

/** Upper bounds of both releases. */
interface Curves {
  epsilons: Record<Side, Line>;
  rates: Record<Side, Line>;
}

/** Return the browser's own bounds; null if it has none for one of the two. */
function computeBounds(ask: CompareRequest): Curves | null {
  const [first, second] = SIDES.map((name) => releaseOf(ask[name], ask.relation ?? "add-or-remove-one"));
  if (!first || !second) return null;
  const [deltas, fprs] = [DELTAS, FPRS].map((all, i) => [...new Set([...all, i === 0 ? ask.delta : ask.fpr!])].sort((a, b) => a - b)) as [number[], number[]];
  const epsilons = (release: Bounded): Line => deltas.map((delta) => [delta, release.epsilon(delta)]);
  const rates = (release: Bounded): Line => {
    const reach = Math.max(1e-3, Math.min(600, release.epsilon(1e-3)));
    const at = SHARES.map((share) => share * reach);
    const profile = release.deltas(at, 1e-8).map((delta, i) => ({ epsilon: at[i]!, delta }));
    return fprs.map((fpr) => [fpr, maxTpr(profile, fpr)]);
  };
  return { epsilons: { first: epsilons(first), second: epsilons(second) }, rates: { first: rates(first), second: rates(second) } };
}

const upper = (rows: readonly PointComparisonModel[], name: Side): Line => rows.map((row) => [row.at, Number(row[name].upper)] as const);
const better = (row: PointComparisonModel): string => (row.better === "open" ? "undecided" : `the ${row.better}`);
const at = (line: Line, where: number): number => line.find(([x]) => x === where)![1];

/** The browser's upper bounds. They do not show which curve is higher: that needs the server's lower bounds. */
function BrowserBounds({ curves, of, height }: { curves: Curves; of: CompareRequest; height: number }) {
  return (
    <>
      <Card>
        <div class="ruling" style={{ minHeight: height ? `${height}px` : undefined }}>
          <p class="empty">Upper bounds, by this browser. The server is computing the lower bounds that show which release is weaker.</p>
        </div>
        <div class="two">
          {SIDES.map((name) => (
            <section key={name} aria-label={`The ${name}`}>
              <h3>The {name}</h3>
              <dl class="stats">
                <Stat label={`ε at δ = ${show(of.delta)}`}>≤ {show(at(curves.epsilons[name], of.delta), 4, "up")}</Stat>
                <Stat label={`TPR at an FPR of ${showPercent(of.fpr!)}`}>≤ {show(100 * at(curves.rates[name], of.fpr!), 3, "up")}%</Stat>
                <Stat label="μ of Gaussian DP (estimate)">…</Stat>
              </dl>
            </section>
          ))}
        </div>
      </Card>
      <Charts curves={curves} by="by this browser" />
    </>
  );
}

function Charts({ curves: { epsilons, rates }, by }: { curves: Curves; by: string }) {
  return (
    <div class="two">
      <Card title="ε by δ">
        <Plot
          title={`Upper bounds on ε by δ, ${by}; lower is better`}
          x={{ title: "δ", log: true }}
          y={{ title: "ε" }}
          series={[
            { name: "first", look: "claim", points: epsilons.first },
            { name: "second", look: "second", points: epsilons.second },
          ]}
        />
      </Card>
      <Card title="The best attack">
        {rates.first.length > 0 ? (
          <Plot
            title={`Largest TPR by FPR, ${by}; lower is better`}
            x={{ title: "FPR", log: true }}
            y={{ title: "TPR", log: true }}
            series={[
              { name: "first", look: "claim", points: rates.first },
              { name: "second", look: "second", points: rates.second },
              { name: "random guess", look: "reference", points: rates.first.map(([rate]) => [rate, rate] as const) },
            ]}
          />
        ) : (
          <p class="empty">No proven bound on attacks covers these releases.</p>
        )}
      </Card>
    </div>
  );
}

function ComparisonResult({ answer, of, text, height }: { answer: ComparisonResponse; of: CompareRequest; text: Ref<HTMLDivElement>; height: number }) {
  const [lead, ...rest] = answer.messages;
  const atDelta = answer.deltas.find((row) => row.at === of.delta)!;
  const attack = answer.fprs.find((row) => row.at === of.fpr);
  const fits = { first: answer.first_fit, second: answer.second_fit };
  const assumptions = [...new Set([...atDelta.first.assumptions, ...atDelta.second.assumptions].map(sentence))];
  const both = (rows: readonly PointComparisonModel[]): Record<Side, Line> => ({ first: upper(rows, "first"), second: upper(rows, "second") });
  return (
    <>
      <Card>
        <div ref={text} class="ruling" style={{ minHeight: height ? `${height}px` : undefined }}>
          <h2 class="lead-in">{typeset(lead ?? "")}</h2>
          {rest.map((line) => (
            <p key={sentence(line)}>{typeset(line)}</p>
          ))}
        </div>
        <div class="two">
          {SIDES.map((name) => (
            <section key={name} aria-label={`The ${name}`}>
              <h3>The {name}</h3>
              <dl class="stats">
                <Stat label={`ε at δ = ${show(of.delta)}`} note={atDelta.better === name ? "smaller" : undefined}>
                  ≤ {show(Number(atDelta[name].upper), 4, "up")}
                </Stat>
                {attack && (
                  <Stat label={`TPR at an FPR of ${showPercent(of.fpr)}`} note={attack.better === name ? "smaller" : undefined}>
                    ≤ {show(100 * Number(attack[name].upper), 3, "up")}%
                  </Stat>
                )}
                <Stat label="μ of Gaussian DP (estimate)" note={offBy(fits[name])}>
                  {fits[name] ? show(Number(fits[name].mu), 4, "up") : "none"}
                </Stat>
              </dl>
            </section>
          ))}
        </div>
        <LiveRegion text={answer.messages.map(sentence).join(" ")} />
      </Card>
      <Charts curves={{ epsilons: both(answer.deltas.toReversed()), rates: both(answer.fprs) }} by="proven at the dots" />
      <Card title="Weaker release by point">
        <p>
          Over all points of the trade-off curves, the first is easier to attack by at most {points(answer.first_excess)} and the second by at most{" "}
          {points(answer.second_excess)}, in TPR and FPR.
        </p>
        <Table
          caption="“Better” is proven: one upper bound is below the other lower bound"
          columns={[{ title: "point" }, { title: "first", number: true }, { title: "second", number: true }, { title: "better" }]}
          rows={[
            ...answer.deltas.map((row) => [`ε at δ = ${show(row.at)}`, ...SIDES.map((name) => `≤ ${show(Number(row[name].upper), 4, "up")}`), better(row)]),
            ...answer.fprs.map((row) => [`TPR at an FPR of ${showPercent(row.at)}`, ...SIDES.map((name) => `≤ ${show(100 * Number(row[name].upper), 3, "up")}%`), better(row)]),
          ]}
        />
        <Assumptions lines={assumptions} />
      </Card>
    </>
  );
}

const points = (share: number): string => `${show(100 * share, 2, "up")} percentage points`;

function offBy(fit: GaussianDPFitModel | null): string {
  if (!fit) return "no Gaussian fits";
  const error = Math.max(fit.slack, fit.regret);
  return error === 0 ? "exact" : `off by at most ${points(error)}`;
}
