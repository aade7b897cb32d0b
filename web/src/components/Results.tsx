import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { Card } from "./Card";

/** The place of a form's results. While a field has no value, no number stands here, and the place keeps its height. */
export function Results({ waiting, busy, name = "results", children }: { waiting: string; busy: boolean; name?: string; children: ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  const height = useRef(0);
  height.current = waiting ? height.current || (place.current?.offsetHeight ?? 0) : 0;
  return (
    <div ref={place} class={busy ? `${name} busy` : name} aria-busy={busy} style={{ minHeight: height.current ? `${height.current}px` : undefined }}>
      {waiting && (
        <Card>
          <div class="headline withheld">
            <p class="claim">
              <b>–</b>
            </p>
            <p class="beside">{waiting}</p>
          </div>
        </Card>
      )}
      {children}
    </div>
  );
}
