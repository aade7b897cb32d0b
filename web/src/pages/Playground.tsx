import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Assumptions } from "../components/Assumptions";
import { Calculator } from "../components/Calculator";
import { CardLink } from "../components/CardLink";
import { Copy } from "../components/Copy";
import { Fields, FieldView } from "../components/Field";
import { FieldFold, Fold } from "../components/Fold";
import { IntervalBar } from "../components/IntervalBar";
import { GetCertificate, Plot } from "../components/on-demand";
import { Outcome } from "../components/Outcome";
import { Stat } from "../components/Stat";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { sentence } from "../lib/messages";
import { urlStore, toQuery } from "../lib/url-state";
import { useQuery } from "../lib/use-query";
import { useFound } from "../lib/use-risk";
import { post } from "../lib/api";
import { bound, boundAttack, countOf, exact, near } from "../lib/quantities";
import { capital, type FieldSpec, readField, useForm, type Value, type Values } from "../lib/form";
import { bad, type Reading, showInteger, showPercent } from "../lib/numbers";
import { type CompositionRequest, type CompositionPlan, PARAMETERS, type Part, type ProfileResponse } from "../lib/openapi";
import { makeFields } from "../lib/parameter-spec";
import { fieldOf, PART_FIELDS } from "../lib/part";

const COLUMNS = PART_FIELDS.slice(1); // behind the mechanism
const SPECS: readonly FieldSpec[] = [
  // lines of mechanism:parameter:second:sampling probability:count, joined by "|"
  { name: "mix", label: "Composition", kind: "text", initial: "gaussian:1::0.01:1000|laplace:10:::5", max: 1e6 },
  ...makeFields(PARAMETERS.CompositionInterpretationRequest, {
    delta: { label: "Failure probability", hint: "", exclusiveMin: 0, helpPage: "learn/epsilon-and-delta.html" },
    relation: { label: "Relation", hint: "", helpPage: "glossary.html#term-neighboring-relation" },
    fpr: { label: "Wrongly accused", hint: "share of people outside the data", helpPage: "glossary.html#term-tpr-at-fpr" },
    cap: null,
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

interface Line {
  cells: string[];
  readings: (Reading<Value> | null)[]; // null: the mechanism has no such parameter
  part: Part | null;
}

function readLine(line: string): Line {
  const cells = line.split(":").map(decodeCell);
  while (cells.length < 5) cells.push("");
  const readings = COLUMNS.map((spec, i) => (fieldOf(spec, spec.name, cells[0]!) ? readField(spec, cells[i + 1]!) : null));
  const mechanism = PARAMETERS.Part.mechanism.choices.map(([name]) => name).find((name) => name === cells[0]);
  if (readings.some((reading) => reading && reading.value === undefined) || !mechanism) return { cells, readings, part: null };
  const value = (i: number): number | null => (readings[i]?.value as number | null | undefined) ?? null;
  return { cells, readings, part: { mechanism, parameter: value(0)!, second: value(1), sampling_probability: value(2) ?? 1, count: value(3)! } };
}

export function Playground() {
  const store = useMemo(urlStore, []);
  const form = useForm(SPECS, store);
  const lines = (form.raw.mix ?? "").split("|").map(readLine);
  const unread = lines.findIndex((line) => line.part === null);
  const waiting = unread < 0 ? form.waiting : `Waiting for release ${unread + 1}.`;
  const ask = useMemo(() => {
    if (waiting || form.values === null) return null;
    const { delta, relation, fpr } = form.values as Values & Pick<CompositionRequest, "delta" | "relation" | "fpr">;
    return { parts: lines.map((line) => line.part!), delta, relation, fpr };
  }, [form.values, waiting]);
  const account = useQuery(ask, (body, signal) => post<CompositionPlan>("account", body, signal), { delay: 80, onProblem: (problem) => form.refuse(problem.errors) });
  const settled = account.busy ? null : ask;
  const claim = account.answer && account.of && { epsilon: account.answer.epsilon.upper, delta: account.of.delta };
  const { found } = useFound(settled ? account.answer?.release : undefined, account.of?.delta ?? 0, account.of?.relation);
  const picked = found ?? (claim ? countOf(boundAttack(claim, null)) : 1000);
  const curves = useQuery(account.answer && !account.busy ? ask : null, (body, signal) => post<ProfileResponse>("account/profile", body, signal), { delay: 150 });

  const write = (cells: string[][], committed: boolean): void => {
    form.set("mix", cells.map(encodeLine).join("|"));
    if (committed) form.commit();
  };
  const cells = lines.map((line) => line.cells);
  const refused = new Map(account.problem?.errors.map(({ field, message }) => [field ?? "", message]));
  const readingOf = (line: Line, i: number, j: number): Reading<Value> | null => {
    const message = refused.get(`parts[${i}].${COLUMNS[j]!.name}`);
    return line.readings[j] && message ? bad(`${capital(message)}.`) : line.readings[j]!;
  };
  const edit = (row: number, column: number, text: string): void =>
    write(cells.map((each, i) => (i === row ? each.map((cell, j) => (j === column ? text : cell)) : each)), false);

  const answer = account.answer;
  const inputs = (
    <>
      {lines.map((line, i) => (
        <ReleaseFold key={i} first={i === 0} wrong={line.part === null || line.readings.some((_, j) => readingOf(line, i, j)?.value === undefined && line.readings[j] !== null)} title={`Release ${i + 1}`} summary={describePart(line)}>
          <FieldView spec={PART_FIELDS[0]!} raw={line.cells[0]!} reading={readField(PART_FIELDS[0]!, line.cells[0]!)} set={(text) => edit(i, 0, text)} commit={form.commit} />
          {COLUMNS.map((column, j) => {
            const [spec, reading] = [fieldOf(column, column.name, line.cells[0]!), readingOf(line, i, j)];
            return spec && reading && <FieldView key={spec.name} spec={spec} raw={line.cells[j + 1]!} reading={reading} set={(text) => edit(i, j + 1, text)} commit={form.commit} />;
          })}
          {lines.length > 1 && (
            <button type="button" class="quiet" aria-label={`Remove release ${i + 1}`} onClick={() => write(cells.filter((_, k) => k !== i), true)}>
              Remove
            </button>
          )}
        </ReleaseFold>
      ))}
      <div class="buttons">
        <button type="button" disabled={lines.length >= 12} onClick={() => write([...cells, ["gaussian", "2", "", "", "1"]], true)}>
          Add a release
        </button>
      </div>
      <div class="pair">
        <Fields form={form} names={["delta"]} />
      </div>
      <FieldFold title="Neighboring relation, attacker" form={form} names={["relation", "fpr"]} />
    </>
  );
  const outcome = answer && (
    <Outcome sign="ε ≤" value={bound(answer.epsilon.upper)} refining={false} beside={`at δ = ${near(account.of?.delta)}, for all releases together`} found={picked} units="people" />
  );
  return (
    <Calculator label="Composition of releases" form={form} main={account} waiting={waiting} inputs={inputs} outcome={outcome} spoken={answer ? `Epsilon is at most ${bound(answer.epsilon.upper)}` : undefined}>
      {answer && (
        <Table
          caption="Contribution of each release; contributions do not add up to the total"
          columns={[{ title: "release" }, { title: "alone, ε ≤", number: true }, { title: "others only, ε ≤", number: true }]}
          rows={answer.parts.map((part, i) => [
            `${i + 1}: ${nameMechanism(account.of?.parts[i]?.mechanism ?? "")}`,
            bound(part.alone.upper),
            bound(part.without.upper),
          ])}
        />
      )}
      {answer && (
        <p class="method">
          <CardLink release={settled ? answer.release : undefined} delta={account.of?.delta ?? null} relation={account.of?.relation} /> <Copy label="Copy link" text={() => `${location.origin}/playground?${toQuery(form.raw)}`} />
        </p>
      )}
      {curves.problem && <ErrorNotice problem={curves.problem} retry={curves.retry} />}
      <Fold title="Interval, every digit">{answer && (() => <Interior answer={answer} of={account.busy ? null : account.of} />)}</Fold>
      <Fold title="The best attack">{curves.answer && (() => <BestAttack found={curves.answer!} />)}</Fold>
      <Fold title="Privacy profile">{curves.answer && (() => <Profile found={curves.answer!} />)}</Fold>
    </Calculator>
  );
}

/** One release of the composition; the first is open, and each that is wrong. Its summary shows while it is closed. */
function ReleaseFold({ title, summary, first, wrong, children }: { title: string; summary: string; first: boolean; wrong: boolean; children: ComponentChildren }) {
  const [open, setOpen] = useState(first);
  return (
    <details class="fold fields" open={open || wrong} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <h2>{open || wrong ? title : `${title}: ${summary}`}</h2>
      </summary>
      <fieldset class="line">{children}</fieldset>
    </details>
  );
}

const nameMechanism = (mechanism: string): string => PARAMETERS.Part.mechanism.choices.find(([name]) => name === mechanism)?.[1] ?? "release";

/** A release in a few words: "Gaussian noise, 1; probability 0.01; 1,000 times". */
function describePart({ part, cells }: Line): string {
  if (part === null) return `${nameMechanism(cells[0]!)}, incomplete`;
  const sampled = part.sampling_probability === 1 ? "" : `; probability ${near(part.sampling_probability ?? 1)}`;
  return `${nameMechanism(part.mechanism)}, ${near(part.parameter)}${sampled}${part.count === 1 ? "" : `; ${showInteger(part.count ?? 1)} times`}`;
}

function Interior({ answer, of }: { answer: CompositionPlan; of: { delta: number; relation: CompositionRequest["relation"] } | null }) {
  const { lower, upper, method, assumptions } = answer.epsilon;
  return (
    <>
      <IntervalBar lower={lower} upper={upper} />
      <p>
        {(lower ?? 0) > 0 && <>ε is at least {exact(lower)} and </>}at most {exact(upper)}; {sentence(method)}.
      </p>
      <Assumptions lines={assumptions} />
      <GetCertificate release={of ? answer.release : undefined} delta={of?.delta ?? null} relation={of?.relation} />
    </>
  );
}

function Profile({ found }: { found: ProfileResponse }) {
  const lower = found.profile.filter((p) => p.lower > 0).map((p) => [p.epsilon, p.lower] as const);
  return (
    <Plot
      title="δ by ε, proven at the dots"
      x={{ title: "ε" }}
      y={{ title: "δ", log: true }}
      series={[
        { name: "upper bound", look: "claim", points: found.profile.map((p) => [p.epsilon, p.upper] as const) },
        ...(lower.length > 1 ? [{ name: "lower bound", look: "lower" as const, points: lower }] : []),
      ]}
    />
  );
}

function BestAttack({ found }: { found: ProfileResponse }) {
  return (
    <>
      <dl class="stats">
        <Stat label={`Picked out, if ${showPercent(found.fpr)} are wrongly accused`} note="at most, of those in the data">
          {showPercent(found.tpr, 3, "up")}
        </Stat>
        <Stat label="Advantage over a random guess" note="at most: share picked out minus share wrongly accused">
          {showPercent(found.advantage, 3, "up")}
        </Stat>
      </dl>
      <Plot
        title="What the best attack finds, by what it wrongly accuses"
        x={{ title: "share wrongly accused" }}
        y={{ title: "share picked out" }}
        series={[
          { name: "at most", look: "claim", points: found.roc.map((p) => [p.fpr, p.tpr] as const) },
          { name: "random guess", look: "reference", points: [[0, 0], [1, 1]] },
        ]}
      />
    </>
  );
}
