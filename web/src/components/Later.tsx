import type { ComponentType } from "preact";
import { useState } from "preact/hooks";
import { Card } from "./Card";

/** A part of a page that is fetched when it is opened. */
export function Later<P extends object>({ title, says, open, load, with: given }: { title: string; says: string; open?: boolean; load: () => Promise<ComponentType<P>>; with: P }) {
  const [Part, setPart] = useState<{ of: ComponentType<P> } | "failed" | null>(null);
  const fetchPart = (): void => {
    if (Part === null) load().then((of) => setPart({ of }), () => setPart("failed"));
  };
  return (
    <Card screen={Part === null}>
      <details class="later" open={open} ref={(place) => void (place?.open && fetchPart())} onToggle={(e) => e.currentTarget.open && fetchPart()}>
        <summary>{title}</summary>
        {Part === null ? <p class="empty">Opening…</p> : Part === "failed" ? <p class="empty">This part could not be fetched; open the page anew.</p> : <Part.of {...given} />}
      </details>
      <p class="method">{says}</p>
    </Card>
  );
}
