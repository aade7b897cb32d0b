import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { get, post, text } from "../src/lib/api";
import { credentials, hasToken, keepToken } from "../src/lib/token";
import { Problem } from "../src/lib/types";

const asked: { url: string; headers: Record<string, string> }[] = [];
let answer = { status: 200, body: "{}" };

beforeEach(() => {
  asked.length = 0;
  answer = { status: 200, body: "{}" };
  vi.stubGlobal("fetch", async (url: string, request: RequestInit) => {
    asked.push({ url, headers: request.headers as Record<string, string> });
    return new Response(answer.body, { status: answer.status });
  });
});

afterEach(() => {
  keepToken("");
  vi.unstubAllGlobals();
});

test("without a token nothing is sent for one", async () => {
  await get("ledger");
  expect(asked[0]!.headers).toEqual({});
  expect(hasToken()).toBe(false);
});

test("a token goes into the header of every question, and into no address", async () => {
  keepToken("  eps_0_secret\n");
  await get("ledger");
  await post("ledger/verify", {});
  await text("runs/a/report.html");
  for (const { url, headers } of asked) {
    expect(headers.Authorization).toBe("Bearer eps_0_secret");
    expect(url).not.toContain("secret");
  }
  expect(asked[1]!.headers["Content-Type"]).toBe("application/json");
  keepToken(" ");
  expect(credentials()).toEqual({});
});

test("a token that is needed is a problem with its status, for data and downloads alike", async () => {
  answer = { status: 401, body: JSON.stringify({ title: "A token is needed", detail: "Send one." }) };
  for (const ask of [get("ledger"), text("runs/a/report.html")]) {
    const problem = await ask.then(() => null, (error: unknown) => error as Problem);
    expect(problem).toBeInstanceOf(Problem);
    expect([problem!.title, problem!.status]).toEqual(["A token is needed", 401]);
  }
});
