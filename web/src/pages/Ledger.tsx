import { useCallback, useRef, useState } from "preact/hooks";
import { Card } from "../components/Card";
import { Notice } from "../components/Notice";
import { ScopeName } from "../components/ScopeName";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { type Ready, useQuery, useReady } from "../lib/use-query";
import { get, post } from "../lib/api";
import { OVER, useJob } from "../lib/job-stream";
import { type Budget, type Amounts, summarizeAmounts } from "../lib/amounts";
import { showInteger } from "../lib/numbers";
import { Problem } from "../lib/types";
import { LedgerActions } from "./LedgerActions";
import { Approvals } from "./Approvals";
import { Budgets } from "./Budgets";

interface LedgerSummary {
  present: boolean;
  entries: number;
  head: string | null;
  budgets: Budget[];
}

interface Entry {
  hash: string;
  index: number;
  time: string;
  verb: string;
  scope: string;
  key: string | null;
  amounts: Record<string, Amounts>;
  body: { round?: number };
}

const PAGE = 25;

export function Ledger() {
  const ledger = useQuery("ledger", (path, signal) => get<LedgerSummary>(path, signal), { delay: 0 });
  const [met, setMet] = useState<readonly string[]>([]);
  const ready = useCallback((part: string) => setMet((old) => (old.includes(part) ? old : [...old, part])), []);
  const last = useRef<LedgerSummary | null>(null); // input below is kept if a refresh fails
  if (ledger.answer) last.current = ledger.answer;
  if (!last.current) return ledger.problem ? <ErrorNotice problem={ledger.problem} retry={ledger.retry} /> : <p class="empty awaited">Reading…</p>;
  if (!last.current.present)
    return (
      <Card>
        <p>
          This server has no ledger. Start it with <code>epsilog serve --ledger runs/ledger.db --runs runs</code>.
        </p>
      </Card>
    );
  const { budgets, entries } = last.current;
  const complete = ["entries", ...(budgets.length > 0 ? ["cycles", "approvals", "holder"] : [])].every((part) => met.includes(part)); // all appear together, without layout shifts
  return (
    <>
    {!complete && <p class="empty awaited">Reading…</p>}
    <div class={complete ? "stack" : "stack unread"}>
      {ledger.problem && <ErrorNotice problem={ledger.problem} retry={ledger.retry} />}
      {ledger.answer && (budgets.length === 0 ? <p class="empty">There are no budgets yet.</p> : <Budgets budgets={budgets} entries={entries} ready={ready} />)}
      {budgets.length > 0 && <Approvals budgets={budgets} entries={entries} done={ledger.retry} ready={ready} />}
      {budgets.length > 0 && <LedgerActions budgets={budgets} done={ledger.retry} ready={ready} />}
      {ledger.answer && <Chain ledger={ledger.answer} ready={ready} />}
    </div>
    </>
  );
}

interface EntryGroup {
  newest: Entry;
  oldest: Entry;
  rounds: string; // the rounds, if there are several entries
}

/** Group adjacent entries on rounds of one charge; newest first. */
function groupRounds(entries: readonly Entry[]): EntryGroup[] {
  const groups: EntryGroup[] = [];
  for (const entry of entries) {
    const last = groups.at(-1);
    if (last && entry.body.round !== undefined && last.oldest.body.round !== undefined && last.oldest.key === entry.key && last.oldest.scope === entry.scope) {
      const [from, to] = [Math.min(entry.body.round, last.oldest.body.round), Math.max(last.newest.body.round!, entry.body.round)];
      Object.assign(last, { oldest: entry, rounds: from === to ? `round ${from}` : `rounds ${from}–${to}` });
    } else groups.push({ newest: entry, oldest: entry, rounds: "" });
  }
  return groups;
}

function Chain({ ledger, ready }: { ledger: LedgerSummary; ready: Ready }) {
  const [scope, setScope] = useState("");
  const [cursors, setCursors] = useState<number[]>([]); // the start of each older page
  const query = new URLSearchParams({ limit: String(PAGE), ...(scope && { scope }), ...(cursors.length > 0 && { before: String(cursors.at(-1)) }) });
  const page = useQuery({ text: query.toString(), entries: ledger.entries }, ({ text }, signal) => get<{ entries: Entry[]; next: number | null }>(`ledger/entries?${text}`, signal), { delay: 0 });
  useReady("entries", page, ready);
  const next = page.answer?.next ?? null;
  return (
    <Card title="The chain of entries">
      <p>
        {showInteger(ledger.entries)} {ledger.entries === 1 ? "entry" : "entries"}, each with the hash of the previous one. Head: <code>{ledger.head}</code>
      </p>
      <Verify />
      <details class="part exact">
      <summary>Every entry</summary>
      <div class="field">
        <label for="chain-scope">Entries in scope</label>
        <select
          id="chain-scope"
          value={scope}
          onInput={(e) => {
            setScope(e.currentTarget.value);
            setCursors([]);
          }}
        >
          <option value="">all scopes</option>
          {ledger.budgets.map((each) => (
            <option key={each.scope} value={each.scope}>
              {each.scope}
            </option>
          ))}
        </select>
      </div>
      {page.problem && <ErrorNotice problem={page.problem} retry={page.retry} />}
      {!page.answer && !page.problem && <p class="empty">Reading…</p>}
      {page.answer && (
        <Table
          prose
          dense
          caption="Entries, newest first"
          columns={[{ title: "#", number: true }, { title: "time (UTC)", tight: true }, { title: "command", tight: true }, { title: "scope" }, { title: "key" }, { title: "amounts" }, { title: "hash", tight: true }]}
          rows={groupRounds(page.answer.entries).map(({ newest: e, oldest, rounds }) => [
            e === oldest ? showInteger(e.index) : `${showInteger(oldest.index)}–${showInteger(e.index)}`,
            e.time.slice(0, 19).replace("T", " "),
            e === oldest ? e.verb.replace("-", " ") + (e.body.round === undefined ? "" : ` (${e.body.round})`) : rounds,
            <ScopeName name={e.scope} />,
            e.key && <ScopeName name={e.key} />,
            Object.values(e.amounts).map((each) => summarizeAmounts(each, "up")).join("; "),
            <code title={e.hash}>{e.hash.slice(0, 10)}…</code>,
          ])}
        />
      )}
      <div class="buttons">
        <button type="button" class="quiet" disabled={cursors.length === 0} onClick={() => setCursors((old) => old.slice(0, -1))}>
          Newer
        </button>
        <button type="button" class="quiet" disabled={next === null} onClick={() => setCursors((old) => [...old, next!])}>
          Older
        </button>
      </div>
      </details>
    </Card>
  );
}

interface Check {
  state: string;
  of: number;
  checked: number;
  sound?: boolean;
  message?: string;
  head?: string;
}

/** Verify the whole chain in the background of the server, with progress. */
function Verify() {
  const [id, setId] = useState<string | null>(null);
  const [failure, setFailure] = useState<Problem | null>(null);
  const { seen, lost } = useJob<Check>(id && `ledger/verify/${id}`);
  const running = id !== null && !lost && (seen === null || !OVER.includes(seen.state));
  const begin = async (): Promise<void> => {
    setFailure(null);
    try {
      setId((await post<{ id: string }>("ledger/verify", {})).id);
    } catch (error) {
      setFailure(error instanceof Problem ? error : new Problem("Unexpected error", String(error)));
    }
  };
  return (
    <>
      <div class="buttons">
        <button type="button" class="main" onClick={() => void begin()} disabled={running}>
          Verify the ledger
        </button>
        {running && (
          <button type="button" class="quiet" onClick={() => void post(`ledger/verify/${id}/cancel`, {}).catch(setFailure)}>
            Cancel
          </button>
        )}
      </div>
      {running && seen && (
        <>
          <progress aria-label="Entries checked" max={seen.of} value={seen.checked} />
          <p class="method">
            {showInteger(seen.checked)} of {showInteger(seen.of)} entries verified
          </p>
        </>
      )}
      <div role="status">
        {seen?.sound && (
          <Notice grade="good">
            All {showInteger(seen.checked)} entries are valid, and the recomputed balances match. Head: <code>{seen.head}</code>. Store it elsewhere to detect later truncation.
          </Notice>
        )}
        {seen?.sound === false && <Notice grade="void">Ledger verification failed: {seen.message}</Notice>}
        {seen?.state === "cancelled" && <p class="empty">Cancelled; the remaining entries were not checked.</p>}
        {seen?.state === "failed" && <Notice grade="void">{seen.message}</Notice>}
      </div>
      {(failure ?? lost) && <ErrorNotice problem={(failure ?? lost)!} />}
    </>
  );
}
