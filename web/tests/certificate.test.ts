import { readdirSync, readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import * as certificate from "../src/lib/certificate";
import { LIMIT, openChecker } from "../src/lib/certificate-checker";

const CHECKERS = new URL("../../checker/", import.meta.url);
const { judge } = (await import(/* @vite-ignore */ new URL("dp_certificate.mjs", CHECKERS).href)) as { judge: certificate.Judge };
const read = (name: string): Uint8Array => new Uint8Array(readFileSync(new URL(name, CHECKERS)));
const PROVEN = read("proven/198.json");
const examine = (content: string | Uint8Array) => certificate.examine(typeof content === "string" ? new TextEncoder().encode(content) : content, judge);
const altered = (from: string | RegExp, to: string) => examine(new TextDecoder().decode(PROVEN).replace(from, to));

test("a proven claim is told from the certificate itself", () => {
  const { outcome, claim, text } = examine(PROVEN);
  expect(outcome).toBe("proven");
  expect(`${text}\n`).toBe(new TextDecoder().decode(PROVEN));
  expect(claim).toEqual(JSON.parse(text).claim);
});

const CLAIM: certificate.Claim = {
  epsilon: "2.0395488",
  delta: "1e-5",
  relation: "add-or-remove-one",
  group: 1,
  releases: [{ mechanisms: [{ type: "gaussian", noise_multiplier: "1.1" }, { type: "zcdp", rho: "0.1" }], poisson: "0.0658", count: 20 }],
};

test("a claim is told in short sentences", () => {
  expect(certificate.describeBound(CLAIM)).toBe("ε is at most 2.0395488 at δ = 1e-5, for 20 releases together.");
  expect(certificate.describeNeighbors(CLAIM)).toBe("It holds for any two data sets that differ by one unit, added or removed.");
  expect(certificate.describeNeighbors({ ...CLAIM, relation: "zero-out", group: 3 })).toBe("It holds for any two data sets that differ by up to 3 units of one person, set to zero.");
  expect(certificate.describePickedOut(CLAIM)).toBe("At most 77 of 1,000 units could be picked out."); // e^2.0395488 / 100 + 1e-5 = .07688
  expect(certificate.describePickedOut({ ...CLAIM, epsilon: "9", group: 2 })).toBe("Nearly everybody could be picked out.");
  expect(certificate.describePickedOut({ ...CLAIM, epsilon: "0", delta: "0" })).toBe("At most 11 of 1,000 units could be picked out."); // 10, rounded up
  expect(certificate.describeClaim(CLAIM).at(-1)).toEqual(["20 releases", "gaussian (noise_multiplier 1.1) and zcdp (rho 0.1), in samples of 0.0658"]);
  expect(certificate.listStatements(CLAIM)).toEqual(["zcdp"]);
  const line = "REFUSED: at epsilon 2 delta is at most 2036444 millionths of the claimed 1e-5 (1f)";
  expect(certificate.describeExcess(line, CLAIM)).toBe("At ε = 2.0395488, it shows only that δ is at most 2.04 times the claimed 1e-5.");
});

test("a refused claim is told as one", () => {
  const { outcome, claim, message } = altered(/"epsilon":"[^"]*"/, '"epsilon":"1.9"');
  expect([outcome, claim!.epsilon]).toEqual(["not-proven", "1.9"]);
  expect(certificate.describeExcess(message, claim!)).toMatch(/at most [\d,.]+( × 10[⁰¹²³⁴⁵⁶⁷⁸⁹]+)? times the claimed/);
});

test("only what the checker has read is told as a claim", () => {
  expect(altered("{", '{"format":"dp-certificate/1",')).toMatchObject({ outcome: "not-proven", claim: null });
  expect(altered('"gaussian"', '"cauchy"')).toMatchObject({ outcome: "not-proven", claim: null, message: "REFUSED: not covered: such a mechanism" });
  const foreign = ["", " ", "null", "[]", "{}", "<!doctype html>", '"dp-certificate/1"', "[".repeat(60_000), new Uint8Array(70_000), new Uint8Array([0, 255, 1])];
  for (const content of foreign) expect(examine(content)).toMatchObject({ outcome: "no-certificate", claim: null, text: "" });
  expect(examine(new Uint8Array(70_000)).message).toBe("REFUSED: the file is larger than 65536 bytes");
});

test("of a long file only as much is read as the checker needs to refuse it", async () => {
  expect((await certificate.readStart(new Blob([new Uint8Array(10_000_000)]))).length).toBe(65537);
});

test("every example that the standalone folder holds has a claim in words", () => {
  const words = readdirSync(new URL("proven", CHECKERS)).map((name) => {
    const { claim } = JSON.parse(new TextDecoder().decode(read(`proven/${name}`))) as { claim: certificate.Claim };
    return [certificate.describeBound(claim), certificate.describeNeighbors(claim), certificate.describePickedOut(claim), JSON.stringify(certificate.describeClaim(claim))];
  });
  expect(words.length).toBe(200);
  for (const each of words.flat()) expect(each).not.toMatch(/undefined|NaN|\[object/);
  for (const each of words.flatMap((four) => four.slice(0, 3))) expect(each.split(" ").length).toBeLessThanOrEqual(20);
});

test("a link carries a certificate and comes back as the same text", () => {
  const text = new TextDecoder().decode(PROVEN).trim();
  const link = certificate.linkTo(text);
  expect(link).toMatch(/^\/certificate#[\w-]+$/);
  expect(certificate.readLink(link.slice(link.indexOf("#")))).toBe(text);
  for (const other of ["ε", "\ud800", "x".repeat(70_000)]) expect(certificate.readLink(certificate.linkTo(other).slice(12))).toBe(other.replace("\ud800", "\ufffd"));
  for (const none of ["", "#", "#%"]) expect(certificate.readLink(none)).toBe(null);
});

/** A worker that answers when the test says so. */
class FakeWorker {
  static all: FakeWorker[] = [];
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onerror: (() => void) | null = null;
  ended = false;
  asked: unknown[] = [];
  constructor() {
    FakeWorker.all.push(this);
  }
  postMessage(data: unknown): void {
    this.asked.push(data);
  }
  terminate(): void {
    this.ended = true;
  }
}
const start = (): Worker => new FakeWorker() as unknown as Worker;

beforeEach(() => {
  FakeWorker.all = [];
  vi.useFakeTimers();
});
afterEach(() => void vi.useRealTimers());

test("a check that does not end is stopped, and the next one has a worker", async () => {
  const checker = openChecker(start);
  const first = checker.check(PROVEN);
  const refused = expect(first).rejects.toMatchObject({ title: "The check was stopped" });
  await vi.advanceTimersByTimeAsync(LIMIT);
  await refused;
  expect(FakeWorker.all.map((each) => each.ended)).toEqual([true, false]);
  const second = checker.check(PROVEN);
  FakeWorker.all[1]!.onmessage!({ data: "found" });
  expect(await second).toBe("found");
  await vi.advanceTimersByTimeAsync(2 * LIMIT);
  expect(FakeWorker.all.length).toBe(2);
});

test("a later file ends the check of the one before, and its clock", async () => {
  const checker = openChecker(start);
  void checker.check(PROVEN);
  await vi.advanceTimersByTimeAsync(LIMIT - 1);
  const second = checker.check(PROVEN);
  expect(FakeWorker.all.map((each) => each.ended)).toEqual([true, false]);
  await vi.advanceTimersByTimeAsync(LIMIT - 1);
  FakeWorker.all[1]!.onmessage!({ data: "found" });
  expect(await second).toBe("found");
  checker.close();
  expect(FakeWorker.all[1]!.ended).toBe(true);
});

test("a checker that cannot be loaded is said, and tried again", async () => {
  const checker = openChecker(start);
  for (const fail of [(worker: FakeWorker) => worker.onmessage!({ data: null }), (worker: FakeWorker) => worker.onerror!()]) {
    const asked = checker.check(PROVEN);
    fail(FakeWorker.all.at(-1)!);
    await expect(asked).rejects.toMatchObject({ title: "The checker could not be loaded" });
  }
  expect(FakeWorker.all.length).toBe(3);
});
