// The interface of both engines: the server's certified accountant and the browser accountant.

import type { CurvePoint, FederatedResponse, FederatedRequest, QueriesResponse, QueriesRequest } from "./types";

export interface Engine {
  readonly name: "server" | "browser";
  federated(ask: FederatedRequest, signal: AbortSignal): Promise<FederatedResponse>;
  curve(ask: FederatedRequest, signal: AbortSignal): Promise<CurvePoint[]>;
  noiseFor(ask: FederatedRequest, target: number, signal: AbortSignal): Promise<number>;
  roundsFor(ask: FederatedRequest, target: number, signal: AbortSignal): Promise<number>;
  queries(ask: QueriesRequest, signal: AbortSignal): Promise<QueriesResponse>;
}
