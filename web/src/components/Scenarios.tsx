import { useMemo } from "preact/hooks";
import { useQuery } from "../lib/use-query";
import { type FieldSpec, type Form, readField, type Raw, type Values } from "../lib/form";
import { Table } from "./Table";
import { ErrorNotice } from "./ErrorNotice";

const NONE = "-"; // all scenarios removed; a blank shows the examples
const MOST = 4;

export interface ScenariosProps<Q, A> {
  form: Form;
  examples: readonly Raw[];
  read: (values: Values) => Q;
  ask: (ask: Q, signal: AbortSignal) => Promise<A>;
  name: (ask: Q) => string;
  rows: readonly (readonly [title: string, show: (answer: A) => string])[];
}

/**
 * Compare scenarios side by side: their differing inputs, and their results. Each is a query string; they are joined by
 * "|", so that a link carries them. Two examples are shown until a scenario is pinned.
 */
export function Scenarios<Q, A>(props: ScenariosProps<Q, A>) {
  const { form, examples, read } = props;
  const raw = form.raw.pins ?? "";
  const given = raw === "";
  const pins = useMemo(() => (given ? [...examples] : raw.split("|").filter((pin) => pin !== NONE && pin !== "").map((pin) => Object.fromEntries(new URLSearchParams(pin)))), [raw]);
  const asks = useMemo(() => pins.map((pin) => parseScenario(form.specs, pin, read)), [pins]);
  const good = useMemo(() => pins.flatMap((pin, i) => (asks[i] ? [{ pin, ask: asks[i] }] : [])), [asks]);
  const answers = useQuery(good.length > 0 ? good.map((each) => each.ask) : null, (all, signal) => Promise.all(all.map((ask) => props.ask(ask, signal))), { delay: 500 });
  const write = (all: readonly Raw[]): void => {
    form.set("pins", all.length === 0 ? NONE : all.map((pin) => new URLSearchParams(listTyped(pin)).toString()).join("|"));
    form.commit();
  };
  const load = (pin: Raw): void => {
    for (const spec of form.specs) if (spec.name !== "pins") form.set(spec.name, pin[spec.name] ?? "");
    form.commit();
  };
  const letters = good.map((_, i) => String.fromCharCode(65 + i));
  const differ = form.specs.filter((spec) => spec.name !== "pins" && new Set(good.map(({ pin }) => pin[spec.name] ?? "")).size > 1);
  return (
    <>
      {given && <p class="method">Two examples; pin your own to compare.</p>}
      {answers.problem && <ErrorNotice problem={answers.problem} retry={answers.retry} />}
      {good.length > 0 && (
        <div class="scenarios">
          <Table
            caption="Differing inputs and results"
            columns={[{ title: "quantity" }, ...good.map(({ ask }, i) => ({ title: `${letters[i]}: ${props.name(ask)}`, number: true }))]}
            rows={[
              ...differ.map((spec) => [spec.label, ...good.map(({ pin }) => formatValue(spec, pin[spec.name] ?? ""))]),
              ...props.rows.map(([title, show]) => [<b>{title}</b>, ...good.map((_, i) => (answers.answer?.[i] ? <b>{show(answers.answer[i])}</b> : "…"))]),
            ]}
          />
        </div>
      )}
      <div class="buttons">
        <button type="button" onClick={() => write([...pins, form.raw])} disabled={pins.length >= MOST || form.values === null}>
          Pin this scenario
        </button>
        {good.map(({ pin }, i) => (
          <button key={letters[i]} type="button" class="quiet" onClick={() => load(pin)}>
            Open {letters[i]}
          </button>
        ))}
        {pins.length > 0 && (
          <button type="button" class="quiet" onClick={() => write(pins.slice(0, -1))}>
            Remove the last
          </button>
        )}
      </div>
    </>
  );
}

function parseScenario<Q>(specs: readonly FieldSpec[], pin: Raw, read: (values: Values) => Q): Q | null {
  const values: Values = {};
  for (const spec of specs) {
    const { value } = readField(spec, pin[spec.name] ?? "");
    if (value === undefined) return null;
    values[spec.name] = value;
  }
  return read(values);
}

const listTyped = (pin: Raw): [string, string][] => Object.entries(pin).filter(([name, text]) => name !== "pins" && text !== "");

const formatValue = (spec: FieldSpec, text: string): string => (spec.kind === "choice" ? (spec.choices!.find(([value]) => value === text)?.[1] ?? text) : text || "blank");
