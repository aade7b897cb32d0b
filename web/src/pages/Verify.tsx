import { useState } from "preact/hooks";
import { Card } from "../components/Card";
import { Notice } from "../components/Notice";
import { Table } from "../components/Table";
import { Trouble } from "../components/Trouble";
import { post } from "../lib/api";
import { showWhole, typeset } from "../lib/numbers";
import type { CheckedReport } from "../lib/openapi";
import { Problem } from "../lib/types";

const GRADES: Record<string, "good" | "weak" | "void"> = { passed: "good", failed: "void" };
const grade = (verdict: string) => GRADES[verdict] ?? "weak";
const LONGEST = 4 * 1024 * 1024; // characters, as the server takes them

type State = { name: string } & ({ at: "asked" } | { at: "answered"; answer: CheckedReport } | { at: "refused"; problem: Problem });

/** A report that somebody was given: dropped here, read by the server beside this page, and kept nowhere. */
export function Verify() {
  const [state, setState] = useState<State | null>(null);
  const [over, setOver] = useState(false);
  const check = async (file: File | undefined): Promise<void> => {
    if (!file) return;
    const { name } = file;
    setState({ name, at: "asked" });
    try {
      if (file.size > LONGEST) throw new Problem("This report is too long for a page", "`epsilog verify` takes reports of any length.");
      setState({ name, at: "answered", answer: await post<CheckedReport>("verify", { report: await file.text() }) });
    } catch (error) {
      setState({ name, at: "refused", problem: error instanceof Problem ? error : new Problem("This file cannot be read", String(error)) });
    }
  };
  return (
    <div class="stack">
      <Card>
        <label
          class={over ? "drop over" : "drop"}
          onDragOver={(event) => {
            event.preventDefault();
            setOver(true);
          }}
          onDragLeave={() => setOver(false)}
          onDrop={(event) => {
            event.preventDefault();
            setOver(false);
            void check(event.dataTransfer?.files[0]);
          }}
        >
          <span>Drop a report here (report.html or report.json), or choose one:</span>
          <input
            type="file"
            accept=".html,.json"
            onChange={(event) => {
              const { currentTarget } = event;
              void check(currentTarget.files?.[0]).finally(() => {
                currentTarget.value = "";
              });
            }}
          />
        </label>
        <p class="beside">
          Nothing in it is believed: every figure is worked out again from the evidence that it carries, on this machine, and nothing is kept. What binds a report to a run is its ledger, which{" "}
          <code>epsilog verify report.html --ledger ledger.db</code> takes as well.
        </p>
      </Card>
      <div aria-live="polite">
        {state?.at === "asked" && <p class="empty">Working {state.name} out again…</p>}
        {state?.at === "refused" && <Trouble problem={state.problem} />}
        {state?.at === "answered" && <Found name={state.name} answer={state.answer} />}
      </div>
    </div>
  );
}

function Found({ name, answer }: { name: string; answer: CheckedReport }) {
  const differing = answer.parts.flatMap((part) => part.differing);
  const fields = answer.parts.reduce((sum, part) => sum + part.fields, 0);
  const failed = answer.verdict === "failed";
  return (
    <div class="stack">
      <Card title={name}>
        <Notice grade={failed ? "void" : "weak"}>{failed ? "Do not rely on this report." : "The report agrees with the evidence that it carries."}</Notice>
        <p>{typeset(answer.stands)}</p>
        <p class="beside">
          {showWhole(fields - differing.length)} of {showWhole(fields)} values come out again.
        </p>
      </Card>
      <Card title="Part by part">
        <Table
          prose
          caption="The report beside what comes out again"
          columns={[{ title: "part" }, { title: "values", number: true }, { title: "verdict" }]}
          rows={answer.parts.map((part) => [
            part.part.replaceAll("_", " "),
            showWhole(part.fields),
            part.differing.length === 0 ? <span class="verdict good">comes out again</span> : <span class="verdict void">{showWhole(part.differing.length)}{part.differing.length === 1000 ? " or more" : ""} differ</span>,
          ])}
        />
        {differing.length > 0 && (
          <Table prose caption="What differs" columns={[{ title: "place" }, { title: "the report says" }, { title: "the evidence says" }]} rows={differing.slice(0, 100).map(([place, says, again]) => [<code>{place}</code>, says, again])} />
        )}
      </Card>
      <Card title="Check by check">
        <Table
          prose
          caption="What was found"
          columns={[{ title: "check" }, { title: "verdict" }, { title: "finding" }]}
          rows={answer.findings.map((finding) => [finding.check, <span class={`verdict ${grade(finding.verdict)}`}>{finding.verdict}</span>, typeset(finding.says)])}
        />
      </Card>
    </div>
  );
}
