import type { ComponentChildren } from "preact";
import type { Form } from "../lib/form";
import { useStickyTop } from "../lib/visibility";
import type { Problem } from "../lib/types";
import { Results } from "./Results";
import { StickyResult } from "./StickyResult";
import { LiveRegion } from "./LiveRegion";
import { ErrorNotice } from "./ErrorNotice";

/** A calculator: a form that stays in view, and results that always match its inputs. */
export function Calculator(props: {
  label: string;
  form: Form;
  main: { busy: boolean; problem: Problem | null; retry(): void };
  inputs: ComponentChildren; // the fieldsets
  peek?: ComponentChildren; // a short result, for phones
  spoken?: string; // the result as a sentence, for screen readers
  compact?: boolean;
  children: ComponentChildren; // the results
}) {
  const { form, main } = props;
  const place = useStickyTop<HTMLFormElement>();
  return (
    <div class={props.compact ? "calculator sheet compact" : "calculator sheet"}>
      <form ref={place} class="inputs" aria-label={props.label} onSubmit={(e) => e.preventDefault()}>
        {props.inputs}
        {props.peek && <StickyResult>{props.peek}</StickyResult>}
      </form>
      <Results waiting={form.waiting} busy={main.busy}>
        {main.problem && <ErrorNotice problem={main.problem} retry={main.retry} />}
        {props.children}
        <LiveRegion text={form.waiting || (props.spoken ?? "")} />
      </Results>
    </div>
  );
}
