// The server, asked in JSON. Every failure is a Problem with words for people.

import type { Engine } from "./engine";
import { type CurveAnswer, type FederatedGoal, type NoiseAnswer, readFederatedSchedule, type RoundsAnswer } from "./openapi";
import type { FederatedAnswer, QueriesAnswer } from "./types";
import { Problem } from "./types";

const WAIT = 30_000; // ms before a slow server is given up

/** "inf" stands for an infinite number in our JSON. */
const revive = (_: string, value: unknown): unknown => (value === "inf" ? Infinity : value);

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return call<T>(path, { method: "GET" }, signal);
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return call<T>(path, request, signal);
}

async function call<T>(path: string, request: RequestInit, signal?: AbortSignal): Promise<T> {
  const timeout = AbortSignal.timeout(WAIT);
  let response: Response;
  let text: string;
  try {
    response = await fetch(`/api/v1/${path}`, { ...request, signal: signal ? AbortSignal.any([signal, timeout]) : timeout });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    if (timeout.aborted) throw new Problem("The server is slow", `No answer within ${WAIT / 1000} seconds.`);
    throw new Problem("The server does not answer", "Is it still running? Nothing that you typed is lost.");
  }
  let body: unknown;
  try {
    body = JSON.parse(text, revive);
  } catch {
    throw new Problem("The server's answer is unreadable", `Status ${response.status}.`, [], response.status);
  }
  if (response.ok) return body as T;
  const problem = body as { title?: string; detail?: string; errors?: Problem["errors"] };
  throw new Problem(problem.title ?? "Refused", problem.detail ?? "", problem.errors ?? [], response.status);
}

export const server: Engine = {
  name: "server",
  federated: (ask, signal) => post<FederatedAnswer>("federated", ask, signal),
  curve: async (ask, signal) => (await post<CurveAnswer>("federated/curve", readFederatedSchedule(ask), signal)).points,
  noiseFor: async (ask, epsilon, signal) => {
    const goal: FederatedGoal = { ...readFederatedSchedule(ask), epsilon };
    return (await post<NoiseAnswer>("federated/noise", goal, signal)).noise_multiplier;
  },
  roundsFor: async (ask, epsilon, signal) => {
    const goal: FederatedGoal = { ...readFederatedSchedule(ask), epsilon };
    return (await post<RoundsAnswer>("federated/rounds", goal, signal)).rounds;
  },
  queries: (ask, signal) => post<QueriesAnswer>("queries", ask, signal),
};
