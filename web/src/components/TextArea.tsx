import { useId } from "preact/hooks";

/** A multi-line text field. */
export function TextArea(props: { label: string; hint: string; value: string; rows: number; most?: number; set: (text: string) => void }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <textarea
        id={id}
        class="prose"
        rows={props.rows}
        maxLength={props.most}
        spellcheck={false}
        value={props.value}
        aria-describedby={`${id}-hint`}
        onInput={(e) => props.set(e.currentTarget.value)}
      />
      <small id={`${id}-hint`} class="hint">
        {props.hint}
      </small>
    </div>
  );
}
