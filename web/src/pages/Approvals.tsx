import { useRef, useState } from "preact/hooks";
import { Card } from "../components/Card";
import { ErrorNotice } from "../components/ErrorNotice";
import { Field } from "../components/Field";
import { ScopeName } from "../components/ScopeName";
import { type Amounts, type Budget, formatAmounts, summarizeAmounts } from "../lib/amounts";
import { get, post } from "../lib/api";
import { temporaryStore, useForm } from "../lib/form";
import { showInteger } from "../lib/numbers";
import { type Ready, useQuery, useReady } from "../lib/use-query";
import { ActForm, formatCosts, text, useAction } from "./LedgerActions";

interface Pending {
  scope: string;
  key: string | null; // null: a cap
  amounts: Record<string, Amounts>;
  required: number;
  approved: string[];
  actor: string | null;
  until: string | null;
  overridden: boolean;
  release: string | null;
  notes: string[];
  may_approve: boolean;
}

interface PendingList {
  holder: string;
  count: number;
  pending: Pending[];
}

const NONE: [] = [];
const REASON = [text("reason", "Reason", { max: 2000, hint: "stored permanently" })];

/** What waits for the approval of owners; an approval reads the list anew. */
export function Approvals({ budgets, entries, done, ready }: { budgets: Budget[]; entries: number; done: () => void; ready: Ready }) {
  const found = useQuery(entries, (_, signal) => get<PendingList>("ledger/pending", signal), { delay: 0 });
  const [outcome, setOutcome] = useState("");
  const list = useRef<HTMLDivElement>(null);
  useReady("approvals", found, ready);
  const approved = (name: string): void => {
    setOutcome(`You approved ${name}.`);
    list.current?.focus(); // the button that had it goes
    done();
  };
  const { answer } = found;
  return (
    <Card title="Waiting for approval">
      <p role="status">{outcome}</p>
      {found.problem && <ErrorNotice problem={found.problem} retry={found.retry} />}
      <div ref={list} tabIndex={-1} role="group" aria-label="Waiting for approval">
        {answer?.count === 0 && <p class="empty">Nothing waits for approval.</p>}
        {answer?.pending.map((each) => (
          <Row key={`${each.scope} ${each.key}`} each={each} budget={budgets.find(({ scope }) => scope === each.scope)} holder={answer.holder} approved={approved} />
        ))}
        {answer && answer.count > answer.pending.length && <p class="method">{showInteger(answer.count - answer.pending.length)} older ones are not shown.</p>}
      </div>
    </Card>
  );
}

function Row({ each, budget, holder, approved }: { each: Pending; budget: Budget | undefined; holder: string; approved: (name: string) => void }) {
  const { scope, key, until } = each;
  const action = useAction(useForm(key === null ? REASON : NONE, temporaryStore));
  const costs = Object.values(each.amounts);
  const name = key === null ? `the cap of ${scope}` : `${key} at ${scope}`;
  const approve = async (): Promise<null> => {
    const { reason } = action.form.raw;
    await (key === null ? post("ledger/approve-cap", { scope, caps: costs[0], actor: holder, reason }) : post("ledger/approve", { scope, key, actor: holder }));
    approved(name);
    return null;
  };
  const facts = [
    ...(key === null ? [] : [each.actor === null ? "Asked for without a name." : `Asked for by ${each.actor}.`]),
    `${each.approved.length} of ${each.required} approvals${each.approved.length > 0 ? ` (${each.approved.join(", ")})` : ""}.`,
    until === null ? "Never expires." : `Expires ${until.slice(0, 16).replace("T", " ")} UTC.`,
    ...each.notes,
  ];
  return (
    <div class="part">
      <h3>
        <ScopeName name={scope} />
        {key !== null && (
          <>
            : <ScopeName name={key} />
          </>
        )}
      </h3>
      <p>{key === null ? `A cap of ${formatCosts(each.amounts)}${budget ? ` instead of ${formatAmounts(budget.target_guarantee ?? budget.caps)}` : ""}` : `${each.release![0]!.toUpperCase()}${each.release!.slice(1)}. Cost: ${each.overridden ? "" : "at most "}${costs.map((one) => summarizeAmounts(one, "up")).join("; ")}`}.</p>
      <p class="method">{facts.join(" ")}</p>
      {each.may_approve && (
        <ActForm action={action} label="Approve" of={name} work={approve}>
          {key === null && <Field form={action.form} name="reason" />}
        </ActForm>
      )}
    </div>
  );
}
