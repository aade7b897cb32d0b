import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import type { Form } from "../lib/form";
import { useStickyTop } from "../lib/visibility";
import type { Problem } from "../lib/types";
import { LiveRegion } from "./LiveRegion";
import { ErrorNotice } from "./ErrorNotice";

/** A calculator: the result first, and the form in sight beside it; on a phone the result stays above the form. */
export function Calculator(props: {
  label: string;
  form: Form;
  main: { busy: boolean; problem: Problem | null; retry(): void };
  waiting?: string; // for which fields, if not those of the form
  inputs: ComponentChildren;
  outcome: ComponentChildren; // the result; null while there is none
  spoken?: string; // the result as a sentence, for screen readers
  children: ComponentChildren; // what supports the result
}) {
  const { form, main } = props;
  const place = useStickyTop<HTMLFormElement>();
  const waiting = props.waiting ?? form.waiting;
  const support = useRef<HTMLDivElement>(null);
  const height = useRef(0); // kept while a result is withheld
  height.current = waiting ? height.current || (support.current?.offsetHeight ?? 0) : 0;
  return (
    <div class="calculator sheet">
      <form ref={place} class="inputs card" aria-label={props.label} onSubmit={(e) => e.preventDefault()}>
        {props.inputs}
      </form>
      <div class={main.busy ? "results busy" : "results"} aria-busy={main.busy}>
        <section class="card outcome" aria-label="Result">
          {waiting ? (
            <div class="headline withheld">
              <p class="claim">
                <b>–</b>
              </p>
              <p class="beside">{waiting}</p>
            </div>
          ) : main.problem ? (
            <ErrorNotice problem={main.problem} retry={main.retry} />
          ) : (
            (props.outcome ?? <p class="empty">Computing…</p>)
          )}
        </section>
        <div ref={support} class="card support" style={{ minHeight: height.current ? `${height.current}px` : undefined }}>
          {props.children}
        </div>
        <LiveRegion text={waiting || (props.spoken ?? "")} />
      </div>
    </div>
  );
}
