import { useState } from "preact/hooks";
import { toQuery } from "../lib/address";
import { post } from "../lib/api";
import { download } from "../lib/download";
import type { FieldSpec, Raw } from "../lib/form";
import type { Stamped } from "../lib/openapi";
import { Snippets } from "../pages/Snippets";
import { Card } from "./Card";
import { Copy } from "./Copy";
import { Elsewhere } from "./Elsewhere";

const OWN = ["pins", "cap"]; // what an embed has no place for

/** A calculation to take along: as a stamped record, as a table, on paper, as a link, on another page. */
export function Export(props: {
  name: "federated" | "queries";
  ask: object;
  cap: number | null; // the policy's, on epsilon
  specs: readonly FieldSpec[];
  raw: Raw;
  table: string; // what the CSV holds
  csv: () => void;
}) {
  const { name, raw } = props;
  const [stamp, setStamp] = useState<string | null>(null);
  const record = async (): Promise<void> => {
    const stamped = await post<Stamped>(`${name}/record`, props.ask);
    setStamp(stamped.sha256);
    download(`epsilog-${name}.json`, "application/json", JSON.stringify(stamped, (_, v) => (v === Infinity ? "inf" : v), 2));
  };
  return (
    <Card screen title="Take it with you">
      <div class="buttons">
        <button type="button" onClick={record}>
          JSON record, stamped
        </button>
        <button type="button" onClick={props.csv}>
          CSV of {props.table}
        </button>
        <button type="button" onClick={() => print()}>
          Print
        </button>
        <Copy label="Copy link" text={() => `${location.origin}/${name}?${toQuery(raw)}`} />
      </div>
      {stamp && (
        <p class="stamp">
          SHA-256 of the record: <code>{stamp}</code>
        </p>
      )}
      <Elsewhere name={name} ask={props.ask} cap={props.cap} />
      <Snippets name={name} specs={props.specs.filter((spec) => !OWN.includes(spec.name))} raw={raw} />
    </Card>
  );
}
