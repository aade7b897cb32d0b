// Responses of both engines, and errors of the API.

import type * as api from "./openapi";

export type { EpsilonCurvePointModel as CurvePoint, FederatedRequest, FindingModel as Finding, IntervalModel as Interval, QueryNoise as Noise, QueriesRequest, QueryShare } from "./openapi";

type OptionalRelease<T extends { release: unknown }> = Omit<T, "release"> & Partial<Pick<T, "release">>; // the browser's engine gives none
export type FederatedResponse = OptionalRelease<api.FederatedResponse>;
export type QueriesResponse = OptionalRelease<api.QueriesResponse>;

export interface FieldError {
  field: string | null;
  message: string;
}

/** Why a charge exceeds a budget; amounts are decimal strings by quantity. */
export interface Refusal {
  scope: string;
  requested: Record<string, string>;
  available: Record<string, string>;
  caps: Record<string, string>;
  spent: Record<string, string>;
  reserved: Record<string, string>;
  set_aside: Record<string, string>;
  shortfall: Record<string, string>;
  reason: string;
  hint: string;
  owners: string[];
}

/** An error of the API, with the fields it names. */
export class Problem extends Error {
  constructor(
    readonly title: string,
    detail: string,
    readonly errors: FieldError[] = [],
    readonly status = 0,
    readonly refusal: Refusal | null = null,
  ) {
    super(detail);
  }
}
