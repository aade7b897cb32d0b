import { useMemo, useState } from "preact/hooks";
import { Card, Notice, Stat, Table, Trouble } from "../components/bits";
import { Plot } from "../components/Plot";
import { useAnswer } from "../lib/answer";
import { get, post } from "../lib/api";
import { show, showWhole } from "../lib/numbers";

type Money = Record<string, string>; // decimal strings, shown as they are written

interface Budget {
  scope: string;
  kind: string;
  relation: string;
  privacy_unit: string | null;
  simulation: boolean;
  theorem: string;
  caps: Money;
  reserved: Money;
  spent: Money;
  available: Money;
}

interface Cycle {
  scope: string;
  kind: string;
  key: string;
  time: string;
  amount: Money;
  cumulative: Money;
}

interface Book {
  present: boolean;
  entries: number;
  head: string | null;
  budgets: Budget[];
  cycles: Cycle[];
}

interface Entry {
  hash: string;
  previous: string;
  index: number;
  time: string;
  verb: string;
  scope: string;
  key: string | null;
  amounts: Record<string, Money>;
}

const PAGE = 25;
const words = (money: Money): string => Object.entries(money).map(([name, amount]) => `${name} ${amount}`).join(", ");
const main = (money: Money): string => Object.keys(money).find((name) => name !== "delta") ?? "delta";

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
  return (
    <div class="stack">
      <Budgets budgets={book.answer.budgets} />
      <Cycles cycles={book.answer.cycles} />
      <Chain book={book.answer} />
    </div>
  );
}

function Budgets({ budgets }: { budgets: Budget[] }) {
  if (budgets.length === 0) return <p class="empty">No budget has been set yet.</p>;
  return (
    <div class="tiles">
      {budgets.map((budget) => {
        const unit = main(budget.caps);
        const [cap, spent, reserved] = [budget.caps, budget.spent, budget.reserved].map((money) => Number(money[unit]));
        const part = (x: number): number => (cap! > 0 ? Math.min(100, (100 * x) / cap!) : 0);
        return (
          <Card key={budget.scope} title={budget.scope}>
            <svg class="budget" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={`${show(part(spent!), 3)} % spent, ${show(part(reserved!), 3)} % reserved`}>
              <rect class="rail" width="100" height="6" />
              <rect class="spent" width={part(spent!)} height="6" />
              <rect class="promised" x={part(spent!)} width={part(reserved!)} height="6" />
            </svg>
            <dl class="stats narrow">
              <Stat label="Cap">{words(budget.caps)}</Stat>
              <Stat label="Spent">{words(budget.spent)}</Stat>
              <Stat label="Reserved">{words(budget.reserved)}</Stat>
              <Stat label="Available">{words(budget.available)}</Stat>
            </dl>
            <p class="method">
              {budget.kind}, {budget.relation.replaceAll("-", " ")}
              {budget.privacy_unit && `, per ${budget.privacy_unit}`}
              {budget.simulation && ", simulations only"}. {budget.theorem}
            </p>
          </Card>
        );
      })}
    </div>
  );
}

function Cycles({ cycles }: { cycles: Cycle[] }) {
  const scopes = [...new Set(cycles.map((c) => `${c.scope} (${c.kind})`))];
  const [chosen, choose] = useState<string | null>(null);
  const scope = chosen ?? scopes[0];
  const mine = useMemo(() => cycles.filter((c) => `${c.scope} (${c.kind})` === scope), [cycles, scope]);
  if (!scope) return null;
  const unit = main(mine[0]!.amount);
  return (
    <Card title="What each release cost, and all of them together">
      {scopes.length > 1 && (
        <div class="field">
          <label for="cycle-scope">Scope</label>
          <select id="cycle-scope" value={scope} onInput={(e) => choose(e.currentTarget.value)}>
            {scopes.map((each) => (
              <option key={each} value={each}>
                {each}
              </option>
            ))}
          </select>
        </div>
      )}
      <Plot
        title={`${unit} of each release under ${scope}, and the cumulative line; charged when it starts, never given back`}
        x={{ title: "release", whole: true }}
        y={{ title: unit }}
        series={[
          { name: "cumulative", look: "claim", points: [[0, 0], ...mine.map((c, i) => [i + 1, Number(c.cumulative[unit])] as const)] },
          { name: "this release", look: "estimate", points: mine.map((c, i) => [i + 1, Number(c.amount[unit])] as const) },
        ]}
      />
      <Table
        caption="Releases"
        columns={[{ title: "release" }, { title: "started" }, { title: "cost" }, { title: "cumulative" }]}
        rows={mine.slice(-100).map((c) => [c.key, c.time.slice(0, 16).replace("T", " "), words(c.amount), words(c.cumulative)])}
      />
    </Card>
  );
}

function Chain({ book }: { book: Book }) {
  const [offset, setOffset] = useState(0);
  const page = useAnswer(offset, (from, signal) => get<{ total: number; entries: Entry[] }>(`ledger/entries?offset=${from}&limit=${PAGE}`, signal), { delay: 0 });
  const [asked, setAsked] = useState(0);
  const check = useAnswer(asked > 0 ? asked : null, (_, signal) => post<{ sound: boolean; says?: string; entries?: number; head?: string }>("ledger/verify", {}, signal), { delay: 0 });
  return (
    <Card title="The chain of entries">
      <div class="buttons">
        <button type="button" class="main" onClick={() => setAsked((n) => n + 1)} disabled={check.busy}>
          Verify the ledger
        </button>
      </div>
      <div role="status">
        {check.answer?.sound && (
          <Notice grade="good">
            All {showWhole(check.answer.entries!)} entries hold; balances worked out again agree. Head <code>{check.answer.head}</code>. Keep it elsewhere: a later cut
            then shows.
          </Notice>
        )}
        {check.answer && !check.answer.sound && <Notice grade="void">The ledger does not hold: {check.answer.says}</Notice>}
      </div>
      {check.problem && <Trouble problem={check.problem} retry={check.retry} />}
      {page.problem && <Trouble problem={page.problem} retry={page.retry} />}
      {page.answer && (
        <Table
          caption={`Entries, newest first: ${showWhole(offset + 1)} to ${showWhole(Math.min(offset + PAGE, page.answer.total))} of ${showWhole(page.answer.total)}`}
          columns={[{ title: "#", number: true }, { title: "time (UTC)" }, { title: "what" }, { title: "scope" }, { title: "key" }, { title: "amounts" }, { title: "hash" }]}
          rows={page.answer.entries.map((e) => [
            e.index,
            e.time.slice(0, 19).replace("T", " "),
            e.verb,
            e.scope,
            e.key ?? "",
            Object.entries(e.amounts).map(([kind, money]) => `${kind}: ${words(money)}`).join("; "),
            <code title={e.hash}>{e.hash.slice(0, 12)}…</code>,
          ])}
        />
      )}
      <div class="buttons">
        <button type="button" class="quiet" disabled={offset === 0} onClick={() => setOffset((n) => Math.max(0, n - PAGE))}>
          Newer
        </button>
        <button type="button" class="quiet" disabled={offset + PAGE >= book.entries} onClick={() => setOffset((n) => n + PAGE)}>
          Older
        </button>
      </div>
    </Card>
  );
}
