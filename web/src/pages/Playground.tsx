import { useMemo } from "preact/hooks";
import { Assumptions } from "../components/Assumptions";
import { Card } from "../components/Card";
import { Copy } from "../components/Copy";
import { Field } from "../components/Field";
import { IntervalBar } from "../components/IntervalBar";
import { Plot } from "../components/Plot";
import { LiveRegion } from "../components/LiveRegion";
import { Stat } from "../components/Stat";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { Interpretation } from "../components/Interpretation";
import { FieldHelpLink } from "../components/FieldHelpLink";
import { sentence } from "../lib/messages";
import { urlStore, toQuery } from "../lib/url-state";
import { useQuery } from "../lib/use-query";
import { post } from "../lib/api";
import type { FieldSpec } from "../lib/form";
import { parseField, useForm } from "../lib/form";
import { show, showPercent } from "../lib/numbers";
import type { CompositionPlan, Part, ProfileResponse } from "../lib/openapi";
import { numberOrNull } from "../lib/parse-values";

const KIND = { helpPage: "glossary.html#term-mechanism" };
const NOISE = { helpPage: "glossary.html#term-noise-multiplier" };
const STATED = { helpPage: "glossary.html#term-zcdp" }; // with the other guarantees
const MECHANISMS = [
  ["gaussian", "Gaussian", "Noise multiplier\u00a0σ", NOISE],
  ["laplace", "Laplace", "Noise multiplier\u00a0b/Δ", NOISE],
  ["randomized-response", "randomized response", "Flip probability", KIND],
  ["pure", "stated ε-DP", "ε", STATED],
  ["approximate", "stated (ε, δ)-DP", "ε", STATED],
  ["zcdp", "stated ρ-zCDP", "ρ", STATED],
  ["gdp", "stated μ-GDP", "μ", STATED],
] as const;

const SPECS: readonly FieldSpec[] = [
  // lines of mechanism:parameter:second:sampling probability:count, joined by "|"
  { name: "mix", label: "Composition", kind: "text", initial: "gaussian:1::0.01:1000|laplace:10:::5", max: 1e6 },
  { name: "delta", label: "Failure probability", symbol: "δ", kind: "real", initial: "1e-6", exclusiveMin: 0, exclusiveMax: 1, helpPage: "learn/epsilon-and-delta.html" },
  {
    name: "relation",
    label: "Relation",
    kind: "choice",
    initial: "add-or-remove-one",
    choices: [["add-or-remove-one", "add or remove one"], ["replace-one", "replace one"], ["zero-out", "zero out one"]],
    helpPage: "glossary.html#term-neighboring-relation",
  },
  { name: "fpr", label: "False-positive rate", kind: "real", initial: "0.01", min: 0, max: 1, hint: "allowed to the attacker", helpPage: "glossary.html#term-tpr-at-fpr" },
  { name: "cap", label: "Policy’s cap on ε", kind: "real", initial: "", optional: true, exclusiveMin: 0, hint: "for one person, at the same δ", helpPage: "glossary.html#term-cap" },
];

const COLUMNS: readonly FieldSpec[] = [
  { name: "parameter", label: "Parameter", kind: "real", initial: "1", min: 0 },
  { name: "second", label: "Second", kind: "real", initial: "", optional: true, min: 0 },
  { name: "sampling_probability", label: "Sampling probability", kind: "real", initial: "", optional: true, min: 0, max: 1, helpPage: "glossary.html#term-amplification" },
  { name: "count", label: "Count", kind: "integer", initial: "1", min: 1, helpPage: "glossary.html#term-composition" },
];

const encodeLine = (cells: readonly string[]): string => cells.map((cell) => cell.replace(/[%:|]/g, encodeURIComponent)).join(":");

function decodeCell(cell: string): string {
  try {
    return decodeURIComponent(cell);
  } catch {
    return cell;
  }
}

/** Whether a column applies to a mechanism; other columns are hidden and not sent. */
const matters = (name: string, mechanism: string | undefined): boolean =>
  name === "second"
    ? mechanism === "approximate" || mechanism === "randomized-response"
    : name !== "sampling_probability" || mechanism === "gaussian" || mechanism === "laplace";

function parseLine(line: string): { cells: string[]; part: Part | null; errors: string[] } {
  const cells = line.split(":").map(decodeCell);
  while (cells.length < 5) cells.push("");
  const errors = COLUMNS.map((spec, i) => {
    const parsed = parseField(spec, cells[i + 1]!);
    return "error" in parsed && matters(spec.name, cells[0]) ? parsed.error : "";
  });
  const mechanism = MECHANISMS.map(([name]) => name).find((name) => name === cells[0]);
  if (errors.some(Boolean) || !mechanism) return { cells, part: null, errors };
  const value = (i: number): number | null => (matters(COLUMNS[i]!.name, mechanism) ? (parseField(COLUMNS[i]!, cells[i + 1]!) as { value: number | null }).value : null);
  const part = { mechanism, parameter: value(0)!, second: value(1), sampling_probability: value(2) ?? 1, count: value(3)! };
  return { cells, part, errors };
}

export function Playground() {
  const store = useMemo(urlStore, []);
  const form = useForm(SPECS, store);
  const lines = (form.raw.mix ?? "").split("|").map(parseLine);
  const parts = lines.map((line) => line.part);
  const others = SPECS.some(({ name, ...spec }) => name !== "mix" && "error" in parseField({ name, ...spec }, form.raw[name] ?? ""));
  const ask = useMemo(() => {
    if (others || parts.some((part) => part === null)) return null;
    const read = (name: string): unknown => (parseField(SPECS.find((s) => s.name === name)!, form.raw[name]!) as { value: unknown }).value;
    return { parts, delta: read("delta"), relation: form.raw.relation, fpr: read("fpr") };
  }, [form.raw, others]);
  const account = useQuery(ask, (body, signal) => post<CompositionPlan>("account", body, signal), { delay: 80, onProblem: (problem) => form.refuse(problem.errors) });
  const curves = useQuery(account.answer && !account.busy ? ask : null, (body, signal) => post<ProfileResponse>("account/profile", body, signal), { delay: 150 });

  const cap = form.values === null ? null : numberOrNull(form.values, "cap");
  const write = (cells: string[][], committed: boolean): void => {
    form.set("mix", cells.map(encodeLine).join("|"));
    if (committed) form.commit();
  };
  const cells = lines.map((line) => line.cells);
  const refused = new Map(account.problem?.errors.map(({ field, message }) => [field ?? "", message]));
  const marked = (line: (typeof lines)[number], i: number, j: number): string => line.errors[j] || (refused.get(`parts[${i}].${COLUMNS[j]!.name}`) ?? "");
  const edit = (row: number, column: number, text: string): void =>
    write(cells.map((each, i) => (i === row ? each.map((cell, j) => (j === column ? text : cell)) : each)), false);

  const answer = account.answer;
  return (
    <div class="stack mix sheet">
      <Card title="Composition">
        <form aria-label="Composition of releases" onSubmit={(e) => e.preventDefault()}>
          {lines.map((line, i) => (
            <fieldset key={i} class="line">
              <legend>Release {i + 1}</legend>
              <div class="field">
                <label for={`mechanism-${i}`}>Mechanism</label>
                <select id={`mechanism-${i}`} value={line.cells[0]} onInput={(e) => edit(i, 0, e.currentTarget.value)} onChange={form.commit}>
                  {MECHANISMS.map(([name, label]) => (
                    <option key={name} value={name} selected={name === line.cells[0]}>
                      {label}
                    </option>
                  ))}
                </select>
                <FieldHelpLink page={KIND.helpPage} label="Mechanism" />
              </div>
              {COLUMNS.map((spec, j) => {
                const mechanism = line.cells[0];
                if (!matters(spec.name, mechanism)) return null;
                const error = marked(line, i, j);
                const label =
                  spec.name === "parameter"
                    ? (MECHANISMS.find(([name]) => name === mechanism)?.[2] ?? spec.label)
                    : spec.name === "second"
                      ? mechanism === "approximate" ? "δ" : "Categories"
                      : spec.label;
                const helpPage = spec.name === "parameter" ? MECHANISMS.find(([name]) => name === mechanism)?.[3].helpPage : spec.helpPage;
                const id = `${spec.name}-${i}`;
                return (
                  <div key={spec.name} class={error ? "field wrong" : "field"}>
                    <label for={id}>{label}</label>
                    <input
                      id={id}
                      type="text"
                      value={line.cells[j + 1]}
                      placeholder={spec.name === "sampling_probability" ? "all" : spec.optional ? "blank" : undefined}
                      aria-invalid={error ? "true" : undefined}
                      aria-describedby={`${id}-error`}
                      autocomplete="off"
                      onInput={(e) => edit(i, j + 1, e.currentTarget.value)}
                      onChange={form.commit}
                    />
                    {helpPage && <FieldHelpLink page={helpPage} label={label} />}
                    <span id={`${id}-error`} class="error" role="alert">
                      {error && `${label} ${error}`}
                    </span>
                  </div>
                );
              })}
              {lines.length > 1 && (
                <button type="button" class="quiet" aria-label={`Remove release ${i + 1}`} onClick={() => write(cells.filter((_, k) => k !== i), true)}>
                  Remove
                </button>
              )}
            </fieldset>
          ))}
          <div class="buttons">
            <button type="button" disabled={lines.length >= 12} onClick={() => write([...cells, ["gaussian", "2", "", "", "1"]], true)}>
              Add a release
            </button>
            <Copy label="Copy link" text={() => `${location.origin}/playground?${toQuery(form.raw)}`} />
          </div>
          <div class="pair">
            <Field form={form} name="delta" />
            <Field form={form} name="relation" />
            <Field form={form} name="fpr" />
            <Field form={form} name="cap" />
          </div>
        </form>
      </Card>
      <div class={account.busy ? "results busy" : "results"} aria-busy={account.busy}>
        {ask === null && (
          <Card>
            <p class="empty">Correct the marked fields to update the results.</p>
          </Card>
        )}
        {account.problem && <ErrorNotice problem={account.problem} retry={account.retry} />}
        {answer && (
          <>
            <Card>
              <div class="headline">
                <p class="claim">
                  <span>ε ≤ </span>
                  <b>{show(answer.epsilon.upper, 4, "up")}</b>
                </p>
                <p class="beside">
                  {(answer.epsilon.lower ?? 0) > 0 && <>certified: between {show(answer.epsilon.lower, 4, "down")} and {show(answer.epsilon.upper, 4, "up")}; </>}
                  {sentence(answer.epsilon.method)}
                </p>
              </div>
              <IntervalBar lower={answer.epsilon.lower} upper={answer.epsilon.upper} />
              <Assumptions lines={answer.epsilon.assumptions} />
              <Table
                caption="Contribution of each release; contributions do not add up to the total"
                columns={[{ title: "release" }, { title: "alone, ε ≤", number: true }, { title: "others only, ε ≤", number: true }, { title: "difference", number: true }]}
                rows={answer.parts.map((part, i) => [
                  `${i + 1}: ${MECHANISMS.find(([name]) => name === account.of?.parts[i]?.mechanism)?.[1] ?? ""}`,
                  show(part.alone.upper, 4, "up"),
                  show(part.without.upper, 4, "up"),
                  show(Math.max(0, answer.epsilon.upper - part.without.upper), 3),
                ])}
              />
              <LiveRegion text={`Epsilon is at most ${show(answer.epsilon.upper, 4, "up")}`} />
            </Card>
            {curves.problem && <ErrorNotice problem={curves.problem} retry={curves.retry} />}
            <Interpretation name="account" ask={account.busy ? null : ask} cap={cap} unit="person" />
            {curves.answer ? <Curves found={curves.answer} /> : !curves.problem && <p class="empty">Computing the curves…</p>}
          </>
        )}
      </div>
    </div>
  );
}

function Curves({ found }: { found: ProfileResponse }) {
  const lower = found.profile.filter((p) => p.lower > 0).map((p) => [p.epsilon, p.lower] as const);
  return (
    <div class="two">
      <Card title="Privacy profile">
        <Plot
          title="δ by ε, certified at the dots"
          x={{ title: "ε" }}
          y={{ title: "δ", log: true }}
          series={[
            { name: "upper bound", look: "claim", points: found.profile.map((p) => [p.epsilon, p.upper] as const) },
            ...(lower.length > 1 ? [{ name: "lower bound", look: "lower" as const, points: lower }] : []),
          ]}
        />
      </Card>
      <Card title="The best attack">
        <dl class="stats">
          <Stat label={`TPR at an FPR of ${showPercent(found.fpr)}`} note="at most">
            {showPercent(found.tpr, 3, "up")}
          </Stat>
          <Stat label="Advantage over a random guess" note="at most; TPR − FPR">
            {showPercent(found.advantage, 3, "up")}
          </Stat>
        </dl>
        <Plot
          title="Upper bound on any attack's ROC curve"
          x={{ title: "false-positive rate" }}
          y={{ title: "true-positive rate" }}
          series={[
            { name: "at most", look: "claim", points: found.roc.map((p) => [p.fpr, p.tpr] as const) },
            { name: "random guess", look: "reference", points: [[0, 0], [1, 1]] },
          ]}
        />
      </Card>
    </div>
  );
}
