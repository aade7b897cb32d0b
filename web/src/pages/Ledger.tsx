import { useState } from "preact/hooks";
import { Card } from "../components/Card";
import { Notice } from "../components/Notice";
import { Plot } from "../components/Plot";
import type { Series } from "../components/Plot";
import { Table } from "../components/Table";
import { Trouble } from "../components/Trouble";
import { useAnswer } from "../lib/answer";
import { get, post } from "../lib/api";
import { OVER, useJob } from "../lib/job";
import { type Budget, letter, type Money, words } from "../lib/money";
import { show, showAmount, showWhole } from "../lib/numbers";
import { Problem } from "../lib/types";
import { Acts } from "./Acts";

interface Cycle {
  scope: string;
  key: string | null; // null: what was paid for the blocks of a partition
  time: string;
  amount: Money;
  cumulative: Money;
}

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
const CYCLES = 100;
const main = (money: Money): string => Object.keys(money).find((name) => name !== "delta") ?? "delta";
const minute = (time: string): string => time.slice(0, 16).replace("T", " ");

export function Ledger() {
  const book = useAnswer("ledger", (path, signal) => get<Book>(path, signal), { delay: 0 });
  if (book.problem) return <Trouble problem={book.problem} retry={book.retry} />;
  if (!book.answer) return <p class="empty">Reading…</p>;
  if (!book.answer.present)
    return (
      <Card>
        <p>
          This server was started without a ledger. <code>epsilog serve --ledger runs/ledger.db --runs runs</code> shows one.
        </p>
      </Card>
    );
  const { budgets, entries } = book.answer;
  return (
    <div class="stack">
      {budgets.length === 0 ? <p class="empty">No budget has been set yet.</p> : <Budgets budgets={budgets} />}
      {budgets.length > 0 && <Acts budgets={budgets} done={book.retry} />}
      {budgets.length > 0 && <Cycles budgets={budgets} entries={entries} />}
      <Chain book={book.answer} />
    </div>
  );
}

function Budgets({ budgets }: { budgets: Budget[] }) {
  return (
    <div class="budgets">
      {budgets.map((budget) => {
        const unit = main(budget.caps);
        const [cap, spent, reserved] = [budget.caps, budget.spent, budget.reserved].map((money) => Number(money[unit]));
        const part = (x: number): number => (cap! > 0 ? Math.min(100, (100 * x) / cap!) : 0);
        const quantities = Object.keys(budget.caps);
        const line = (name: string, money: Money): string[] => [name, ...quantities.map((each) => showAmount(money[each]!))];
        return (
          <Card
            key={budget.scope}
            title={
              <>
                {budget.scope} {budget.simulation && <span class="simulated">simulations only</span>} {budget.partition !== null && <span class="simulated">partition</span>}
              </>
            }
          >
            <svg class="budget" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={`${show(part(spent!), 3)} % spent, ${show(part(reserved!), 3)} % reserved`}>
              <rect class="rail" width="100" height="6" />
              <rect class="spent" width={part(spent!)} height="6" />
              <rect class="promised" x={part(spent!)} width={part(reserved!)} height="6" />
            </svg>
            <p class="key">
              <span class="swatch claim" /> spent {show(part(spent!), 3, "down")} % <span class="swatch root" /> reserved {show(part(reserved!), 3)} %
            </p>
            <Table
              caption={`Balance of ${budget.scope}, to the last digit`}
              columns={[{ title: "" }, ...quantities.map((each) => ({ title: letter(each), number: true }))].map((c) => (c.title ? c : { title: "amount" }))}
              rows={[line("cap", budget.caps), line("spent", budget.spent), line("reserved", budget.reserved), line("available", budget.available)]}
            />
            <p class="method">
              {budget.kind}, {budget.relation.replaceAll("-", " ")}
              {budget.privacy_unit && `, per ${budget.privacy_unit}`}.{" "}
              {budget.partition !== null && `The cap is that of each block; a charge counts in its block alone. `}
              {budget.promise && `The cap keeps (ε ${budget.promise.epsilon}, δ ${budget.promise.delta}). `}
              {budget.theorem}
            </p>
          </Card>
        );
      })}
    </div>
  );
}

function Cycles({ budgets, entries }: { budgets: Budget[]; entries: number }) {
  const [scope, choose] = useState(budgets[0]!.scope);
  const found = useAnswer({ scope, entries }, ({ scope: each }, signal) => get<{ caps: Money; cycles: Cycle[] }>(`ledger/cycles?scope=${encodeURIComponent(each)}&limit=${CYCLES}`, signal), { delay: 0 });
  return (
    <Card title="What each release cost, and all of them together">
      {budgets.length > 1 && (
        <div class="field">
          <label for="cycle-scope">Budget</label>
          <select id="cycle-scope" value={scope} onInput={(e) => choose(e.currentTarget.value)}>
            {budgets.map((each) => (
              <option key={each.scope} value={each.scope}>
                {each.scope}
              </option>
            ))}
          </select>
        </div>
      )}
      {found.problem && <Trouble problem={found.problem} retry={found.retry} />}
      {found.answer && (found.answer.cycles.length > 0 ? <Spent caps={found.answer.caps} cycles={found.answer.cycles} scope={found.of!.scope} /> : <p class="empty">Nothing has been started under this budget.</p>)}
    </Card>
  );
}

function Spent({ caps, cycles, scope }: { caps: Money; cycles: Cycle[]; scope: string }) {
  const unit = main(caps);
  const of = (money: Money): number => Number(money[unit]);
  const before = of(cycles[0]!.cumulative) - of(cycles[0]!.amount);
  const [cap, total] = [of(caps), of(cycles.at(-1)!.cumulative)];
  const series: Series[] = [
    { name: "this release", look: "bar", points: cycles.map((c, i) => [i + 1, of(c.amount)] as const) },
    { name: "cumulative", look: "step", points: [[0, before] as const, ...cycles.map((c, i) => [i + 1, of(c.cumulative)] as const)] },
    ...(cap < 4 * total ? [{ name: "cap", look: "cap" as const, points: [[cycles.length, cap]] as const }] : []),
  ];
  const some = cycles.length === CYCLES ? `, the newest ${CYCLES}` : "";
  return (
    <>
      <Plot title={`${letter(unit)} of each release under ${scope}${some}, charged when it starts and never given back`} x={{ title: "release", whole: true }} y={{ title: letter(unit) }} series={series} />
      <Table
        caption={`Releases${some}, newest first`}
        prose
        columns={[{ title: "release" }, { title: "started (UTC)", tight: true }, { title: "cost" }, { title: "cumulative" }]}
        rows={cycles.map((c) => [c.key ?? `partition ${c.scope}`, minute(c.time), words(c.amount), words(c.cumulative)]).reverse().slice(0, 25)}
      />
    </>
  );
}

function Chain({ book }: { book: Book }) {
  const [scope, setScope] = useState("");
  const [cursors, setCursors] = useState<number[]>([]); // where each older page began
  const query = new URLSearchParams({ limit: String(PAGE), ...(scope && { scope }), ...(cursors.length > 0 && { before: String(cursors.at(-1)) }) });
  const page = useAnswer({ text: query.toString(), entries: book.entries }, ({ text }, signal) => get<{ entries: Entry[]; next: number | null }>(`ledger/entries?${text}`, signal), { delay: 0 });
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
          rows={page.answer.entries.map((e) => [
            showWhole(e.index),
            e.time.slice(0, 19).replace("T", " "),
            e.verb.replace("-", " ") + (e.body.round === undefined ? "" : ` (${e.body.round})`),
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
