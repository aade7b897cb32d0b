import { useId, useRef } from "preact/hooks";
import type { FieldSpec, Form } from "../lib/form";
import { FieldHelpLink } from "./FieldHelpLink";

/**
 * One input with its label, hint and error; the error is announced and linked to the input. A hidden field (`when` is
 * false) appears once it has an error, and then stays, so that users can correct it.
 */
export function Field({ form, name, when = true }: { form: Form; name: string; when?: boolean }) {
  const id = useId();
  const wrong = useRef(false);
  const spec = form.specs.find((each) => each.name === name)!;
  const raw = form.raw[name] ?? "";
  const error = form.errors[name];
  wrong.current = !when && (wrong.current || error !== undefined);
  if (!when && !wrong.current) return null;
  const shared = {
    id,
    name,
    "aria-invalid": error ? ("true" as const) : undefined,
    "aria-describedby": `${id}-hint ${id}-error`,
    onChange: form.commit,
  };
  if (spec.kind === "flag")
    return (
      <div class="field flag">
        <input
          {...shared}
          type="checkbox"
          checked={raw === "yes"}
          onInput={(e) => form.set(name, e.currentTarget.checked ? "yes" : "no")}
        />
        <FieldLabel id={id} spec={spec} />
        <Help spec={spec} />
        <FieldNotes id={id} spec={spec} error={error} />
      </div>
    );
  return (
    <div class={error ? "field wrong" : "field"}>
      <FieldLabel id={id} spec={spec} />
      {spec.kind === "choice" ? (
        <select {...shared} value={raw} onInput={(e) => form.set(name, e.currentTarget.value)} onChange={(e) => (form.set(name, e.currentTarget.value), form.commit())}>
          {spec.choices!.map(([value, label]) => (
            <option key={value} value={value} selected={value === raw}>
              {label}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...shared}
          type="text"
          inputMode={spec.kind === "integer" ? "numeric" : "text"}
          autocomplete="off"
          spellcheck={false}
          value={raw}
          placeholder={spec.optional ? "blank" : undefined}
          required={!spec.optional}
          list={spec.suggestions && `${id}-offers`}
          onInput={(e) => form.set(name, e.currentTarget.value)}
        />
      )}
      {spec.suggestions && (
        <datalist id={`${id}-offers`}>
          {spec.suggestions.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      )}
      <Help spec={spec} />
      <FieldNotes id={id} spec={spec} error={error} />
    </div>
  );
}

/** Several fields in a row. */
export const Fields = ({ form, names, when }: { form: Form; names: readonly string[]; when?: boolean }) => names.map((name) => <Field key={name} form={form} name={name} when={when} />);

/** Next to the label on screen; after the input in keyboard order. */
const Help = ({ spec }: { spec: FieldSpec }) => (spec.helpPage ? <FieldHelpLink page={spec.helpPage} label={spec.label} /> : null);

function FieldLabel({ id, spec }: { id: string; spec: FieldSpec }) {
  return (
    <label for={id}>
      {spec.label}
      {spec.symbol && (
        <>
          {"\u00a0"}
          <i class="symbol">{spec.symbol}</i>
        </>
      )}
    </label>
  );
}

function FieldNotes({ id, spec, error }: { id: string; spec: FieldSpec; error: string | undefined }) {
  return (
    <>
      <small id={`${id}-hint`} class="hint">
        {spec.hint}
      </small>
      <span id={`${id}-error`} class="error" role="alert">
        {error && `${spec.symbol ?? spec.label} ${error}`}
      </span>
    </>
  );
}
