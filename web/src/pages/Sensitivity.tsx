import { useMemo } from "preact/hooks";
import { Field } from "../components/Field";
import { ErrorNotice } from "../components/ErrorNotice";
import { useQuery } from "../lib/use-query";
import { post } from "../lib/api";
import type { FieldSpec, Raw, Store, Values } from "../lib/form";
import { useForm } from "../lib/form";
import { typeset } from "../lib/messages";
import { PARAMETERS } from "../lib/openapi";
import { makeFields } from "../lib/parameter-spec";
import { show } from "../lib/numbers";
import type { QuerySensitivity } from "../lib/openapi";

const SPECS: readonly FieldSpec[] = makeFields(PARAMETERS.SensitivityRequest, {
  query: { label: "Kind of answer", initial: "count", choices: [["count", "count"], ["sum", "bounded sum"], ["mean", "mean over a declared row count"]], helpPage: "glossary.html#term-sensitivity" },
  contributions: { label: "Maximum rows per unit", hint: "", helpPage: "glossary.html#term-privacy-unit" },
  low: { label: "Lower clipping bound", hint: "" },
  high: { label: "Upper clipping bound", hint: "", initial: "100" },
  size: { label: "Declared number of rows", hint: "" },
  relation: { hint: "", choices: [["add-or-remove-one", "add or remove one"], ["replace-one", "replace one"]], helpPage: "glossary.html#term-neighboring-relation" },
});

const makeMemoryStore = (): Store => {
  let kept: Raw = {};
  return { read: () => kept, write: (raw) => void (kept = raw), watch: () => () => {} };
};

function rule(values: Values): Record<string, string> {
  const errors: Record<string, string> = {};
  if (values.query !== "count" && (values.low as number) >= (values.high as number)) errors.high = "must be above the lower bound";
  if (values.query === "mean" && values.size === null) errors.size = "is required for a mean";
  return errors;
}

/** Compute the sensitivity of a count, bounded sum or mean, and copy it to the form. */
export function Sensitivity({ use }: { use: (value: number) => void }) {
  const store = useMemo(makeMemoryStore, []);
  const form = useForm(SPECS, store, rule);
  const ask = form.values;
  const found = useQuery(ask, (body, signal) => post<QuerySensitivity>("sensitivity", body, signal), { onProblem: (problem) => form.refuse(problem.errors) });
  const kind = form.raw.query;
  return (
    <details>
      <summary>Compute the sensitivity</summary>
      <div class="pair">
        <Field form={form} name="query" />
        <Field form={form} name="contributions" />
        <Field form={form} name="low" when={kind !== "count"} />
        <Field form={form} name="high" when={kind !== "count"} />
        <Field form={form} name="size" when={kind === "mean"} />
        <Field form={form} name="relation" />
      </div>
      {found.problem && <ErrorNotice problem={found.problem} retry={found.retry} />}
      {found.answer && (
        <p>
          <b>Δ = {show(found.answer.value, 6, "up")}</b>: {typeset(found.answer.reason)}{" "}
          <button type="button" class="quiet" onClick={() => use(found.answer!.value)}>
            Use this value
          </button>
        </p>
      )}
    </details>
  );
}
