import type { ComponentType } from "preact";
import { useState } from "preact/hooks";
import { toQuery } from "../lib/address";
import { post } from "../lib/api";
import { download } from "../lib/download";
import type { FieldSpec, Raw } from "../lib/form";
import type { StampedCalculationModel } from "../lib/openapi";
import { isComplete, NOTHING, type Said } from "../lib/said";
import { Problem } from "../lib/types";
import { Snippets } from "../pages/Snippets";
import { Card } from "./Card";
import { Copy } from "./Copy";
import { Elsewhere } from "./Elsewhere";
import { Trouble } from "./Trouble";

const OWN = ["pins", "cap"]; // what an embed has no place for

/** A calculation to take along: as a stamped record, as a table, on paper, as a link, on another page. */
export function Export(props: {
  name: "federated" | "queries";
  ask: object | null; // null while there is no answer: nothing to take along, but what was typed here stays
  cap: number | null; // the policy's, on epsilon
  specs: readonly FieldSpec[];
  raw: Raw;
  table: string; // what the CSV holds
  csv: () => void;
}) {
  const { name, raw } = props;
  const [stamp, setStamp] = useState<string | null>(null);
  const [said, setSaid] = useState(NOTHING);
  const [problem, setProblem] = useState<Problem | null>(null);
  const record = async (): Promise<void> => {
    setStamp(null);
    setProblem(null);
    const ask = { ...props.ask, ...said, delta_reason: said.delta_reason?.trim() ? said.delta_reason : null };
    const stamped = await post<StampedCalculationModel>(`${name}/record`, ask).catch((error: unknown) => setProblem(error instanceof Problem ? error : new Problem("No record was made", String(error))));
    if (!stamped) return;
    setStamp(stamped.sha256);
    download(`epsilog-${name}.json`, "application/json", JSON.stringify(stamped, (_, v) => (v === Infinity ? "inf" : v), 2));
  };
  return (
    <Card screen title="Take it with you">
      <div class="buttons">
        <button type="button" onClick={record} disabled={props.ask === null || !isComplete(said)}>
          JSON record, stamped
        </button>
        <button type="button" onClick={props.csv} disabled={props.ask === null}>
          CSV of {props.table}
        </button>
        <button type="button" onClick={() => print()}>
          Print
        </button>
        <Copy label="Copy link" text={() => `${location.origin}/${name}?${toQuery(raw)}`} />
      </div>
      {stamp && props.ask && (
        <p class="stamp">
          SHA-256 of the record: <code>{stamp}</code>. The Verify page and <code>epsilog verify</code> check it.
        </p>
      )}
      {problem && <Trouble problem={problem} />}
      <Saying said={said} set={setSaid} />
      {props.ask && <Elsewhere name={name} ask={props.ask} cap={props.cap} />}
      {props.ask && <Snippets name={name} specs={props.specs.filter((spec) => !OWN.includes(spec.name))} raw={raw} />}
    </Card>
  );
}

interface Saying {
  said: Said;
  set: (said: Said) => void;
}

/** What few say; fetched when it is opened. */
function Saying(given: Saying) {
  const [Part, setPart] = useState<{ of: ComponentType<Saying> } | null>(null);
  const load = (): void => void import("./Owned").then((found) => setPart({ of: found.Owned }), () => setPart(null));
  return (
    <details class="owned" onToggle={(e) => e.currentTarget.open && Part === null && load()}>
      <summary>Say more in the record: a reason for δ, files by their hash</summary>
      {Part ? <Part.of {...given} /> : <p class="empty">Opening…</p>}
    </details>
  );
}
