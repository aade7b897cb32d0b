import { useId } from "preact/hooks";
import type { Form } from "../lib/form";
import { parseField } from "../lib/form";
import { show } from "../lib/numbers";

/** Return the stops of a slider: evenly spaced on a logarithmic scale, with two digits. */
export function stops(low: number, high: number, integer: boolean): number[] {
  const count = Math.ceil(Math.log(high / low) / Math.log(1.03));
  const all = Array.from({ length: count + 1 }, (_, i) => low * (high / low) ** (i / count));
  return [...new Set(all.map((value) => (integer ? Math.round(Number(value.toPrecision(2))) : Number(value.toPrecision(2)))))];
}

/** A number with a text field and a logarithmic slider. */
export function Slider({ form, name, at, children }: { form: Form; name: string; at: readonly number[]; children?: string }) {
  const id = useId();
  const spec = form.specs.find((each) => each.name === name)!;
  const error = form.errors[name];
  const parsed = parseField(spec, form.raw[name] ?? "");
  const value = "value" in parsed && typeof parsed.value === "number" ? parsed.value : null;
  const far = (stop: number): number => Math.abs(Math.log(stop / Math.max(value ?? at[0]!, 1e-12)));
  const near = at.reduce((best, stop, i) => (far(stop) < far(at[best]!) ? i : best), 0);
  return (
    <div class={error ? "slider wrong" : "slider"}>
      <label for={id}>
        {spec.label} <i class="symbol">{spec.symbol}</i>
      </label>
      <input
        id={id}
        type="text"
        inputMode={spec.kind === "integer" ? "numeric" : "text"}
        autocomplete="off"
        spellcheck={false}
        value={form.raw[name]}
        aria-invalid={error ? "true" : undefined}
        aria-describedby={`${id}-hint`}
        onInput={(e) => form.set(name, e.currentTarget.value)}
        onChange={form.commit}
      />
      <input
        type="range"
        min="0"
        max={at.length - 1}
        value={near}
        aria-label={`${spec.label} slider`}
        aria-valuetext={value === null ? "not a number" : show(value)}
        onInput={(e) => form.set(name, String(at[Number(e.currentTarget.value)]))}
        onChange={form.commit}
      />
      <small id={`${id}-hint`} class={error ? "error" : "hint"} role={error ? "alert" : undefined}>
        {error ?? children ?? spec.hint}
      </small>
    </div>
  );
}
