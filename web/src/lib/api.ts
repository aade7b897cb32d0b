// The server's JSON API. Every failure is a Problem with a readable message.

import type { Engine } from "./engine";
import { type EpsilonCurveResponse, type FederatedGoal, type NoiseResponse, readFederatedSchedule, type RoundsResponse } from "./openapi";
import { credentials } from "./token";
import type { FederatedResponse, QueriesResponse } from "./types";
import { Problem } from "./types";

const WAIT = 30_000; // ms until a request times out
const UPLOAD_WAIT = 660_000; // ms, of a large bundle: it arrives in 450 s, and is checked in 180

/** Read "inf" in JSON as infinity. */
const revive = (_: string, value: unknown): unknown => (value === "inf" ? Infinity : value);

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return call<T>(path, { method: "GET" }, signal);
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return call<T>(path, request, signal);
}

/** Post a body that is too large for JSON: sent as it is, as the browser reads its parts. */
export async function postBlob<T>(path: string, body: Blob, signal?: AbortSignal): Promise<T> {
  return call<T>(path, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body }, signal, UPLOAD_WAIT);
}

/** Return a file of the server as text. */
export async function text(path: string): Promise<string> {
  const found = await send(path, { method: "GET" });
  if (!found.ok) throw makeProblem(found.status, parseBody(found));
  return found.text;
}

async function call<T>(path: string, request: RequestInit, signal?: AbortSignal, wait = WAIT): Promise<T> {
  const found = await send(path, request, signal, wait);
  const body = parseBody(found);
  if (found.ok) return body as T;
  throw makeProblem(found.status, body);
}

interface RawResponse {
  ok: boolean;
  status: number;
  text: string;
}

async function send(path: string, request: RequestInit, signal?: AbortSignal, wait = WAIT): Promise<RawResponse> {
  const timeout = AbortSignal.timeout(wait);
  const headers = { ...(request.headers as Record<string, string> | undefined), ...credentials() };
  try {
    const response = await fetch(`/api/v1/${path}`, { ...request, headers, signal: signal ? AbortSignal.any([signal, timeout]) : timeout });
    return { ok: response.ok, status: response.status, text: await response.text() };
  } catch (error) {
    if (signal?.aborted) throw error;
    if (timeout.aborted) throw new Problem("The server is slow", `No answer within ${wait / 1000} seconds.`);
    throw new Problem("The server does not answer", "Check that it is running. Your input is kept.");
  }
}

function parseBody({ status, text }: RawResponse): unknown {
  try {
    return JSON.parse(text, revive);
  } catch {
    throw new Problem("The server's response is not valid JSON", `Status ${status}.`, [], status);
  }
}

function makeProblem(status: number, body: unknown): Problem {
  const problem = body as { title?: string; detail?: string; errors?: Problem["errors"]; refusal?: Problem["refusal"] };
  return new Problem(problem.title ?? "Refused", problem.detail ?? "", problem.errors ?? [], status, problem.refusal ?? null);
}

export const server: Engine = {
  name: "server",
  federated: (ask, signal) => post<FederatedResponse>("federated", ask, signal),
  curve: async (ask, signal) => (await post<EpsilonCurveResponse>("federated/curve", readFederatedSchedule(ask), signal)).points,
  noiseFor: async (ask, epsilon, signal) => {
    const goal: FederatedGoal = { ...readFederatedSchedule(ask), epsilon };
    return (await post<NoiseResponse>("federated/noise", goal, signal)).noise_multiplier;
  },
  roundsFor: async (ask, epsilon, signal) => {
    const goal: FederatedGoal = { ...readFederatedSchedule(ask), epsilon };
    return (await post<RoundsResponse>("federated/rounds", goal, signal)).rounds;
  },
  queries: (ask, signal) => post<QueriesResponse>("queries", ask, signal),
};
