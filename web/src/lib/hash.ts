// Compute SHA-256 in this browser; nothing is sent.

import { Problem } from "./types";

const MAX_BYTES = 512 * 1024 * 1024; // the whole file is held in memory

export const hex = (bytes: ArrayBuffer): string => [...new Uint8Array(bytes)].map((each) => each.toString(16).padStart(2, "0")).join("");

export async function sha256Of(file: Blob): Promise<string> {
  if (file.size > MAX_BYTES) throw new Problem("This file is too large for a page", "Compute its SHA-256 with `sha256sum` and enter it.");
  if (!globalThis.crypto?.subtle) throw new Problem("This page cannot compute hashes", "Browsers allow it only over HTTPS and on localhost. Enter the hash instead.");
  return hex(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
}

/** SHA-256 of a text; null where the browser computes none (without HTTPS). */
export async function hashText(text: string): Promise<string | null> {
  return globalThis.crypto?.subtle ? hex(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))) : null;
}
