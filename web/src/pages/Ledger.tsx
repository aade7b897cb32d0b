import { useCallback, useRef, useState } from "preact/hooks";
import { Card } from "../components/Card";
import { Notice } from "../components/Notice";
import { Table } from "../components/Table";
import { Trouble } from "../components/Trouble";
import { type Ready, useAnswer, useReady } from "../lib/answer";
import { get, post } from "../lib/api";
import { OVER, useJob } from "../lib/job";
import { type Budget, type Money, words } from "../lib/money";
import { showWhole } from "../lib/numbers";
import { Problem } from "../lib/types";
import { Acts } from "./Acts";
import { Budgets } from "./Budgets";

interface Book {
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
  amounts: Record<string, Money>;
  body: { round?: number };
}

const PAGE = 25;

export function Ledger() {
  const book = useAnswer("ledger", (path, signal) => get<Book>(path, signal), { delay: 0 });
  const [met, setMet] = useState<readonly string[]>([]);
  const ready = useCallback((part: string) => setMet((old) => (old.includes(part) ? old : [...old, part])), []);
  const last = useRef<Book | null>(null); // what was typed below it stays when a further reading fails
  if (book.answer) last.current = book.answer;
  if (!last.current) return book.problem ? <Trouble problem={book.problem} retry={book.retry} /> : <p class="empty awaited">Reading…</p>;
  if (!last.current.present)
    return (
      <Card>
        <p>
          This server was started without a ledger. <code>epsilog serve --ledger runs/ledger.db --runs runs</code> shows one.
        </p>
      </Card>
    );
  const { budgets, entries } = last.current;
  const shown = ["entries", ...(budgets.length > 0 ? ["cycles", "holder"] : [])].every((part) => met.includes(part)); // all at a time: nothing jumps
  return (
    <>
    {!shown && <p class="empty awaited">Reading…</p>}
    <div class={shown ? "stack" : "stack unread"}>
      {book.problem && <Trouble problem={book.problem} retry={book.retry} />}
      {book.answer && (budgets.length === 0 ? <p class="empty">No budget has been set yet.</p> : <Budgets budgets={budgets} entries={entries} ready={ready} />)}
      {budgets.length > 0 && <Acts budgets={budgets} done={book.retry} ready={ready} />}
      {book.answer && <Chain book={book.answer} ready={ready} />}
    </div>
    </>
  );
}

interface Fold {
  newest: Entry;
  oldest: Entry;
  rounds: string; // which, where there are several entries
}

/** Entries, newest first, with those on the rounds of one charge that follow each other as one. */
function folded(entries: readonly Entry[]): Fold[] {
  const folds: Fold[] = [];
  for (const entry of entries) {
    const last = folds.at(-1);
    if (last && entry.body.round !== undefined && last.oldest.body.round !== undefined && last.oldest.key === entry.key && last.oldest.scope === entry.scope) {
      const [from, to] = [Math.min(entry.body.round, last.oldest.body.round), Math.max(last.newest.body.round!, entry.body.round)];
      Object.assign(last, { oldest: entry, rounds: from === to ? `round ${from}` : `rounds ${from}–${to}` });
    } else folds.push({ newest: entry, oldest: entry, rounds: "" });
  }
  return folds;
}

function Chain({ book, ready }: { book: Book; ready: Ready }) {
  const [scope, setScope] = useState("");
  const [cursors, setCursors] = useState<number[]>([]); // where each older page began
  const query = new URLSearchParams({ limit: String(PAGE), ...(scope && { scope }), ...(cursors.length > 0 && { before: String(cursors.at(-1)) }) });
  const page = useAnswer({ text: query.toString(), entries: book.entries }, ({ text }, signal) => get<{ entries: Entry[]; next: number | null }>(`ledger/entries?${text}`, signal), { delay: 0 });
  useReady("entries", page, ready);
  const next = page.answer?.next ?? null;
  return (
    <Card title="The chain of entries">
      <p>
        {showWhole(book.entries)} {book.entries === 1 ? "entry" : "entries"}, each naming the hash of the one before. The head is <code>{book.head}</code>
      </p>
      <Verify />
      <div class="field">
        <label for="chain-scope">Entries at and under</label>
        <select
          id="chain-scope"
          value={scope}
          onInput={(e) => {
            setScope(e.currentTarget.value);
            setCursors([]);
          }}
        >
          <option value="">every scope</option>
          {book.budgets.map((each) => (
            <option key={each.scope} value={each.scope}>
              {each.scope}
            </option>
          ))}
        </select>
      </div>
      {page.problem && <Trouble problem={page.problem} retry={page.retry} />}
      {!page.answer && !page.problem && <p class="empty">Reading…</p>}
      {page.answer && (
        <Table
          prose
          dense
          caption="Entries, newest first"
          columns={[{ title: "#", number: true }, { title: "time (UTC)", tight: true }, { title: "what", tight: true }, { title: "scope" }, { title: "key" }, { title: "amounts" }, { title: "hash", tight: true }]}
          rows={folded(page.answer.entries).map(({ newest: e, oldest, rounds }) => [
            e === oldest ? showWhole(e.index) : `${showWhole(oldest.index)}–${showWhole(e.index)}`,
            e.time.slice(0, 19).replace("T", " "),
            e === oldest ? e.verb.replace("-", " ") + (e.body.round === undefined ? "" : ` (${e.body.round})`) : rounds,
            e.scope,
            e.key ?? "",
            Object.values(e.amounts).map(words).join("; "),
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
    </Card>
  );
}

interface Check {
  state: string;
  of: number;
  checked: number;
  sound?: boolean;
  says?: string;
  head?: string;
}

/** Works the whole chain out again, in the server's background, and says how far it is. */
function Verify() {
  const [id, setId] = useState<string | null>(null);
  const [trouble, setTrouble] = useState<Problem | null>(null);
  const { seen, lost } = useJob<Check>(id && `ledger/verify/${id}`);
  const running = id !== null && !lost && (seen === null || !OVER.includes(seen.state));
  const begin = async (): Promise<void> => {
    setTrouble(null);
    try {
      setId((await post<{ id: string }>("ledger/verify", {})).id);
    } catch (error) {
      setTrouble(error instanceof Problem ? error : new Problem("An error of ours", String(error)));
    }
  };
  return (
    <>
      <div class="buttons">
        <button type="button" class="main" onClick={() => void begin()} disabled={running}>
          Verify the ledger
        </button>
        {running && (
          <button type="button" class="quiet" onClick={() => void post(`ledger/verify/${id}/cancel`, {}).catch(setTrouble)}>
            Cancel
          </button>
        )}
      </div>
      {running && seen && (
        <>
          <progress aria-label="Entries checked" max={seen.of} value={seen.checked} />
          <p class="method">
            {showWhole(seen.checked)} of {showWhole(seen.of)} entries hold so far
          </p>
        </>
      )}
      <div role="status">
        {seen?.sound && (
          <Notice grade="good">
            All {showWhole(seen.checked)} entries hold; balances worked out again agree. Head <code>{seen.head}</code>. Keep it elsewhere: a later cut then shows.
          </Notice>
        )}
        {seen?.sound === false && <Notice grade="void">The ledger does not hold: {seen.says}</Notice>}
        {seen?.state === "cancelled" && <p class="empty">Ended early; this says nothing about the entries that were not reached.</p>}
        {seen?.state === "failed" && <Notice grade="void">{seen.says}</Notice>}
      </div>
      {(trouble ?? lost) && <Trouble problem={(trouble ?? lost)!} />}
    </>
  );
}
