import type { ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import { type FieldSpec, type Form, isUsable, type Value } from "../lib/form";
import type { Reading } from "../lib/numbers";

/**
 * One input of a form. It keeps its text, focus and place whatever is typed: only an offered correction that the reader
 * chooses changes the text, and two lines are reserved for messages. A field of a part that is not shown (`when` is
 * false) appears once it is wrong, and then stays, so that readers can correct it.
 */
export function Field({ form, name, when = true, children }: { form: Form; name: string; when?: boolean; children?: ComponentChildren }) {
  const wrong = useRef(false);
  const reading = form.readings[name]!;
  wrong.current = !when && (wrong.current || !isUsable(reading));
  if (!when && !wrong.current) return null;
  const spec = form.specs.find((each) => each.name === name)!;
  return (
    <FieldView spec={spec} name={name} raw={form.raw[name] ?? ""} reading={reading} attempted={form.attempted} set={(text) => form.set(name, text)} commit={form.commit}>
      {children}
    </FieldView>
  );
}

/** Several fields in a row. */
export const Fields = ({ form, names, when }: { form: Form; names: readonly string[]; when?: boolean }) => names.map((name) => <Field key={name} form={form} name={name} when={when} />);

/** A field by its text and its reading; `children` are other ways to set it, such as a slider. */
export function FieldView(props: {
  spec: FieldSpec;
  name?: string;
  raw: string;
  reading: Reading<Value>;
  attempted?: boolean;
  set(text: string): void;
  commit(): void;
  children?: ComponentChildren;
}) {
  const { spec, raw, set, commit } = props;
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const [focused, setFocused] = useState(false);
  const [left, setLeft] = useState(false);
  const { state, say, offers } = props.reading;
  const due = !focused && (left || props.attempted || raw !== "" || spec.initial !== "");
  const marked = state === "bad" || ((state === "empty" || state === "unfinished") && due);
  const message = state === "unfinished" && !marked ? "Keep typing." : marked || state === "noted" || state === "disabled" ? say : "";
  const choose = (offer: string): void => {
    set(offer);
    commit();
    input.current?.focus();
  };
  const shared = {
    id,
    name: props.name,
    disabled: state === "disabled",
    "aria-invalid": marked ? ("true" as const) : undefined,
    "aria-describedby": `${id}-hint ${id}-message`,
    onFocus: () => setFocused(true),
    onBlur: () => (setFocused(false), setLeft(true)),
    onChange: commit,
  };
  return (
    <div class={`field${spec.kind === "flag" ? " flag" : ""}${props.children ? " slider" : ""}${marked ? " wrong" : ""}`}>
      {spec.kind === "flag" && <input {...shared} type="checkbox" checked={raw === "yes"} onInput={(e) => set(e.currentTarget.checked ? "yes" : "no")} />}
      <label for={id}>
        {spec.label}
        {spec.symbol && (
          <>
            {"\u00a0"}
            <i class="symbol">{spec.symbol}</i>
          </>
        )}
      </label>
      {spec.kind === "choice" ? (
        <select {...shared} value={raw} onInput={(e) => set(e.currentTarget.value)} onChange={(e) => (set(e.currentTarget.value), commit())}>
          {spec.choices!.map(([value, label]) => (
            <option key={value} value={value} selected={value === raw}>
              {label}
            </option>
          ))}
        </select>
      ) : spec.kind !== "flag" ? (
        <input
          {...shared}
          ref={input}
          type="text"
          inputMode={spec.kind === "integer" ? "numeric" : spec.kind === "text" ? undefined : "text"}
          autocomplete="off"
          spellcheck={false}
          value={raw}
          placeholder={spec.optional ? "blank" : undefined}
          required={!spec.optional}
          list={spec.suggestions && `${id}-suggestions`}
          onInput={(e) => set(e.currentTarget.value)}
        />
      ) : null}
      {spec.suggestions && (
        <datalist id={`${id}-suggestions`}>
          {spec.suggestions.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      )}
      {props.children}
      <div class="notes">
        <small class="hint">
          <span id={`${id}-hint`}>{spec.hint}</span> {spec.helpPage && <HelpLink page={spec.helpPage} label={spec.label} />}
        </small>
        <div id={`${id}-message`} class={marked ? "message error" : "message"} aria-live="polite">
          {message && <span title={message}>{message}</span>}
          {marked && offers.length > 0 && (
            <div class="offers">
              {offers.map((offer) => (
                <button key={offer} type="button" onMouseDown={(e) => e.preventDefault()} onClick={() => choose(offer)}>
                  <span class="hidden">Use </span>
                  {offer}
                </button>
              ))}
            </div>
          )}
        </div>
      </div>
    </div>
  );
}

/** A link from a field's hint to the page of the docs that explains it; embedded calculators hide it. */
const HelpLink = ({ page, label }: { page: string; label: string }) => (
  <a class="why" href={`/docs/${page}`} target="_blank" rel="noopener">
    More<span class="hidden"> about {label}</span>
  </a>
);
