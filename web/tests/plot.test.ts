// Labels at the ends of lines: all can be read, in the order of their lines, and none moves that need not.

import { expect, test } from "vitest";
import { spreadLabels } from "../src/components/Plot";

const at = (...ys: number[]) => ys.map((y, i) => ({ y, says: String(i) }));

test("labels that have room stay where their lines end", () => {
  expect(spreadLabels(at(100, 20, 60), 10, 240).map((label) => label.y)).toEqual([20, 60, 100]);
});

test.each([[[100, 101, 102]], [[240, 239, 238, 10]], [[10, 10, 10]], [[50]]])("labels at %j are a line apart and inside", (ys) => {
  const placed = spreadLabels(at(...ys), 10, 240);
  placed.forEach((label, i) => {
    expect(label.y).toBeGreaterThanOrEqual(10);
    expect(label.y).toBeLessThanOrEqual(240);
    if (i > 0) expect(label.y - placed[i - 1]!.y).toBeGreaterThanOrEqual(14);
  });
  const order = ys.map((y, i) => [y, i] as const).sort((a, b) => a[0] - b[0]).map(([, i]) => String(i));
  expect(placed.map((label) => label.says)).toEqual(order);
});
