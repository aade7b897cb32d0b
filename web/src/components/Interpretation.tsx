import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { type QueryState, useQuery } from "../lib/use-query";
import { post } from "../lib/api";
import { sentence, typeset } from "../lib/messages";
import { showPercent, showInteger } from "../lib/numbers";
import type { RiskMetricsResponse, InterpretationResponse } from "../lib/openapi";
import { again, bound, left, near } from "../lib/quantities";
import { Table } from "./Table";
import { ErrorNotice } from "./ErrorNotice";

type Risk = QueryState<object, RiskMetricsResponse>;

/** The meaning of the claim for one person, in the sentences of a report. */
export function Interpretation(props: {
  name: "federated" | "queries" | "account";
  ask: object | null; // null until the bound is certified
  cap: number | null; // the policy's cap on epsilon
  unit: string;
}) {
  const { name, ask, cap } = props;
  const interpretation = useQuery(ask && { ...ask, cap }, (body, signal) => post<InterpretationResponse>(`${name}/interpretation`, body, signal), { delay: 250 });
  const risk = useQuery(interpretation.answer && !interpretation.busy ? ask : null, (body, signal) => post<RiskMetricsResponse>(`${name}/risk`, body, signal), { delay: 400 });
  const card = useRef<HTMLElement>(null);
  const height = useRef(0); // of the last result: kept while the next one loads
  const complete = interpretation.answer !== null && risk.answer !== null;
  useLayoutEffect(() => {
    if (complete && card.current) height.current = card.current.offsetHeight;
  });
  return (
    <section ref={card} class="meaning" style={complete || height.current === 0 ? undefined : { minHeight: `${height.current}px` }} aria-busy={interpretation.busy || risk.busy}>
      {interpretation.problem && <ErrorNotice problem={interpretation.problem} retry={interpretation.retry} />}
      {interpretation.answer ? <InterpretationBody answer={interpretation.answer} risk={risk} unit={props.unit} /> : !interpretation.problem && <p class="empty">Computing…</p>}
    </section>
  );
}

function InterpretationBody({ answer, risk, unit }: { answer: InterpretationResponse; risk: Risk; unit: string }) {
  return (
    <>
      <p class="lead">{typeset(answer.statement)}</p>
      <div class="belief">
        {answer.posteriors.map((each) => (
          <PosteriorBar key={each.prior} {...each} />
        ))}
      </div>
      <p>{typeset(answer.odds)}</p>
      <h3>What an attack can achieve</h3>
      <RiskSection risk={risk} fallback="Computing attack bounds…">
        {(found) => (
          <>
            <Table caption="Attack bounds" columns={[{ title: "quantity" }, { title: "at most", number: true }]} rows={found.rows.map(([label, figure]) => [typeset(label), again(figure)])} />
            <p class="method">{typeset(found.attack_note)}</p>
          </>
        )}
      </RiskSection>
      <h3>Repeated releases and copies</h3>
      <div class="sides">
        <div>
          <Table
            caption={`Repeated releases at δ = ${near(answer.delta)}`}
            columns={[{ title: "releases" }, { title: "ε at most", number: true }]}
            rows={answer.releases.map(({ count, epsilon }) => [showInteger(count), epsilon === null ? "no proven bound" : bound(epsilon)])}
          />
          <p class="method">{typeset(answer.composition_note)}</p>
        </div>
        <RiskSection risk={risk} fallback="Computing the cost of copies…">
          {(found) => (
            <>
              <Table
                caption={`Copies of one ${unit}, or several held by one person`}
                columns={[{ title: "copies" }, { title: "ε at most", number: true }, { title: "at least", number: true }]}
                rows={found.group_rows.map(([count, most, least]) => [count, again(most), again(least, left)])}
              />
              <p class="method">{typeset(found.group_note)}</p>
            </>
          )}
        </RiskSection>
      </div>
      <h3>The meaning of δ</h3>
      {answer.delta_notes.map((line) => (
        <p key={sentence(line)}>{typeset(line)}</p>
      ))}
      <h3>Headroom under the policy</h3>
      <p>{typeset(answer.headroom_note)}</p>
      <h3>Assumptions and limits</h3>
      <ul class="limits">
        {[...answer.assumptions, ...answer.limits].map((line) => (
          <li key={sentence(line)}>{typeset(line)}</li>
        ))}
      </ul>
    </>
  );
}

function RiskSection({ risk, fallback, children }: { risk: Risk; fallback: string; children: (found: RiskMetricsResponse) => ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  const height = useRef(0); // of the last result: kept while the next one loads
  useLayoutEffect(() => {
    if (risk.answer && place.current) height.current = place.current.offsetHeight;
  });
  const awaited = !risk.answer && !risk.problem;
  return (
    <div ref={place} class={awaited ? "awaited" : undefined} style={awaited && height.current > 0 ? { minHeight: `${height.current}px` } : undefined}>
      {risk.problem ? <ErrorNotice problem={risk.problem} retry={risk.retry} /> : risk.answer ? children(risk.answer) : <p class="empty">{fallback}</p>}
    </div>
  );
}

/** A prior probability and the bound on its posterior, as bars with figures. */
function PosteriorBar({ prior, posterior }: InterpretationResponse["posteriors"][number]) {
  return (
    <p>
      <span class="before">{showPercent(prior)}</span>
      <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <rect class="rail" width="100" height="10" />
        <rect class="after" width={100 * posterior} height="10" />
        <rect class="prior" width={100 * prior} height="10" />
      </svg>
      <b>
        <span class="hidden">become </span>≤ {showPercent(posterior, 3, "up")}
      </b>
    </p>
  );
}
