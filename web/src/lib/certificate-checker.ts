// Checks of certificates in a worker, one at a time, with a limit on time. Nothing of a certificate is sent.

import type { Check } from "./certificate";
import { Problem } from "./types";

export const LIMIT = 20_000; // ms

export interface Checker {
  check(bytes: Uint8Array): Promise<Check>;
  close(): void;
}

const startWorker = (): Worker => new Worker(new URL("./certificate-worker.ts", import.meta.url), { type: "module" });

/** Start the worker, so that the checker is there before it is needed. */
export function openChecker(start: () => Worker = startWorker): Checker {
  let worker = start();
  let stop = (): void => {};
  const restart = (): void => {
    worker.terminate();
    worker = start();
  };
  const check = (bytes: Uint8Array): Promise<Check> =>
    new Promise((resolve, reject) => {
      stop(); // what is still being checked is no longer wanted
      const fail = (title: string, detail: string): void => {
        settle();
        restart();
        reject(new Problem(title, detail));
      };
      const timer = setTimeout(() => fail("The check was stopped", `It took longer than ${LIMIT / 1000} seconds in this browser. Check the file outside it: python dp_certificate.py certificate.json`), LIMIT);
      const settle = (): void => {
        clearTimeout(timer);
        stop = () => {};
      };
      stop = () => {
        settle();
        restart();
      };
      worker.onmessage = ({ data }: MessageEvent<Check | null>) => {
        if (data === null) return fail("The checker could not be loaded", "Check that `epsilog serve` is running. Your certificate is kept.");
        settle();
        resolve(data);
      };
      worker.onerror = () => fail("The checker could not be loaded", "Check that `epsilog serve` is running. Your certificate is kept.");
      worker.postMessage(bytes);
    });
  const close = (): void => {
    stop();
    worker.terminate();
  };
  return { check, close };
}
