import { useState } from "preact/hooks";
import { Card } from "../components/Card";
import { Plot } from "../components/Plot";
import type { Series } from "../components/Plot";
import { ScopeName } from "../components/ScopeName";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { type Ready, useQuery, useReady } from "../lib/use-query";
import { get } from "../lib/api";
import { dayAfter, forecast } from "../lib/forecast";
import { type Budget, symbolOf, type Amounts, isWithin, summarizeAmounts } from "../lib/amounts";
import { listOutlooks } from "../lib/refusals";
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
const NEXT = 4;
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
      <BudgetDetail key={selected.scope} budget={selected} budgets={budgets} entries={entries} ready={ready} />
    </>
  );
}

function Name({ budget }: { budget: Budget }) {
  return (
    <span class="name">
      <ScopeName name={budget.scope} /> {budget.simulation && <span class="simulated">simulations only</span>} {budget.partition !== null && <span class="simulated">partition</span>}{" "}
      {budget.requires_certificate && <span class="simulated">certificate required</span>}{" "}
      {budget.requires_approvals > 0 && <span class="simulated">approvals required: {budget.requires_approvals}</span>}{" "}
      {budget.requires_child_budget && <span class="simulated">charges only in a budget below</span>}{" "}
      {budget.valid_from !== null && <span class="simulated">from {budget.valid_from.slice(0, 10)}</span>}{" "}
      {budget.valid_until !== null && <span class="simulated">until {budget.valid_until.slice(0, 10)}</span>}
    </span>
  );
}

function Available({ budget }: { budget: Budget }) {
  const { unit, cap, left } = shares(budget);
  return (
    <>
      <b>
        {symbolOf(unit)} {show(left, 3, "down")}
      </b>{" "}
      left of {show(cap, 3, "down")}
    </>
  );
}

function Blocks({ budget }: { budget: Budget }) {
  const { unit, cap } = shares(budget);
  return (
    <>
      {symbolOf(unit)} {show(cap, 3, "down")} in each block
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

function BudgetDetail({ budget, budgets, entries, ready }: { budget: Budget; budgets: Budget[]; entries: number; ready: Ready }) {
  const { scope } = budget;
  const found = useQuery({ scope, entries }, ({ scope: each }, signal) => get<Spent>(`ledger/cycles?scope=${encodeURIComponent(each)}&limit=${CYCLES}`, signal), { delay: 0 });
  useReady("cycles", found, ready);
  const quantities = Object.keys(budget.caps);
  const line = (name: string, amounts: Amounts): string[] => [name, ...quantities.map((each) => showAmount(amounts[each]!))];
  const { unit, cap, spent, reserved, left } = shares(budget);
  const sign = symbolOf(unit);
  const cycles = found.answer?.cycles ?? [];
  return (
    <Card title={<Name budget={budget} />}>
      {budget.partition === null ? (
        <p class={`headroom remaining ${left > 0 ? "" : "none"}`}>
          <b>
            {sign} {show(left, 3, "down")}
          </b>{" "}
          <span>
            left of {show(cap, 3, "down")}. {sign} {show(spent, 3, "up")} is spent{reserved > 0 ? `, ${sign} ${show(reserved, 3, "up")} reserved` : ""}.
          </span>
        </p>
      ) : (
        <p class="headroom">
          <Blocks budget={budget} />. A charge in a block counts in that block only; the budgets above were charged for one block.
        </p>
      )}
      {found.problem && <ErrorNotice problem={found.problem} retry={found.retry} />}
      {cycles.length > 0 && <Spenders cycles={cycles} unit={unit} above={scope} />}
      <NextRefusals budget={budget} budgets={budgets} cycles={cycles} />
      {cycles.length > 0 && budget.partition === null && <SpendingCurve budget={budget} cycles={cycles} />}
      {found.answer && cycles.length === 0 && <p class="empty">No charge has started under this budget.</p>}
      {cycles.length > 0 && (
        <details class="part exact">
          <summary>Every release</summary>
          <Releases cycles={cycles} />
        </details>
      )}
      <details class="part exact">
        <summary>Exact amounts and composition rule</summary>
        <Table
          caption={`Balance of ${scope}`}
          columns={[{ title: "amount" }, ...quantities.map((each) => ({ title: symbolOf(each), number: true }))]}
          rows={[line("cap", budget.caps), ...(budget.partition === null ? [line("spent", budget.spent), line("reserved", budget.reserved), line("left", budget.available)] : [])]}
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

/** A scope without the budget's own part. */
const within = (scope: string, above: string): string => scope.slice(scope.startsWith(`${above}/`) ? above.length + 1 : 0);

/** What would be refused next, and why. */
function NextRefusals({ budget, budgets, cycles }: { budget: Budget; budgets: Budget[]; cycles: readonly Cycle[] }) {
  const outlooks = listOutlooks(cycles, budgets).slice(0, NEXT);
  const certified = budgets.filter((each) => each.requires_certificate && isWithin(each.scope, budget.scope));
  if (outlooks.length + certified.length === 0) return null;
  return (
    <>
      <h3>What would be refused next</h3>
      <ul class="next">
        {certified.map((each) => (
          <li key={each.scope}>
            Any charge without a certificate: <ScopeName name={each.scope} /> requires one.
          </li>
        ))}
        {outlooks.map(({ charge, fits, budget: refuses, quantity }) => (
          <li key={charge.scope} class={fits > 0 ? "fits" : ""}>
            {fits > 0 ? (
              <>
                {fits === 1 ? "One more charge" : `${showInteger(fits)} more charges`} like <ScopeName name={charge.key!} /> {fits === 1 ? "fits" : "fit"}. <ScopeName name={refuses.scope} /> refuses the next.
              </>
            ) : (
              <>
                Another charge like <ScopeName name={charge.key!} />: it needs {symbolOf(quantity)} {show(Number(charge.amount[quantity]), 3, "up")}, and <ScopeName name={refuses.scope} /> has {show(Math.max(0, Number(refuses.available[quantity])), 3, "down")} left.
              </>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}

/** Whether a charge is covered by its partition's charge. */
const isCoveredByPartition = (cycle: Cycle): boolean => cycle.key !== null && Object.values(cycle.amount).every((amount) => Number(amount) === 0);

function Releases({ cycles }: { cycles: readonly Cycle[] }) {
  const some = cycles.length === CYCLES ? `, the newest ${CYCLES}` : "";
  return (
    <Table
      caption={`Releases${some}, newest first`}
      prose
      columns={[{ title: "release" }, { title: "scope" }, { title: "started (UTC)", tight: true }, { title: "cost" }, { title: "total" }]}
      rows={cycles.map((c) => [<ScopeName name={c.key ?? `partition ${c.scope}`} />, <ScopeName name={c.scope} />, minute(c.time), isCoveredByPartition(c) ? "covered by its partition" : summarizeAmounts(c.amount, "up"), summarizeAmounts(c.cumulative, "up")]).toReversed().slice(0, LISTED)}
    />
  );
}

/** Units of the time axis, coarsest first: days for a long history, minutes for a short one. */
const TIMES = [
  ["days", DAY],
  ["hours", DAY / 24],
  ["minutes", DAY / 1440],
] as const;

/** Spending over time against today's cap, with a forecast at the recent rate; a sentence is its name. */
function SpendingCurve({ budget, cycles }: { budget: Budget; cycles: readonly Cycle[] }) {
  const { unit, cap, left, reserved } = shares(budget);
  const now = Date.now();
  const of = (amounts: Amounts): number => Number(amounts[unit]);
  const ago = (time: string): number => Math.min(0, Date.parse(time) - now);
  const first = ago(cycles[0]!.time);
  const [time, length] = TIMES.find(([, each]) => -first > each) ?? TIMES.at(-1)!;
  const total = of(cycles.at(-1)!.cumulative);
  const start = of(cycles[0]!.cumulative) - of(cycles[0]!.amount);
  const seen = first < -DAY ? forecast(cycles.map((c) => ({ day: ago(c.time) / DAY, amount: of(c.amount) })), left + reserved) : null;
  const series: Series[] = [
    { name: "spent", look: "step", ends: true, points: [[Math.min(1.02 * first, -length) / length, start], ...cycles.map((c) => [ago(c.time) / length, of(c.cumulative)] as const), [0, total]] },
    { name: "cap", look: "cap", points: [[0, cap]] },
  ];
  const days = seen && Math.min(seen.days, Math.max(90, -first / DAY));
  if (seen && days !== null && days > 0) series.push({ name: "forecast", look: "estimate", points: [[0, total], [(days * DAY) / length, total + (cap - total) * (days / seen.days)]] });
  const sign = symbolOf(unit);
  const count = cycles.length === CYCLES ? `the newest ${CYCLES}` : showInteger(cycles.length);
  return (
    <>
      <Plot
        title={`${sign} ${show(total, 3, "up")} of ${show(cap, 3, "down")} is spent, by ${count} ${cycles.length === 1 ? "release" : "releases"} since ${cycles[0]!.time.slice(0, 10)}.`}
        x={{ title: `${time} from now`, tight: true }}
        y={{ title: sign }}
        series={series}
      />
      {seen && (
        <p class="method">
          {left + reserved <= 0
            ? "The budget is used up."
            : `${sign} ${show(seen.spent, 3, "up")} was spent in the last ${showInteger(Math.round(seen.window))} days. At this rate the budget is used up around ${dayAfter(now, seen.days)} (an estimate).`}
        </p>
      )}
      {seen === null && first < -DAY && <p class="method">Too little was spent in the last 30 days for a forecast.</p>}
    </>
  );
}

/** Who spent what, most first. */
function Spenders({ cycles, unit, above }: { cycles: readonly Cycle[]; unit: string; above: string }) {
  const by = new Map<string, [releases: number, amount: number]>();
  for (const cycle of cycles) {
    const [releases, amount] = by.get(cycle.scope) ?? [0, 0];
    by.set(cycle.scope, [releases + 1, amount + Number(cycle.amount[unit])]);
  }
  const ranked = [...by].sort(([, [, a]], [, [, b]]) => b - a);
  const others = ranked.splice(SPENDERS);
  const sum = (part: 0 | 1): number => others.reduce((total, [, each]) => total + each[part], 0);
  if (others.length > 0) ranked.push([`${others.length} others`, [sum(0), sum(1)]]);
  const most = Math.max(...ranked.map(([, [, amount]]) => amount), Number.MIN_VALUE);
  return (
    <>
      <h3>Who spent what{cycles.length === CYCLES ? `, in the newest ${CYCLES} releases` : ""}</h3>
      <ul class="spenders">
        {ranked.map(([scope, [releases, amount]]) => (
          <li key={scope}>
            <ScopeName name={within(scope, above)} />
            <span>
              {symbolOf(unit)} {show(amount, 3, "up")} in {showInteger(releases)} {releases === 1 ? "release" : "releases"}
            </span>
            <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
              <rect class="rail" width="100" height="6" />
              <rect width={(100 * amount) / most} height="6" />
            </svg>
          </li>
        ))}
      </ul>
    </>
  );
}
