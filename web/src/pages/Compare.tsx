// Compare two releases: the one with the smaller epsilon can protect less, and their curves show where.

import { useMemo } from "preact/hooks";
import { Assumptions } from "../components/Assumptions";
import { Calculator } from "../components/Calculator";
import { Copy } from "../components/Copy";
import { Field } from "../components/Field";
import { FieldFold, Fold } from "../components/Fold";
import { Plot } from "../components/Plot";
import { Stat } from "../components/Stat";
import { Table } from "../components/Table";
import { sentence, typeset } from "../lib/messages";
import { urlStore, toQuery } from "../lib/url-state";
import { useQuery } from "../lib/use-query";
import { post } from "../lib/api";
import { maxTpr } from "../lib/tradeoff";
import { type FieldSpec, type Form, useForm, type Values } from "../lib/form";
import { showInteger, showPercent } from "../lib/numbers";
import { bound, near, OF, sampleProfile } from "../lib/quantities";
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
    fpr: { label: "Wrongly accused", hint: "share of people outside the data" },
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
  const [kept, shown] = [answered.answer, answered.of];
  return (
    <Calculator
      label="Two releases"
      form={form}
      main={answered}
      inputs={
        <>
          {SIDES.map((name) => (
            <Release key={name} form={form} name={name} />
          ))}
          <FieldFold title="Where they are compared" form={form} names={["delta", "fpr", "relation"]} />
        </>
      }
      outcome={waits && rough && ask ? <BrowserBounds curves={rough} of={ask} /> : kept && shown && <Ruling answer={kept} of={shown} />}
      spoken={kept && !waits ? kept.messages.map(sentence).join(" ") : undefined}
    >
      {waits && rough ? <Charts curves={rough} by="by this browser" /> : kept ? <Reasons answer={kept} /> : null}
      <Fold title="Which is weaker, point by point">{kept && !waits && (() => <Points answer={kept} />)}</Fold>
      <div class="buttons">
        <Copy label="Copy link" text={() => `${location.origin}/compare?${toQuery(form.raw)}`} />
      </div>
    </Calculator>
  );
}

const DELTAS = [0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10]; // as on the server
const FPRS = [1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3];
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
    const profile = sampleProfile(release);
    return fprs.map((fpr) => [fpr, maxTpr(profile, fpr)]);
  };
  return { epsilons: { first: epsilons(first), second: epsilons(second) }, rates: { first: rates(first), second: rates(second) } };
}

const upper = (rows: readonly PointComparisonModel[], name: Side): Line => rows.map((row) => [row.at, Number(row[name].upper)] as const);
const better = (row: PointComparisonModel): string => (row.better === "open" ? "undecided" : `the ${row.better}`);
const at = (line: Line, where: number): number => line.find(([x]) => x === where)![1];

/** Both releases at the compared points. */
function Sides({ of, figures }: { of: CompareRequest; figures: (name: Side) => { epsilon: number; rate?: number; better?: readonly [boolean, boolean] } }) {
  return (
    <div class="duo">
      {SIDES.map((name) => {
        const { epsilon, rate, better } = figures(name);
        return (
          <section key={name} class={`side ${name}`} aria-label={`The ${name}`}>
            <h2>The {name}</h2>
            <dl class="stats">
              <Stat label={`ε at δ = ${near(of.delta)}`} note={better?.[0] ? "smaller" : undefined}>
                ≤ {bound(epsilon)}
              </Stat>
              {rate !== undefined && (
                <Stat label={"picked out, of 1,000"} note={better?.[1] ? "fewer" : undefined}>
                  ≤ {showInteger(Math.ceil(OF * rate))}
                </Stat>
              )}
            </dl>
          </section>
        );
      })}
    </div>
  );
}

/** The browser's upper bounds. They do not show which curve is higher: that needs the server's lower bounds. */
const BrowserBounds = ({ curves, of }: { curves: Curves; of: CompareRequest }) => (
  <>
    <p class="empty lead-in">Upper bounds, by this browser. The server is computing which release is weaker.</p>
    <Sides of={of} figures={(name) => ({ epsilon: at(curves.epsilons[name], of.delta), rate: at(curves.rates[name], of.fpr!) })} />
  </>
);

function Charts({ curves: { epsilons, rates }, by }: { curves: Curves; by: string }) {
  const both = (lines: Record<Side, Line>) => [
    { name: "first", look: "claim" as const, points: lines.first },
    { name: "second", look: "second" as const, points: lines.second },
  ];
  return (
    <div class="charts">
      {rates.first.length > 0 ? (
        <Plot
          title={`Share that the best attack picks out, ${by}; lower is better`}
          x={{ title: "share wrongly accused", log: true }}
          y={{ title: "share picked out", log: true }}
          series={[...both(rates), { name: "random guess", look: "reference", points: rates.first.map(([rate]) => [rate, rate] as const) }]}
        />
      ) : (
        <p class="empty">No proven bound on attacks covers these releases.</p>
      )}
      <Plot title={`ε by δ, ${by}; lower is better`} x={{ title: "δ", log: true }} y={{ title: "ε" }} series={both(epsilons)} />
    </div>
  );
}

function Reasons({ answer }: { answer: ComparisonResponse }) {
  const both = (rows: readonly PointComparisonModel[]): Record<Side, Line> => ({ first: upper(rows, "first"), second: upper(rows, "second") });
  return (
    <>
      {answer.messages.slice(1).map((line) => (
        <p key={sentence(line)}>{typeset(line)}</p>
      ))}
      <Charts curves={{ epsilons: both(answer.deltas.toReversed()), rates: both(answer.fprs) }} by="proven at the dots" />
    </>
  );
}

/** Which release protects better, and where. */
function Ruling({ answer, of }: { answer: ComparisonResponse; of: CompareRequest }) {
  const atDelta = answer.deltas.find((row) => row.at === of.delta)!;
  const attack = answer.fprs.find((row) => row.at === of.fpr);
  return (
    <>
      <h2 class="lead-in">{typeset(answer.messages[0] ?? "")}</h2>
      <Sides of={of} figures={(name) => ({ epsilon: Number(atDelta[name].upper), rate: attack && Number(attack[name].upper), better: [atDelta.better === name, attack?.better === name] })} />
    </>
  );
}

function Points({ answer }: { answer: ComparisonResponse }) {
  const assumptions = [...new Set(answer.deltas.flatMap((row) => [...row.first.assumptions, ...row.second.assumptions]).map(sentence))];
  const fits = { first: answer.first_fit, second: answer.second_fit };
  return (
    <>
      <p>
        At most, the first is easier to attack by {points(answer.first_excess)}, and the second by {points(answer.second_excess)}, in the shares picked out and wrongly accused.
      </p>
      <Table
        caption="“Better” is proven: one upper bound is below the other lower bound"
        columns={[{ title: "point" }, { title: "first", number: true }, { title: "second", number: true }, { title: "better" }]}
        rows={[
          ...answer.deltas.map((row) => [`ε at δ = ${near(row.at)}`, ...SIDES.map((name) => `≤ ${bound(Number(row[name].upper))}`), better(row)]),
          ...answer.fprs.map((row) => [`picked out, if ${showPercent(row.at)} are wrongly accused`, ...SIDES.map((name) => `≤ ${showPercent(Number(row[name].upper), 3, "up")}`), better(row)]),
          ["μ of Gaussian DP (estimate)", ...SIDES.map((name) => (fits[name] ? `${bound(Number(fits[name].mu))}, ${offBy(fits[name])}` : "no Gaussian fits")), ""],
        ]}
      />
      <Assumptions lines={assumptions} />
    </>
  );
}

const points = (share: number): string => `${bound(100 * share)} percentage points`;

function offBy(fit: GaussianDPFitModel): string {
  const error = Math.max(fit.slack, fit.regret);
  return error === 0 ? "exact" : `off by at most ${points(error)}`;
}
