// Ledger actions for users with a token that permits them: charge, finish a charge, override a cost, set a cap. The server
// enforces permissions; the page shows only the actions of the user's role.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Card } from "../components/Card";
import { Field } from "../components/Field";
import { Notice } from "../components/Notice";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { type Ready, useQuery, useReady } from "../lib/use-query";
import { get, post } from "../lib/api";
import { type FieldSpec, type Form, temporaryStore, useForm, type Values } from "../lib/form";
import { type Budget, symbolOf, type Amounts, isWithin, formatAmounts } from "../lib/amounts";
import { showAmount, showInteger } from "../lib/numbers";
import { Problem, type Refusal } from "../lib/types";

/** A release that a calculator passes in the URL, with the delta of its cost. */
interface Handover {
  release: Record<string, unknown>;
  delta: string;
}

function readHandover(): Handover | null {
  const query = new URLSearchParams(location.search);
  try {
    const release: unknown = JSON.parse(query.get("release") ?? "");
    return typeof release === "object" && release !== null ? { release: { ...release }, delta: query.get("delta") ?? "" } : null;
  } catch {
    return null; // no valid release: show the plain form
  }
}

interface Holder {
  name: string;
  role: string;
  scope: string | null;
  acts: string[];
}

/** The identifiers of a charge. */
interface Named {
  key: string;
  scope: string;
}

interface Charged extends Named {
  amounts: Record<string, Amounts>;
  replayed: boolean;
}

interface Charge extends Named {
  state: string;
  amounts: Record<string, Amounts>;
  rounds: number | null;
  actor?: string;
  approvals?: string[];
}

interface Context {
  budgets: Budget[];
  who: Holder;
  given: Handover | null; // the release that a calculator passes
  done: () => void; // called after a write
}

export const formatCosts = (amounts: Record<string, Amounts>): string => Object.values(amounts).map(formatAmounts).join("; ");
/** Whether access is by loopback, without a token. */
const isLoopback = (who: Holder): boolean => who.name === "loopback";
const article = (role: string): string => (/^[aeiou]/.test(role) ? `an ${role}` : `a ${role}`);

export function LedgerActions({ budgets, done, ready }: { budgets: Budget[]; done: () => void; ready: Ready }) {
  const holder = useQuery("holder", (path, signal) => get<Holder>(path, signal), { delay: 0 });
  const [going, setGoing] = useState<Named>({ key: "", scope: "" });
  useReady("holder", holder, ready);
  const given = useMemo(readHandover, []);
  const who = holder.answer;
  if (!who?.acts.includes("spend")) return null;
  const context = { budgets, who, given, done };
  return (
    <Card title="Charge and manage budgets" screen>
      <p class="method">
        {isLoopback(who) ? (
          "This server requires no tokens: every user of this machine owns the ledger."
        ) : (
          <>
            You are signed in as {who.name}, {article(who.role)} of {who.scope === null ? "the whole ledger" : <code>{who.scope}</code>}.
          </>
        )}{" "}
        Ledger entries are permanent.
      </p>
      <Part title="Charge a release" opens={given ? "given" : ""}>
        <NewCharge {...context} onReserve={setGoing} />
      </Part>
      <Part title="Finish a charge" opens={going.key}>
        <ContinueCharge {...context} first={going} />
      </Part>
      {who.acts.includes("own") && (
        <>
          <Part title="Override the cost of one charge">
            <AllowOverride {...context} />
          </Part>
          <Part title="Create a budget">
            <NewBudget {...context} />
          </Part>
          <Part title="Change a cap">
            <Caps {...context} />
          </Part>
        </>
      )}
    </Card>
  );
}

/** A collapsed section that opens when `opens` changes. */
function Part({ title, opens, children }: { title: string; opens?: string; children: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const met = useRef(false); // a collapsed section keeps its input
  met.current ||= open;
  useEffect(() => {
    if (opens) setOpen(true);
  }, [opens]);
  return (
    <details class="part" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{title}</summary>
      {met.current && children}
    </details>
  );
}

/** Run one action at a time; its outcome appears below the form until the input changes. */
export function useAction(form: Form) {
  const [busy, setBusy] = useState(false);
  const [outcomeText, setOutcomeText] = useState<ComponentChildren>(null);
  const [failure, setFailure] = useState<Problem | null>(null);
  const act = async (work: () => Promise<ComponentChildren>): Promise<void> => {
    setBusy(true);
    setOutcomeText(null);
    setFailure(null);
    try {
      setOutcomeText(await work());
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem("Unexpected error", String(error));
      form.refuse(problem.errors);
      setFailure(problem);
    } finally {
      setBusy(false);
    }
  };
  const outcome = (
    <>
      <div role="status">{outcomeText && <Notice grade="good">{outcomeText}</Notice>}</div>
      {failure && <RefusalNotice problem={failure} />}
    </>
  );
  const set = (name: string, value: string): void => {
    setOutcomeText(null);
    setFailure(null);
    form.set(name, value);
  };
  return { busy, act, outcome, form: { ...form, set } };
}

/** A refused charge: the amounts, what would fit, and the owners who can raise the cap. */
function RefusalNotice({ problem }: { problem: Problem }) {
  const { refusal } = problem;
  if (refusal === null)
    return (
      <>
        <ErrorNotice problem={problem} />
        {(problem.status === 0 || problem.status >= 500) && <p class="method">The entry may have been written. Check the chain below before you retry; the same key is charged once.</p>}
      </>
    );
  return (
    <div class="notice void" role="alert">
      <span class="mark" aria-hidden="true">
        ✕
      </span>
      <div class="refusal">
        <b>Budget {refusal.scope} refuses this charge{refusal.reason && `: ${refusal.reason}`}.</b> {refusal.hint && `${refusal.hint[0]!.toUpperCase()}${refusal.hint.slice(1)}. `}
        {refusal.owners.length > 0 && `Ask the owner of ${refusal.owners.join(" or ")} to raise the cap. `}
        Nothing was written.
        <Sums refusal={refusal} />
      </div>
    </div>
  );
}

function Sums({ refusal }: { refusal: Refusal }) {
  const quantities = Object.keys(refusal.requested);
  const lines: [string, Amounts][] = [
    ["cap", refusal.caps],
    ["spent", refusal.spent],
    ["reserved", refusal.reserved],
    ["quotas", refusal.set_aside],
    ["available", refusal.available],
    ["requested", refusal.requested],
    ["shortfall", refusal.shortfall],
  ];
  const rows = lines.filter(([, amounts]) => quantities.some((each) => amounts[each] !== undefined));
  return (
    <Table
      caption="Requested and available amounts"
      columns={[{ title: "amount" }, ...quantities.map((each) => ({ title: symbolOf(each), number: true }))]}
      rows={rows.map(([name, amounts]) => [name, ...quantities.map((each) => (amounts[each] === undefined ? "–" : showAmount(amounts[each])))])}
    />
  );
}

export const text = (name: string, label: string, more: Partial<FieldSpec> = {}): FieldSpec => ({ name, label, kind: "text", initial: "", max: 500, ...more });

const newKey = (): string => `page-${[...crypto.getRandomValues(new Uint8Array(6))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;

const SYMBOLS: Record<string, string> = { pure: "ε", approximate: "ε", zcdp: "ρ", gdp: "μ" };
const FIELDS: Record<string, string> = { pure: "epsilon", approximate: "epsilon", zcdp: "rho", gdp: "mu" };

/** Return the fields of a stated release: scope, guarantee, key. */
function makeReleaseSpecs({ budgets, who, given }: Context): FieldSpec[] {
  const scopes = budgets.filter((each) => isWithin(who.scope, each.scope)).map((each) => each.scope);
  return [
    text("scope", "Scope", { initial: scopes[0] ?? who.scope ?? "", suggestions: scopes, hint: "of a budget or below one" }),
    {
      name: "release",
      label: "Guarantee",
      kind: "choice",
      initial: given ? "given" : "pure",
      choices: [
        ...(given ? [["given", "the calculated release"] as const] : []),
        ["pure", "ε-DP"],
        ["approximate", "(ε, δ)-DP"],
        ["zcdp", "ρ-zCDP"],
        ["gdp", "μ-GDP"],
      ],
    },
    { name: "value", label: "Parameter", kind: "real", initial: "0.1", exclusiveMin: 0, symbol: "ε", disabled: (raw) => raw.release === "given" },
    { name: "delta", label: "Failure probability", kind: "real", symbol: "δ", initial: given?.delta ?? "", optional: true, exclusiveMin: 0, exclusiveMax: 1, hint: "of the guarantee or of the charge", disabled: (raw) => !hasDelta(budgets, raw.release, raw.scope ?? "") },
    text("key", "Key", { initial: newKey(), hint: "retries with this key are charged once" }),
  ];
}

const needsDelta = (values: Values): Record<string, string> => (values.release === "approximate" && values.delta === null ? { delta: "needs a value" } : {});

/** Return the budgets on a scope's path, which a charge must fit. */
const path = (budgets: Budget[], scope: string): Budget[] => budgets.filter((each) => isWithin(each.scope, scope.trim()));

/** Whether delta is needed: the release has one, or a budget is charged at one. */
const hasDelta = (budgets: Budget[], release: unknown, scope: string): boolean => release === "approximate" || path(budgets, scope).some((each) => each.kind === "approximate");

const quantitiesAt = (budgets: Budget[], scope: string): string[] => [...new Set(path(budgets, scope).flatMap((each) => Object.keys(each.caps)))];

const costFields = (budgets: Budget[], quantities: string[], optional: boolean): FieldSpec[] =>
  quantities.map((each) => ({ name: `cost_${each}`, label: "Cost", kind: "amount", initial: "", symbol: symbolOf(each), optional, disabled: (raw) => !quantitiesAt(budgets, raw.scope ?? "").includes(each) }));

/** Return the typed cost as exact text, or null. */
function readCost(values: Values, quantities: string[]): Amounts | null {
  const given = quantities.map((each) => [each, values[`cost_${each}`]] as const).filter(([, amount]) => amount);
  return given.length > 0 ? Object.fromEntries(given as [string, string][]) : null;
}

function releaseOf(values: Values, { budgets, given }: Context, cost: Amounts | null) {
  const kind = String(values.release);
  const term = { type: kind, [FIELDS[kind]!]: values.value, ...(kind === "approximate" && { delta: values.delta }) };
  const scope = String(values.scope);
  const at = kind !== "approximate" && values.delta !== null && cost === null && hasDelta(budgets, kind, scope) ? { delta: String(values.delta) } : {};
  return { ask: { scope, release: kind === "given" && given ? given.release : { v: 1, term }, ...at }, simulation: path(budgets, scope).at(-1)?.simulation ?? false };
}

/** The fields of a stated release, with the symbol of its guarantee. */
function ReleaseFields({ form }: { form: Form }) {
  const kind = form.raw.release ?? "pure";
  const labeled = { ...form, specs: form.specs.map((each) => (each.name === "value" ? { ...each, symbol: SYMBOLS[kind] ?? "ε" } : each)) };
  return (
    <>
      <div class="wide">
        <Field form={labeled} name="scope" />
        <Field form={labeled} name="key" />
      </div>
      <div class="pair">
        <Field form={labeled} name="release" />
        <Field form={labeled} name="value" />
        <Field form={labeled} name="delta" />
      </div>
    </>
  );
}

/** Use a form for a stated release, with a cost in the quantities of its scope. */
function useReleaseForm(context: Context, more: readonly FieldSpec[], optional: boolean) {
  const { budgets } = context;
  const quantities = [...new Set(budgets.flatMap((each) => Object.keys(each.caps)))];
  const known = JSON.stringify(budgets.map((each) => [each.scope, each.kind, Object.keys(each.caps)]));
  const specs = useMemo(() => [...makeReleaseSpecs(context), ...costFields(budgets, quantities, optional), ...more], [known]);
  const form = useForm(specs, temporaryStore, needsDelta);
  return { form, values: form.values, quantities };
}

function NewCharge({ onReserve, ...context }: Context & { onReserve: (charge: Named) => void }) {
  const { form: release, values, quantities } = useReleaseForm(context, [], true);
  const { busy, act, outcome, form } = useAction(release);
  const ask = () => {
    const cost = readCost(values!, quantities);
    const { ask, simulation } = releaseOf(values!, context, cost);
    return { look: ask, write: { ...ask, key: values!.key, simulation, ...(cost && { amount: cost }) } };
  };
  const fits = async (): Promise<ComponentChildren> => {
    const found = await post<{ available: Amounts; charges: number | null }>("ledger/headroom", ask().look);
    const many = found.charges === null ? "This release costs nothing" : found.charges === 0 ? "This release does not fit" : `This release fits ${found.charges === 1 ? "once" : `${showInteger(found.charges)} times`}`;
    return `${many}. Available at this scope: ${formatAmounts(found.available)}.`;
  };
  const write = (verb: "reserve" | "charge") => async (): Promise<ComponentChildren> => {
    const made = await post<Charged>(`ledger/${verb}`, ask().write);
    context.done();
    release.set("key", newKey());
    if (verb === "reserve") onReserve({ key: made.key, scope: made.scope });
    return (
      <>
        {made.replayed ? "This key was already charged" : verb === "reserve" ? "Reserved" : "Charged"}: {formatCosts(made.amounts)}, key <code>{made.key}</code>.
      </>
    );
  };
  const go = (work: () => Promise<ComponentChildren>) => {
    form.attempt();
    if (values) void act(work);
  };
  return (
    <form
      class="act"
      onSubmit={(e) => {
        e.preventDefault();
        go(fits);
      }}
      noValidate
    >
      <ReleaseFields form={form} />
      {context.given && form.raw.release === "given" && (
        <details>
          <summary>The calculated release, as the ledger stores it</summary>
          <pre tabIndex={0}>{JSON.stringify(context.given.release, null, 1)}</pre>
        </details>
      )}
      <details>
        <summary>Use a cost override by an owner</summary>
        <div class="pair">
          {quantities.map((each) => (
            <Field key={each} form={form} name={`cost_${each}`} />
          ))}
        </div>
      </details>
      <div class="buttons">
        <button type="submit" class="quiet" disabled={busy}>
          Check headroom
        </button>
        <button type="button" class="main" disabled={busy} onClick={() => go(write("reserve"))}>
          Reserve
        </button>
        <button type="button" disabled={busy} onClick={() => go(write("charge"))}>
          Charge now (permanent)
        </button>
      </div>
      {outcome}
    </form>
  );
}

/** The actions on a charge by its state: button, verb, and whether a reason is stored. */
const NEXT: Record<string, readonly (readonly [label: string, verb: string, says: "" | "reason" | "act" | "actor", act: string])[]> = {
  reserved: [
    ["Approve", "approve", "actor", "own"],
    ["Start (spends it permanently)", "start", "", "spend"],
    ["Cancel the reservation", "cancel", "reason", "spend"],
    ["Revoke (deny it)", "revoke", "act", "own"],
  ],
  started: [
    ["Commit", "commit", "", "spend"],
    ["Abandon (its run is lost)", "abandon", "act", "own"],
  ],
  committed: [["Decommission", "decommission", "act", "own"]],
};

function ContinueCharge({ budgets, who, done, first }: Context & { first: Named }) {
  const [asked, setAsked] = useState(first);
  const specs = useMemo(
    () => [
      text("key", "Key", { initial: first.key }),
      text("at", "Scope", { initial: first.scope, hint: "if several scopes use the key", optional: true }),
      text("reason", "Reason", { hint: "stored permanently with actions that need one", optional: true, max: 2000 }),
    ],
    [],
  );
  const plain = useForm(specs, temporaryStore);
  const typed = { ...plain, set: (name: string, value: string) => (name === "key" && plain.set("at", ""), plain.set(name, value)) }; // the scope belonged to another key
  useEffect(() => {
    if (!first.key) return;
    typed.set("key", first.key);
    typed.set("at", first.scope);
    setAsked(first);
  }, [first]);
  const query = asked.key && new URLSearchParams({ key: asked.key, ...(asked.scope && { scope: asked.scope }) }).toString();
  const looked = useQuery(query || null, (each, signal) => get<{ charge: Charge | null }>(`ledger/charges?${each}`, signal), { delay: 0 });
  const { busy, act, outcome, form } = useAction(typed);
  const still = form.raw.key?.trim() === asked.key && (form.raw.at?.trim() ?? "") === asked.scope;
  const found = still ? looked.answer?.charge : null;
  const theirs = found?.actor !== undefined && found.actor !== who.name;
  const required = found ? Math.max(0, ...budgets.filter((each) => isWithin(each.scope, found.scope)).map((each) => each.requires_approvals)) : 0;
  const approvals = found?.approvals ?? [];
  const approves = required > 0 && !approvals.includes(who.name) && (theirs || isLoopback(who));
  const may = found && budgets.length > 0 ? (NEXT[found.state] ?? []).filter(([, verb, , needs]) => who.acts.includes(needs) && (!theirs || who.acts.includes("own")) && (verb !== "approve" || approves)) : [];
  const step = (verb: string, says: string) => async (): Promise<ComponentChildren> => {
    const reason = form.raw.reason?.trim() ?? "";
    if ((says === "reason" || says === "act") && !reason) {
      throw new Problem("A reason is required", "It is stored with the charge.", [{ field: "reason", message: "needs a value" }], 422);
    }
    const { charge } = await post<{ charge: Charge }>(`ledger/${verb}`, { key: found!.key, scope: found!.scope, ...((says === "reason" || says === "act") && { reason }), ...((says === "act" || says === "actor") && { actor: who.name }) });
    done();
    looked.retry();
    return verb === "approve" ? "You approved the charge." : `The charge is now ${charge.state}.`;
  };
  return (
    <form
      class="act"
      onSubmit={(e) => {
        e.preventDefault();
        form.attempt();
        if (form.values) (still ? looked.retry() : setAsked({ key: String(form.values.key), scope: String(form.values.at ?? "") }));
      }}
      noValidate
    >
      <div class="line">
        <Field form={form} name="key" />
        <Field form={form} name="at" />
        <button type="submit" class="quiet">
          Look up
        </button>
      </div>
      {looked.problem && <ErrorNotice problem={looked.problem} retry={looked.retry} />}
      <Field form={form} name="reason" />
      {looked.answer && looked.answer.charge === null && <p class="empty">No charge has this key.</p>}
      {found && (
        <>
          <p>
            State: <b>{found.state}</b>, scope <code>{found.scope}</code>
            {Object.keys(found.amounts).length > 0 && `, cost ${formatCosts(found.amounts)}`}
            {found.actor !== undefined && `, by ${found.actor}`}
            {required > 0 && `, ${approvals.length} of ${required} approvals${approvals.length > 0 ? ` (${approvals.join(", ")})` : ""}`}
            {found.rounds !== null && `, at most ${showInteger(found.rounds)} rounds`}.
          </p>
          <div class="buttons">
            {may.map(([label, verb, says]) => (
              <button key={verb} type="button" class={says ? "quiet" : "main"} disabled={busy} onClick={() => void act(step(verb, says))}>
                {label}
              </button>
            ))}
          </div>
          {theirs && may.length === 0 && <p class="method">Only {found.actor} or an owner can continue it.</p>}
        </>
      )}
      {outcome}
    </form>
  );
}

/** A form with one action, which needs all of its values. */
export function ActForm({ action, label, of, work, values = action.form.values, children }: { action: ReturnType<typeof useAction>; label: string; of?: string; work: () => Promise<ComponentChildren>; values?: unknown; children?: ComponentChildren }) {
  const { busy, act, outcome, form } = action;
  return (
    <form
      class="act"
      onSubmit={(e) => {
        e.preventDefault();
        form.attempt();
        if (values) void act(work);
      }}
      noValidate
    >
      {children}
      <div class="buttons">
        <button type="submit" class="main" disabled={busy} aria-label={of && `${label} ${of}`}>
          {label}
        </button>
      </div>
      {outcome}
    </form>
  );
}

function AllowOverride(context: Context) {
  const reason = useMemo(() => [text("reason", "Reason for this cost", { max: 2000, hint: "stored permanently" })], []);
  const { form: release, values, quantities } = useReleaseForm(context, reason, false);
  const action = useAction(release);
  const { form } = action;
  const allow = async (): Promise<ComponentChildren> => {
    const { ask, simulation } = releaseOf(values!, context, {});
    await post("ledger/override-cost", { ...ask, key: values!.key, amount: readCost(values!, quantities), reason: values!.reason, simulation });
    context.done();
    return (
      <>
        Override stored: one charge of this release at {String(values!.scope)} with the key <code>{String(values!.key)}</code> may state this cost. Every ledger check reports it.
      </>
    );
  };
  return (
    <ActForm action={action} label="Store override" work={allow} values={values}>
      <ReleaseFields form={form} />
      <div class="pair">
        {quantities.map((each) => (
          <Field key={each} form={form} name={`cost_${each}`} />
        ))}
      </div>
      <Field form={form} name="reason" />
    </ActForm>
  );
}

const BUDGET_KINDS: Record<string, readonly string[]> = { pure: ["epsilon"], approximate: ["epsilon", "delta"], zcdp: ["rho"] };
const CAPS: Record<string, string> = { epsilon: "1", delta: "1e-6", rho: "0.1" };

function NewBudget({ who, done }: Context) {
  const specs = useMemo(
    () => [
      text("scope", "Scope", { initial: who.scope ?? "", hint: "names joined by /" }),
      text("privacy_unit", "Privacy unit", { initial: "", hint: "such as person" }),
      { name: "kind", label: "Kind", kind: "choice", initial: "approximate", choices: [["approximate", "(ε, δ)-DP"], ["pure", "ε-DP"], ["zcdp", "ρ-zCDP"]] } satisfies FieldSpec,
      ...Object.keys(CAPS).map((each): FieldSpec => ({ name: each, label: "Cap", kind: "amount", symbol: symbolOf(each), initial: CAPS[each]!, disabled: (raw) => !BUDGET_KINDS[raw.kind ?? ""]?.includes(each) })),
      { name: "requires_certificate", label: "Requires a certificate with every charge", kind: "flag", initial: "no", hint: "charges without a proof of their cost are refused" } satisfies FieldSpec,
      { name: "requires_approvals", label: "Owners who must approve each charge", kind: "choice", initial: "0", choices: [["0", "none"], ["1", "one"], ["2", "two"]], hint: "a charge is reserved first, and starts once they have approved it" } satisfies FieldSpec,
    ],
    [],
  );
  const action = useAction(useForm(specs, temporaryStore));
  const { form } = action;
  const create = async (): Promise<ComponentChildren> => {
    const values = form.values as Record<string, string | boolean>;
    const { scope, kind, privacy_unit, requires_certificate } = values;
    await post("ledger/create", { scope, kind, privacy_unit, requires_certificate, requires_approvals: Number(values.requires_approvals), caps: Object.fromEntries(BUDGET_KINDS[String(kind)]!.map((each) => [each, values[each]])) });
    done();
    return `The budget ${scope} is created.${requires_certificate ? " It refuses charges without a certificate." : ""}`;
  };
  return (
    <ActForm action={action} label="Create the budget" work={create}>
      <div class="wide">
        <Field form={form} name="scope" />
        <Field form={form} name="privacy_unit" />
      </div>
      <div class="pair">
        <Field form={form} name="kind" />
        {Object.keys(CAPS).map((each) => (
          <Field key={each} form={form} name={each} />
        ))}
      </div>
      <Field form={form} name="requires_certificate" />
      <Field form={form} name="requires_approvals" />
    </ActForm>
  );
}

function Caps(context: Context) {
  const owned = context.budgets.filter((each) => isWithin(context.who.scope, each.scope));
  const [scope, choose] = useState(owned[0]?.scope ?? "");
  const met = useRef(new Set<string>()); // each budget's form keeps its input
  met.current.add(scope);
  if (!owned.some((each) => each.scope === scope)) return <p class="empty">There is no budget in your scope.</p>;
  return (
    <>
      <div class="field act">
        <label for="cap-scope">Budget</label>
        <select id="cap-scope" value={scope} onInput={(e) => choose(e.currentTarget.value)}>
          {owned.map((each) => (
            <option key={each.scope} value={each.scope}>
              {each.scope}
            </option>
          ))}
        </select>
      </div>
      {owned
        .filter((each) => met.current.has(each.scope))
        .map((each) => (
          <div key={each.scope} hidden={each.scope !== scope}>
            <Cap budget={each} who={context.who} done={context.done} />
          </div>
        ))}
    </>
  );
}

function Cap({ budget, who, done }: { budget: Budget; who: Holder; done: () => void }) {
  const limits = budget.target_guarantee ?? budget.caps;
  const quantities = Object.keys(limits);
  const specs = useMemo(
    () => [
      ...quantities.map((each): FieldSpec => ({ name: each, label: budget.target_guarantee ? "Target guarantee" : "Cap", kind: "amount", symbol: symbolOf(each), initial: limits[each]! })),
      text("actor", "Decided by", { initial: isLoopback(who) ? "" : who.name, hint: "stored permanently" }),
      text("reason", "Reason", { max: 2000, hint: "stored permanently" }),
    ],
    [],
  );
  const action = useAction(useForm(specs, temporaryStore));
  const { form } = action;
  const set = async (): Promise<ComponentChildren> => {
    const values = form.values as Record<string, string>;
    const caps = Object.fromEntries(quantities.map((each) => [each, values[each]!]));
    const made = await post<{ budget: { caps: Amounts } }>("ledger/set-cap", { scope: budget.scope, caps, actor: values.actor, reason: values.reason });
    done();
    return `The cap of ${budget.scope} is now ${formatAmounts(made.budget.caps)}.`;
  };
  return (
    <ActForm action={action} label="Set the cap" work={set}>
      <div class="pair roomy">
        {specs.map((each) => (
          <Field key={each.name} form={form} name={each.name} />
        ))}
      </div>
      <p class="method">Changing a cap does not change spent or reserved amounts. A cap below them refuses all further charges.</p>
    </ActForm>
  );
}
