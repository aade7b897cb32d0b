import { useState } from "preact/hooks";
import { useQuery } from "../lib/use-query";
import { get, post } from "../lib/api";
import { download } from "../lib/download";
import type { SnippetsResponse } from "../lib/openapi";
import { Copy } from "./Copy";
import { Notice } from "./Notice";
import { ErrorNotice } from "./ErrorNotice";
import { typeset } from "../lib/messages";

/** The same calculation as Python, as a command, as a programme file, in the playground and as a charge: asked for when opened. */
export function ExportSnippets({ name, ask, cap }: { name: "federated" | "queries"; ask: object; cap: number | null }) {
  const [open, setOpen] = useState(false);
  return (
    <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Use it elsewhere: Python, command, programme, ledger, playground</summary>
      {open && <Words name={name} ask={{ ...ask, cap }} />}
    </details>
  );
}

function Words({ name, ask }: { name: string; ask: object }) {
  const found = useQuery(ask, (body, signal) => post<SnippetsResponse>(`${name}/elsewhere`, body, signal), { delay: 150 });
  const who = useQuery("holder", (path, signal) => get<{ acts: string[] }>(path, signal), { delay: 0 });
  if (found.problem) return <ErrorNotice problem={found.problem} retry={found.retry} />;
  if (!found.answer) return <p class="empty">Writing it…</p>;
  const { python, command, programme, no_programme, playground, charge } = found.answer;
  return (
    <div class="elsewhere" aria-busy={found.busy}>
      <p>
        <b>As Python</b> it gives the same number.
      </p>
      <pre tabIndex={0}>{python}</pre>
      <Copy label="Copy Python" text={() => python} />
      <p>
        <b>As a command</b>, too.
      </p>
      <pre tabIndex={0}>{command}</pre>
      <Copy label="Copy the command line" text={() => command} />
      {programme === null ? (
        <p class="method">{no_programme}</p>
      ) : (
        <>
          <p>
            <b>As a programme file</b> it is read and priced by <code>epsilog run --check calculated.toml</code>; with data and model it is run.
          </p>
          {no_programme !== null && <Notice grade="weak">{typeset(no_programme)}</Notice>}
          <pre tabIndex={0}>{programme}</pre>
          <div class="buttons">
            <Copy label="Copy programme" text={() => programme} />
            <button type="button" onClick={() => download("calculated.toml", "application/toml", programme)}>
              Save calculated.toml
            </button>
          </div>
        </>
      )}
      <div class="buttons">
        {playground !== null && (
          <a class="button" href={playground}>
            Open in the playground
          </a>
        )}
        {who.answer?.acts.includes("spend") && (
          <a class="button" href={charge}>
            Book this in the ledger
          </a>
        )}
      </div>
      {who.answer && !who.answer.acts.includes("spend") && <p class="method">To book it takes a token that may spend.</p>}
    </div>
  );
}
