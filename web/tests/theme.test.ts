import { expect, test } from "vitest";
import { contrast, fitAccent, parseColor } from "../src/lib/theme";

test("a color is three or six hexadecimal digits, and nothing else", () => {
  expect(parseColor("#0b5d5a")).toEqual([11, 93, 90]);
  expect(parseColor(" #F0a ")).toEqual([255, 0, 170]);
  for (const text of ["", "red", "#12", "#1234", "#12345g", "#000;background:url(x)", "var(--x)", "#0b5d5a#"]) expect(parseColor(text)).toBeNull();
});

test("contrast is that of WCAG", () => {
  expect(contrast([0, 0, 0], [255, 255, 255])).toBeCloseTo(21, 6);
  expect(contrast([119, 119, 119], [255, 255, 255])).toBeCloseTo(4.478, 3);
});

test("every accent is readable in both schemes, and a readable one is kept", () => {
  const parts = [0, 51, 102, 153, 204, 255];
  const backgrounds = { light: [255, 255, 255], dark: [27, 32, 36] } as const;
  for (const r of parts)
    for (const g of parts)
      for (const b of parts)
        for (const scheme of ["light", "dark"] as const) {
          const { accent, soft } = fitAccent([r, g, b], scheme);
          expect(contrast(accent, backgrounds[scheme])).toBeGreaterThanOrEqual(4.5);
          expect(contrast(accent, soft)).toBeGreaterThanOrEqual(4.5);
        }
  expect(fitAccent([11, 93, 90], "light").accent).toEqual([11, 93, 90]);
  expect(fitAccent([255, 255, 0], "light").accent).not.toEqual([255, 255, 0]);
});
