// The interface of both engines: the server's certified accountant and the browser accountant.

import type { CurvePoint, FederatedAnswer, FederatedAsk, QueriesAnswer, QueriesAsk } from "./types";

export interface Engine {
  readonly name: "server" | "browser";
  federated(ask: FederatedAsk, signal: AbortSignal): Promise<FederatedAnswer>;
  curve(ask: FederatedAsk, signal: AbortSignal): Promise<CurvePoint[]>;
  noiseFor(ask: FederatedAsk, target: number, signal: AbortSignal): Promise<number>;
  roundsFor(ask: FederatedAsk, target: number, signal: AbortSignal): Promise<number>;
  queries(ask: QueriesAsk, signal: AbortSignal): Promise<QueriesAnswer>;
}
