import type { ComponentChildren } from "preact";
import type { Form } from "../lib/form";
import { useStickyTop } from "../lib/visibility";
import type { Problem } from "../lib/types";
import { Card } from "./Card";
import { StickyResult } from "./StickyResult";
import { LiveRegion } from "./LiveRegion";
import { ErrorNotice } from "./ErrorNotice";

/** What every calculator is: a form that stays in sight, and results that are never shown beside inputs they are not of. */
export function Calculator(props: {
  label: string;
  form: Form;
  main: { busy: boolean; problem: Problem | null; retry(): void };
  inputs: ComponentChildren; // the fieldsets
  peek?: ComponentChildren; // the result in a few words, for a phone
  spoken?: string; // the result in a sentence, once there is one
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
      <div class={main.busy ? "results busy" : "results"} aria-busy={main.busy}>
        {form.values === null && (
          <Card>
            <p class="empty">Correct the marked fields, and the numbers come back.</p>
          </Card>
        )}
        {main.problem && <ErrorNotice problem={main.problem} retry={main.retry} />}
        {props.children}
        {props.spoken && <LiveRegion text={props.spoken} />}
      </div>
    </div>
  );
}
