import { expect, test } from "vitest";
import type { FieldSpec } from "../src/lib/form";
import { elementSnippet, fileSnippet, frameSnippet } from "../src/lib/snippets";

const SPECS: FieldSpec[] = [
  { name: "population", label: "N", kind: "integer", initial: "50000" },
  { name: "delta_cap", label: "cap", kind: "real", initial: "1e-6", optional: true },
  { name: "privacy_unit", label: "unit", kind: "text", initial: "client" },
];

test("an element carries every value, and a blank is a value", () => {
  const made = elementSnippet("http://here", "federated", SPECS, { population: "7", delta_cap: "", privacy_unit: "client", other: "x" });
  expect(made).toContain('<epsilog-federated population="7" delta-cap="" privacy-unit="client"></epsilog-federated>');
});

test("values cannot leave their attribute", () => {
  const unit = '"><script>alert(1)</script>';
  expect(elementSnippet("http://here", "federated", SPECS, { privacy_unit: unit })).toContain('privacy-unit="&quot;>&lt;script>alert(1)&lt;/script>"');
  expect(frameSnippet("http://here", "federated", `v=1&privacy_unit=${unit}`)).not.toContain('unit="');
});

test("the command carries what was changed, quoted for a shell", () => {
  const made = fileSnippet("federated", SPECS, { population: "7", delta_cap: "", privacy_unit: "ward's $HOME", other: "x" });
  expect(made).toBe(`epsilog embed federated population=7 delta_cap= 'privacy_unit=ward'\\''s $HOME' > calculator.html`);
  expect(fileSnippet("queries", SPECS, {})).toBe("epsilog embed queries > calculator.html");
});
