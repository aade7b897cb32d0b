import type { Form } from "../lib/form";

/** Return the stops of a handle: evenly spaced on a logarithmic scale, with two digits. */
export function stops(low: number, high: number): number[] {
  const count = Math.ceil(Math.log(high / low) / Math.log(1.03));
  const all = Array.from({ length: count + 1 }, (_, i) => low * (high / low) ** (i / count));
  return [...new Set(all.map((value) => Number(value.toPrecision(2))))];
}

/** A handle that sets a field, from its first stop to its last. */
export function Drag({ form, name, at, label, ends, says }: { form: Form; name: string; at: readonly number[]; label: string; ends: readonly [string, string]; says: string }) {
  const read = form.readings[name]?.value;
  const value = typeof read === "number" && read > 0 ? read : at[0]!;
  const far = (stop: number): number => Math.abs(Math.log(stop / value));
  return (
    <div class="drag">
      <span aria-hidden="true">{ends[0]}</span>
      <input
        type="range"
        min="0"
        max={at.length - 1}
        value={at.reduce((best, stop, i) => (far(stop) < far(at[best]!) ? i : best), 0)}
        aria-label={label}
        aria-valuetext={says}
        onInput={(e) => form.set(name, String(at[Number(e.currentTarget.value)]))}
        onChange={form.commit}
      />
      <span aria-hidden="true">{ends[1]}</span>
    </div>
  );
}
