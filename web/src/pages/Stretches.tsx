import { useMemo } from "preact/hooks";
import { Area } from "../components/Area";
import { Assumes } from "../components/Assumes";
import { Field } from "../components/Field";
import { Notice } from "../components/Notice";
import { Plot } from "../components/Plot";
import { Spoken } from "../components/Spoken";
import { Stat } from "../components/Stat";
import { Table } from "../components/Table";
import { Trouble } from "../components/Trouble";
import { typeset } from "../components/Typeset";
import { useAnswer } from "../lib/answer";
import { post } from "../lib/api";
import { download, toCsv } from "../lib/download";
import type { FieldSpec, Store } from "../lib/form";
import { useForm } from "../lib/form";
import { show, showPercent, showWhole } from "../lib/numbers";
import type { StretchCurveAnswer, StretchesAnswer, StretchesAsk } from "../lib/openapi";
import { numberOrNull, text } from "../lib/read";
import type { FederatedAsk } from "../lib/types";

const EXAMPLE = "N\tm\tT\tσ\n50000\t250\t50\t1.5\n60000\t900\t100\t1.2\n55000\t1200\t50\t0.9";
const SPECS: readonly FieldSpec[] = [
  { name: "stretches", label: "Stretches", kind: "text", initial: EXAMPLE, most: 64 * 1024 },
  { name: "enrolled", label: "Different units in all", kind: "whole", initial: "", optional: true, least: 1, hint: "over all stretches; blank: the largest N, where units only joined or only left", explained: "learn/who-takes-part.html" },
];

/** A schedule that changes between rounds, as rows of a spreadsheet; delta, relation and unit are those of the page. */
export function Stretches({ store, claim }: { store: Store; claim: FederatedAsk | null }) {
  const form = useForm(SPECS, store);
  const values = form.values;
  const ask = useMemo((): StretchesAsk | null => {
    if (values === null || claim === null) return null;
    const { delta, delta_cap, relation, privacy_unit } = claim;
    return { table: text(values, "stretches"), stretches: null, enrolled: numberOrNull(values, "enrolled"), delta, delta_cap, relation, privacy_unit };
  }, [values, claim]);
  const found = useAnswer(ask, (body, signal) => post<StretchesAnswer>("federated/stretches", body, signal), { delay: 400, onProblem: (problem) => form.refuse(problem.errors) });
  const settled = found.answer !== null && !found.busy ? ask : null; // the curve asks for more, and only once the price is there
  const over = useAnswer(settled, (body, signal) => post<StretchCurveAnswer>("federated/stretches/curve", body, signal));
  const refused = found.problem?.status === 422 ? found.problem.message : null;
  return (
    <div class={found.busy ? "results busy" : "results"} aria-busy={found.busy}>
      <Area
        label="A line a stretch: N, m, T, σ"
        hint="Paste from a spreadsheet, or write commas. A first line may name the columns, in any order: N, m, T, σ, and clip norm C, noise s in the sum’s own unit, sampling. δ, relation and unit are those above."
        rows={6}
        most={64 * 1024}
        value={form.raw.stretches ?? ""}
        error={form.errors.stretches ?? (form.errors.enrolled ? null : refused)}
        set={(table) => form.set("stretches", table)}
        commit={form.commit}
      />
      <Field form={form} name="enrolled" />
      {found.problem && refused === null && <Trouble problem={found.problem} retry={found.retry} />}
      {found.answer && <Price answer={found.answer} curve={over.answer} />}
    </div>
  );
}

function Price({ answer, curve }: { answer: StretchesAnswer; curve: StretchCurveAnswer | null }) {
  const { average, epsilon, formula } = answer;
  const under = average !== null || (formula !== null && formula.total < epsilon.upper);
  return (
    <>
      <div class="headline">
        <p class="claim">
          <span>ε ≤ </span>
          <b>{show(epsilon.upper, 4, "up")}</b>
        </p>
        <p class="beside">
          {showWhole(answer.rounds)} rounds in {showWhole(answer.stretches.length)} stretches, composed, at δ = {show(answer.delta.value)}, per {answer.privacy_unit}, {answer.relation.replaceAll("-", " ")}
          {epsilon.lower !== null && epsilon.lower > 0 && <>; at least {show(epsilon.lower, 4, "down")}</>}
        </p>
      </div>
      <Notice grade={under ? "weak" : "info"}>{typeset(answer.verdict)}</Notice>
      {average && (
        <dl class="stats">
          <Stat label="Closed form at the averages" note={`estimate: mean q ${show(average.sampling_probability)}, mean σ ${show(average.noise_multiplier)}`}>
            <span class="guess">{show(average.formula)}</span>
          </Stat>
          <Stat label="A constant run at the averages" note="estimate: another run’s price">
            <span class="guess">{show(average.epsilon)}</span>
          </Stat>
          <Stat label="If participation is known" note="no amplification by sampling">
            ε ≤ {show(answer.unamplified.upper, 4, "up")}
          </Stat>
        </dl>
      )}
      <Table
        caption="What each stretch takes of the cost; shares are an estimate and add up to 1"
        columns={["stretch", "N", "m", "T", "σ", "q", "share"].map((title) => ({ title, number: true }))}
        rows={answer.stretches.map((one, i) => [
          i + 1,
          showWhole(one.population),
          showWhole(one.cohort_size),
          showWhole(one.rounds),
          show(one.noise_multiplier, 4, "down"),
          show(one.sampling_probability),
          one.share === null ? "–" : <Share of={one.share} />,
        ])}
      />
      {curve ? <Over answer={answer} curve={curve} /> : <p class="empty">Drawing…</p>}
      <Notice grade={answer.delta_grade}>
        {typeset(answer.delta_sentence)} <small>({typeset(answer.delta.rationale)})</small>
      </Notice>
      <p class="method">{answer.neighbors}</p>
      <p class="method">{epsilon.method}</p>
      <Assumes lines={epsilon.assumptions} />
      <div class="buttons">
        <button type="button" onClick={() => download("release.json", "application/json", JSON.stringify(answer.release, null, 2))}>
          Release for the ledger
        </button>
        <button type="button" disabled={curve === null} onClick={() => curve && download("epsilog-stretches.csv", "text/csv", rounds(curve))}>
          CSV of the rounds
        </button>
      </div>
      <Spoken text={`Epsilon is at most ${show(epsilon.upper, 4, "up")} over all stretches. ${answer.verdict}`} />
    </>
  );
}

function Share({ of }: { of: number }) {
  return (
    <span class="part-of">
      <span aria-hidden="true" style={{ width: `${100 * of}%` }} />
      {showPercent(of, 3)}
    </span>
  );
}

function Over({ answer, curve }: { answer: StretchesAnswer; curve: StretchCurveAnswer }) {
  const upper = curve.points.map((p) => [p.rounds, p.upper] as const);
  const lower = curve.points.flatMap((p) => (p.lower === null ? [] : [[p.rounds, p.lower] as const]));
  const known = lower.some(([, y]) => y > 0);
  const stairs = answer.stretches.some((one) => one.sampling === "balls-in-bins");
  return (
    <Plot
      title={`Epsilon so far over ${answer.stretches.length} stretches, worked out at the dots`}
      x={{ title: "rounds", whole: true }}
      y={{ title: "ε" }}
      series={[
        { name: "certified upper bound", label: "at most", look: "claim", points: upper, stairs },
        ...(known ? [{ name: "certified lower bound", label: "at least", look: "lower" as const, points: lower, stairs }] : []),
      ]}
      band={known && !stairs ? [0, 1] : null}
    />
  );
}

const rounds = (curve: StretchCurveAnswer): string =>
  toCsv([["stretch", "rounds", "epsilon_lower", "epsilon_upper"], ...curve.points.map((p) => [p.stretch, p.rounds, p.lower, p.upper])]);
