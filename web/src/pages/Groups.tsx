import { useMemo } from "preact/hooks";
import { Area } from "../components/Area";
import { Field } from "../components/Field";
import { Notice } from "../components/Notice";
import { Stat } from "../components/Stat";
import { Table } from "../components/Table";
import { Trouble } from "../components/Trouble";
import { useAnswer } from "../lib/answer";
import { post } from "../lib/api";
import type { FieldSpec, Store } from "../lib/form";
import { useForm } from "../lib/form";
import { roundTo, show, showPercent } from "../lib/numbers";
import type { GroupsAnswer, GroupsAsk } from "../lib/openapi";
import { numberOrNull, text } from "../lib/read";

const SPECS: readonly FieldSpec[] = [
  { name: "groups", label: "Groups", kind: "text", initial: "embedding\t0.6\nattention\t0.8\nhead\t0.3", most: 64 * 1024 },
  { name: "noise_stddev", label: "One noise for all", symbol: "s", kind: "real", initial: "1.5", optional: true, least: 0, hint: "standard deviation, in the sum’s own unit; blank: each line has its own", explained: "learn/clipping.html#layers-clipped-one-by-one" },
];

/** Clip norms of several groups of parameters, and the one noise multiplier that they come to. */
export function Groups({ store, use }: { store: Store; use: (noise: string) => void }) {
  const form = useForm(SPECS, store);
  const values = form.values;
  const ask = useMemo((): GroupsAsk | null => (values === null ? null : { table: text(values, "groups"), groups: null, noise_stddev: numberOrNull(values, "noise_stddev") }), [values]);
  const found = useAnswer(ask, (body, signal) => post<GroupsAnswer>("federated/groups", body, signal), { delay: 300, onProblem: (problem) => form.refuse(problem.errors) });
  const refused = found.problem?.status === 422 ? found.problem.message : null;
  const answer = found.answer;
  return (
    <div class={found.busy ? "results busy" : "results"} aria-busy={found.busy}>
      <Area
        label="A line a group: name, clip norm C"
        hint="and, where each has its own, the standard deviation of its noise. Paste from a spreadsheet, or write commas; a first line may name the columns."
        rows={5}
        most={64 * 1024}
        value={form.raw.groups ?? ""}
        error={form.errors.groups ?? (form.errors.noise_stddev ? null : refused)}
        set={(table) => form.set("groups", table)}
        commit={form.commit}
      />
      <Field form={form} name="noise_stddev" />
      {found.problem && refused === null && <Trouble problem={found.problem} retry={found.retry} />}
      {answer && (
        <>
          <dl class="stats">
            <Stat label="Noise multiplier σ of all together" note="1/√Σ(C/s)², rounded down">
              {show(answer.noise_multiplier, 4, "down")}
            </Stat>
            <Stat label="Joint sensitivity" note="√ΣC², the most one unit moves the sum">
              {show(answer.sensitivity, 4, "up")}
            </Stat>
            <Stat label="Of the worst group alone" note="no bound for them all">
              <span class="guess">{show(answer.mistaken, 4, "down")}</span>
            </Stat>
          </dl>
          <Table
            caption="What each group takes of the cost: its share of μ²"
            columns={[{ title: "group" }, { title: "C", number: true }, { title: "noise", number: true }, { title: "share", number: true }]}
            rows={answer.groups.map((one) => [one.name, show(one.clip_norm), show(one.noise_stddev), one.share === null ? "–" : showPercent(one.share, 3)])}
          />
          <Notice grade={answer.noise_multiplier > 0 ? "info" : "void"}>{answer.says}</Notice>
          <div class="buttons">
            <button type="button" onClick={() => use(String(roundTo(answer.noise_multiplier, 6, "down")))}>
              Use it as σ above
            </button>
          </div>
        </>
      )}
    </div>
  );
}
