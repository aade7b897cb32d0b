import { expect, test } from "vitest";
import { hashText, hex, sha256Of } from "../src/lib/hash";
import { isSha256 } from "../src/lib/owner-fields";

test("a file's hash is worked out here", async () => {
  // FIPS 180-2, appendix B.1
  expect(await sha256Of(new Blob(["abc"]))).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect(await hashText("abc")).toBe(await sha256Of(new Blob(["abc"])));
  expect(await sha256Of(new Blob([]))).toBe("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  expect(hex(new Uint8Array([0, 15, 255]).buffer)).toBe("000fff");
});

test("a hash that is typed has 64 hex digits", () => {
  expect(isSha256(` ${"aB".repeat(32)} `)).toBe(true);
  for (const other of ["", "ab", "g".repeat(64), "a".repeat(65)]) expect(isSha256(other)).toBe(false);
});

test("a file that is too large for a page is not read", async () => {
  const huge = new Blob(["x"]);
  Object.defineProperty(huge, "size", { value: 2 ** 40 });
  await expect(sha256Of(huge)).rejects.toThrow("sha256sum");
});
