import type { ComponentType } from "preact";
import { useState } from "preact/hooks";
import { toQuery } from "../lib/url-state";
import { post } from "../lib/api";
import { download } from "../lib/download";
import type { FieldSpec, Raw } from "../lib/form";
import type { StampedCalculationModel } from "../lib/openapi";
import { EMPTY, isComplete, type OwnerFieldValues } from "../lib/owner-fields";
import { Problem } from "../lib/types";
import { Snippets } from "../pages/Snippets";
import { Copy } from "./Copy";
import { ExportSnippets } from "./ExportSnippets";
import { ErrorNotice } from "./ErrorNotice";

const PAGE_ONLY = ["pins", "cap"]; // fields that an embedded calculator does not have

export interface ExportProps {
  name: "federated" | "queries";
  ask: object | null; // null while there is no result to export; typed owner fields are kept
  cap: number | null; // the policy's cap on epsilon
  specs: readonly FieldSpec[];
  raw: Raw;
  table: string; // the name of the CSV table
  csv: () => void;
}

/** Export a calculation as a stamped record, a table, a printout, a link or an embedded page. */
export function ExportParts(props: ExportProps) {
  const { name, raw } = props;
  const [stamp, setStamp] = useState<string | null>(null);
  const [ownerFields, setOwnerFields] = useState(EMPTY);
  const [problem, setProblem] = useState<Problem | null>(null);
  const record = async (): Promise<void> => {
    setStamp(null);
    setProblem(null);
    const ask = { ...props.ask, ...ownerFields, delta_reason: ownerFields.delta_reason?.trim() ? ownerFields.delta_reason : null };
    const stamped = await post<StampedCalculationModel>(`${name}/record`, ask).catch((error: unknown) => setProblem(error instanceof Problem ? error : new Problem("The record was not created", String(error))));
    if (!stamped) return;
    setStamp(stamped.sha256);
    download(`epsilog-${name}.json`, "application/json", JSON.stringify(stamped, (_, v) => (v === Infinity ? "inf" : v), 2));
  };
  return (
    <>
      <div class="buttons">
        <button type="button" onClick={record} disabled={props.ask === null || !isComplete(ownerFields)}>
          Stamped JSON record
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
          SHA-256 of the record: <code>{stamp}</code>. Check it on the Verify page or with <code>epsilog verify</code>.
        </p>
      )}
      {problem && <ErrorNotice problem={problem} />}
      <OwnerFieldsSection values={ownerFields} set={setOwnerFields} />
      {props.ask && <ExportSnippets name={name} ask={props.ask} cap={props.cap} />}
      {props.ask && <Snippets name={name} specs={props.specs.filter((spec) => !PAGE_ONLY.includes(spec.name))} raw={raw} />}
    </>
  );
}

interface OwnerFieldsProps {
  values: OwnerFieldValues;
  set: (values: OwnerFieldValues) => void;
}

/** Optional owner fields of the record; loaded when opened. */
function OwnerFieldsSection(props: OwnerFieldsProps) {
  const [Part, setPart] = useState<{ of: ComponentType<OwnerFieldsProps> } | null>(null);
  const load = (): void => void import("./OwnerFields").then((found) => setPart({ of: found.OwnerFields }), () => setPart(null));
  return (
    <details class="owned" onToggle={(e) => e.currentTarget.open && Part === null && load()}>
      <summary>Add to the record: a reason for δ, file hashes</summary>
      {Part ? <Part.of {...props} /> : <p class="empty">Loading…</p>}
    </details>
  );
}
