import { useMemo } from "preact/hooks";
import { Assumptions } from "../components/Assumptions";
import { Card } from "../components/Card";
import { Copy } from "../components/Copy";
import { Field } from "../components/Field";
import { GetCertificate } from "../components/GetCertificate";
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
import { type CompositionRequest, type CompositionPlan, PARAMETERS, type Part, type ProfileResponse } from "../lib/openapi";
import { makeFields } from "../lib/parameter-spec";
import { fieldOf, PART_FIELDS } from "../lib/part";
import { numberOrNull } from "../lib/parse-values";

const COLUMNS = PART_FIELDS.slice(1); // behind the mechanism
const SPECS: readonly FieldSpec[] = [
  // lines of mechanism:parameter:second:sampling probability:count, joined by "|"
  { name: "mix", label: "Composition", kind: "text", initial: "gaussian:1::0.01:1000|laplace:10:::5", max: 1e6 },
  ...makeFields(PARAMETERS.CompositionInterpretationRequest, {
    delta: { label: "Failure probability", hint: "", exclusiveMin: 0, helpPage: "learn/epsilon-and-delta.html" },
    relation: { label: "Relation", hint: "", helpPage: "glossary.html#term-neighboring-relation" },
    fpr: { label: "False-positive rate", hint: "allowed to the attacker", helpPage: "glossary.html#term-tpr-at-fpr" },
    cap: { label: "Policy’s cap on ε", hint: "for one person, at the same δ", helpPage: "glossary.html#term-cap" },
  }),
];

const encodeLine = (cells: readonly string[]): string => cells.map((cell) => cell.replace(/[%:|]/g, encodeURIComponent)).join(":");

function decodeCell(cell: string): string {
  try {
    return decodeURIComponent(cell);
  } catch {
    return cell;
  }
}

function parseLine(line: string): { cells: string[]; part: Part | null; errors: string[] } {
  const cells = line.split(":").map(decodeCell);
  while (cells.length < 5) cells.push("");
  const errors = COLUMNS.map((spec, i) => {
    const parsed = parseField(spec, cells[i + 1]!);
    return "error" in parsed && fieldOf(spec, spec.name, cells[0]!) ? parsed.error : "";
  });
  const mechanism = PARAMETERS.Part.mechanism.choices.map(([name]) => name).find((name) => name === cells[0]);
  if (errors.some(Boolean) || !mechanism) return { cells, part: null, errors };
  const value = (i: number): number | null => (fieldOf(COLUMNS[i]!, COLUMNS[i]!.name, mechanism) ? (parseField(COLUMNS[i]!, cells[i + 1]!) as { value: number | null }).value : null);
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
    return { parts, delta: read("delta") as number, relation: form.raw.relation as CompositionRequest["relation"], fpr: read("fpr") };
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
                  {PARAMETERS.Part.mechanism.choices.map(([name, label]) => (
                    <option key={name} value={name} selected={name === line.cells[0]}>
                      {label}
                    </option>
                  ))}
                </select>
                <FieldHelpLink page={PART_FIELDS[0]!.helpPage!} label="Mechanism" />
              </div>
              {COLUMNS.map((column, j) => {
                const spec = fieldOf(column, column.name, line.cells[0]!);
                if (!spec) return null;
                const error = marked(line, i, j);
                const { label, helpPage } = spec;
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
                  {(answer.epsilon.lower ?? 0) > 0 && <>proven: between {show(answer.epsilon.lower, 4, "down")} and {show(answer.epsilon.upper, 4, "up")}; </>}
                  {sentence(answer.epsilon.method)}
                </p>
              </div>
              <IntervalBar lower={answer.epsilon.lower} upper={answer.epsilon.upper} />
              <Assumptions lines={answer.epsilon.assumptions} />
              <Table
                caption="Contribution of each release; contributions do not add up to the total"
                columns={[{ title: "release" }, { title: "alone, ε ≤", number: true }, { title: "others only, ε ≤", number: true }, { title: "difference", number: true }]}
                rows={answer.parts.map((part, i) => [
                  `${i + 1}: ${PARAMETERS.Part.mechanism.choices.find(([name]) => name === account.of?.parts[i]?.mechanism)?.[1] ?? ""}`,
                  show(part.alone.upper, 4, "up"),
                  show(part.without.upper, 4, "up"),
                  show(Math.max(0, answer.epsilon.upper - part.without.upper), 3),
                ])}
              />
              <GetCertificate release={account.busy ? undefined : answer.release} delta={account.of?.delta ?? null} relation={account.of?.relation} />
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
          title="δ by ε, proven at the dots"
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
