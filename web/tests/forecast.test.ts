import { describe, expect, test } from "vitest";
import { dayAfter, forecast } from "../src/lib/forecast";

describe("how long a budget lasts", () => {
  test("at the pace of the last 30 days, and of those only", () => {
    const releases = [
      { day: -400, amount: 5 },
      { day: -20, amount: 0.2 },
      { day: -1, amount: 0.1 },
    ];
    expect(forecast(releases, 0.6)).toEqual({ spent: expect.closeTo(0.3), window: 30, days: expect.closeTo(60) });
  });
  test("what the first release cost is no pace: it stands at the start of the window", () => {
    const releases = [
      { day: -10, amount: 100 },
      { day: -5, amount: 1 },
    ];
    expect(forecast(releases, 2)).toEqual({ spent: 1, window: 10, days: 20 });
  });
  test("nothing is left: it is used up now", () => {
    const releases = [
      { day: -10, amount: 1 },
      { day: 0, amount: 1 },
    ];
    expect(forecast(releases, -0)?.days).toBe(0);
    expect(forecast(releases, -3)?.days).toBe(0);
  });
  test.each([
    ["no release", []],
    ["one", [{ day: -9, amount: 1 }]],
    ["all of them within a day", [{ day: -0.5, amount: 1 }, { day: -0.1, amount: 1 }]],
    ["releases that cost nothing here", [{ day: -9, amount: 0 }, { day: -1, amount: 0 }]],
    ["none for a month", [{ day: -90, amount: 1 }, { day: -60, amount: 1 }]],
  ])("%s is too little to go by", (_, releases) => {
    expect(forecast(releases, 1)).toBe(null);
  });
  test("a day", () => {
    expect(dayAfter(Date.UTC(2026, 1, 27, 12), 2)).toBe("2026-03-01");
  });
});
