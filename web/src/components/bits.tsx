// Small pieces that every page uses.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Problem } from "../lib/types";

/** `screen` cards are left out in print. */
export function Card({ title, children, screen }: { title?: ComponentChildren; children: ComponentChildren; screen?: boolean }) {
  return (
    <section class={screen ? "card screen" : "card"}>
      {title && <h2>{title}</h2>}
      {children}
    </section>
  );
}

export function Stat({ label, children, note }: { label: string; children: ComponentChildren; note?: ComponentChildren }) {
  return (
    <div class="stat">
      <dt>{label}</dt>
      <dd>
        {children}
        {note && <small>{note}</small>}
      </dd>
    </div>
  );
}

const MARKS = { good: "✓", weak: "△", void: "✕", info: "i" } as const;

/** A sentence with a grade that is told by shape and word, not by colour alone. */
export function Notice({ grade, children }: { grade: keyof typeof MARKS; children: ComponentChildren }) {
  return (
    <p class={`notice ${grade}`}>
      <span class="mark" aria-hidden="true">
        {MARKS[grade]}
      </span>
      <span>{children}</span>
    </p>
  );
}

/** On a phone the form comes first: this keeps the answer in sight while one types, and leads to it. */
export function Peek({ children }: { children: ComponentChildren }) {
  const lead = (event: Event): void => (event.currentTarget as HTMLElement).closest(".calculator")!.querySelector(".results")!.scrollIntoView();
  return (
    <button type="button" class="peek" onClick={lead}>
      {children} <span aria-hidden="true">↓</span>
      <span class="hidden">, go to the result</span>
    </button>
  );
}

/** Said beside a bound that the browser worked out while the server's is on its way. */
export function Refining({ when }: { when: boolean }) {
  return when ? <em class="refining">a quick bound, being refined…</em> : null;
}

/** Keeps a form in sight beside its results: a tall one goes up until its end is seen, and then stays. */
export function useInSight<E extends HTMLElement>() {
  const place = useRef<E>(null);
  useEffect(() => {
    const form = place.current!;
    const fit = (): void => void (form.style.top = `${Math.min(11, innerHeight - form.offsetHeight - 11)}px`);
    const observer = new ResizeObserver(fit);
    observer.observe(form);
    addEventListener("resize", fit);
    return () => {
      observer.disconnect();
      removeEventListener("resize", fit);
    };
  }, []);
  return place;
}

/** What must be true of the run for the number above to hold. */
export function Assumes({ lines }: { lines: readonly string[] }) {
  return lines.length === 0 ? null : <p class="method">It holds if {lines.join("; ")}.</p>;
}

export function Trouble({ problem, retry }: { problem: Problem; retry?: () => void }) {
  return (
    <div class="notice void" role="alert">
      <span class="mark" aria-hidden="true">
        ✕
      </span>
      <span>
        <b>{problem.title}.</b> {problem.message !== problem.title && problem.message}{" "}
        {retry && problem.status === 0 && (
          <button type="button" class="quiet" onClick={retry}>
            Ask again
          </button>
        )}
      </span>
    </div>
  );
}

/** Copies text and says that it did. */
export function Copy({ label, text }: { label: string; text: () => string }) {
  const [said, setSaid] = useState("");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text());
      setSaid("Copied");
    } catch {
      prompt("Copy this text", text());
    }
    setTimeout(() => setSaid(""), 2000);
  };
  return (
    <button type="button" onClick={copy}>
      {said || label}
      <span class="hidden" role="status">
        {said}
      </span>
    </button>
  );
}

export function download(name: string, kind: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export const toCsv = (rows: readonly (readonly (string | number | null)[])[]): string =>
  rows.map((row) => row.map((cell) => csvCell(cell)).join(",") + "\r\n").join("");

function csvCell(cell: string | number | null): string {
  const text = cell === null ? "" : String(cell);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Tells a screen reader the result once typing has paused. */
export function Spoken({ text }: { text: string }) {
  const [said, setSaid] = useState("");
  const first = useRef(true);
  useEffect(() => {
    const timer = setTimeout(() => setSaid(first.current ? "" : text), 700);
    first.current = false;
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <output class="hidden" aria-live="polite">
      {said}
    </output>
  );
}

export interface Column {
  title: string;
  number?: boolean;
  tight?: boolean; // never broken into lines
}

/** `prose` tables fold into blocks on a phone; others scroll sideways. */
export function Table(props: {
  caption: string;
  columns: readonly Column[];
  rows: readonly (readonly ComponentChildren[])[];
  prose?: boolean;
  dense?: boolean;
}) {
  const kind = `${props.prose ? "prose" : ""} ${props.dense ? "dense" : ""}`.trim();
  const cell = (column: Column | undefined): string => (column?.number ? "number" : column?.tight ? "tight" : "");
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={props.caption}>
      <table class={kind || undefined}>
        <caption>{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th key={column.title} scope="col" class={cell(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row, i) => (
            <tr key={i}>
              {row.map((content, j) => (
                <td key={j} class={cell(props.columns[j])} data-title={props.columns[j]?.title}>
                  {content}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
