import { useState } from "preact/hooks";
import { Card } from "../components/Card";
import { Plot } from "../components/Plot";
import type { Series } from "../components/Plot";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { type Ready, useQuery, useReady } from "../lib/use-query";
import { get } from "../lib/api";
import { dayAfter, forecast } from "../lib/forecast";
import { type Budget, symbolOf, type Amounts, formatAmounts } from "../lib/amounts";
import { show, showAmount, showInteger } from "../lib/numbers";

interface Cycle {
  scope: string;
  key: string | null; // null: the charge for all blocks of a partition
  time: string;
  amount: Amounts;
  cumulative: Amounts;
}

interface Spent {
  caps: Amounts;
  cycles: Cycle[];
}

const CYCLES = 100;
const LISTED = 25;
const SPENDERS = 8;
const DAY = 86_400_000;
const main = (amounts: Amounts): string => Object.keys(amounts).find((name) => name !== "delta") ?? "delta";
const minute = (time: string): string => time.slice(0, 16).replace("T", " ");
const shares = (budget: Budget): { unit: string; cap: number; spent: number; reserved: number; left: number } => {
  const unit = main(budget.caps);
  const of = (amounts: Amounts): number => Number(amounts[unit]);
  return { unit, cap: of(budget.caps), spent: of(budget.spent), reserved: of(budget.reserved), left: of(budget.available) };
};

/** All budgets, with details of the selected one. */
export function Budgets({ budgets, entries, ready }: { budgets: Budget[]; entries: number; ready: Ready }) {
  const [scope, select] = useState(budgets[0]!.scope);
  const selected = budgets.find((each) => each.scope === scope) ?? budgets[0]!;
  return (
    <>
      <Card title="Budgets">
        <ul class="budgets">
          {budgets.map((each) => (
            <li key={each.scope}>
              <button type="button" aria-pressed={each === selected} onClick={() => select(each.scope)}>
                <Name budget={each} />
                <Bar budget={each} />
                <span class="left">{each.partition === null ? <Available budget={each} /> : <Blocks budget={each} />}</span>
              </button>
            </li>
          ))}
        </ul>
        <p class="key">
          <span class="swatch spent" /> spent (permanent) <span class="swatch promised" /> reserved
        </p>
      </Card>
      <BudgetDetail key={selected.scope} budget={selected} entries={entries} ready={ready} />
    </>
  );
}

function Name({ budget }: { budget: Budget }) {
  const cut = budget.scope.lastIndexOf("/") + 1;
  return (
    <span class="name">
      <span class="above">{budget.scope.slice(0, cut)}</span>
      {budget.scope.slice(cut)} {budget.simulation && <span class="simulated">simulations only</span>} {budget.partition !== null && <span class="simulated">partition</span>}
    </span>
  );
}

function Available({ budget }: { budget: Budget }) {
  const { unit, cap, left } = shares(budget);
  return (
    <>
      <b>
        {symbolOf(unit)} {show(left, 4, "down")}
      </b>{" "}
      available of {show(cap, 4, "down")}
    </>
  );
}

function Blocks({ budget }: { budget: Budget }) {
  const { unit, cap } = shares(budget);
  return (
    <>
      {symbolOf(unit)} {show(cap, 4, "down")} in each block
    </>
  );
}

function Bar({ budget }: { budget: Budget }) {
  const { cap, spent, reserved } = shares(budget);
  if (budget.partition !== null) return <span />; // a charge in a block counts in that block only
  const part = (x: number): number => (cap > 0 ? Math.min(100, (100 * x) / cap) : 0);
  return (
    <svg class="budget" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={`${show(part(spent), 3, "up")}% spent, ${show(part(reserved), 3, "up")}% reserved`}>
      <rect class="rail" width="100" height="6" />
      <rect class="spent" width={part(spent)} height="6" />
      <rect class="promised" x={part(spent)} width={part(reserved)} height="6" />
    </svg>
  );
}

function BudgetDetail({ budget, entries, ready }: { budget: Budget; entries: number; ready: Ready }) {
  const { scope } = budget;
  const found = useQuery({ scope, entries }, ({ scope: each }, signal) => get<Spent>(`ledger/cycles?scope=${encodeURIComponent(each)}&limit=${CYCLES}`, signal), { delay: 0 });
  useReady("cycles", found, ready);
  const quantities = Object.keys(budget.caps);
  const line = (name: string, amounts: Amounts): string[] => [name, ...quantities.map((each) => showAmount(amounts[each]!))];
  return (
    <Card title={<Name budget={budget} />}>
      <p class="headroom">
        {budget.partition === null ? <Available budget={budget} /> : <Blocks budget={budget} />}
        {budget.partition === null && shares(budget).reserved > 0 && `, with ${symbolOf(shares(budget).unit)} ${show(shares(budget).reserved, 4, "up")} reserved`}.
        {budget.partition !== null && " A charge in a block counts in that block only; the budgets above were charged for one block."}
      </p>
      {found.problem && <ErrorNotice problem={found.problem} retry={found.retry} />}
      {found.answer && found.answer.cycles.length > 0 && <History budget={budget} cycles={found.answer.cycles} />}
      {found.answer && found.answer.cycles.length === 0 && <p class="empty">No charge has started under this budget.</p>}
      <details class="part exact">
        <summary>Exact amounts and composition rule</summary>
        <Table
          caption={`Balance of ${scope}`}
          columns={[{ title: "amount" }, ...quantities.map((each) => ({ title: symbolOf(each), number: true }))]}
          rows={[line("cap", budget.caps), ...(budget.partition === null ? [line("spent", budget.spent), line("reserved", budget.reserved), line("available", budget.available)] : [])]}
        />
        <p class="method">
          {budget.kind}, {budget.relation.replaceAll("-", " ")}
          {budget.privacy_unit && `, per ${budget.privacy_unit}`}. {budget.target_guarantee && `The cap guarantees (ε ${budget.target_guarantee.epsilon}, δ ${budget.target_guarantee.delta}). `}
          Composition: {budget.theorem}
        </p>
      </details>
    </Card>
  );
}

/** Whether a charge is covered by its partition's charge. */
const isCoveredByPartition = (cycle: Cycle): boolean => cycle.key !== null && Object.values(cycle.amount).every((amount) => Number(amount) === 0);

function History({ budget, cycles }: { budget: Budget; cycles: readonly Cycle[] }) {
  const { unit, cap, left, reserved } = shares(budget);
  const sign = symbolOf(unit);
  const of = (amounts: Amounts): number => Number(amounts[unit]);
  const before = of(cycles[0]!.cumulative) - of(cycles[0]!.amount);
  const total = of(cycles.at(-1)!.cumulative);
  const some = cycles.length === CYCLES ? `, the newest ${CYCLES}` : "";
  const series: Series[] = [
    { name: "this release", look: "bar", points: cycles.map((c, i) => [i + 1, of(c.amount)] as const) },
    { name: "cumulative", look: "step", points: [[0, before] as const, ...cycles.map((c, i) => [i + 1, of(c.cumulative)] as const)] },
    ...(cap < 4 * total ? [{ name: "cap", look: "cap" as const, points: [[cycles.length, cap]] as const }] : []),
  ];
  return (
    <>
      {budget.partition === null && <BurnDown unit={unit} cap={cap} left={left + reserved} cycles={cycles} />}
      <Plot title={`${sign} of each release${some}, charged permanently when it starts`} x={{ title: "release", whole: true }} y={{ title: sign }} series={series} />
      <Spenders cycles={cycles} unit={unit} some={some} />
      <Table
        caption={`Releases${some}, newest first`}
        prose
        columns={[{ title: "release" }, { title: "scope" }, { title: "started (UTC)", tight: true }, { title: "cost" }, { title: "cumulative" }]}
        rows={cycles.map((c) => [c.key ?? `partition ${c.scope}`, c.scope, minute(c.time), isCoveredByPartition(c) ? "covered by its partition" : formatAmounts(c.amount), formatAmounts(c.cumulative)]).toReversed().slice(0, LISTED)}
      />
    </>
  );
}

/** The available amount over time under today's cap, with a forecast at the recent rate. */
function BurnDown({ unit, cap, left, cycles }: { unit: string; cap: number; left: number; cycles: readonly Cycle[] }) {
  const now = Date.now();
  const day = (time: string): number => Math.min(0, (Date.parse(time) - now) / DAY);
  const of = (amounts: Amounts): number => Number(amounts[unit]);
  const seen = forecast(cycles.map((c) => ({ day: day(c.time), amount: of(c.amount) })), left);
  const first = day(cycles[0]!.time);
  if (first > -1) return null; // all within a day
  const series: Series[] = [
    { name: "available", look: "step", ends: true, points: [[first, cap - of(cycles[0]!.cumulative) + of(cycles[0]!.amount)], ...cycles.map((c) => [day(c.time), cap - of(c.cumulative)] as const), [0, left]] },
  ];
  const days = seen && Math.min(seen.days, Math.max(90, -first));
  if (seen && days !== null && days > 0) series.push({ name: "forecast", look: "estimate", points: [[0, left], [days, left * (1 - days / seen.days)]] });
  return (
    <>
      <Plot title={`Available ${symbolOf(unit)} under today's cap`} x={{ title: "days from now", tight: true }} y={{ title: symbolOf(unit) }} series={series} />
      <p class="method">
        {seen === null && "Too little was spent in the last 30 days for a forecast."}
        {seen !== null &&
          (left <= 0
            ? "The budget is used up."
            : `${symbolOf(unit)} ${show(seen.spent, 4, "up")} was spent in the last ${showInteger(Math.round(seen.window))} days. At this rate the budget is used up around ${dayAfter(now, seen.days)} (an estimate).`)}
      </p>
    </>
  );
}

function Spenders({ cycles, unit, some }: { cycles: readonly Cycle[]; unit: string; some: string }) {
  const by = new Map<string, [releases: number, amount: number]>();
  for (const cycle of cycles) {
    const [releases, amount] = by.get(cycle.scope) ?? [0, 0];
    by.set(cycle.scope, [releases + 1, amount + Number(cycle.amount[unit])]);
  }
  if (by.size < 2) return null;
  const ranked = [...by].sort(([, [, a]], [, [, b]]) => b - a);
  const others = ranked.splice(SPENDERS);
  const sum = (part: 0 | 1): number => others.reduce((total, [, each]) => total + each[part], 0);
  if (others.length > 0) ranked.push([`${others.length} others`, [sum(0), sum(1)]]);
  const rows = ranked.map(([scope, [releases, amount]]) => [scope, showInteger(releases), show(amount, 4, "up")]);
  return <Table caption={`Spending by scope${some && `, of${some.slice(1)} releases`}`} columns={[{ title: "scope" }, { title: "releases", number: true }, { title: symbolOf(unit), number: true }]} rows={rows} />;
}
