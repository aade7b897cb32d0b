import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { type Form, isUsable } from "../lib/form";
import { Fields } from "./Field";

/** Details for experts, computed and drawn while they are open; they wait for what they are made from. */
export function Fold({ title, children }: { title: ComponentChildren; children: (() => ComponentChildren) | null | false }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="fold" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <h2>{title}</h2>
      </summary>
      {open && (children ? children() : <p class="empty">Waiting for a result.</p>)}
    </details>
  );
}

/** Fields for experts: always in the form; a wrong one opens the fold. */
export function FieldFold({ title, form, names, children }: { title: string; form: Form; names: readonly string[]; children?: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const opened = useRef(false); // what is drawn then keeps what is typed
  opened.current ||= open;
  return (
    <details class="fold fields" open={open || names.some((name) => !isUsable(form.readings[name]!))} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <h2>{title}</h2>
      </summary>
      <div class="pair">
        <Fields form={form} names={names} />
      </div>
      {opened.current && children}
    </details>
  );
}
