import { Answer, nameVerdict } from "../components/Answer";
import { Card } from "../components/Card";
import { Download } from "../components/Download";
import { Plot } from "../components/Plot";
import { SimulationBanner } from "../components/SimulationBanner";
import { ScopeName } from "../components/ScopeName";
import { Stat } from "../components/Stat";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { loadMessages, typeset } from "../lib/messages";
import { useQuery } from "../lib/use-query";
import { get } from "../lib/api";
import { show, showInteger } from "../lib/numbers";

void loadMessages(); // its tables show many

interface Line {
  name: string;
  config_name: string;
  period: string;
  simulation: boolean;
  epsilon: number;
  delta: number;
  status: string;
  rounds: number;
}

interface Report {
  identity: { name: string; period?: string; purpose?: string };
  simulation: boolean;
  claim: {
    statement: string;
    supported: number; // the epsilon that the records support
    epsilon: { lower: number; upper: number; method: string };
    parties: { party: string; view: string; protection: string }[];
  };
  mechanism: { scheme: Record<string, string | number | null>; noise_stddev: number };
  accounting: { closed_form: { total: number; note: string }; curve: { round: number; lower: number; upper: number }[] };
  budget: { epsilon: string; charged?: { epsilon?: string }; state?: string };
  rounds: { round: number; test_loss: number | null; test_score: number | null }[];
  result: { score_name: string; test_score: number | null; diverged: boolean };
  utility: { baseline_rounds: { round: number; test_score: number | null }[] } | null;
  verification: {
    status: string;
    findings: { code: string; check: string; status: string; message: string; values: Record<string, number> }[];
    what_ifs: { name: string; epsilon: number; message: string }[];
  };
  limits: string[];
}

const GRADES: Record<string, "good" | "weak" | "void"> = { passed: "good", failed: "void" };
const grade = (status: string) => GRADES[status] ?? "weak";

/** Format a key as a label. */
const words = (name: string): string => `${name[0]!.toUpperCase()}${name.slice(1).replaceAll("_", " ")}`;

export function Runs() {
  const name = location.pathname.split("/")[2];
  return name ? <Run key={name} name={decodeURIComponent(name)} /> : <List />;
}

function List() {
  const list = useQuery("runs", (path, signal) => get<{ present: boolean; runs: Line[] }>(path, signal), { delay: 0 });
  if (list.problem) return <ErrorNotice problem={list.problem} retry={list.retry} />;
  if (!list.answer) return <p class="empty awaited">Reading…</p>;
  if (list.answer.runs.length === 0)
    return (
      <Card>
        <p>
          {list.answer.present ? "There are no finished runs yet." : "This server has no folder of runs."} <code>epsilog run run.toml</code> creates one;{" "}
          <code>epsilog serve --runs runs</code> serves it.
        </p>
      </Card>
    );
  return (
    <Card>
      <Table
        prose
        caption="Finished runs"
        columns={[{ title: "run" }, { title: "period" }, { title: "kind" }, { title: "rounds", number: true }, { title: "ε at most", number: true }, { title: "δ", number: true }, { title: "verdict" }]}
        rows={list.answer.runs.map((run) => [
          <a href={`/runs/${run.name}`}>
            <ScopeName name={run.config_name} />
          </a>,
          run.period,
          run.simulation ? <span class="simulated">rehearsal</span> : "real data",
          showInteger(run.rounds),
          show(run.epsilon, 3, "up"),
          show(run.delta, 3),
          <span class={`status-word ${grade(run.status)}`}>{nameVerdict(run.status, run.simulation)}</span>,
        ])}
      />
    </Card>
  );
}

function Run({ name }: { name: string }) {
  const found = useQuery(name, (each, signal) => get<Report>(`runs/${encodeURIComponent(each)}`, signal), { delay: 0 });
  if (found.problem) return <ErrorNotice problem={found.problem} retry={found.retry} />;
  if (!found.answer) return <p class="empty awaited">Reading…</p>;
  const report = found.answer;
  const { scheme } = report.mechanism;
  const scores = report.rounds.filter((r) => r.test_score !== null);
  return (
    <div class="stack">
      <p>
        <a href="/runs">All runs</a> · {report.identity.purpose}
      </p>
      {report.simulation && <SimulationBanner />}
      <Answer word={nameVerdict(report.verification.status, report.simulation)}>
        <p class="lead">{report.verification.findings.some((each) => each.code.endsWith("/attested")) ? "On the curator’s word for what only the curator’s records show." : "The records agree with the plan and the ledger."}</p>
      </Answer>
      <Card title={<ScopeName name={report.identity.name} />}>
        <div class="headline">
          <p class="claim">
            <span>ε ≤ </span>
            <b>{show(report.claim.supported, 3, "up")}</b>
          </p>
          <p class="beside">{typeset(report.claim.statement)}</p>
        </div>
        <dl class="stats">
          <Stat label="Budget" note={report.budget.state}>
            ε {show(Number(report.budget.epsilon), 3, "down")}
          </Stat>
          <Stat label="Charged">{report.budget.charged?.epsilon === undefined ? "–" : `ε ${show(Number(report.budget.charged.epsilon), 3, "up")}`}</Stat>
          <Stat label={words(report.result.score_name)}>{report.result.diverged ? "diverged" : show(report.result.test_score, 3)}</Stat>
        </dl>
        <div class="buttons">
          <Download path={`runs/${name}/report.html`} name={`${name}-report.html`} kind="text/html">
            Report (HTML)
          </Download>
          <Download path={`runs/${name}/report.json`} name={`${name}-report.json`} kind="application/json">
            Report (JSON)
          </Download>
        </div>
      </Card>
      <Card title="Plan and records">
        <details class="part exact">
        <summary>Settings, every check, and costs of deviations</summary>
        <dl class="stats narrow">
          <Stat label="Closed form" note="an estimate, not a bound">
            {show(report.accounting.closed_form.total, 3)}
          </Stat>
          {Object.entries(scheme)
            .filter(([, value]) => value !== null)
            .map(([key, value]) => (
              <Stat key={key} label={words(key)}>
                {typeof value !== "number" ? String(value).replaceAll("-", " ") : Number.isInteger(value) ? showInteger(value) : show(value, 6)}
              </Stat>
            ))}
        </dl>
        <Table
          prose
          caption="Findings"
          columns={[{ title: "check" }, { title: "status" }, { title: "finding" }]}
          rows={report.verification.findings.map((f) => [f.check, <span class={`status-word ${grade(f.status)}`}>{f.status}</span>, typeset(f.message)])}
        />
        {report.verification.what_ifs.length > 0 && (
          <Table
            prose
            caption="Cost of deviations (estimates, not claims)"
            columns={[{ title: "if" }, { title: "ε", number: true }, { title: "explanation" }]}
            rows={report.verification.what_ifs.map((w) => [w.name, show(w.epsilon, 3, "up"), typeset(w.message)])}
          />
        )}
        </details>
      </Card>
      <Card title="Rounds">
        <Plot
          title="Proven epsilon after each round"
          x={{ title: "round", whole: true }}
          y={{ title: "ε" }}
          series={[
            { name: "upper bound", look: "claim", points: report.accounting.curve.map((p) => [p.round, p.upper] as const) },
            { name: "lower bound", look: "lower", points: report.accounting.curve.map((p) => [p.round, p.lower] as const) },
          ]}
          band={[0, 1]}
        />
        {scores.length > 0 && (
          <Plot
            title={report.result.score_name}
            x={{ title: "round", whole: true }}
            y={{ title: "score" }}
            series={[
              { name: "with privacy", look: "claim", points: scores.map((r) => [r.round, r.test_score!] as const) },
              ...(report.utility?.baseline_rounds.length
                ? [{ name: "without clipping and noise", look: "other" as const, points: report.utility.baseline_rounds.filter((r) => r.test_score !== null).map((r) => [r.round, r.test_score!] as const) }]
                : []),
            ]}
          />
        )}
      </Card>
      <Card title="Parties and guarantees">
        <Table prose caption="Parties" columns={[{ title: "party" }, { title: "sees" }, { title: "guarantee" }]} rows={report.claim.parties.map((p) => [p.party, p.view, typeset(p.protection)])} />
        <details class="part exact">
          <summary>Limits</summary>
          <ul class="limits">
            {report.limits.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </details>
      </Card>
    </div>
  );
}
