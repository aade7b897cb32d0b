import { useRef, useState } from "preact/hooks";
import { Card } from "../components/Card";
import { Notice } from "../components/Notice";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { typeset } from "../lib/messages";
import { post } from "../lib/api";
import { showInteger } from "../lib/numbers";
import type { ReportVerificationModel } from "../lib/openapi";
import { Problem } from "../lib/types";

const GRADES: Record<string, "good" | "weak" | "void"> = { passed: "good", failed: "void" };
const grade = (verdict: string) => GRADES[verdict] ?? "weak";
const MAX_CHARACTERS = 4 * 1024 * 1024; // characters of a report or a bundle, as the server takes them

const KINDS = { report: "report", record: "record of a calculator", bundle: "bundle of the ledger", signature: "signature of the report", checkpoint: "kept checkpoint", key: "public key" } as const;
type Kind = keyof typeof KINDS;
type RawValues = Partial<Record<Kind, { name: string; text: string }>>;
type State = { at: "empty" } | { at: "asked" } | { at: "answered"; answer: ReportVerificationModel } | { at: "refused"; problem: Problem };

/** What a text is, by how it begins: as `epsilog verify` tells files apart. */
export function kindOf(text: string): Kind {
  if (text.startsWith("epsilog-bundle/v0\n")) return "bundle";
  if (/^[^\s+]+\+[0-9a-f]{8}\+\S+\s*$/.test(text)) return "key";
  if (/^\s*\{\s*"(record"\s*:\s*\{|sha256"\s*:\s*"[0-9a-f]{64}"\s*,\s*"record")/.test(text)) return "record";
  if (/^\s*\{/.test(text)) return /^[^\n]*"payloadType"/.test(text) ? "signature" : "report";
  return /^\s*</.test(text) ? "report" : "checkpoint";
}

async function read(file: File): Promise<string> {
  if (file.size > MAX_CHARACTERS) throw new Problem(`${file.name} is too long for a page`, "`epsilog verify` takes files of any length.");
  const text = await file.text();
  if (text.includes("PRIVATE KEY")) throw new Problem("This is a private key", "It was not sent anywhere. What verifies is its public line.");
  return text;
}

/** What somebody was given: dropped here, read by the server beside this page, and kept nowhere. */
export function Verify() {
  const [given, setGiven] = useState<RawValues>({});
  const [state, setState] = useState<State>({ at: "empty" });
  const [over, setOver] = useState(false);
  const latest = useRef(0);
  const check = async (now: RawValues): Promise<void> => {
    const request = ++latest.current;
    const settle = (found: State) => request === latest.current && setState(found); // what was asked later is shown
    setGiven(now);
    if (!now.report && !now.bundle && !now.record) return void settle({ at: "empty" });
    settle({ at: "asked" });
    try {
      const ask = Object.fromEntries(Object.entries(now).map(([kind, file]) => [kind, file.text]));
      settle({ at: "answered", answer: await post<ReportVerificationModel>("verify", ask) });
    } catch (error) {
      settle({ at: "refused", problem: error instanceof Problem ? error : new Problem("This cannot be checked", String(error)) });
    }
  };
  const add = async (files: FileList | null | undefined): Promise<void> => {
    const now = { ...given };
    try {
      for (const file of Array.from(files ?? [])) {
        const text = await read(file);
        now[kindOf(text)] = { name: file.name, text };
      }
    } catch (error) {
      latest.current++;
      return setState({ at: "refused", problem: error instanceof Problem ? error : new Problem("This file cannot be read", String(error)) });
    }
    await check(now);
  };
  const without = (kind: Kind): RawValues => Object.fromEntries(Object.entries(given).filter(([other]) => other !== kind));
  const names = (Object.keys(KINDS) as Kind[]).flatMap((kind) => {
    const file = given[kind];
    return file ? [{ kind, name: file.name }] : [];
  });
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
            void add(event.dataTransfer?.files);
          }}
        >
          <span>Drop a report here (report.html or report.json), the bundle of its ledger, or both; or choose them:</span>
          <input
            type="file"
            multiple
            onChange={(event) => {
              const { currentTarget } = event;
              void add(currentTarget.files).finally(() => {
                currentTarget.value = "";
              });
            }}
          />
        </label>
        {names.length > 0 && (
          <ul class="given" aria-label="What is checked">
            {names.map(({ kind, name }) => (
              <li>
                {name} <span class="beside">({KINDS[kind]})</span>{" "}
                <button type="button" class="quiet" onClick={() => void check(without(kind))} aria-label={`Leave out ${name}`}>
                  leave out
                </button>
              </li>
            ))}
          </ul>
        )}
        <p class="beside">
          Nothing in it is believed: every figure is worked out again from the evidence that a report carries, and every entry of a bundle, on this machine; nothing is kept. What binds a report to a run is its ledger: let{" "}
          <code>epsilog ledger bundle</code> write a bundle of it. A signature, a public key and a checkpoint that you kept may be dropped as well.
        </p>
      </Card>
      <div aria-live="polite">
        {state.at === "empty" && names.length > 0 && <p class="empty">There is nothing to check yet: drop the report or the bundle that this belongs to.</p>}
        {state.at === "asked" && <p class="empty">Working {names.map((one) => one.name).join(" and ")} out again…</p>}
        {state.at === "refused" && <ErrorNotice problem={state.problem} />}
        {state.at === "answered" && <VerificationResult given={given} answer={state.answer} />}
      </div>
    </div>
  );
}

/** What may be relied on, in a sentence. */
function summary(given: RawValues, verdict: string): string {
  if (given.record) {
    if (verdict === "failed") return "Do not rely on this record.";
    return `The record is as it was stamped, and its answer comes out again.${verdict === "passed" ? "" : " The files that it names were not compared: their hashes are below."}`;
  }
  const [subject, bound] = given.report ? ["report", given.bundle !== undefined] : ["ledger", true];
  if (verdict === "failed") return `Do not rely on this ${subject}.`;
  if (!given.report) return "Every entry of the ledger holds.";
  return bound ? "The report agrees with its evidence and with the ledger that paid for the run." : "The report agrees with the evidence that it carries.";
}

function VerificationResult({ given, answer }: { given: RawValues; answer: ReportVerificationModel }) {
  const differing = answer.parts.flatMap((part) => part.differing);
  const copied = answer.parts.reduce((sum, part) => sum + part.copied, 0);
  const fields = answer.parts.reduce((sum, part) => sum + part.fields, 0);
  return (
    <div class="stack">
      <Card title={(given.report ?? given.record ?? given.bundle)?.name ?? ""}>
        <Notice grade={grade(answer.verdict)}>{summary(given, answer.verdict)}</Notice>
        {answer.stands && <p>{typeset(answer.stands)}</p>}
        {given.report && (
          <p class="beside">
            {showInteger(fields - differing.length)} of {showInteger(fields)} values are what the evidence amounts to.{" "}
            {showInteger(copied)} of them are copied from the owner’s or the ledger’s word, which proves nothing of them.
          </p>
        )}
      </Card>
      {given.report && <Card title="Part by part">
        <Table
          prose
          caption="The report beside what comes out again"
          columns={[{ title: "part" }, { title: "values", number: true }, { title: "verdict" }]}
          rows={answer.parts.map((part) => [
            part.part.replaceAll("_", " "),
            showInteger(part.fields),
            part.differing.length === 0 ? <span class={part.copied === 0 ? "verdict good" : "verdict"}>{part.copied === 0 ? "worked out again" : part.copied >= part.fields ? "copied" : `worked out again; ${showInteger(part.copied)} copied`}</span> : <span class="verdict void">{showInteger(part.differing.length)}{part.differing.length === 1000 ? " or more" : ""} differ</span>,
          ])}
        />
        {differing.length > 0 && (
          <Table prose caption="What differs" columns={[{ title: "place" }, { title: "the report says" }, { title: "the evidence says" }]} rows={differing.slice(0, 100).map(([place, says, again]) => [<code>{place}</code>, says, again])} />
        )}
      </Card>}
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
