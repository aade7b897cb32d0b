import { useState } from "preact/hooks";
import { useQuery } from "../lib/use-query";
import { get, post } from "../lib/api";
import { download } from "../lib/download";
import type { SnippetsResponse } from "../lib/openapi";
import { Copy } from "./Copy";
import { Notice } from "./Notice";
import { ErrorNotice } from "./ErrorNotice";
import { typeset } from "../lib/messages";

/** The same calculation as Python, a command, a run config, a playground link and a charge; fetched when opened. */
export function ExportSnippets({ name, ask, cap }: { name: "federated" | "queries"; ask: object; cap: number | null }) {
  const [open, setOpen] = useState(false);
  return (
    <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Use it elsewhere: Python, command line, run config, ledger, playground</summary>
      {open && <SnippetList name={name} ask={{ ...ask, cap }} />}
    </details>
  );
}

function SnippetList({ name, ask }: { name: string; ask: object }) {
  const found = useQuery(ask, (body, signal) => post<SnippetsResponse>(`${name}/elsewhere`, body, signal), { delay: 150 });
  const holder = useQuery("holder", (path, signal) => get<{ acts: string[] }>(path, signal), { delay: 0 });
  if (found.problem) return <ErrorNotice problem={found.problem} retry={found.retry} />;
  if (!found.answer) return <p class="empty">Loading…</p>;
  const { python, command, run_config, no_run_config, playground, charge } = found.answer;
  return (
    <div class="elsewhere" aria-busy={found.busy}>
      <p>
        <b>In Python</b>, with the same result:
      </p>
      <pre tabIndex={0}>{python}</pre>
      <Copy label="Copy Python" text={() => python} />
      <p>
        <b>On the command line</b>:
      </p>
      <pre tabIndex={0}>{command}</pre>
      <Copy label="Copy the command line" text={() => command} />
      {run_config === null ? (
        <p class="method">{no_run_config}</p>
      ) : (
        <>
          <p>
            <b>As a run config</b>: <code>epsilog run --check calculated.toml</code> checks it and computes its cost. Add data and a model to run it.
          </p>
          {no_run_config !== null && <Notice grade="weak">{typeset(no_run_config)}</Notice>}
          <pre tabIndex={0}>{run_config}</pre>
          <div class="buttons">
            <Copy label="Copy run config" text={() => run_config} />
            <button type="button" onClick={() => download("calculated.toml", "application/toml", run_config)}>
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
        {holder.answer?.acts.includes("spend") && (
          <a class="button" href={charge}>
            Charge this to the ledger
          </a>
        )}
      </div>
      {holder.answer && !holder.answer.acts.includes("spend") && <p class="method">Charging it requires a token with permission to spend.</p>}
    </div>
  );
}
