import { useEffect, useRef, useState } from "preact/hooks";
import { Answer } from "../components/Answer";
import { Card } from "../components/Card";
import { CertificateAnswer, CertificateDetails, useCertificateCheck } from "../components/CertificateResult";
import { DropZone } from "../components/DropZone";
import { Evidence } from "../components/Evidence";
import { Notice } from "../components/Notice";
import { SimulationBanner } from "../components/SimulationBanner";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { loadMessages, typeset } from "../lib/messages";
import { post, postBlob } from "../lib/api";
import { linkTo, MAX_BYTES, readStart } from "../lib/certificate";
import { show, showInteger } from "../lib/numbers";
import type { ReportVerificationModel, VerificationExampleModel } from "../lib/openapi";
import { Problem } from "../lib/types";
import "./evidence.css";

void loadMessages(); // its tables show many

const GRADES: Record<string, "good" | "weak" | "void"> = { passed: "good", failed: "void" };
const grade = (status: string) => GRADES[status] ?? "weak";
const MEGABYTE = 1024 * 1024;
const MAX_CHARACTERS = 4 * MEGABYTE; // of a report, as on the server; larger bundles are streamed
const MAX_BUNDLE_BYTES = 200 * MEGABYTE;
const SLOW_BUNDLE_BYTES = 20 * MEGABYTE; // from here on the wait is stated: the server checks about 3 MB a second

const KINDS = { report: "report", record: "calculation record", certificate: "certificate", bundle: "ledger bundle", signature: "report signature", checkpoint: "stored checkpoint", key: "public key" } as const;
type Kind = keyof typeof KINDS;
interface Given {
  name: string;
  text: string;
  file: File;
}
type RawValues = Partial<Record<Kind, Given>>;
type State = { at: "empty" } | { at: "asked" } | { at: "answered"; answer: ReportVerificationModel } | { at: "refused"; problem: Problem };

/** Detect the kind of a file from its content, as `epsilog verify` does. */
export function kindOf(text: string): Kind {
  if (text.startsWith("epsilog-bundle/v0\n")) return "bundle";
  if (/^\s*\{\s*"format"\s*:\s*"dp-certificate\//.test(text)) return "certificate";
  if (/^[^\s+]+\+[0-9a-f]{8}\+\S+\s*$/.test(text)) return "key";
  if (/^\s*\{\s*"(record"\s*:\s*\{|sha256"\s*:\s*"[0-9a-f]{64}"\s*,\s*"record")/.test(text)) return "record";
  if (/^\s*\{/.test(text)) return /^[^\n]*"payloadType"/.test(text) ? "signature" : "report";
  return /^\s*</.test(text) ? "report" : "checkpoint";
}

/** The certificate that a report carries as evidence; null without one. */
export function certificateOf(report: string): string | null {
  try {
    return JSON.parse(/^\s*</.test(report) ? readPage(report) : report)?.evidence?.certificate?.trim() ?? null;
  } catch {
    return null;
  }
}

/** Ask the server; a large bundle is streamed after the other fields. */
async function verify(ask: Record<string, string>, bundle: File | undefined): Promise<ReportVerificationModel> {
  if (!bundle || bundle.size <= MAX_CHARACTERS) return post<ReportVerificationModel>("verify", ask);
  const { bundle: _, ...fields } = ask;
  return postBlob<ReportVerificationModel>("verify/bundle", new Blob([JSON.stringify(fields), "\n", bundle]));
}

/** Say how long a large bundle takes. */
const wait = (bundle: File | undefined): string => (bundle && bundle.size > SLOW_BUNDLE_BYTES ? ` A bundle of ${Math.round(bundle.size / MEGABYTE)} MB takes about ${Math.ceil(bundle.size / MEGABYTE / 180)} min once it has arrived.` : "");

const EXAMPLES = { holds: "a report and its ledger", edited: "an edited report", alone: "a report alone" } as const;
type Example = keyof typeof EXAMPLES;

/** The example's files: as they are, with a lower epsilon in the report, or without the ledger. */
export function chooseExample({ report, bundle }: VerificationExampleModel, which: Example): File[] {
  const files = [new File([which === "edited" ? editEpsilon(report) : report], "report.json")];
  return which === "alone" ? files : [...files, new File([bundle], "ledger.bundle")];
}

function editEpsilon(report: string): string {
  const document = JSON.parse(report);
  document.claim.guarantee.epsilon = 3;
  return JSON.stringify(document);
}

const ESCAPED: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&#34;": '"', "&#39;": "'" };

/** The document in a report's page, which is not parsed as HTML: its styles are not of this page. */
const readPage = (page: string): string => (/<pre id="document">([^<]*)</.exec(page)?.[1] ?? "null").replace(/&(amp|lt|gt|#34|#39);/g, (each) => ESCAPED[each]!);

async function read(file: File): Promise<string> {
  const most = kindOf(await file.slice(0, 100).text()) === "bundle" ? MAX_BUNDLE_BYTES : MAX_CHARACTERS;
  if (file.size > most) throw new Problem(`${file.name} is too large for this page`, `The limit is ${most / MEGABYTE} MB. Use \`epsilog verify\`, which accepts files of any size.`);
  if (file.size > MAX_CHARACTERS) return ""; // a bundle that is streamed: no page needs its text
  const text = await file.text();
  if (text.includes("PRIVATE KEY")) throw new Problem("This is a private key", "It was not sent. Verification needs the public key.");
  return text;
}

/** Verify dropped files on the server, which does not store them. */
export function Verify() {
  const [given, setGiven] = useState<RawValues>({});
  const [state, setState] = useState<State>({ at: "empty" });
  const latest = useRef(0);
  const check = async (now: RawValues): Promise<void> => {
    const request = ++latest.current;
    const settle = (found: State) => request === latest.current && setState(found); // ignore outdated responses
    setGiven(now);
    if (!now.report && !now.bundle && !now.record) return void settle({ at: "empty" });
    settle({ at: "asked" });
    try {
      const ask = Object.fromEntries(Object.entries(now).flatMap(([kind, file]) => (kind === "certificate" ? [] : [[kind, file.text]])));
      settle({ at: "answered", answer: await verify(ask, now.bundle?.file) });
    } catch (error) {
      settle({ at: "refused", problem: error instanceof Problem ? error : new Problem("This cannot be checked", String(error)) });
    }
  };
  const add = async (files: readonly File[]): Promise<void> => {
    const now = { ...given };
    try {
      for (const file of files) {
        const text = await read(file);
        now[text === "" && file.size > 0 ? "bundle" : kindOf(text)] = { name: file.name, text, file };
      }
    } catch (error) {
      latest.current++;
      return setState({ at: "refused", problem: error instanceof Problem ? error : new Problem("This file cannot be read", String(error)) });
    }
    await check(now);
  };
  const tryExample = async (which: Example): Promise<void> => {
    latest.current++;
    setGiven({});
    setState({ at: "asked" });
    try {
      const files = chooseExample(await post<VerificationExampleModel>("verify/example", {}), which);
      const texts = await Promise.all(files.map(async (file) => ({ name: file.name, text: await file.text(), file })));
      await check(Object.fromEntries(texts.map((one) => [kindOf(one.text), one])));
    } catch (error) {
      setState({ at: "refused", problem: error instanceof Problem ? error : new Problem("The example cannot be loaded", String(error)) });
    }
  };
  const without = (kind: Kind): RawValues => Object.fromEntries(Object.entries(given).filter(([other]) => other !== kind));
  const names = (Object.keys(KINDS) as Kind[]).flatMap((kind) => {
    const file = given[kind];
    return file ? [{ kind, name: file.name }] : [];
  });
  return (
    <div class="stack">
      <Card>
        <DropZone multiple take={add}>
          Drop a report here, with the bundle of its ledger if you have it, or choose files:
        </DropZone>
        <div class="offers" role="group" aria-label="Examples">
          Or try an example:{" "}
          {(Object.keys(EXAMPLES) as Example[]).map((which) => (
            <button key={which} type="button" class="quiet" onClick={() => void tryExample(which)}>
              {EXAMPLES[which]}
            </button>
          ))}
        </div>
        {names.length > 0 && (
          <ul class="given" aria-label="Files to verify">
            {names.map(({ kind, name }) => (
              <li>
                {name} <span class="beside">({KINDS[kind]})</span>{" "}
                <button type="button" class="quiet" onClick={() => void check(without(kind))} aria-label={`Remove ${name}`}>
                  remove
                </button>
              </li>
            ))}
          </ul>
        )}
        <p class="where">
          Files go to <b>{location.host}</b>, which checks them and keeps nothing. A certificate stays in this browser. On your own machine: <code>epsilog verify report.html --ledger ledger.db</code>
        </p>
        <details class="part exact">
          <summary>Which files?</summary>
          <p class="method">
            A report is <code>report.html</code> or <code>report.json</code>. Only the ledger links it to a run: <code>epsilog ledger bundle</code> writes a bundle. You can add a signature, a public key, a stored checkpoint and a certificate. The limit is {MAX_BUNDLE_BYTES / MEGABYTE} MB for a bundle, and {MAX_CHARACTERS / MEGABYTE} MB for another file. Archives are not opened.
          </p>
        </details>
      </Card>
      <div aria-live="polite">
        {state.at === "empty" && names.some(({ kind }) => kind !== "certificate") && <p class="empty">Add the report or bundle that these files belong to.</p>}
        {state.at === "asked" && <p class="empty">Verifying {names.map((one) => one.name).join(" and ") || "the example"}…{wait(given.bundle?.file)}</p>}
        {state.at === "refused" && <ErrorNotice problem={state.problem} />}
        {state.at === "answered" && <VerificationResult given={given} answer={state.answer} />}
      </div>
      {given.certificate && <GivenCertificate given={given.certificate} report={given.report?.text} />}
    </div>
  );
}

/** A certificate, checked in this browser and compared with the evidence of the report beside it. */
function GivenCertificate({ given, report }: { given: Given; report: string | undefined }) {
  const [state, check] = useCertificateCheck();
  useEffect(() => void readStart(given.file).then(check, () => check(new Uint8Array())), [given.file]);
  const carried = report === undefined ? null : certificateOf(report);
  const same = carried === given.text.trim();
  return (
    <div class="stack">
      {report !== undefined && (
        <Notice grade={same ? "good" : carried === null ? "weak" : "void"}>
          {same ? "The report carries this certificate." : carried === null ? "The report carries no certificate: nothing ties this one to it." : "The report carries another certificate. This one says nothing of it."}
        </Notice>
      )}
      <CertificateAnswer state={state} empty={null} />
      <CertificateDetails state={state} />
    </div>
  );
}

/** Summarize the outcome in a sentence. */
function summary(given: RawValues, status: string): string {
  if (given.record) {
    if (status === "failed") return "Do not rely on this record.";
    return `The record matches its stamp, and its result was recomputed.${status === "passed" ? "" : " The files it names were not compared; their hashes are below."}`;
  }
  const [subject, bound] = given.report ? ["report", given.bundle !== undefined] : ["ledger", true];
  if (status === "failed") return `Do not rely on this ${subject}.`;
  if (!given.report) return "All ledger entries are valid.";
  return bound ? "The report matches its evidence and the ledger charged for the run." : "The report matches its embedded evidence.";
}

function VerificationResult({ given, answer }: { given: RawValues; answer: ReportVerificationModel }) {
  const differing = answer.parts.flatMap((part) => part.differing);
  const copied = answer.parts.reduce((sum, part) => sum + part.copied, 0);
  const fields = answer.parts.reduce((sum, part) => sum + part.fields, 0);
  const carried = given.report ? certificateOf(given.report.text) : null;
  const [word, note] = splitAnswer(answer.answer);
  return (
    <div class="stack">
      {answer.simulation && <SimulationBanner />}
      <Answer word={word}>
          <p class="lead">{note && `${note[0]!.toUpperCase()}${note.slice(1)}. `}{summary(given, answer.status)}</p>
        {differing.length > 0 && <p>{describeDifference(differing[0]!)}</p>}
          {["passed", "warned"].includes(answer.status) && answer.supported_claim && <p>{typeset(firstSentences(answer.supported_claim, answer.simulation))}</p>}
      </Answer>
      <Evidence kinds={answer.evidence} />
      <Card title="Details">
        {answer.supported_claim && (
          <details class="part exact">
            <summary>The claim in full</summary>
            <p>{typeset(answer.supported_claim)}</p>
            {given.report && (
              <p class="method">
                {showInteger(fields - differing.length)} of {showInteger(fields)} values match the evidence. {showInteger(copied)} of them are copied from the owner’s or the ledger’s statements and are not proven.
              </p>
            )}
          </details>
        )}
        {carried !== null && carried.length <= MAX_BYTES && !given.certificate && (
          <p class="more">
            <a href={linkTo(carried)}>See what its certificate proves</a>
          </p>
        )}
        {differing.length > 0 && (
          <Table prose caption="Differences" columns={[{ title: "field" }, { title: "report" }, { title: "recomputed" }]} rows={differing.slice(0, 100).map(([place, says, again]) => [<code>{place}</code>, says, again])} />
        )}
        <details class="part exact">
          <summary>Every check ({showInteger(answer.findings.length)})</summary>
          <Table
            prose
            caption="Findings"
            columns={[{ title: "check" }, { title: "status" }, { title: "finding" }]}
            rows={answer.findings.map((finding) => [finding.check, <span class={`status-word ${grade(finding.status)}`}>{finding.status}</span>, typeset(finding.message)])}
          />
        </details>
        {given.report && (
          <details class="part exact">
            <summary>Every section of the report</summary>
            <Table
              prose
              caption="Reported and recomputed values"
              columns={[{ title: "section" }, { title: "values", number: true }, { title: "status" }]}
              rows={answer.parts.map((part) => [
                part.part.replaceAll("_", " "),
                showInteger(part.fields),
                part.differing.length === 0 ? <span class={part.copied === 0 ? "status-word good" : "status-word"}>{part.copied === 0 ? "recomputed" : part.copied >= part.fields ? "copied" : `recomputed; ${showInteger(part.copied)} copied`}</span> : <span class="verdict void">{showInteger(part.differing.length)}{part.differing.length === 1000 ? " or more" : ""} differ</span>,
              ])}
            />
          </details>
        )}
      </Card>
    </div>
  );
}

/** The first difference in a sentence, with three digits. */
function describeDifference([place, stated, again]: readonly [string, string, string]): string {
  const short = (value: string): string => (Number.isFinite(Number(value)) && value !== "" ? show(Number(value), 3) : value);
  return `The report says ${short(stated)} for ${place.replaceAll("/", " ").replaceAll("_", " ")}. Its own evidence gives ${short(again)}.`;
}

/** The verdict, and what it rests on. */
const splitAnswer = (answer: string): [string, string] => {
  const at = answer.indexOf(", ");
  return at < 0 ? [answer, ""] : [answer.slice(0, at), answer.slice(at + 2)];
};

/** The claim itself, without what only experts need; the banner says that a rehearsal protects nobody. */
function firstSentences(claim: string, simulation: boolean): string {
  const rest = simulation ? claim.replace(/^.*?would hold: /, "") : claim;
  return rest.split(/(?<=\.) (?=[A-Z])/).slice(0, 2).join(" ");
}
