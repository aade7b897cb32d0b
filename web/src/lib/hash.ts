// The SHA-256 of a file, worked out here: the file goes nowhere.

import { Problem } from "./types";

const LARGEST = 512 * 1024 * 1024; // bytes; the whole file is held in memory once

export const hex = (bytes: ArrayBuffer): string => [...new Uint8Array(bytes)].map((each) => each.toString(16).padStart(2, "0")).join("");

export async function sha256Of(file: Blob): Promise<string> {
  if (file.size > LARGEST) throw new Problem("This file is too large for a page", "Work its SHA-256 out with `sha256sum`, and type it.");
  if (!globalThis.crypto?.subtle) throw new Problem("This page may not compute hashes", "Browsers allow it over HTTPS and on this machine only. Type the hash instead.");
  return hex(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
}
