// Two releases side by side: of two epsilons the smaller one can be the weaker promise, and curves say where.

import type { Ref } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Assumptions } from "../components/Assumptions";
import { Card } from "../components/Card";
import { Copy } from "../components/Copy";
import { Field } from "../components/Field";
import { Plot } from "../components/Plot";
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
import type { ComparisonResponse, CompareAsk, GaussianDPFitModel, Part, PointComparisonModel } from "../lib/openapi";
import type { FieldError } from "../lib/types";
import { type Release as Bounded, releaseOf } from "../lib/browser-accountant/releases";

const MECHANISMS = [
  ["gaussian", "Gaussian noise"],
  ["laplace", "Laplace noise"],
  ["randomized-response", "randomized response"],
  ["pure", "stated ε-DP"],
  ["approximate", "stated (ε, δ)-DP"],
  ["zcdp", "stated ρ-zCDP"],
  ["gdp", "stated μ-GDP"],
] as const;
const PARAMETERS: Record<string, string> = {
  gaussian: "noise multiplier σ",
  laplace: "noise multiplier b/Δ",
  "randomized-response": "flip probability",
  pure: "ε",
  approximate: "ε",
  zcdp: "ρ",
  gdp: "μ",
};
const SIDES = ["first", "second"] as const;
type Side = (typeof SIDES)[number];

const side = (name: Side, parameter: string, sampled: string): FieldSpec[] => [
  { name: `${name}_mechanism`, label: "Mechanism", kind: "choice", initial: "gaussian", choices: MECHANISMS },
  { name: `${name}_parameter`, label: "Parameter", kind: "real", initial: parameter, min: 0 },
  { name: `${name}_second`, label: "δ, or categories", kind: "real", initial: "", optional: true, min: 0 },
  { name: `${name}_sampled`, label: "Sampled with chance", kind: "real", initial: sampled, optional: true, min: 0, max: 1, hint: "blank: all take part" },
  { name: `${name}_count`, label: "Times", kind: "integer", initial: "1", min: 1 },
];

const SPECS: readonly FieldSpec[] = [
  ...side("first", "0.85", ""),
  ...side("second", "0.3", "0.001"),
  { name: "delta", label: "Failure probability", symbol: "δ", kind: "real", initial: "1e-6", exclusiveMin: 0, exclusiveMax: 1, hint: "at which ε is told" },
  { name: "fpr", label: "False alarms", kind: "real", initial: "0.01", exclusiveMin: 0, exclusiveMax: 1, hint: "that the attacker allows, as a share" },
  {
    name: "relation",
    label: "Neighbouring relation",
    kind: "choice",
    initial: "add-or-remove-one",
    choices: [["add-or-remove-one", "add or remove one"], ["replace-one", "replace one"], ["zero-out", "zero out one"]],
  },
];

const PAIRED = ["approximate", "randomized-response"];
const SAMPLED = ["gaussian", "laplace"];

function partOf(values: Values, name: Side): Part {
  const of = <T,>(field: string): T => values[`${name}_${field}`] as T;
  const mechanism = of<Part["mechanism"]>("mechanism");
  // what is not shown for a mechanism is not sent, either
  return { mechanism, parameter: of("parameter"), second: PAIRED.includes(mechanism) ? of("second") : null, sampling_probability: (SAMPLED.includes(mechanism) ? of<number | null>("sampled") : null) ?? 1, count: of("count") };
}

function readCompareAsk(values: Values): CompareAsk {
  return {
    first: partOf(values, "first"),
    second: partOf(values, "second"),
    delta: values.delta as number,
    fpr: values.fpr as number,
    relation: values.relation as CompareAsk["relation"],
  };
}

/** An error of the server at the field where its value was typed. */
const here = ({ field, message }: FieldError): FieldError => ({
  field: field?.replace(/^(first|second)\.(\w+)/, (_, side: string, name: string) => `${side}_${name === "sampling_probability" ? "sampled" : name}`) ?? null,
  message,
});

function Release({ form, name }: { form: Form; name: Side }) {
  const mechanism = form.raw[`${name}_mechanism`] ?? "";
  const labeled = { ...form, specs: form.specs.map((spec) => (spec.name === `${name}_parameter` ? { ...spec, hint: PARAMETERS[mechanism] ?? "" } : spec)) };
  return (
    <fieldset>
      <legend>The {name}</legend>
      <Field form={form} name={`${name}_mechanism`} />
      <div class="pair">
        <Field form={labeled} name={`${name}_parameter`} />
        <Field form={form} name={`${name}_second`} when={PAIRED.includes(mechanism)} />
        <Field form={form} name={`${name}_sampled`} when={SAMPLED.includes(mechanism)} />
        <Field form={form} name={`${name}_count`} />
      </div>
    </fieldset>
  );
}

export function Compare() {
  const store = useMemo(urlStore, []);
  const form = useForm(SPECS, store);
  const ask = useMemo(() => form.values && readCompareAsk(form.values), [form.values]);
  const answered = useQuery(ask, (body, signal) => post<ComparisonResponse>("account/compare", body, signal), { delay: 200, onProblem: (problem) => form.refuse(problem.errors.map(here)) });
  const waits = answered.busy || (answered.answer !== null && answered.of !== ask);
  const rough = useMemo(() => ask && computeBounds(ask), [ask]);
  const text = useRef<HTMLDivElement>(null);
  const height = useRef(0); // of the longest verdict so far: so much place is kept for the next
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
          <legend>Where to look</legend>
          <div class="pair">
            <Field form={form} name="delta" />
            <Field form={form} name="fpr" />
            <Field form={form} name="relation" />
          </div>
        </fieldset>
      </form>
      <div class={answered.busy ? "compared busy" : "compared"} aria-busy={answered.busy}>
        {ask === null && (
          <Card>
            <p class="empty">Correct the marked fields, and the curves come back.</p>
          </Card>
        )}
        {answered.problem && <ErrorNotice problem={answered.problem} retry={answered.retry} />}
        {waits && rough && ask ? (
          <BrowserBounds curves={rough} of={ask} height={height.current} />
        ) : answered.answer && answered.of ? (
          <ComparisonResult answer={answered.answer} of={answered.of} text={text} height={height.current} />
        ) : (
          answered.busy && <p class="empty">Working out both curves; this may take some seconds…</p>
        )}
      </div>
      <div class="buttons">
        <Copy label="Copy link" text={() => `${location.origin}/compare?${toQuery(form.raw)}`} />
      </div>
    </div>
  );
}

const DELTAS = [0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10]; // those of the server
const FPRS = [1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3];
const SHARES = [...Array.from({ length: 20 }, (_, i) => i / 16), 1.4, 1.7]; // of the epsilon at one in a thousand

type Line = readonly (readonly [at: number, most: number])[];

/** Upper bounds of both, as drawn. */
interface Curves {
  epsilons: Record<Side, Line>;
  rates: Record<Side, Line>;
}

/** What the browser says by itself; null where it has no bound for one of the two. */
function computeBounds(ask: CompareAsk): Curves | null {
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
const better = (row: PointComparisonModel): string => (row.better === "open" ? "not decided" : `the ${row.better}`);
const at = (line: Line, where: number): number => line.find(([x]) => x === where)![1];

/** Upper bounds alone do not say which of two curves is the higher: no word on that before the server's. */
function BrowserBounds({ curves, of, height }: { curves: Curves; of: CompareAsk; height: number }) {
  return (
    <>
      <Card>
        <div class="ruling" style={{ minHeight: height ? `${height}px` : undefined }}>
          <p class="empty">Upper bounds, by this browser. Which of the two is weaker takes lower bounds as well: the server is working them out.</p>
        </div>
        <div class="two">
          {SIDES.map((name) => (
            <section key={name} aria-label={`The ${name}`}>
              <h3>The {name}</h3>
              <dl class="stats">
                <Stat label={`ε at δ = ${show(of.delta)}`}>≤ {show(at(curves.epsilons[name], of.delta), 4, "up")}</Stat>
                <Stat label={`Found at ${showPercent(of.fpr!)} false alarms`}>≤ {show(100 * at(curves.rates[name], of.fpr!), 3, "up")}%</Stat>
                <Stat label="μ of Gaussian DP, about">…</Stat>
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
      <Card title="ε, by how rare a failure may be">
        <Plot
          title={`Upper bounds of ε over δ, ${by}; lower is better`}
          x={{ title: "δ", log: true }}
          y={{ title: "ε" }}
          series={[
            { name: "first", look: "claim", points: epsilons.first },
            { name: "second", look: "second", points: epsilons.second },
          ]}
        />
      </Card>
      <Card title="What the best attack finds">
        {rates.first.length > 0 ? (
          <Plot
            title={`Found, at most, over false alarms, ${by}; lower is better`}
            x={{ title: "false alarms", log: true }}
            y={{ title: "found", log: true }}
            series={[
              { name: "first", look: "claim", points: rates.first },
              { name: "second", look: "second", points: rates.second },
              { name: "a coin", look: "reference", points: rates.first.map(([rate]) => [rate, rate] as const) },
            ]}
          />
        ) : (
          <p class="empty">No attack on such releases has a proven price.</p>
        )}
      </Card>
    </div>
  );
}

function ComparisonResult({ answer, of, text, height }: { answer: ComparisonResponse; of: CompareAsk; text: Ref<HTMLDivElement>; height: number }) {
  const [lead, ...rest] = answer.says;
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
                <Stat label={`ε at δ = ${show(of.delta)}`} note={atDelta.better === name ? "the smaller" : undefined}>
                  ≤ {show(Number(atDelta[name].upper), 4, "up")}
                </Stat>
                {attack && (
                  <Stat label={`Found at ${showPercent(of.fpr)} false alarms`} note={attack.better === name ? "the smaller" : undefined}>
                    ≤ {show(100 * Number(attack[name].upper), 3, "up")}%
                  </Stat>
                )}
                <Stat label="μ of Gaussian DP, about" note={offBy(fits[name])}>
                  {fits[name] ? show(Number(fits[name].mu), 4, "up") : "none"}
                </Stat>
              </dl>
            </section>
          ))}
        </div>
        <LiveRegion text={answer.says.map(sentence).join(" ")} />
      </Card>
      <Charts curves={{ epsilons: both(answer.deltas.toReversed()), rates: both(answer.fprs) }} by="certified at the dots" />
      <Card title="Which is weaker where">
        <p>
          Anywhere on the curves the first is easier to attack by at most {points(answer.first_excess)}, the second by at most {points(answer.second_excess)}, in what is
          found and in false alarms.
        </p>
        <Table
          caption="“Better” is proven: the one’s upper bound is below the other’s lower bound"
          columns={[{ title: "at" }, { title: "first", number: true }, { title: "second", number: true }, { title: "better" }]}
          rows={[
            ...answer.deltas.map((row) => [`ε at δ = ${show(row.at)}`, ...SIDES.map((name) => `≤ ${show(Number(row[name].upper), 4, "up")}`), better(row)]),
            ...answer.fprs.map((row) => [`found at ${showPercent(row.at)} false alarms`, ...SIDES.map((name) => `≤ ${show(100 * Number(row[name].upper), 3, "up")}%`), better(row)]),
          ]}
        />
        <Assumptions lines={assumptions} />
      </Card>
    </>
  );
}

const points = (share: number): string => `${show(100 * share, 2, "up")} points of a hundred`;

function offBy(fit: GaussianDPFitModel | null): string {
  if (!fit) return "no Gaussian comes close";
  const error = Math.max(fit.beyond, fit.regret);
  return error === 0 ? "exact" : `off by at most ${points(error)}`;
}
