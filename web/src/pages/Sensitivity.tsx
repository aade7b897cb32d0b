import { useMemo } from "preact/hooks";
import { Fields } from "../components/Field";
import { ErrorNotice } from "../components/ErrorNotice";
import { useQuery } from "../lib/use-query";
import { post } from "../lib/api";
import type { FieldSpec, Values } from "../lib/form";
import { useForm } from "../lib/form";
import { urlStore } from "../lib/url-state";
import { typeset } from "../lib/messages";
import { PARAMETERS } from "../lib/openapi";
import { makeFields } from "../lib/parameter-spec";
import { show } from "../lib/numbers";
import type { QuerySensitivity } from "../lib/openapi";

const SPECS: readonly FieldSpec[] = makeFields(PARAMETERS.SensitivityRequest, {
  query: { label: "Kind of answer", initial: "count", choices: [["count", "count"], ["sum", "bounded sum"], ["mean", "mean over a declared row count"]], helpPage: "glossary.html#term-sensitivity" },
  contributions: { label: "Maximum rows per unit", hint: "", helpPage: "glossary.html#term-privacy-unit" },
  low: { label: "Lower clipping bound", hint: "", disabled: (raw) => raw.query === "count" },
  high: { label: "Upper clipping bound", hint: "", initial: "100", disabled: (raw) => raw.query === "count" },
  size: { label: "Declared number of rows", hint: "", disabled: (raw) => raw.query !== "mean" },
  relation: { hint: "", choices: [["add-or-remove-one", "add or remove one"], ["replace-one", "replace one"]], helpPage: "glossary.html#term-neighboring-relation" },
});

function rule(values: Values): Record<string, string> {
  const errors: Record<string, string> = {};
  if (values.query !== "count" && (values.low as number) >= (values.high as number)) errors.high = "must be above the lower bound";
  if (values.query === "mean" && values.size === null) errors.size = "is required for a mean";
  return errors;
}

/** Compute the sensitivity of a count, bounded sum or mean, and copy it to the form. */
export function Sensitivity({ use }: { use: (value: number) => void }) {
  const store = useMemo(urlStore, []);
  const form = useForm(SPECS, store, rule);
  const ask = form.values;
  const found = useQuery(ask, (body, signal) => post<QuerySensitivity>("sensitivity", body, signal), { onProblem: (problem) => form.refuse(problem.errors) });
  return (
    <details>
      <summary>Compute the sensitivity</summary>
      <div class="pair">
        <Fields form={form} names={SPECS.map((spec) => spec.name)} />
      </div>
      <div class="sensitivity" aria-busy={found.busy}>
        {found.problem && <ErrorNotice problem={found.problem} retry={found.retry} />}
        {found.answer && (
          <p>
            <b>Δ = {show(found.answer.value, 6, "up")}</b>: {typeset(found.answer.reason)}{" "}
            <button type="button" class="quiet" onClick={() => use(found.answer!.value)}>
              Use this value
            </button>
          </p>
        )}
      </div>
    </details>
  );
}
