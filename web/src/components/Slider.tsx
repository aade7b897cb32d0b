import type { Form } from "../lib/form";
import { show } from "../lib/numbers";
import { Field } from "./Field";

/** Return the stops of a slider: evenly spaced on a logarithmic scale, with two digits. */
export function stops(low: number, high: number, integer: boolean): number[] {
  const count = Math.ceil(Math.log(high / low) / Math.log(1.03));
  const all = Array.from({ length: count + 1 }, (_, i) => low * (high / low) ** (i / count));
  return [...new Set(all.map((value) => (integer ? Math.round(Number(value.toPrecision(2))) : Number(value.toPrecision(2)))))];
}

/** A number with a text field and a logarithmic slider. */
export function Slider({ form, name, at }: { form: Form; name: string; at: readonly number[] }) {
  const { value } = form.readings[name]!;
  const number = typeof value === "number" ? value : null;
  const far = (stop: number): number => Math.abs(Math.log(stop / Math.max(number ?? at[0]!, 1e-12)));
  const near = at.reduce((best, stop, i) => (far(stop) < far(at[best]!) ? i : best), 0);
  return (
    <Field form={form} name={name}>
      <input
        type="range"
        min="0"
        max={at.length - 1}
        value={near}
        aria-label={`${form.specs.find((each) => each.name === name)!.label} slider`}
        aria-valuetext={number === null ? "not a number" : show(number)}
        onInput={(e) => form.set(name, String(at[Number(e.currentTarget.value)]))}
        onChange={form.commit}
      />
    </Field>
  );
}
