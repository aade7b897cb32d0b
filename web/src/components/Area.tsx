import { useId } from "preact/hooks";

/** A table or a text of several lines, as it is typed or pasted; the error is announced and tied to it. */
export function Area(props: { label: string; hint: string; value: string; rows: number; most?: number; error?: string | null; prose?: boolean; set: (text: string) => void; commit?: () => void }) {
  const id = useId();
  return (
    <div class={props.error ? "field wrong" : "field"}>
      <label for={id}>{props.label}</label>
      <textarea
        id={id}
        class={props.prose ? "prose" : "pasted"}
        rows={props.rows}
        maxLength={props.most}
        spellcheck={false}
        value={props.value}
        aria-invalid={props.error ? "true" : undefined}
        aria-describedby={`${id}-hint ${id}-error`}
        onInput={(e) => props.set(e.currentTarget.value)}
        onChange={props.commit}
      />
      <small id={`${id}-hint`} class="hint">
        {props.hint}
      </small>
      <span id={`${id}-error`} class="error" role="alert">
        {props.error}
      </span>
    </div>
  );
}
