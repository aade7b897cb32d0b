// What may be done to the ledger from its page, by those whose token allows it: charge, see a charge through, allow a
// price, set another cap. The server decides and refuses; nothing is offered here that a role does not allow.

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

/** A release that a calculator hands over in the address, and the delta that it was priced at. */
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
    return null; // not one of ours: the form is as usual
  }
}

interface Holder {
  name: string;
  role: string;
  scope: string | null;
  acts: string[];
}

/** What a charge is known by. */
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
  by?: string;
}

interface Context {
  budgets: Budget[];
  who: Holder;
  given: Handover | null; // what a calculator hands over
  done: () => void; // something was written
}

const formatCosts = (amounts: Record<string, Amounts>): string => Object.values(amounts).map(formatAmounts).join("; ");
/** Whether it is nobody's token that lets us in, but this machine. */
const isHere = (who: Holder): boolean => who.name === "loopback";
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
    <Card title="Spend, and decide" screen>
      <p class="method">
        {isHere(who) ? (
          "This server asks for no tokens: whoever is on this machine owns the ledger."
        ) : (
          <>
            You come in as {who.name}, {article(who.role)} of {who.scope === null ? "the whole ledger" : <code>{who.scope}</code>}.
          </>
        )}{" "}
        What is written is kept for ever.
      </p>
      <Part title="Charge a release" opens={given ? "given" : ""}>
        <NewCharge {...context} onReserve={setGoing} />
      </Part>
      <Part title="See a charge through" opens={going.key}>
        <ContinueCharge {...context} first={going} />
      </Part>
      {who.acts.includes("own") && (
        <>
          <Part title="Allow one charge at another price">
            <AllowOverride {...context} />
          </Part>
          <Part title="Set another cap">
            <Caps {...context} />
          </Part>
        </>
      )}
    </Card>
  );
}

/** A part that is folded until it is wanted; it opens by itself for something new. */
function Part({ title, opens, children }: { title: string; opens?: string; children: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const met = useRef(false); // what is folded again keeps what was typed there
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

/** One thing at a time is asked of the server; what came of it is said below the form until something else is typed there. */
function useAction(form: Form) {
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState<ComponentChildren>(null);
  const [failure, setFailure] = useState<Problem | null>(null);
  const act = async (work: () => Promise<ComponentChildren>): Promise<void> => {
    setBusy(true);
    setSaid(null);
    setFailure(null);
    try {
      setSaid(await work());
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem("An error of ours", String(error));
      form.refuse(problem.errors);
      setFailure(problem);
    } finally {
      setBusy(false);
    }
  };
  const outcome = (
    <>
      <div role="status">{said && <Notice grade="good">{said}</Notice>}</div>
      {failure && <RefusalNotice problem={failure} />}
    </>
  );
  const set = (name: string, value: string): void => {
    setSaid(null);
    setFailure(null);
    form.set(name, value);
  };
  return { busy, act, outcome, form: { ...form, set } };
}

/** A refusal: with every sum that it names, what would fit, and who can allow more. */
function RefusalNotice({ problem }: { problem: Problem }) {
  const { refusal } = problem;
  if (refusal === null)
    return (
      <>
        <ErrorNotice problem={problem} />
        {(problem.status === 0 || problem.status >= 500) && <p class="method">It may stand all the same. Look in the chain below before you ask again; the same key is charged once.</p>}
      </>
    );
  return (
    <div class="notice void" role="alert">
      <span class="mark" aria-hidden="true">
        ✕
      </span>
      <div class="refusal">
        <b>The budget of {refusal.scope} refuses{refusal.reason && `: ${refusal.reason}`}.</b> {refusal.hint && `${refusal.hint[0]!.toUpperCase()}${refusal.hint.slice(1)}. `}
        {refusal.owners.length > 0 && `More is for the owner of ${refusal.owners.join(" and of ")} to allow. `}
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
    ["set aside", refusal.set_aside],
    ["left", refusal.available],
    ["asked", refusal.requested],
    ["short by", refusal.shortfall],
  ];
  const rows = lines.filter(([, amounts]) => quantities.some((each) => amounts[each] !== undefined));
  return (
    <Table
      caption="What was asked, and what there is"
      columns={[{ title: "amount" }, ...quantities.map((each) => ({ title: symbolOf(each), number: true }))]}
      rows={rows.map(([name, amounts]) => [name, ...quantities.map((each) => (amounts[each] === undefined ? "–" : showAmount(amounts[each])))])}
    />
  );
}

/** A form's errors but for what was not typed yet; once it was sent, all of them. */
const patient = (form: Form, sent: boolean): Form => (sent ? form : { ...form, errors: Object.fromEntries(Object.entries(form.errors).filter(([name]) => form.raw[name]?.trim())) });

const text = (name: string, label: string, more: Partial<FieldSpec> = {}): FieldSpec => ({ name, label, kind: "text", initial: "", max: 500, ...more });

const newKey = (): string => `page-${[...crypto.getRandomValues(new Uint8Array(6))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;

const SYMBOLS: Record<string, string> = { pure: "ε", approximate: "ε", zcdp: "ρ", gdp: "μ" };
const FIELDS: Record<string, string> = { pure: "epsilon", approximate: "epsilon", zcdp: "rho", gdp: "mu" };

/** Where, what and under which key: the fields of a stated release. */
function makeReleaseSpecs({ budgets, who, given }: Context): FieldSpec[] {
  const scopes = budgets.filter((each) => isWithin(who.scope, each.scope)).map((each) => each.scope);
  return [
    text("scope", "Scope", { initial: scopes[0] ?? who.scope ?? "", suggestions: scopes, hint: "a budget’s, or one under it" }),
    {
      name: "release",
      label: "It keeps",
      kind: "choice",
      initial: given ? "given" : "pure",
      choices: [
        ...(given ? [["given", "what was calculated"] as const] : []),
        ["pure", "ε-DP"],
        ["approximate", "(ε, δ)-DP"],
        ["zcdp", "ρ-zCDP"],
        ["gdp", "μ-GDP"],
      ],
    },
    { name: "value", label: "With", kind: "real", initial: "0.1", exclusiveMin: 0, symbol: "ε" },
    { name: "delta", label: "And with", kind: "real", symbol: "δ", initial: given?.delta ?? "", optional: true, exclusiveMin: 0, exclusiveMax: 1, hint: "of what it keeps, or else at which approximate budgets are charged" },
    text("key", "Key", { initial: newKey(), hint: "the same scope, key and request are charged once" }),
  ];
}

const needsDelta = (values: Values): Record<string, string> => (values.release === "approximate" && values.delta === null ? { delta: "needs a value" } : {});

/** The path of a scope: the budgets that a charge there must fit. */
const path = (budgets: Budget[], scope: string): Budget[] => budgets.filter((each) => isWithin(each.scope, scope.trim()));

/** Whether a delta says anything: the release has one, or a budget is charged at one. */
const hasDelta = (budgets: Budget[], release: unknown, scope: string): boolean => release === "approximate" || path(budgets, scope).some((each) => each.kind === "approximate");

const quantitiesAt = (budgets: Budget[], scope: string): string[] => [...new Set(path(budgets, scope).flatMap((each) => Object.keys(each.caps)))];

const costFields = (quantities: string[], optional: boolean): FieldSpec[] =>
  quantities.map((each) => ({ name: `cost_${each}`, label: "Price", kind: "amount", initial: "", symbol: symbolOf(each), optional }));

/** A price that was typed, as exact text; null where none was. */
function readCost(values: Values, quantities: string[]): Amounts | null {
  const given = quantities.map((each) => [each, values[`cost_${each}`]] as const).filter(([, amount]) => amount);
  return given.length > 0 ? Object.fromEntries(given as [string, string][]) : null;
}

function releaseOf(values: Values, { budgets, given }: Context, cost: Amounts | null) {
  const kind = String(values.release);
  const term = { type: kind, [FIELDS[kind]!]: values.value, ...(kind === "approximate" && { delta: values.delta }) };
  const scope = String(values.scope);
  const at = kind !== "approximate" && values.delta !== null && cost === null && hasDelta(budgets, kind, scope) ? { delta: String(values.delta) } : {};
  return { ask: { scope, release: kind === "given" && given ? given.release : { v: 0, term }, ...at }, simulation: path(budgets, scope).at(-1)?.simulation ?? false };
}

/** The fields of a stated release, with the letter of what it keeps. */
function ReleaseFields({ form, budgets }: { form: Form; budgets: Budget[] }) {
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
        {kind !== "given" && <Field form={labeled} name="value" />}
        {hasDelta(budgets, kind, form.raw.scope ?? "") && <Field form={labeled} name="delta" />}
      </div>
    </>
  );
}

/** A form over a stated release, with a price in the quantities of its scope. */
function useReleaseForm(context: Context, more: readonly FieldSpec[], optional: boolean) {
  const [sent, setSent] = useState(false);
  const [at, setAt] = useState("");
  const base = useMemo(() => makeReleaseSpecs(context), []);
  const scope = at || base[0]!.initial;
  const quantities = quantitiesAt(context.budgets, scope);
  const specs = useMemo(() => [...base, ...costFields(quantities, optional), ...more], [quantities.join(" ")]);
  const form = useForm(specs, temporaryStore, needsDelta);
  const typed = { ...form, set: (name: string, value: string) => (name === "scope" && setAt(value), form.set(name, value)) };
  return { form: patient(typed, sent), values: form.values, quantities, sent: () => setSent(true) };
}

function NewCharge({ onReserve, ...context }: Context & { onReserve: (charge: Named) => void }) {
  const { form: release, values, quantities, sent } = useReleaseForm(context, [], true);
  const { busy, act, outcome, form } = useAction(release);
  const ask = () => {
    const cost = readCost(values!, quantities);
    const { ask, simulation } = releaseOf(values!, context, cost);
    return { look: ask, write: { ...ask, key: values!.key, simulation, ...(cost && { amount: cost }) } };
  };
  const fits = async (): Promise<ComponentChildren> => {
    const found = await post<{ available: Amounts; charges: number | null }>("ledger/fits", ask().look);
    const many = found.charges === null ? "It costs nothing" : found.charges === 0 ? "It does not fit" : `It fits ${found.charges === 1 ? "once" : `${showInteger(found.charges)} times`}`;
    return `${many}. Left at this scope: ${formatAmounts(found.available)}.`;
  };
  const write = (verb: "reserve" | "charge") => async (): Promise<ComponentChildren> => {
    const made = await post<Charged>(`ledger/${verb}`, ask().write);
    context.done();
    release.set("key", newKey());
    if (verb === "reserve") onReserve({ key: made.key, scope: made.scope });
    return (
      <>
        {made.replayed ? "This key was known, and is charged once" : verb === "reserve" ? "Reserved" : "Charged"}: {formatCosts(made.amounts)}, under the key <code>{made.key}</code>.
      </>
    );
  };
  const go = (work: () => Promise<ComponentChildren>) => {
    sent();
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
      <ReleaseFields form={form} budgets={context.budgets} />
      {context.given && form.raw.release === "given" && (
        <details>
          <summary>What was calculated, as the ledger will keep it</summary>
          <pre tabIndex={0}>{JSON.stringify(context.given.release, null, 1)}</pre>
        </details>
      )}
      <details>
        <summary>At a price that an owner has allowed</summary>
        <div class="pair">
          {quantities.map((each) => (
            <Field key={each} form={form} name={`cost_${each}`} />
          ))}
        </div>
      </details>
      <div class="buttons">
        <button type="submit" class="quiet" disabled={busy}>
          Does it fit?
        </button>
        <button type="button" class="main" disabled={busy} onClick={() => go(write("reserve"))}>
          Reserve
        </button>
        <button type="button" disabled={busy} onClick={() => go(write("charge"))}>
          Charge at once, for ever
        </button>
      </div>
      {outcome}
    </form>
  );
}

/** What can be done to a charge as it stands: the button, the verb, and whether a reason is kept. */
const NEXT: Record<string, readonly (readonly [label: string, verb: string, says: "" | "reason" | "act", act: string])[]> = {
  reserved: [
    ["Start: spend it, for ever", "start", "", "spend"],
    ["Give it back", "cancel", "reason", "spend"],
  ],
  started: [
    ["Commit", "commit", "", "spend"],
    ["Abandon: its run is gone", "abandon", "act", "own"],
  ],
  committed: [["Take out of use", "decommission", "act", "own"]],
};

function ContinueCharge({ budgets, who, done, first }: Context & { first: Named }) {
  const [sent, setSent] = useState(false);
  const [asked, setAsked] = useState(first);
  const specs = useMemo(
    () => [
      text("key", "Key", { initial: first.key }),
      text("at", "Its scope", { initial: first.scope, hint: "if several have the key", optional: true }),
      text("reason", "Why", { hint: "kept for ever, where it is asked", optional: true, max: 2000 }),
    ],
    [],
  );
  const plain = useForm(specs, temporaryStore);
  const typed = { ...plain, set: (name: string, value: string) => (name === "key" && plain.set("at", ""), plain.set(name, value)) }; // the scope was another key's
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
  const theirs = found?.by !== undefined && found.by !== who.name;
  const may = found && budgets.length > 0 ? (NEXT[found.state] ?? []).filter(([, , , needs]) => who.acts.includes(needs) && (!theirs || who.acts.includes("own"))) : [];
  const step = (verb: string, says: string) => async (): Promise<ComponentChildren> => {
    const reason = form.raw.reason?.trim() ?? "";
    if (says && !reason) {
      throw new Problem("A reason is needed", "It is kept with the charge.", [{ field: "reason", message: "needs a value" }], 422);
    }
    const { charge } = await post<{ charge: Charge }>(`ledger/${verb}`, { key: found!.key, scope: found!.scope, ...(says && { reason }), ...(says === "act" && { by: who.name }) });
    done();
    looked.retry();
    return `The charge is ${charge.state} now.`;
  };
  return (
    <form
      class="act"
      onSubmit={(e) => {
        e.preventDefault();
        setSent(true);
        if (form.values) (still ? looked.retry() : setAsked({ key: String(form.values.key), scope: String(form.values.at ?? "") }));
      }}
      noValidate
    >
      <div class="line">
        <Field form={patient(form, sent)} name="key" />
        <Field form={form} name="at" />
        <button type="submit" class="quiet">
          Look it up
        </button>
      </div>
      {looked.problem && <ErrorNotice problem={looked.problem} retry={looked.retry} />}
      <Field form={form} name="reason" />
      {looked.answer && looked.answer.charge === null && <p class="empty">Nothing is known of this key here.</p>}
      {found && (
        <>
          <p>
            It is <b>{found.state}</b> at <code>{found.scope}</code>
            {Object.keys(found.amounts).length > 0 && `, for ${formatCosts(found.amounts)}`}
            {found.by !== undefined && `, by ${found.by}`}
            {found.rounds !== null && `, for at most ${showInteger(found.rounds)} rounds`}.
          </p>
          <div class="buttons">
            {may.map(([label, verb, says]) => (
              <button key={verb} type="button" class={says ? "quiet" : "main"} disabled={busy} onClick={() => void act(step(verb, says))}>
                {label}
              </button>
            ))}
          </div>
          {theirs && may.length === 0 && <p class="method">It is for {found.by} to go on with, or for an owner.</p>}
        </>
      )}
      {outcome}
    </form>
  );
}

function AllowOverride(context: Context) {
  const reason = useMemo(() => [text("reason", "Why this price is right", { max: 2000, hint: "kept for ever" })], []);
  const { form: release, values, quantities, sent } = useReleaseForm(context, reason, false);
  const { busy, act, outcome, form } = useAction(release);
  const allow = async (): Promise<ComponentChildren> => {
    const { ask, simulation } = releaseOf(values!, context, {});
    await post("ledger/override", { ...ask, key: values!.key, amount: readCost(values!, quantities), reason: values!.reason, simulation });
    context.done();
    return (
      <>
        Allowed, once: whoever charges this release at {String(values!.scope)} with the key <code>{String(values!.key)}</code> states this price. Every check of the ledger names it.
      </>
    );
  };
  return (
    <form
      class="act"
      onSubmit={(e) => {
        e.preventDefault();
        sent();
        if (values) void act(allow);
      }}
      noValidate
    >
      <ReleaseFields form={form} budgets={context.budgets} />
      <div class="pair">
        {quantities.map((each) => (
          <Field key={each} form={form} name={`cost_${each}`} />
        ))}
      </div>
      <Field form={form} name="reason" />
      <div class="buttons">
        <button type="submit" class="main" disabled={busy}>
          Allow it
        </button>
      </div>
      {outcome}
    </form>
  );
}

function Caps(context: Context) {
  const owned = context.budgets.filter((each) => isWithin(context.who.scope, each.scope));
  const [scope, choose] = useState(owned[0]?.scope ?? "");
  const met = useRef(new Set<string>()); // each budget's form keeps what was typed in it
  met.current.add(scope);
  if (!owned.some((each) => each.scope === scope)) return <p class="empty">There is no budget at or under your scope.</p>;
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
  const [sent, setSent] = useState(false);
  const limits = budget.promise ?? budget.caps;
  const quantities = Object.keys(limits);
  const specs = useMemo(
    () => [
      ...quantities.map((each): FieldSpec => ({ name: each, label: budget.promise ? "What it promises" : "Cap", kind: "amount", symbol: symbolOf(each), initial: limits[each]! })),
      text("by", "Who decides", { initial: isHere(who) ? "" : who.name, hint: "kept for ever" }),
      text("reason", "Why", { max: 2000, hint: "kept for ever" }),
    ],
    [],
  );
  const { busy, act, outcome, form } = useAction(useForm(specs, temporaryStore));
  const set = async (): Promise<ComponentChildren> => {
    const values = form.values as Record<string, string>;
    const caps = Object.fromEntries(quantities.map((each) => [each, values[each]!]));
    const made = await post<{ budget: { caps: Amounts } }>("ledger/cap", { scope: budget.scope, caps, by: values.by, reason: values.reason });
    done();
    return `The cap of ${budget.scope} is ${formatAmounts(made.budget.caps)} now.`;
  };
  return (
    <form
      class="act"
      onSubmit={(e) => {
        e.preventDefault();
        setSent(true);
        if (form.values) void act(set);
      }}
      noValidate
    >
      <div class="pair roomy">
        {specs.map((each) => (
          <Field key={each.name} form={patient(form, sent)} name={each.name} />
        ))}
      </div>
      <p class="method">What is spent or promised stays so. Below that, a cap refuses every further charge.</p>
      <div class="buttons">
        <button type="submit" class="main" disabled={busy}>
          Set the cap
        </button>
      </div>
      {outcome}
    </form>
  );
}
